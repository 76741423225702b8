"""Node failures that a cluster tolerates: any one node, any two nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from opendrs.model import GuestId, Limits, NodeId, Snapshot
from opendrs.placement.arrays import NO_NODE, DisplacedGroup, PlacementArrays
from opendrs.placement.reasons import describe_reasons
from opendrs.placement.search import PlacementResult, SearchBudget, place_groups
from opendrs.placement.state import PlacementState
from opendrs.rules import chooses_domain, other_domains, restart_blocker

MAX_PAIR_PLACEMENTS = 200_000  # restarts for which pairs of nodes are evaluated


@dataclass(frozen=True, slots=True)
class IntoleratedFailure:
    """Failure of nodes after which some guests do not restart.

    Attributes:
        nodes: Nodes that fail at the same time.
        displaced: Number of their guests that could start on another node.
        unplaced: Guests for which no node was found.
        detail: Number of nodes that are infeasible for the first of them, by reason.
        is_proven: Whether provably not all of them fit. Otherwise no placement was
            found within the limit of the search.
    """

    nodes: tuple[NodeId, ...]
    displaced: int
    unplaced: tuple[GuestId, ...]
    detail: str
    is_proven: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureTolerance:
    """Node failures after which all guests restart by the rules.

    Attributes:
        evaluated_nodes: Number of nodes whose failure was evaluated.
        single: The failures of one node that are not tolerated.
        evaluated_pairs: Number of pairs of nodes that were evaluated; None if the
            cluster is too large, or does not tolerate the failure of any node.
        pairs: The failures of two nodes that are not tolerated.
        bound: Active guests that cannot restart on another node; they are not counted.
    """

    evaluated_nodes: int
    single: tuple[IntoleratedFailure, ...]
    evaluated_pairs: int | None
    pairs: tuple[IntoleratedFailure, ...]
    bound: tuple[GuestId, ...]

    @property
    def tolerated(self) -> int:
        """Return the number of nodes, any, whose failure is tolerated: 0, 1 or 2.

        More failures are not evaluated. One node of a cluster always remains.
        """
        if self.single or self.evaluated_nodes < 2:
            return 0
        return 1 if self.pairs or not self.evaluated_pairs else 2


@dataclass(frozen=True, slots=True)
class Restarts:
    """Placement of the guests of one set of nodes after its failure.

    Attributes:
        node_of: Node of each part that restarts.
        parts_on: Parts that restart on each node.
        unplaced: Parts without a node.
    """

    node_of: dict[int, int] = field(default_factory=dict)
    parts_on: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unplaced: tuple[int, ...] = ()

    @classmethod
    def of(cls, node_of: dict[int, int]) -> Restarts:
        """Return the restarts of parts on nodes, some of them `NO_NODE`."""
        placed = {part: node for part, node in node_of.items() if node != NO_NODE}
        parts_on: defaultdict[int, tuple[int, ...]] = defaultdict(tuple)
        for part, node in placed.items():
            parts_on[node] += (part,)
        unplaced = tuple(sorted(node_of.keys() - placed.keys()))
        return cls(placed, dict(parts_on), unplaced)

    def without(self, part: int) -> Restarts:
        """Return the restarts without *part*, which has left the set."""
        kept = {**self.node_of, **dict.fromkeys(self.unplaced, NO_NODE)}
        kept.pop(part, None)
        return Restarts.of(kept)


class _FailureModel:
    """Restarts of the guests of failed nodes, evaluated many times."""

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self.arrays = arrays = PlacementArrays(snapshot, limits)
        self.bound = frozenset(
            guest.id
            for guest in snapshot.guests.values()
            if guest.is_active and restart_blocker(guest, snapshot.nodes[guest.node])
        )
        self.nodes = [
            index
            for index, name in enumerate(arrays.node_ids)
            if snapshot.nodes[name].reachable
        ]
        self._state = PlacementState(arrays)
        self._budget = SearchBudget()
        self._groups = {
            node: [arrays.displaced_group(part) for part in self._restartable(node)]
            for node in self.nodes
        }

    @property
    def restarts(self) -> int:
        """Return the number of groups that restart if each node fails once."""
        return sum(map(len, self._groups.values()))

    def failures(
        self, combined: Iterable[tuple[int, ...]]
    ) -> Iterator[IntoleratedFailure]:
        """Yield the failures among *combined* that are not tolerated."""
        for nodes in combined:
            failure = self.failure(nodes)
            if failure is not None:
                failure = self._with_other_domains(failure, nodes)
            if failure is not None:
                yield failure

    def _with_other_domains(
        self, failure: IntoleratedFailure, nodes: tuple[int, ...]
    ) -> IntoleratedFailure | None:
        """Return *failure*; None if guests can gather in other domains after it."""
        snapshot, closed = self.arrays.snapshot, frozenset(failure.nodes)
        if not chooses_domain(snapshot, closed):
            return failure
        others = other_domains(snapshot, closed)
        is_proven = failure.is_proven and others is not None
        for each in others or ():
            found = _FailureModel(each, self.arrays.limits).failure(nodes)
            if found is None:
                return None
            is_proven = is_proven and found.is_proven
        return replace(failure, is_proven=is_proven)

    def failure(self, nodes: tuple[int, ...]) -> IntoleratedFailure | None:
        """Return the failure of *nodes*, with these domains; None if tolerated."""
        arrays, state = self.arrays, self._state
        parts = tuple(part for node in nodes for part in arrays.parts_on[node])
        groups = [group for node in nodes for group in self._groups[node]]
        available, usage = state.available.copy(), state.usage.copy()
        state.displace(parts, *nodes)
        result = place_groups(state, groups, self._budget)
        failure = None if result.fits else self._describe(nodes, groups, result)
        state.restore(parts, *nodes)
        state.available, state.usage = available, usage
        return failure

    def _describe(
        self,
        nodes: tuple[int, ...],
        groups: Sequence[DisplacedGroup],
        result: PlacementResult,
    ) -> IntoleratedFailure:
        """Return the failure of *nodes* after the placement of *groups*."""
        arrays = self.arrays
        unplaced = [
            group
            for group, node in zip(groups, result.nodes, strict=True)
            if node == NO_NODE
        ]
        names = (guest.id for group in unplaced for guest in arrays.parts[group.part])
        first = min(unplaced, key=lambda group: arrays.parts[group.part][0].id)
        return IntoleratedFailure(
            nodes=tuple(arrays.node_ids[node] for node in nodes),
            displaced=sum(len(arrays.parts[group.part]) for group in groups),
            unplaced=tuple(sorted(names)),
            detail=describe_reasons(self._state, first),
            is_proven=result.is_proven,
        )

    def _restartable(self, node: int) -> Iterator[int]:
        """Yield the parts on *node* without a bound guest."""
        for part in self.arrays.parts_on[node]:
            if not any(guest.id in self.bound for guest in self.arrays.parts[part]):
                yield part


def failure_tolerance(snapshot: Snapshot, limits: Limits) -> FailureTolerance:
    """Return the node failures that *snapshot* tolerates.

    The failure of each reachable node is evaluated by itself. If all of them are
    tolerated, and the cluster is not too large, so is that of each pair of nodes. The
    guests of the failed nodes restart on others; other guests stay where they are.
    """
    model = _FailureModel(snapshot, limits)
    single = tuple(model.failures((node,) for node in model.nodes))
    count = len(model.nodes)
    evaluates_pairs = (
        not single and count > 2 and model.restarts * count <= MAX_PAIR_PLACEMENTS
    )
    pairs = tuple(
        model.failures(combinations(model.nodes, 2) if evaluates_pairs else ())
    )
    return FailureTolerance(
        evaluated_nodes=count,
        single=single,
        evaluated_pairs=count * (count - 1) // 2 if evaluates_pairs else None,
        pairs=pairs,
        bound=tuple(sorted(model.bound)),
    )


def is_tolerated_in_other_domain(
    snapshot: Snapshot, limits: Limits, nodes: tuple[NodeId, ...]
) -> bool:
    """Return whether guests restart after *nodes* fail if they choose other domains.

    Args:
        snapshot: The cluster, with the domains that affinities within one have chosen.
        limits: Limits of the operator.
        nodes: Nodes that fail at the same time.
    """
    closed = frozenset(nodes)
    if not chooses_domain(snapshot, closed):
        return False
    models = (
        _FailureModel(each, limits) for each in other_domains(snapshot, closed) or ()
    )
    return any(
        each.failure(tuple(each.arrays.index[name] for name in nodes)) is None
        for each in models
    )
