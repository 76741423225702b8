"""How much of each node its services take, and what that says of a placement.

The arithmetic is that of `opendrs.scoring`; here is what counts where. What
services take is added up in the order of their names, to the last digit as in
Proxmox VE. Starts are scored to the last digit, too, but for clusters that its
own drills refuse for their size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.observation import HaError
from opendrs.ha.places import NOWHERE, Places
from opendrs.model import NodeId, Resources
from opendrs.scoring import (
    Candidate,
    ImbalanceForm,
    NodeLoad,
    StartBoard,
    imbalance,
    start_scores,
    start_scores_columns,
)

MANY_NODES = 12  # from here on, columns are faster
TOO_MANY_NODES = 30  # from here on, Proxmox VE's own drills give up


class UsageUnknownError(HaError):
    """What a service uses is not known."""


class UsageModel(Protocol):
    """What services take of the nodes that are online, in one round."""

    @property
    def nodes(self) -> Sequence[NodeId]:
        """Return the nodes that are online, in order of name."""

    def add(self, service: ServiceId, places: Places) -> None:
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
        self._places: dict[ServiceId, Places] = {}
        self._counts = dict.fromkeys(nodes, 0)

    def add(self, service: ServiceId, places: Places) -> None:
        """Count *service* wherever it takes up room."""
        self._places[service] = places
        self._count(places, 1)

    def remove(self, service: ServiceId) -> None:
        """Count *service* no more."""
        self._count(self._places.pop(service, NOWHERE), -1)

    def start_costs(self, service: ServiceId) -> Mapping[NodeId, float]:
        """Return how many services there are on each node, whatever *service*."""
        del service
        return self._counts

    def imbalance(self) -> float:
        """Return 0: counts do not say how uneven a load is."""
        return 0.0

    def _count(self, places: Places, change: int) -> None:
        counts, current, target = self._counts, places.current, places.target
        if current in counts:
            counts[current] += change
        if target in counts and target != current:
            counts[target] += change


@dataclass(frozen=True, slots=True)
class Demand:
    """What a service takes.

    Attributes:
        limit: What it may use; counts when it starts.
        usage: What it uses; counts when it moves.
    """

    limit: Resources
    usage: Resources


class Demands(Protocol):
    """Knows what services take."""

    def of(self, service: ServiceId) -> Demand:
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
        form: How uneven loads become one number.
    """

    def __init__(
        self,
        loads: Mapping[NodeId, NodeLoad],
        demands: Demands,
        *,
        measured: bool,
        form: ImbalanceForm,
    ) -> None:
        self.nodes = tuple(loads)
        self.form = form
        self._base = loads
        self._demands = demands
        self.measured = measured
        self._places: dict[ServiceId, Places] = {}
        self._residents: dict[NodeId, set[ServiceId]] = {node: set() for node in loads}
        self._started: dict[NodeId, NodeLoad] = {}
        self._last: dict[NodeId, ServiceId] = {}
        self._index = {node: number for number, node in enumerate(loads)}
        self._board: StartBoard | None = None
        self._stale: set[NodeId] = set()

    def add(self, service: ServiceId, places: Places) -> None:
        """Count *service* wherever it takes up room."""
        here = [node for node in places.nodes if node in self._residents]
        if not here:
            return
        self._demands.of(service)
        self._places[service] = places
        for node in here:
            self._residents[node].add(service)
            self._count_last(service, node)

    def remove(self, service: ServiceId) -> None:
        """Count *service* no more."""
        for node in self._places.pop(service, NOWHERE).nodes:
            if node in self._residents:
                self._residents[node].discard(service)
                self._count_anew(node)

    def counts(self, service: ServiceId) -> bool:
        """Return whether *service* takes up room anywhere."""
        return service in self._places

    def demand(self, service: ServiceId) -> Demand:
        """Return what *service* takes.

        Raises:
            UsageUnknownError: It is not known.
        """
        return self._demands.of(service)

    def start_costs(self, service: ServiceId) -> Mapping[NodeId, float]:
        """Return what starting *service* costs on each node."""
        scores = self._start_scores(self._demands.of(service).limit)
        return {node: -score for node, score in zip(self.nodes, scores, strict=True)}

    def imbalance(self) -> float:
        """Return how unevenly the nodes are loaded."""
        return imbalance([load.mean for load in self.loads().values()], self.form)

    def loads(self) -> dict[NodeId, NodeLoad]:
        """Return what is taken of each node, for moves between them."""
        if self.measured:
            return dict(self._base)
        return {node: self._load_for_starts(node) for node in self.nodes}

    def candidate(
        self, services: Iterable[ServiceId], source: NodeId, target: NodeId
    ) -> Candidate[ServiceId, NodeId]:
        """Return the move of *services*, led by the first of them."""
        members = list(services)
        usages = tuple(self._demands.of(service).usage for service in members)
        return Candidate(members[0], usages, source, target)

    def _start_scores(self, limit: Resources) -> list[float]:
        if len(self.nodes) >= TOO_MANY_NODES:
            return self._renewed_board().scores(limit)
        loads = [self._load_for_starts(node) for node in self.nodes]
        scoring = start_scores if len(loads) < MANY_NODES else start_scores_columns
        return scoring(loads, limit)

    def _renewed_board(self) -> StartBoard:
        if self._board is None:
            self._board = StartBoard([self._load_for_starts(n) for n in self.nodes])
        for node in self._stale:
            self._board.put(self._index[node], self._load_for_starts(node))
        self._stale.clear()
        return self._board

    def _count_last(self, service: ServiceId, node: NodeId) -> None:
        """Add *service* to the load of *node*, if it comes last there anyway."""
        load = self._started.get(node)
        if load is None:
            return
        if service < self._last.get(node, service):
            self._count_anew(node)
            return
        self._last[node] = service
        self._started[node] = self._with_started(load, service)
        self._stale.add(node)

    def _count_anew(self, node: NodeId) -> None:
        self._started.pop(node, None)
        self._stale.add(node)

    def _load_for_starts(self, node: NodeId) -> NodeLoad:
        if node not in self._started:
            load = self._base[node]
            for service in sorted(self._residents[node]):
                load = self._with_started(load, service)
                self._last[node] = service
            self._started[node] = load
        return self._started[node]

    def _with_started(self, load: NodeLoad, service: ServiceId) -> NodeLoad:
        if self.measured and self._places[service].running:
            return load
        return load.with_started(self._demands.of(service).limit)
