"""Observation of a cluster with a limited number of requests.

Requests about the whole cluster are sent each time. Those about single nodes and guests
are spread over several observations where there are more than the limit, those that
were read longest ago first. The requests about one node are sent one after the other
and end with the first that it does not answer.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from statistics import fmean

from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import Rule, Snapshot
from opendrs.platforms.proxmox.cluster_view import (
    ClusterView,
    NodeDetails,
    guest_rows,
    instant_cpu,
    is_quorate,
)
from opendrs.platforms.proxmox.errors import MissingPrivilegeError
from opendrs.platforms.proxmox.guest_reader import PveGuestReader
from opendrs.platforms.proxmox.ha import HaView
from opendrs.platforms.proxmox.permissions import require_permissions
from opendrs.platforms.proxmox.queries import Queries
from opendrs.platforms.proxmox.reading import build_snapshot
from opendrs.platforms.proxmox.responses import ClusterRow, ResourceRow, TaskRow
from opendrs.platforms.proxmox.settings import ProxmoxSettings
from opendrs.platforms.proxmox.tasks import MIGRATIONS, DiskMoveTask, is_running
from opendrs.platforms.proxmox.traffic import GuestTraffic

logger = logging.getLogger(__name__)

_PARALLEL_REQUESTS = 8
_MAX_LOGS = 8  # logs of running migrations that are read in one observation
_STATUS_AGE = 600.0  # seconds for which CPU model and KSM of a node are kept
_REPLICATION_AGE = 600.0  # seconds for which the replicated guests are kept
_NODE_SHARE = 0.7  # of the requests, if those about nodes are more than the limit


@dataclass(slots=True)
class _NodeRecord:
    """Knowledge about one node.

    Attributes:
        details: Its last responses.
        read_at: Time of the last attempt, in seconds of the monotonic clock.
        status_at: Time at which its status was read.
        is_silent: Whether it did not answer.
    """

    details: NodeDetails = field(default_factory=NodeDetails)
    read_at: float = float("-inf")
    status_at: float = float("-inf")
    is_silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterAnswers:
    """Responses about the whole cluster."""

    cluster: tuple[ClusterRow, ...]
    resources: tuple[ResourceRow, ...]
    tasks: tuple[TaskRow, ...]
    ha: HaView


@dataclass(slots=True, kw_only=True)
class ProxmoxClusterReader:
    """Reader of snapshots of one cluster.

    Attributes:
        name: The name of the cluster.
        queries: The requests.
        settings: Its settings.
        guests: The reader of its guests.
    """

    name: str
    queries: Queries
    settings: ProxmoxSettings
    guests: PveGuestReader = field(init=False)
    _nodes: dict[str, _NodeRecord] = field(default_factory=dict)
    _targets: dict[str, str] = field(default_factory=dict)
    _disk_moves: dict[str, DiskMoveTask] = field(default_factory=dict)
    _replicated: frozenset[int] | None = None
    _replicated_at: float = float("-inf")
    _samples: dict[int, deque[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    _traffic: GuestTraffic = field(default_factory=GuestTraffic)

    def __post_init__(self) -> None:
        self.guests = PveGuestReader(self.queries)

    def read_snapshot(self, rules: tuple[Rule, ...]) -> Snapshot:
        """Return a snapshot of the cluster, with the rules *rules* and its own.

        A node that does not answer is in the state unknown.

        Raises:
            PermissionDeniedError: The login is rejected, or lacks a privilege.
            PlatformUnavailableError: No API host answers.
            PlatformError: A request about the whole cluster failed.
        """
        with ThreadPoolExecutor(_PARALLEL_REQUESTS) as pool:
            answers = self._read_quorate(pool)
            used = self.queries.fixed_requests
            running = [task for task in answers.tasks if is_running(task)]
            migrations = [task for task in running if task.type in MIGRATIONS]
            targets = self._read_targets(pool, migrations)
            used += min(len(migrations), _MAX_LOGS) + self._read_replicated()
            left = self.settings.max_requests - used
            left -= self._read_nodes(pool, answers, left)
            guests = guest_rows(answers.resources)
            self.guests.expire_changed(answers.tasks)
            self.guests.read(pool, guests, self._answering_nodes(), max(0, left))
        ended = {task.upid for task in answers.tasks if not is_running(task)}
        for upid in ended & self._disk_moves.keys():
            del self._disk_moves[upid]
        self._sample_guests(answers.resources)
        view = self._view(answers, running, targets)
        now = datetime.now(UTC)  # noqa: TID251 -- the time of the observation
        return build_snapshot(view, self.settings, rules, now)

    def remember_target(self, upid: str, target: str) -> None:
        """Remember the target of a migration that this process started."""
        self._targets[upid] = target

    def remember_disk_move(self, upid: str, move: DiskMoveTask) -> None:
        """Remember the move of a disk that this process started."""
        self._disk_moves[upid] = move

    def _read_quorate(self, pool: ThreadPoolExecutor) -> _ClusterAnswers:
        """Return the answers of an API host with quorum, if there is one."""
        answers = self._read_cluster(pool)
        for _ in range(self.queries.host_count - 1):
            if is_quorate(answers.cluster):
                break
            self.queries.use_next_host()
            try:
                answers = self._read_cluster(pool)
            except PlatformUnavailableError:
                break
        if not is_quorate(answers.cluster):
            logger.warning("%s: no quorum; no guest can migrate", self.name)
        return answers

    def _read_cluster(self, pool: ThreadPoolExecutor) -> _ClusterAnswers:
        queries = self.queries
        permissions = pool.submit(queries.permissions)
        cluster = pool.submit(queries.cluster_status)
        resources = pool.submit(queries.resources)
        tasks = pool.submit(queries.cluster_tasks)
        ha = pool.submit(queries.ha_view)
        require_permissions(permissions.result(), self.settings)
        return _ClusterAnswers(
            cluster=cluster.result(),
            resources=resources.result(),
            tasks=tasks.result(),
            ha=ha.result(),
        )

    def _read_targets(
        self, pool: ThreadPoolExecutor, migrations: Iterable[TaskRow]
    ) -> dict[int, str]:
        """Return the target of each running migration by the number of the guest."""
        rows = tuple(migrations)
        unknown = [row for row in rows if row.upid not in self._targets][:_MAX_LOGS]
        for row, target in zip(
            unknown, pool.map(self.queries.task_target, unknown), strict=True
        ):
            if target is not None:
                self._targets[row.upid] = target
        running = {row.upid for row in rows}
        self._targets = {
            upid: target for upid, target in self._targets.items() if upid in running
        }
        return {
            int(row.id): self._targets[row.upid]
            for row in rows
            if row.id and row.id.isdigit() and row.upid in self._targets
        }

    def _read_replicated(self) -> int:
        """Read which guests are replicated; return the number of requests."""
        now = time.monotonic()
        if now - self._replicated_at < _REPLICATION_AGE:
            return 0
        try:
            self._replicated = self.queries.replicated_guests()
            self._replicated_at = now
        except PlatformError as error:
            self._replicated = None
            logger.debug("%s: %s", self.name, error)
        return 1

    def _read_nodes(
        self, pool: ThreadPoolExecutor, answers: _ClusterAnswers, limit: int
    ) -> int:
        """Read details of nodes with at most *limit* requests; return their number."""
        online = [
            row.node
            for row in answers.resources
            if row.type == "node" and row.node and row.status == "online"
        ]
        self._nodes = {node: self._nodes.get(node, _NodeRecord()) for node in online}
        running = {
            (row.node, row.type)
            for row in guest_rows(answers.resources)
            if row.status == "running"
        }
        plans = {node: self._node_queries(node, running) for node in online}
        total = sum(map(len, plans.values()))
        budget = limit if total <= limit else int(limit * _NODE_SHARE)
        chosen, used = [], 0
        for node in sorted(online, key=self._node_urgency):
            if used + len(plans[node]) <= budget:
                chosen.append(node)
                used += len(plans[node])
        for _ in pool.map(lambda node: self._read_node(node, plans[node]), chosen):
            pass
        return used

    def _node_urgency(self, node: str) -> tuple[bool, float]:
        record = self._nodes[node]
        return not record.is_silent, record.read_at

    def _node_queries(
        self, node: str, running: set[tuple[str | None, str]]
    ) -> tuple[Callable[[NodeDetails], NodeDetails], ...]:
        """Return the requests about *node*, each of which adds to its details."""
        chosen: list[Callable[[NodeDetails], NodeDetails]] = []
        if self.queries.reports_pressure:
            chosen += [
                partial(self._add_pressure, node, kind)
                for kind in ("qemu", "lxc")
                if (node, kind) in running
            ]
        age = time.monotonic() - self._nodes[node].status_at
        if age > _STATUS_AGE or not chosen:  # the node itself answers at least one
            chosen.append(partial(self._add_status, node))
        if self.settings.load_window > 0:  # the API host answers it
            chosen.append(partial(self._add_history, node))
        return tuple(chosen)

    def _add_status(self, node: str, details: NodeDetails) -> NodeDetails:
        details = self.queries.with_node_status(node, details)
        self._nodes[node].status_at = time.monotonic()
        return details

    def _add_history(self, node: str, details: NodeDetails) -> NodeDetails:
        return self.queries.with_history(node, details, self.settings.load_window)

    def _add_pressure(self, node: str, kind: str, details: NodeDetails) -> NodeDetails:
        rows = {row.vmid: row for row in self.queries.guests_of(node, kind) if row.vmid}
        return replace(details, guests={**details.guests, **rows})

    def _read_node(
        self, node: str, queries: Iterable[Callable[[NodeDetails], NodeDetails]]
    ) -> None:
        record = self._nodes[node]
        was_silent, record.is_silent = record.is_silent, False
        record.read_at = time.monotonic()
        details = replace(record.details, guests={}, history=())
        for query in queries:
            try:
                details = query(details)
            except PlatformUnavailableError as error:
                record.is_silent = True
                if not was_silent:  # once, until it answers again
                    logger.warning("%s: %s; its state is unknown", node, error)
                break
            except MissingPrivilegeError as error:
                logger.debug("%s: %s", node, error)
            except PlatformError as error:
                logger.warning("%s: %s", node, error)
        record.details = details

    def _answering_nodes(self) -> set[str]:
        return {node for node, record in self._nodes.items() if not record.is_silent}

    def _sample_guests(self, resources: Iterable[ResourceRow]) -> None:
        """Add the usage of running guests to the samples of the load window."""
        now = time.monotonic()
        rows = [row for row in guest_rows(resources) if row.status == "running"]
        self._traffic.add(rows, now, self.settings.load_window)
        usage = {row.vmid or 0: instant_cpu(row) for row in rows}
        for gone in self._samples.keys() - usage.keys():
            del self._samples[gone]
        for vmid, cpu in usage.items():
            if cpu is None:
                continue
            samples = self._samples[vmid]
            samples.append((now, cpu))
            while now - samples[0][0] > self.settings.load_window:
                samples.popleft()

    def _view(
        self,
        answers: _ClusterAnswers,
        running: Sequence[TaskRow],
        targets: Mapping[int, str],
    ) -> ClusterView:
        oldest = time.monotonic() - 2 * max(self.settings.load_window, 60.0)
        return ClusterView(
            resources=answers.resources,
            cluster=answers.cluster,
            tasks=tuple(running),
            ha=answers.ha,
            details={
                node: record.details
                if record.read_at > oldest
                else replace(record.details, guests={}, history=())
                for node, record in self._nodes.items()
            },
            silent_nodes=frozenset(
                node for node, record in self._nodes.items() if record.is_silent
            ),
            preconditions=self.guests.preconditions,
            targets=targets,
            disks=self.guests.disks,
            disk_moves={
                move.vmid: move
                for task in running
                if (move := self._disk_moves.get(task.upid)) is not None
            },
            replicated=self._replicated,
            average_cpu={
                vmid: fmean(cpu for _, cpu in samples)
                for vmid, samples in self._samples.items()
            },
            traffic=self._traffic.rates,
        )
