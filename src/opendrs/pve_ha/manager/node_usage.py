"""Usage of the nodes by services, and the start costs and imbalance that follow.

The arithmetic is in `opendrs.metrics`. This module decides which services count on
which node. Amounts are summed in the order of service names, so that every digit agrees
with Proxmox VE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from opendrs.metrics import (
    ImbalanceMetric,
    NodeLoad,
    SingleMove,
    StartScorer,
    imbalance,
    start_scores,
    start_scores_array,
)
from opendrs.model import NodeId, Resources
from opendrs.pve_ha.observation import HaError
from opendrs.pve_ha.states import MOVING_STATES, ServiceId, ServiceState
from opendrs.pve_ha.status_files import ServiceStatus

COUNTED_STATES = MOVING_STATES | {
    ServiceState.STARTED,
    ServiceState.REQUEST_STOP,
    ServiceState.FENCE,
    ServiceState.FREEZE,
    ServiceState.ERROR,
    ServiceState.RECOVERY,
}

ARRIVING_STATES = MOVING_STATES | {ServiceState.REQUEST_START_BALANCE}


@dataclass(frozen=True, slots=True)
class ServiceLocations:
    """Nodes on which a service counts.

    Attributes:
        current: Its node, if it is online and the service is settled.
        target: The online target of its migration.
        running: True if it is known to run.
    """

    current: NodeId | None = None
    target: NodeId | None = None
    running: bool = False

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Return the nodes on which it counts, the current one first."""
        current, target = self.current, self.target
        if target is None or target == current:
            return () if current is None else (current,)
        return (target,) if current is None else (current, target)


NO_LOCATIONS = ServiceLocations()


@lru_cache(maxsize=1 << 16)
def _cached_locations(
    current: NodeId | None, target: NodeId | None, *, running: bool
) -> ServiceLocations:
    return ServiceLocations(current, target, running)


def locate_service(
    status: ServiceStatus, is_online: Mapping[NodeId, object]
) -> ServiceLocations:
    """Return the nodes on which a service counts.

    Args:
        status: Its status.
        is_online: Online nodes, as keys.
    """
    state = status.state
    if state is ServiceState.STARTED and status.target is None:
        current_node = status.node if status.node in is_online else None
        return _cached_locations(current_node, None, running=status.running)
    current = (
        status.node if state in COUNTED_STATES and status.node in is_online else None
    )
    target = (
        status.target
        if state in ARRIVING_STATES and status.target in is_online
        else None
    )
    if state is ServiceState.STARTED:
        return _cached_locations(current, target, running=status.running)
    return ServiceLocations(current, target, current is not None)


ARRAYS_MIN_NODES = 12  # number of nodes from which arrays are faster
INCREMENTAL_MIN_NODES = 30  # number of nodes from which Proxmox VE's simulator aborts


class UsageUnknownError(HaError):
    """The usage of a service is unknown."""


class UsageModel(Protocol):
    """Usage of the online nodes by services during one round."""

    @property
    def nodes(self) -> Sequence[NodeId]:
        """Return the online nodes, in order of name."""

    def add(self, service: ServiceId, locations: ServiceLocations) -> None:
        """Count *service* on its nodes.

        Raises:
            UsageUnknownError: Its usage is unknown.
        """

    def remove(self, service: ServiceId) -> None:
        """Stop counting *service*."""

    def start_costs(self, service: ServiceId) -> Mapping[NodeId, float]:
        """Return the cost of starting *service* on each node; less is better.

        Raises:
            UsageUnknownError: Its usage is unknown.
        """

    def imbalance(self) -> float:
        """Return the imbalance of the nodes."""


class BasicUsage:
    """Usage model that counts services without their size.

    Args:
        nodes: Online nodes, in order of name.
    """

    def __init__(self, nodes: Sequence[NodeId]) -> None:
        self.nodes = nodes
        self._locations: dict[ServiceId, ServiceLocations] = {}
        self._counts = dict.fromkeys(nodes, 0)

    def add(self, service: ServiceId, locations: ServiceLocations) -> None:
        """Count *service* on its nodes."""
        self._locations[service] = locations
        self._count(locations, 1)

    def remove(self, service: ServiceId) -> None:
        """Stop counting *service*."""
        self._count(self._locations.pop(service, NO_LOCATIONS), -1)

    def start_costs(self, service: ServiceId) -> Mapping[NodeId, float]:
        """Return the number of services on each node, for any *service*."""
        del service
        return self._counts

    def imbalance(self) -> float:
        """Return 0, because the number of services defines no imbalance."""
        return 0.0

    def _count(self, locations: ServiceLocations, change: int) -> None:
        counts, current, target = self._counts, locations.current, locations.target
        if current in counts:
            counts[current] += change
        if target in counts and target != current:
            counts[target] += change


@dataclass(frozen=True, slots=True)
class ServiceDemand:
    """Resources that a service takes.

    Attributes:
        limit: Its limits, which count at a start.
        usage: Its usage, which counts at a migration.
    """

    limit: Resources
    usage: Resources


