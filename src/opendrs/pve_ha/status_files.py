"""Immutable contents of the HA manager's files and locks in the cluster file system."""

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

LOCK_TIMEOUT = 120  # seconds
MANAGER_LOCK = "ha_manager_lock"


@dataclass(frozen=True, slots=True)
class ClusterLock:
    """A lock that was taken.

    Attributes:
        holder: The node whose process took it.
        time: When it was taken or renewed, by the clock of that process.
    """

    holder: NodeId
    time: int

    def is_expired(self, now: int) -> bool:
        """Return whether anyone may take it."""
        return now - self.time > LOCK_TIMEOUT


def lrm_lock_name(node: NodeId) -> str:
    """Return the name of the lock that the agent of *node* holds while it works."""
    return f"ha_agent_{node}_lock"


def can_acquire(lock: ClusterLock | None, node: NodeId, now: int) -> bool:
    """Return whether *node* gets *lock*, or keeps it."""
    return lock is None or lock.holder == node or lock.is_expired(now)


def is_newly_acquired(lock: ClusterLock | None, now: int) -> bool:
    """Return whether getting *lock* is news, and not a mere renewal."""
    return lock is None or lock.is_expired(now)


def can_release(lock: ClusterLock | None, node: NodeId, now: int) -> bool:
    """Return whether *node* is rid of *lock* once it wants to be."""
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
    """What the operator says of a service.

    Attributes:
        node: Where it is.
        state: What is wanted of it: a `Requested`, or a word without meaning.
        failback: Whether it goes to a better node once there is one.
        max_restart: How often an agent tries to start it again.
        max_relocate: How many other nodes are tried when it does not start.
        group: Its group, in a configuration that has groups.
        lock: What it is locked for, such as a backup.
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
    """A move that was asked for and has not begun."""

    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class QueuedStop:
    """A stop that was asked for and has not begun.

    Attributes:
        timeout: Seconds the service may take; 0 stops it at once.
    """

    timeout: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """Where a service stands.

    Attributes:
        state: Its state.
        node: Where it is.
        uid: Renewed whenever its agent has something new to do; None in a
            status that was written by hand.
        target: Where it moves to.
        timeout: Seconds it may take to stop.
        queued_command: What was asked for and has not begun.
        running: Whether it is known to have started.
        failed_nodes: Where it could not start, in order.
        maintenance_node: Where it goes back to after a maintenance.
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
    """That all is disarmed, or about to be.

    Attributes:
        mode: What becomes of services: a `DisarmMode`, or a word without
            meaning.
        state: How far it has come.
    """

    mode: str = DisarmMode.FREEZE
    state: DisarmState = DisarmState.DISARMING


NodeServices = Mapping[ServiceId, ServiceStatus]
NO_STATUSES: NodeServices = {}


@dataclass(frozen=True)
class ManagerStatus:
    """What the master tells the agents, and its successor.

    Attributes:
        master: The node of the master.
        nodes: What the master thinks of each node.
        services: Where each service stands.
        maintenance_requests: The nodes that are to be in maintenance.
        disarm: Whether all is disarmed; None if not.
    """

    master: NodeId | None = None
    nodes: Mapping[NodeId, PveNodeState] = field(default_factory=dict)
    services: Mapping[ServiceId, ServiceStatus] = field(default_factory=dict)
    maintenance_requests: frozenset[NodeId] = frozenset()
    disarm: DisarmStatus | None = None

    def services_on(self, node: NodeId) -> NodeServices:
        """Return the services that are on *node*, in order of name."""
        return self._services_by_node.get(node, NO_STATUSES)

    def active_service_count(self, node: NodeId) -> int:
        """Return how many services keep the agent of *node* busy."""
        return self._active_counts.get(node, 0)

    def needs_fencing(self, node: NodeId) -> bool:
        """Return whether a service on *node* waits for the node to be fenced."""
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
    """What the agent of a node tells the manager.

    Attributes:
        state: Where it stands; None in a report that does not say.
        mode: What it is about; None in a report that does not say.
        results: How jobs ended, by the uid they were given.
    """

    state: LrmState | None = None
    mode: LrmMode | None = None
    results: Mapping[str, ExitCode | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrsSettings:
    """How nodes are chosen: the crs options of the data centre.

    Attributes:
        mode: basic, static or dynamic; or a word without meaning, then basic.
        rebalance_on_start: Whether a node is chosen for each start.
        auto_rebalance: Whether services are moved to even the load.
        threshold: The imbalance that is put up with.
        method: bruteforce or topsis.
        hold: Rounds for which an imbalance must last.
        margin: Part of the imbalance that a move must take away.
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
    """The settings of the data centre.

    Attributes:
        scheduling: How nodes are chosen.
        shutdown_policy: conditional, freeze, failover or migrate; or a word
            without meaning, then conditional.
    """

    scheduling: CrsSettings = field(default_factory=CrsSettings)
    shutdown_policy: str = "conditional"
