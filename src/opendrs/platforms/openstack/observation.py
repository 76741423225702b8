"""Observation of a cloud: all requests, and the snapshot of their responses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import GuestId, Rule, Snapshot, format_count
from opendrs.platforms.openstack.client import (
    NotFoundError,
    OpenStackClient,
)
from opendrs.platforms.openstack.migration import LIVE
from opendrs.platforms.openstack.mobility import MIGRATING
from opendrs.platforms.openstack.placement_rules import platform_rules
from opendrs.platforms.openstack.reading import (
    CloudState,
    guest_ids,
    guests_of,
    managed_services,
    nodes_of,
)
from opendrs.platforms.openstack.responses import (
    Aggregate,
    ComputeService,
    Hypervisor,
    LiveMigrationProgress,
    MigrationRecord,
    ResourceProvider,
    Server,
    ServerGroup,
    parse_all,
    parse_response,
)
from opendrs.platforms.openstack.settings import OpenStackSettings
from opendrs.rules import with_chosen

logger = logging.getLogger(__name__)

MAX_REQUESTS = 8  # at the same time
HISTORY = timedelta(days=1)  # of completed migrations, for cooldowns
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Inventories:
    """Inventories and traits of a resource provider, as they were at a generation."""

    generation: object
    inventories: object
    traits: object


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CloudReader:
    """Reader of snapshots of one cloud.

    Attributes:
        name: Name of the platform.
        client: The client.
        settings: The settings.
    """

    name: str
    client: OpenStackClient
    settings: OpenStackSettings
    _reported: set[str] = field(default_factory=set)
    _inventories: dict[str, _Inventories] = field(default_factory=dict)

    def read_snapshot(
        self, rules: tuple[Rule, ...]
    ) -> tuple[Snapshot, dict[GuestId, str]]:
        """Return a snapshot, and the UUID of the server by the id of each guest.

        Args:
            rules: Rules in addition to those of the cloud.

        Raises:
            PlatformError: The cloud cannot be observed.
        """
        state = self._read_state()
        nodes = nodes_of(state, managed_services(state, self.settings.zones))
        ids = guest_ids(state.servers)
        guests = guests_of(state, ids, nodes)
        uuids = {name: uuid for uuid, name in ids.items()}
        by_uuid = {uuids[name]: guest for name, guest in guests.items()}
        snapshot = Snapshot(
            taken_at=state.taken_at,
            nodes=nodes,
            guests=guests,
            rules=(*platform_rules(state, by_uuid, nodes), *rules),
        )
        return with_chosen(snapshot), uuids

    def read_ids(self) -> dict[GuestId, str]:
        """Return the UUID of the server by the id of each guest of the cloud.

        Raises:
            PlatformError: The cloud cannot be observed.
        """
        servers = self.client.get_list("/servers", "servers", all_tenants=1)
        ids = guest_ids(parse_all(Server, servers))
        return {name: uuid for uuid, name in ids.items()}

    def _read_state(self) -> CloudState:
        get = self.client.get_list
        now = datetime.now(UTC)  # noqa: TID251 -- the time of the observation
        services = get("/os-services", "services", binary="nova-compute")
        hypervisors = parse_all(
            Hypervisor, get("/os-hypervisors/detail", "hypervisors")
        )
        servers = parse_all(Server, get("/servers/detail", "servers", all_tenants=1))
        self._report_unplaced(servers)
        recent: dict[str, Any] = {"changes-since": (now - HISTORY).isoformat()}
        completed = get(
            "/os-migrations",
            "migrations",
            migration_type=LIVE,
            status="completed",
            **recent,
        )
        return CloudState(
            taken_at=now,
            services=parse_all(ComputeService, services),
            hypervisors=hypervisors,
            providers=self._providers([each.id for each in hypervisors]),
            aggregates=parse_all(Aggregate, get("/os-aggregates", "aggregates")),
            servers=servers,
            groups=self._groups(),
            progress=self._progress(servers),
            completed=parse_all(MigrationRecord, completed),
        )

    def _groups(self) -> tuple[ServerGroup, ...]:
        path, key = "/os-server-groups", "server_groups"
        found = self.client.get_list(path, key, by_offset=True, all_projects=True)
        return parse_all(ServerGroup, found)

    def _progress(self, servers: Iterable[Server]) -> dict[str, LiveMigrationProgress]:
        migrating = [each.id for each in servers if each.task_state == MIGRATING]
        found, errors = query_all(migrating, self._live_migration)
        self._report("migration", errors)
        return {uuid: each for uuid, each in found.items() if each is not None}

    def _live_migration(self, uuid: str) -> LiveMigrationProgress | None:
        migrations = live_migrations(self.client, uuid)
        return migrations[-1] if migrations else None

    def _providers(self, ids: Iterable[str]) -> dict[str, ResourceProvider]:
        """Return the resource providers by id; those that cannot be read are absent.

        Raises:
            PlatformError: None can be read.
        """
        found, errors = query_all(ids, self._provider)
        if errors and not found:
            error = next(iter(errors.values()))
            if isinstance(error, PlatformUnavailableError):
                raise PlatformUnavailableError(
                    f"{self.name}: no resource provider can be read", str(error)
                )
            raise error
        self._report("resource provider", errors)
        return found

    def _provider(self, uuid: str) -> ResourceProvider:
        """Return a resource provider; its inventories and traits only if they changed.

        Placement increases the generation when they change, and by allocations.
        """
        path = f"/resource_providers/{uuid}"
        usages = self.client.get_placement(f"{path}/usages")
        generation = usages.get("resource_provider_generation")
        known = self._inventories.get(uuid)
        if known is None or generation is None or known.generation != generation:
            known = _Inventories(
                generation,
                *(
                    self.client.get_placement(f"{path}/{part}").get(part)
                    for part in ("inventories", "traits")
                ),
            )
            self._inventories[uuid] = known
        parts = {
            "inventories": known.inventories,
            "usages": usages.get("usages"),
            "traits": known.traits,
        }
        return parse_response(ResourceProvider, parts)

    def _report(self, subject: str, errors: dict[str, PlatformError]) -> None:
        """Log each error once, until the request succeeds again."""
        for name, error in errors.items():
            if name not in self._reported:
                logger.warning("%s %s: %s", subject, name, error)
        self._reported.difference_update(self._reported - errors.keys())
        self._reported.update(errors)

    def _report_unplaced(self, servers: Iterable[Server]) -> None:
        """Log that servers are not observed because a cell does not respond."""
        unknown = [each.id for each in servers if each.vm_state is None]
        subject = "servers without details"
        if unknown and subject not in self._reported:
            logger.warning(
                "%s without details, because a cell does not respond; they are not "
                "observed",
                format_count(len(unknown), "server"),
            )
            self._reported.add(subject)


def live_migrations(
    client: OpenStackClient, uuid: str
) -> tuple[LiveMigrationProgress, ...]:
    """Return the live migrations of a server that are in progress.

    Raises:
        PlatformError: Nova does not give them.
    """
    try:
        found = client.get_list(f"/servers/{uuid}/migrations", "migrations")
    except NotFoundError:  # deleted meanwhile
        return ()
    return parse_all(LiveMigrationProgress, found)


def query_all(
    names: Iterable[str], query: Callable[[str], T]
) -> tuple[dict[str, T], dict[str, PlatformError]]:
    """Return the result of *query* for each name, and the errors of the others.

    After as many errors in a row as there are requests at the same time, because the
    service does not respond, the remaining names are not queried.
    """
    found: dict[str, T] = {}
    errors: dict[str, PlatformError] = {}
    timeouts = 0  # in a row

    def query_one(name: str) -> T:
        nonlocal timeouts
        if timeouts >= MAX_REQUESTS:
            raise PlatformUnavailableError("not queried: the service does not respond")
        try:
            result = query(name)
        except PlatformUnavailableError:
            timeouts += 1
            raise
        timeouts = 0
        return result

    with ThreadPoolExecutor(MAX_REQUESTS) as pool:
        futures = {name: pool.submit(query_one, name) for name in names}
    for name, future in futures.items():
        try:
            found[name] = future.result()
        except PlatformError as error:
            errors[name] = error
    return found, errors