class DemandSource(Protocol):
    """Source of the demand of services."""

    def demand_of(self, service: ServiceId) -> ServiceDemand:
        """Return the demand of *service*.

        Raises:
            UsageUnknownError: It is unknown.
        """


class LoadUsage:
    """Usage model that sums limits or usage of services.

    Args:
        loads: Load of each online node without the counted services, in order of name.
        demands: Demand of each service.
        measured: True if *loads* already contains the usage of running services. Then
            only services that do not run yet are added for a start.
        imbalance_metric: Form of the imbalance.
    """

    def __init__(
        self,
        loads: Mapping[NodeId, NodeLoad],
        demands: DemandSource,
        *,
        measured: bool,
        imbalance_metric: ImbalanceMetric,
    ) -> None:
        self.nodes = tuple(loads)
        self.imbalance_metric = imbalance_metric
        self._base = loads
        self._demands = demands
        self.measured = measured
        self._locations: dict[ServiceId, ServiceLocations] = {}
        self._services_on: dict[NodeId, set[ServiceId]] = {
            node: set() for node in loads
        }
        self._start_loads: dict[NodeId, NodeLoad] = {}
        self._last_service: dict[NodeId, ServiceId] = {}
        self._index = {node: number for number, node in enumerate(loads)}
        self._start_scorer: StartScorer | None = None
        self._stale_nodes: set[NodeId] = set()

    def add(self, service: ServiceId, locations: ServiceLocations) -> None:
        """Count *service* on its nodes."""
        nodes = [node for node in locations.nodes if node in self._services_on]
        if not nodes:
            return
        self._demands.demand_of(service)
        self._locations[service] = locations
        for node in nodes:
            self._services_on[node].add(service)
            self._add_last(service, node)

    def remove(self, service: ServiceId) -> None:
        """Stop counting *service*."""
        for node in self._locations.pop(service, NO_LOCATIONS).nodes:
            if node in self._services_on:
                self._services_on[node].discard(service)
                self._invalidate(node)

    def is_counted(self, service: ServiceId) -> bool:
        """Return True if *service* counts on any node."""
        return service in self._locations

    def demand(self, service: ServiceId) -> ServiceDemand:
        """Return the demand of *service*.

        Raises:
            UsageUnknownError: It is unknown.
        """
        return self._demands.demand_of(service)

    def start_costs(self, service: ServiceId) -> Mapping[NodeId, float]:
        """Return the cost of starting *service* on each node."""
        scores = self._start_scores(self._demands.demand_of(service).limit)
        return {node: -score for node, score in zip(self.nodes, scores, strict=True)}

    def imbalance(self) -> float:
        """Return the imbalance of the nodes."""
        return imbalance(
            [load.mean for load in self.loads().values()], self.imbalance_metric
        )

    def loads(self) -> dict[NodeId, NodeLoad]:
        """Return the load of each node, as the basis for moves."""
        if self.measured:
            return dict(self._base)
        return {node: self._start_load(node) for node in self.nodes}

    def single_move(
        self, services: Iterable[ServiceId], source: NodeId, target: NodeId
    ) -> SingleMove[ServiceId, NodeId]:
        """Return the move of *services*; the first one is the leader."""
        members = list(services)
        usages = tuple(self._demands.demand_of(service).usage for service in members)
        return SingleMove(members[0], usages, source, target)

    def _start_scores(self, limit: Resources) -> list[float]:
        if len(self.nodes) >= INCREMENTAL_MIN_NODES:
            return self._current_start_scorer().scores(limit)
        loads = [self._start_load(node) for node in self.nodes]
        scoring = start_scores if len(loads) < ARRAYS_MIN_NODES else start_scores_array
        return scoring(loads, limit)

    def _current_start_scorer(self) -> StartScorer:
        if self._start_scorer is None:
            self._start_scorer = StartScorer([self._start_load(n) for n in self.nodes])
        for node in self._stale_nodes:
            self._start_scorer.update(self._index[node], self._start_load(node))
        self._stale_nodes.clear()
        return self._start_scorer

    def _add_last(self, service: ServiceId, node: NodeId) -> None:
        """Add *service* to the load of *node* if it is the last one there by name."""
        load = self._start_loads.get(node)
        if load is None:
            return
        if service < self._last_service.get(node, service):
            self._invalidate(node)
            return
        self._last_service[node] = service
        self._start_loads[node] = self._add_start(load, service)
        self._stale_nodes.add(node)

    def _invalidate(self, node: NodeId) -> None:
        self._start_loads.pop(node, None)
        self._stale_nodes.add(node)

    def _start_load(self, node: NodeId) -> NodeLoad:
        if node not in self._start_loads:
            load = self._base[node]
            for service in sorted(self._services_on[node]):
                load = self._add_start(load, service)
                self._last_service[node] = service
            self._start_loads[node] = load
        return self._start_loads[node]

    def _add_start(self, load: NodeLoad, service: ServiceId) -> NodeLoad:
        if self.measured and self._locations[service].running:
            return load
        return load.with_started_guest(self._demands.demand_of(service).limit)
