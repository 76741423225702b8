"""Requests to the Proxmox VE API with typed results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from opendrs.errors import PlatformError, UnsupportedError
from opendrs.model import GuestId, GuestKind
from opendrs.platforms.proxmox.client import ProxmoxClient, api_path
from opendrs.platforms.proxmox.cluster_view import (
    GUEST_TYPES,
    NodeDetails,
    recent_history,
)
from opendrs.platforms.proxmox.errors import ApiRequestError, is_unknown_task
from opendrs.platforms.proxmox.ha import (
    SETTLED_STATES,
    HaStatus,
    HaView,
    is_settled,
    parse_auto_rebalance,
    parse_ha_status,
    rebalanced_resources,
)
from opendrs.platforms.proxmox.outcome import GuestPlace
from opendrs.platforms.proxmox.permissions import Permissions, parse_permissions
from opendrs.platforms.proxmox.preconditions import Preconditions, parse_preconditions
from opendrs.platforms.proxmox.responses import (
    ClusterRow,
    GuestRow,
    HaGroupRow,
    HaResourceRow,
    HaRuleRow,
    LogRow,
    NodeHistoryRow,
    ReplicationRow,
    ResourceRow,
    TaskRow,
    TaskStatusRow,
    VersionRow,
    parse_object,
    parse_row,
    parse_rows,
)
from opendrs.platforms.proxmox.settings import ProxmoxSettings
from opendrs.platforms.proxmox.tasks import Upid, log_detail, log_target
from opendrs.transport.http_json import get_mapping

_FIRST_WITH_RULES = 9  # major version: HA rules instead of groups, and PSI
_LOG_HEAD = 20  # lines in which the target of a migration stands
_MAX_TASKS = 50
_MAX_LOG = 5_000  # lines
Parameters = Mapping[str, object]


class Queries:
    """Requests to one cluster.

    Args:
        client: The client.
        settings: The settings of the cluster.
    """

    fixed_requests = 9

    def __init__(self, client: ProxmoxClient, settings: ProxmoxSettings) -> None:
        self._client = client
        self._settings = settings
        self._major: int | None = None

    @property
    def host_count(self) -> int:
        """Return the number of API hosts."""
        return self._client.host_count

    @property
    def reports_pressure(self) -> bool:
        """Return True if the cluster reports PSI; False before `ha_view`."""
        return (self._major or 0) >= _FIRST_WITH_RULES

    def use_next_host(self) -> None:
        """Send the next requests to another host."""
        self._client.use_next_host()

    def version(self) -> str:
        """Return the version of the API host, such as 9.2.11."""
        data = self._client.get("/version")
        return parse_row(VersionRow, data, "/version").version

    def permissions(self) -> Permissions:
        """Return the privileges of the login by path."""
        path = "/access/permissions"
        return parse_permissions(parse_object(self._client.get(path), path))

    def cluster_status(self) -> tuple[ClusterRow, ...]:
        """Return the nodes, and the quorum of the cluster."""
        path = "/cluster/status"
        return parse_rows(ClusterRow, self._client.get(path), path)

    def resources(self) -> tuple[ResourceRow, ...]:
        """Return nodes, guests and storages."""
        path = "/cluster/resources"
        return parse_rows(ResourceRow, self._client.get(path), path)

    def cluster_tasks(self) -> tuple[TaskRow, ...]:
        """Return recent tasks of all nodes."""
        path = "/cluster/tasks"
        return parse_rows(TaskRow, self._client.get(path), path)

    def replicated_guests(self) -> frozenset[int]:
        """Return the numbers of the guests that are replicated to other nodes."""
        path = "/cluster/replication"
        rows = parse_rows(ReplicationRow, self._client.get(path), path)
        return frozenset(row.guest for row in rows if row.guest is not None)

    def ha_view(self) -> HaView:
        """Return configuration and status of the HA stack."""
        if self._major is None:
            self._major = _major_version(self.version())
        status = self.ha_status()
        path = "/cluster/ha/resources"
        resources = parse_rows(HaResourceRow, self._client.get(path), path)
        rules = self._ha_rules() if self._major >= _FIRST_WITH_RULES else ()
        has_groups = self._major < _FIRST_WITH_RULES or any(r.group for r in resources)
        groups = self._ha_groups() if has_groups else ()
        options = "/cluster/options"
        auto_rebalance = parse_auto_rebalance(self._client.get(options), options)
        return HaView(
            resources={row.sid: row for row in resources},
            status=status,
            rules=rules,
            groups=groups,
            rebalanced=rebalanced_resources(resources, rules)
            if auto_rebalance
            else frozenset(),
        )

    def ha_status(self) -> HaStatus:
        """Return the status of the HA manager."""
        path = "/cluster/ha/status/manager_status"
        return parse_ha_status(self._client.get(path), path)

    def require_settled(self, guest: GuestId, state: str | None) -> None:
        """Check that the HA manager does not act on *guest*, whose service is *state*.

        Raises:
            PlatformError: It does.
        """
        if state is None or state in SETTLED_STATES:
            return
        if not is_settled(self.ha_status(), state):
            raise PlatformError(f"{guest}: HA state {state}")

    def _ha_rules(self) -> tuple[HaRuleRow, ...]:
        path = "/cluster/ha/rules"
        try:
            return parse_rows(HaRuleRow, self._client.get(path), path)
        except UnsupportedError:  # an API host that is not upgraded yet
            self._major = None
            raise

    def _ha_groups(self) -> tuple[HaGroupRow, ...]:
        path = "/cluster/ha/groups"
        try:
            return parse_rows(HaGroupRow, self._client.get(path), path)
        except ApiRequestError as error:
            if "migrated to rules" in error.reason:
                return ()
            raise

    def with_node_status(self, node: str, details: NodeDetails) -> NodeDetails:
        """Return *details* with the CPU model and merged memory of *node*."""
        path = api_path("nodes", node, "status")
        data = parse_object(self._get_of_node(path), path)
        ksm = get_mapping(data, "ksm").get("shared")
        return replace(
            details,
            cpu_model=_text(get_mapping(data, "cpuinfo").get("model")),
            architecture=_text(get_mapping(data, "current-kernel").get("machine")),
            ksm_shared=ksm if isinstance(ksm, int) and ksm >= 0 else None,
        )

    def with_history(
        self, node: str, details: NodeDetails, window: float
    ) -> NodeDetails:
        """Return *details* with the averages of the last *window* seconds of *node*."""
        path = api_path("nodes", node, "rrddata")
        data = self._get_of_node(path, timeframe="hour")
        rows = parse_rows(NodeHistoryRow, data, path)
        return replace(details, history=recent_history(rows, window))

    def guests_of(self, node: str, kind: str) -> tuple[GuestRow, ...]:
        """Return the pressure of the guests of *kind* on *node*."""
        path = api_path("nodes", node, kind)
        return parse_rows(GuestRow, self._get_of_node(path), path)

    def preconditions(
        self, node: str, kind: str, vmid: int, target: str | None
    ) -> Preconditions:
        """Return the preconditions of the migration of a guest on *node*."""
        path = api_path("nodes", node, kind, vmid, "migrate")
        return parse_preconditions(self._get_of_node(path, target=target), path)

    def configuration(self, node: str, kind: str, vmid: int) -> Mapping[str, object]:
        """Return the configuration of a guest on *node*, with pending changes."""
        path = api_path("nodes", node, kind, vmid, "config")
        return parse_object(self._get_of_node(path), path)

    def current_configuration(
        self, node: str, kind: str, vmid: int
    ) -> Mapping[str, object]:
        """Return the configuration of a guest on *node*, without pending changes."""
        path = api_path("nodes", node, kind, vmid, "config")
        return parse_object(self._get_of_node(path, current=True), path)

    def guest_place(self, kind: str, vmid: int) -> GuestPlace:
        """Return the node of a guest, and its lock.

        The API host knows both itself, whether or not the node answers.
        """
        path = "/cluster/resources"
        rows = parse_rows(ResourceRow, self._client.get(path, type="vm"), path)
        for row in rows:
            if (row.type, row.vmid) == (kind, vmid):
                return GuestPlace(row.node, row.lock or None)
        return GuestPlace()

    def tasks_of(
        self, node: str, vmid: int, types: Collection[str]
    ) -> tuple[TaskRow, ...]:
        """Return the recent tasks of a guest of *types* that *node* runs or has run."""
        path = api_path("nodes", node, "tasks")
        data = self._get_of_node(path, vmid=vmid, source="all", limit=_MAX_TASKS)
        return tuple(
            row
            for row in parse_rows(TaskRow, data, path)
            if row.type in types and row.id == str(vmid)
        )

    def task(self, upid: Upid) -> TaskRow | None:
        """Return a task; None if its node does not know it any more.

        The time of its end is not reported; that of its start is used.
        """
        path = api_path("nodes", upid.node, "tasks", upid.text, "status")
        try:
            row = parse_row(TaskStatusRow, self._get_of_node(path), path)
        except PlatformError as error:
            if is_unknown_task(error):
                return None
            raise
        has_ended = row.status == "stopped"
        return TaskRow(
            upid=upid.text,
            node=upid.node,
            type=upid.type,
            id=upid.id,
            starttime=upid.started_at,
            endtime=upid.started_at if has_ended else None,
            status=row.exitstatus if has_ended else None,
        )

    def log(self, task: TaskRow, limit: int) -> tuple[LogRow, ...]:
        """Return the first *limit* lines of the log of *task*."""
        node = task.node or task.upid.removeprefix("UPID:").partition(":")[0]
        path = api_path("nodes", node, "tasks", task.upid, "log")
        return parse_rows(LogRow, self._get_of_node(path, limit=limit), path)

    def log_detail(self, task: TaskRow) -> str:
        """Return the cause of the failure of *task*; empty if it is not available."""
        try:
            return log_detail(self.log(task, _MAX_LOG))
        except PlatformError:
            return ""

    def task_target(self, task: TaskRow) -> str | None:
        """Return the target node of a running migration; None if it is unknown."""
        try:
            return log_target(self.log(task, _LOG_HEAD))
        except PlatformError:
            return None

    def migrate(
        self, node: str, kind: str, vmid: int, parameters: Parameters
    ) -> object:
        """Request the migration of a guest on *node*; return the task of the API."""
        path = api_path("nodes", node, kind, vmid, "migrate")
        return self._client.post(path, **parameters)

    def move_disk(
        self, node: str, kind: str, vmid: int, disk: str, parameters: Parameters
    ) -> object:
        """Request the move of a disk of a guest; return the task of the API."""
        is_container = GUEST_TYPES[kind] is GuestKind.CONTAINER
        method, name = (
            ("move_volume", "volume") if is_container else ("move_disk", "disk")
        )
        path = api_path("nodes", node, kind, vmid, method)
        return self._client.post(path, **{name: disk, **parameters})

    def stop_task(self, node: str, upid: str) -> None:
        """Stop a task; has no effect on a task that has ended."""
        try:
            self._client.delete(api_path("nodes", node, "tasks", upid))
        except PlatformError as error:
            if not is_unknown_task(error):
                raise

    def get(self, path: str) -> object:
        """Return the data of `GET` *path*."""
        return self._client.get(path)

    def _get_of_node(self, path: str, **parameters: object) -> object:
        return self._client.get(path, timeout=self._settings.node_timeout, **parameters)


def _major_version(version: str) -> int:
    major = version.partition(".")[0]
    if not major.isdigit():
        raise UnsupportedError(f"/version: unknown version {version!r}")
    return int(major)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
