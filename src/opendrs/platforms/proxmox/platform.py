"""Platform for a Proxmox VE cluster."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from opendrs.errors import PlatformError, UnsupportedError
from opendrs.model import Action, DiskMove, Rule, Snapshot, Transfer
from opendrs.platforms.proxmox.client import ProxmoxClient
from opendrs.platforms.proxmox.cluster_view import guest_ids, guest_rows
from opendrs.platforms.proxmox.disk_moves import PveDiskMoves
from opendrs.platforms.proxmox.login import read_login
from opendrs.platforms.proxmox.migrations import PveMigrations
from opendrs.platforms.proxmox.observation import ProxmoxClusterReader
from opendrs.platforms.proxmox.queries import Queries
from opendrs.platforms.proxmox.responses import ResourceRow
from opendrs.platforms.proxmox.settings import ProxmoxSettings
from opendrs.platforms.proxmox.started_tasks import StartedTasks
from opendrs.platforms.proxmox.tasks import DiskMoveTask, parse_task, task_of
from opendrs.ports import TaskId, TaskState, TaskStatus


class ProxmoxPlatform:
    """Cluster of Proxmox VE 8 or 9."""

    def __init__(
        self, name: str, settings: ProxmoxSettings, rules: Iterable[Rule] = ()
    ) -> None:
        """Read the secrets, without connecting.

        Args:
            name: The name of the cluster.
            settings: The API hosts, and the settings of migrations.
            rules: Placement rules in addition to those of the cluster.

        Raises:
            ConfigurationError: A secret or a certificate cannot be read.
        """
        self._name = name
        self._settings = settings
        self._rules = tuple(rules)
        self._client = ProxmoxClient(settings, read_login(f"platform {name}", settings))
        self._queries = Queries(self._client, settings)
        self._reader = ProxmoxClusterReader(
            name=name, queries=self._queries, settings=settings
        )
        self._observed: Snapshot | None = None
        self._lock = Lock()
        self._started = StartedTasks(self._queries)
        parts = (self._queries, settings, self._reader, self._started)
        self._migrations = PveMigrations(*parts)
        self._disk_moves = PveDiskMoves(*parts)

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self._name

    @property
    def request_count(self) -> int:
        """Return the number of requests so far."""
        return self._client.request_count

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def observe(self) -> Snapshot:
        """Return a snapshot of the cluster.

        A node that does not answer is in the state unknown.

        Raises:
            PermissionDeniedError: The login is rejected, lacks a privilege, or a host
                has another certificate than the pinned one.
            PlatformUnavailableError: No API host answers.
        """
        self._observed = self._reader.read_snapshot(self._rules)
        return self._observed

    def start(self, action: Action) -> TaskId:
        """Request a migration or the move of a disk, and return immediately.

        What this process already has in progress is not requested again, nor is the
        migration of a guest that the HA manager migrates along with another one.

        Raises:
            UnsupportedError: *action* is not a live migration of a virtual machine, a
                cold migration of a container, the relocation of a stopped guest, or
                the move of a disk.
            PlatformUnavailableError: There is no answer; it may have started.
            PlatformError: The guest is not on the source, is being moved, cannot
                migrate to the target, or has a local disk that the last observation
                did not read; or the disk is not on its storage.
        """
        transfer = _require_supported(action)
        resources = self._queries.resources()
        row = self._find_row(transfer, resources)
        if row is None:
            raise PlatformError(f"{transfer.guest}: not in the cluster")
        task = task_of(transfer, row)
        with self._lock:
            if isinstance(task, DiskMoveTask):
                self._disk_moves.start(task, row, resources)
            elif not isinstance(transfer, DiskMove):
                self._migrations.start(transfer, task, row, resources, self._observed)
        return task.id

    def find(self, action: Action) -> TaskId:
        """Return the id of the task that *action* would have.

        Raises:
            UnsupportedError: *action* is neither a migration nor the move of a disk.
            PlatformError: The cluster cannot be queried.
        """
        transfer = _require_supported(action)
        return task_of(transfer, self._find_row(transfer, self._queries.resources())).id

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task* according to nodes, guest and HA manager.

        Raises:
            PlatformError: A node that determines the status cannot be queried.
        """
        parsed = parse_task(task)
        if not parsed.vmid:
            return TaskStatus(TaskState.LOST, f"{parsed.guest} is not in the cluster")
        if isinstance(parsed, DiskMoveTask):
            return self._disk_moves.status(parsed)
        return self._migrations.status(parsed)

    def abort(self, task: TaskId) -> None:
        """Stop a task; has no effect on one that has ended.

        Raises:
            PermissionDeniedError: The HA manager runs the migration, and the privilege
                Sys.Modify on the node is missing.
            PlatformError: The source node cannot be queried.
        """
        parsed = parse_task(task)
        if parsed.vmid:
            self._started.stop(parsed)

    def _find_row(
        self, action: Transfer, resources: Iterable[ResourceRow]
    ) -> ResourceRow | None:
        rows = guest_rows(resources)
        ids = guest_ids(rows, self._settings.guest_ids)
        return next((row for row in rows if ids[row.vmid or 0] == action.guest), None)


def _require_supported(action: Action) -> Transfer:
    if not isinstance(action, Transfer):
        raise UnsupportedError(f"proxmox: not supported: {type(action).__name__}")
    return action
