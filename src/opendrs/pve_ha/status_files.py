"""Immutable contents of the files and locks of the HA manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from opendrs.model import NodeId
from opendrs.pve_ha.states import (
    DisarmMode,
    DisarmState,
    ExitCode,
    LrmMode,
    LrmState,
    PveNodeState,
    RequestedState,
    ServiceCommand,
    ServiceId,
    ServiceState,
)

LOCK_TIMEOUT = 120  # seconds without renewal after which a lock expires
MANAGER_LOCK = "ha_manager_lock"


@dataclass(frozen=True, slots=True)
class ClusterLock:
    """A lock in the cluster file system.

    Attributes:
        holder: Node of the process that acquired it.
        time: Time of the last renewal by the clock of that process, in seconds.
    """

    holder: NodeId
    time: int

    def is_expired(self, now: int) -> bool:
        """Return True if any process may acquire the lock."""
        return now - self.time > LOCK_TIMEOUT


def lrm_lock_name(node: NodeId) -> str:
    """Return the name of the lock that the LRM of *node* holds while it is active."""
    return f"ha_agent_{node}_lock"


def can_acquire(lock: ClusterLock | None, node: NodeId, now: int) -> bool:
    """Return True if *node* can acquire or renew *lock*."""
    return lock is None or lock.holder == node or lock.is_expired(now)


def is_newly_acquired(lock: ClusterLock | None, now: int) -> bool:
    """Return True if acquiring *lock* is not only a renewal."""
    return lock is None or lock.is_expired(now)


def can_release(lock: ClusterLock | None, node: NodeId, now: int) -> bool:
    """Return True if *node* can release *lock*, or if it has expired."""
    return lock is not None and (lock.is_expired(now) or lock.holder == node)


IDLE_STATES = frozenset(
    {
        ServiceState.STOPPED,
        ServiceState.FREEZE,
        ServiceState.ERROR,
        ServiceState.REQUEST_START,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """Configuration of a service.

    Attributes:
        node: Current node.
        state: A `RequestedState`, or an unknown word.
        failback: The service returns to a preferred node once one is available.
        max_restart: Retries of a failed start on the same node.
        max_relocate: Other nodes that are tried after failed starts.
        group: Its group, in a configuration that has groups.
        lock: Reason of a lock, such as a backup; None if it is not locked.
    """

    node: NodeId
    state: str = RequestedState.STARTED
    failback: bool = True
    max_restart: int = 1
    max_relocate: int = 1
    group: str | None = None
    lock: str | None = None


@dataclass(frozen=True, slots=True)
class QueuedMotion:
    """A requested migration or relocation that has not started."""

    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class QueuedStop:
    """A requested stop that has not started.

    Attributes:
        timeout: Seconds allowed for the stop; 0 stops it immediately.
    """

    timeout: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """Status of a service.

    Attributes:
        state: Its state.
        node: Its node.
        uid: Changes whenever its LRM gets a new job; None in a status that was written
            by hand.
        target: Target of its migration.
        timeout: Seconds allowed for the stop.
        queued_command: Requested command that has not started.
        running: True if it is known to have started.
        failed_nodes: Nodes on which it failed to start, in order.
        maintenance_node: Node to which it returns after a maintenance.
    """

    state: ServiceState
    node: NodeId
    uid: str | None = None
    target: NodeId | None = None
    timeout: int | None = None
    queued_command: QueuedMotion | QueuedStop | None = None
    running: bool = False
    failed_nodes: tuple[NodeId, ...] = ()
    maintenance_node: NodeId | None = None


@dataclass(frozen=True, slots=True)
class DisarmStatus:
    """Status of a disarmed HA stack, or of one that is being disarmed.

    Attributes:
        mode: A `DisarmMode`, or an unknown word.
        state: Progress of disarming.
    """

    mode: str = DisarmMode.FREEZE
    state: DisarmState = DisarmState.DISARMING


NodeServices = Mapping[ServiceId, ServiceStatus]
NO_STATUSES: NodeServices = {}


@dataclass(frozen=True)
class ManagerStatus:
    """Status that the master writes for the LRMs and for its successor.

    Attributes:
        master: Node of the master.
        nodes: State of each node.
        services: Status of each service.
        maintenance_requests: Nodes for which maintenance was requested.
        disarm: Status of disarming; None if the HA stack is armed.
    """

    master: NodeId | None = None
    nodes: Mapping[NodeId, PveNodeState] = field(default_factory=dict)
    services: Mapping[ServiceId, ServiceStatus] = field(default_factory=dict)
    maintenance_requests: frozenset[NodeId] = frozenset()
    disarm: DisarmStatus | None = None

    def services_on(self, node: NodeId) -> NodeServices:
        """Return the services on *node*, in order of name."""
        return self._services_by_node.get(node, NO_STATUSES)

    def active_service_count(self, node: NodeId) -> int:
        """Return the number of services that keep the LRM of *node* active."""
        return self._active_counts.get(node, 0)

    def needs_fencing(self, node: NodeId) -> bool:
        """Return True if a service on *node* waits for the node to be fenced."""
        return node in self._nodes_to_fence

    @cached_property
    def uids(self) -> frozenset[str]:
        """Return the uids of all services."""
        uids = (status.uid for status in self.services.values())
        return frozenset(uid for uid in uids if uid is not None)

    @cached_property
    def _services_by_node(self) -> dict[NodeId, dict[ServiceId, ServiceStatus]]:
        services_by_node: dict[NodeId, dict[ServiceId, ServiceStatus]] = {}
        for service, status in sorted(self.services.items()):
            services_by_node.setdefault(status.node, {})[service] = status
        return services_by_node

    @cached_property
    def _active_counts(self) -> dict[NodeId, int]:
        counts: dict[NodeId, int] = {}
        for status in self.services.values():
            if status.state not in IDLE_STATES:
                for node in {status.node, status.target or status.node}:
                    counts[node] = counts.get(node, 0) + 1
        return counts

    @cached_property
    def _nodes_to_fence(self) -> frozenset[NodeId]:
        return frozenset(
            status.node
            for status in self.services.values()
            if status.state is ServiceState.FENCE
        )


@dataclass(frozen=True, slots=True)
class LrmStatus:
    """Status that the LRM of a node writes for the manager.

    Attributes:
        state: Its state; None if the status has none.
        mode: Its mode; None if the status has none.
        results: Exit code of each finished job, by the uid of the job.
    """

    state: LrmState | None = None
    mode: LrmMode | None = None
    results: Mapping[str, ExitCode | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrsSettings:
    """Settings of the cluster resource scheduler: `crs` in datacenter.cfg.

    Attributes:
        mode: basic, static or dynamic. An unknown word means basic.
        rebalance_on_start: Select a node at each start.
        auto_rebalance: Migrate services to reduce the imbalance.
        threshold: Imbalance up to which no service is migrated.
        method: bruteforce or topsis.
        hold: Rounds for which an imbalance must last.
        margin: Least relative reduction of the imbalance by one move, a fraction.
    """

    mode: str = "basic"
    rebalance_on_start: bool = False
    auto_rebalance: bool = False
    threshold: float = 0.3
    method: str = "bruteforce"
    hold: float = 3
    margin: float = 0.1


@dataclass(frozen=True, slots=True)
class DatacenterSettings:
    """Settings of the data center.

    Attributes:
        scheduling: Settings of the cluster resource scheduler.
        shutdown_policy: conditional, freeze, failover or migrate. An unknown word means
            conditional.
    """

    scheduling: CrsSettings = field(default_factory=CrsSettings)
    shutdown_policy: str = "conditional"
