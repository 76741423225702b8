"""Resources that services take on each node, and the start costs and imbalance that follow.

The arithmetic is in `opendrs.metrics`; this module decides which services count on which node.
Amounts are summed in the order of service names, so that every digit agrees with Proxmox VE.
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
    """Where a service takes up room.

    Attributes:
        current: The node it is on, if it is online and the service is settled.
        target: The online node it moves to.
        running: Whether it is known to run.
    """

    current: NodeId | None = None
    target: NodeId | None = None
    running: bool = False

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Return the nodes on which it takes up room, the current one first."""
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
    """Return where a service takes up room.

    Args:
        status: Where it stands.
        is_online: The nodes that are online, as its keys.
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


ARRAYS_MIN_NODES = 12  # from here on, columns are faster
INCREMENTAL_MIN_NODES = 30  # from here on, Proxmox VE's own drills give up


class UsageUnknownError(HaError):
    """What a service uses is not known."""


class UsageModel(Protocol):
    """What services take of the nodes that are online, in one round."""

    @property
    def nodes(self) -> Sequence[NodeId]:
        """Return the nodes that are online, in order of name."""

    def add(self, service: ServiceId, locations: ServiceLocations) -> None:
        """Count *service*.

        Raises:
            UsageUnknownError: What it uses is not known.
        """

    def remove(self, service: ServiceId) -> None:
        """Count *service* no more."""

    def start_costs(self, service: ServiceId) -> Mapping[NodeId, float]:
        """Return what starting *service* costs on each node; less is better.

        Raises:
            UsageUnknownError: What it uses is not known.
        """

    def imbalance(self) -> float:
        """Return how unevenly the nodes are loaded."""


class BasicUsage:
    """Counts services, and knows nothing of their size.

    Args:
        nodes: The nodes that are online, in order of name.
    """

    def __init__(self, nodes: Sequence[NodeId]) -> None:
        self.nodes = nodes
        self._locations: dict[ServiceId, ServiceLocations] = {}
        self._counts = dict.fromkeys(nodes, 0)

    def add(self, service: ServiceId, locations: ServiceLocations) -> None:
        """Count *service* wherever it takes up room."""
        self._locations[service] = locations
        self._count(locations, 1)

    def remove(self, service: ServiceId) -> None:
        """Count *service* no more."""
        self._count(self._locations.pop(service, NO_LOCATIONS), -1)

    def start_costs(self, service: ServiceId) -> Mapping[NodeId, float]:
        """Return how many services there are on each node, whatever *service*."""
        del service
        return self._counts

    def imbalance(self) -> float:
        """Return 0: counts do not say how uneven a load is."""
        return 0.0

    def _count(self, locations: ServiceLocations, change: int) -> None:
        counts, current, target = self._counts, locations.current, locations.target
        if current in counts:
            counts[current] += change
        if target in counts and target != current:
            counts[target] += change


@dataclass(frozen=True, slots=True)
class ServiceDemand:
    """What a service takes.

    Attributes:
        limit: What it may use; counts when it starts.
        usage: What it uses; counts when it moves.
    """

    limit: Resources
    usage: Resources


class DemandSource(Protocol):
    """Knows what services take."""

    def demand_of(self, service: ServiceId) -> ServiceDemand:
        """Return what *service* takes.

        Raises:
            UsageUnknownError: It is not known.
        """


class LoadUsage:
    """Weighs services by what they may use, or use.

    Args:
        loads: What is taken of each online node before services are counted,
            in order of name.
        demands: What each service takes.
        measured: Whether *loads* holds what running services use. Then only
            those that do not run yet count on top, when one starts.
        imbalance_metric: How uneven loads become one number.
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
        """Count *service* wherever it takes up room."""
        nodes = [node for node in locations.nodes if node in self._services_on]
        if not nodes:
            return
        self._demands.demand_of(service)
        self._locations[service] = locations
        for node in nodes:
            self._services_on[node].add(service)
            self._add_last(service, node)

    def remove(self, service: ServiceId) -> None:
        """Count *service* no more."""
        for node in self._locations.pop(service, NO_LOCATIONS).nodes:
            if node in self._services_on:
                self._services_on[node].discard(service)
                self._invalidate(node)

    def is_counted(self, service: ServiceId) -> bool:
        """Return whether *service* takes up room anywhere."""
        return service in self._locations

    def demand(self, service: ServiceId) -> ServiceDemand:
        """Return what *service* takes.

        Raises:
            UsageUnknownError: It is not known.
        """
        return self._demands.demand_of(service)

    def start_costs(self, service: ServiceId) -> Mapping[NodeId, float]:
        """Return what starting *service* costs on each node."""
        scores = self._start_scores(self._demands.demand_of(service).limit)
        return {node: -score for node, score in zip(self.nodes, scores, strict=True)}

    def imbalance(self) -> float:
        """Return how unevenly the nodes are loaded."""
        return imbalance(
            [load.mean for load in self.loads().values()], self.imbalance_metric
        )

    def loads(self) -> dict[NodeId, NodeLoad]:
        """Return what is taken of each node, for moves between them."""
        if self.measured:
            return dict(self._base)
        return {node: self._start_load(node) for node in self.nodes}

    def single_move(
        self, services: Iterable[ServiceId], source: NodeId, target: NodeId
    ) -> SingleMove[ServiceId, NodeId]:
        """Return the move of *services*, led by the first of them."""
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
        """Add *service* to the load of *node*, if it comes last there anyway."""
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
