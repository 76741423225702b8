"""Platform for an OpenStack cloud."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from threading import Event

from opendrs.errors import PlatformError, UnexpectedResponseError, UnsupportedError
from opendrs.model import Action, GuestId, LiveMigration, Rule, Snapshot
from opendrs.platforms.openstack.client import (
    ConflictError,
    NotFoundError,
    OpenStackClient,
)
from opendrs.platforms.openstack.migration import (
    ACTIVE_STATUSES,
    LIVE,
    MigrationTask,
    next_task,
    record_of,
    status_of,
    task_of,
)
from opendrs.platforms.openstack.observation import CloudReader, live_migrations
from opendrs.platforms.openstack.responses import (
    LiveMigrationProgress,
    MigrationRecord,
    Server,
    ServerAction,
    ServerActionEvent,
    parse_all,
    parse_response,
)
from opendrs.platforms.openstack.settings import BlockMigration, OpenStackSettings
from opendrs.ports import TaskId, TaskState, TaskStatus

logger = logging.getLogger(__name__)

_ABORT_TRIES = 50
_ABORT_INTERVAL = 0.2  # seconds


class OpenStackPlatform:
    """Cloud whose servers migrate live, each to a named host.

    Args:
        name: Name in the configuration.
        settings: The cloud, and the settings of migrations.
        rules: Rules in addition to those of the cloud.
    """

    def __init__(
        self, name: str, settings: OpenStackSettings, rules: Iterable[Rule] = ()
    ) -> None:
        self._name = name
        self._settings = settings
        self._rules = tuple(rules)
        self._client = OpenStackClient(name, settings)
        self._reader = CloudReader(name=name, client=self._client, settings=settings)
        self._uuids: dict[GuestId, str] = {}
        self._forced: set[MigrationTask] = set()

    @property
    def name(self) -> str:
        """Return the name in the configuration."""
        return self._name

    def observe(self) -> Snapshot:
        """Return a snapshot of the cloud.

        Raises:
            ConfigurationError: clouds.yaml does not have the cloud.
            PlatformError: The cloud cannot be observed.
        """
        snapshot, self._uuids = self._reader.read_snapshot(self._rules)
        return snapshot

    def start(self, action: Action) -> TaskId:
        """Start a live migration and return when Nova has accepted it.

        Raises:
            UnsupportedError: *action* is not a live migration to another node.
            PlatformError: The server is not on the source, or is busy, or Nova refuses
                the migration.
        """
        migration = _require_supported(action)
        server = self._server(self._uuid_of(migration.guest))
        if server is None or server.host != migration.source:
            where = "does not exist" if server is None else f"is on {server.host}"
            raise PlatformError(f"{migration.guest}: {where}, not {migration.source}")
        if server.task_state is not None:
            raise PlatformError(f"{migration.guest}: busy: {server.task_state}")
        task = next_task(migration, server, self._records(server.id))
        block = self._settings.block_migration is BlockMigration.AUTO
        self._client.post(
            f"/servers/{server.id}/action",
            {
                "os-migrateLive": {
                    "host": migration.target,
                    "block_migration": "auto" if block else False,
                }
            },
        )
        return task.id

    def find(self, action: Action) -> TaskId:
        """Return the task of *action*, by the newest migration of the server.

        Raises:
            UnsupportedError: *action* is not a live migration to another node.
            PlatformError: Nova does not respond.
        """
        migration = _require_supported(action)
        uuid = self._uuid_of(migration.guest)
        # The records first: a migration that completes afterwards is in them as well.
        records = self._records(uuid) if uuid else ()
        return task_of(migration, self._server(uuid), records).id

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task*; force it to complete if it takes too long.

        Raises:
            PlatformError: Nova does not respond.
        """
        parsed = MigrationTask.parse(task)
        # The server first: a migration without a record ends in the meantime with one.
        server = self._server(parsed.server)
        record = record_of(parsed, self._records(parsed.server) if server else ())
        if record is None or record.status not in ACTIVE_STATUSES:
            status = status_of(parsed, record, server)
            if status.state is TaskState.FAILED:
                error = self._error_of(parsed.server)
                status = status_of(parsed, record, server, error=error)
            return status
        progress = self._progress(parsed.server, record)
        if progress is not None:
            self._force_complete(parsed, record)
        return status_of(parsed, record, server, progress=progress)

    def abort(self, task: TaskId) -> None:
        """Abort the migration; has no effect on a task that has ended.

        Raises:
            PlatformError: Nova cannot abort it in its current phase.
        """
        parsed = MigrationTask.parse(task)
        problem = "not started"
        for _ in range(_ABORT_TRIES):
            server = self._server(parsed.server)
            record = record_of(parsed, self._records(parsed.server) if server else ())
            state = status_of(parsed, record, server).state
            if state is not TaskState.RUNNING:
                return
            if record is not None:
                try:
                    self._client.delete(
                        f"/servers/{parsed.server}/migrations/{record.id}"
                    )
                except (ConflictError, NotFoundError) as error:
                    problem = str(error)  # preparing, or at its end
                else:
                    return
            Event().wait(_ABORT_INTERVAL)
        raise PlatformError(f"{parsed.guest}: cannot be aborted: {problem}")

    def _uuid_of(self, guest: GuestId) -> str:
        """Return the UUID of the server of *guest*; empty if there is none."""
        if guest not in self._uuids:
            self._uuids = self._reader.read_ids()
        return self._uuids.get(guest, "")

    def _server(self, uuid: str) -> Server | None:
        if not uuid:
            return None
        try:
            response = self._client.get(f"/servers/{uuid}")
        except NotFoundError:
            return None
        return parse_response(Server, response.get("server"))

    def _records(self, uuid: str) -> tuple[MigrationRecord, ...]:
        found = self._client.get_list(
            "/os-migrations", "migrations", instance_uuid=uuid
        )
        return parse_all(MigrationRecord, found)

    def _progress(
        self, uuid: str, record: MigrationRecord
    ) -> LiveMigrationProgress | None:
        for each in live_migrations(self._client, uuid):
            if each.id == record.id:
                return each
        return None

    def _force_complete(self, task: MigrationTask, record: MigrationRecord) -> None:
        """Force a migration that takes too long to complete, once."""
        limit, since = self._settings.force_complete_after, record.created_at
        if limit is None or since is None or task in self._forced:
            return
        now = datetime.now(UTC)  # noqa: TID251 -- Nova's time is compared with ours
        if record.status != "running" or (now - since).total_seconds() < limit:
            return
        self._forced.add(task)
        try:
            self._client.post(
                f"/servers/{task.server}/migrations/{record.id}/action",
                {"force_complete": None},
            )
        except PlatformError as error:
            logger.warning("%s: cannot be forced to complete: %s", task.guest, error)
        else:
            logger.warning(
                "%s: forced to complete its migration after %g s", task.guest, limit
            )

    def _error_of(self, uuid: str) -> str:
        """Return the error of the newest live migration of a server, if known."""
        path, key = f"/servers/{uuid}/os-instance-actions", "instanceActions"
        try:
            actions = parse_all(ServerAction, self._client.get_list(path, key))
            request = next(a.request_id for a in actions if a.action == LIVE)
            response = self._client.get(f"{path}/{request}").get("instanceAction", {})
            events = parse_all(ServerActionEvent, response.get("events", ()))
        except (PlatformError, StopIteration, UnexpectedResponseError):
            return ""
        return next((each.details for each in events if each.details), "")


def _require_supported(action: Action) -> LiveMigration:
    if not isinstance(action, LiveMigration):
        raise UnsupportedError(
            f"openstack: expected a live migration, got {type(action).__name__}"
        )
    if action.source == action.target:
        raise UnsupportedError(f"{action.guest}: already on {action.target}")
    return action
