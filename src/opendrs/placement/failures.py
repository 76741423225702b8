"""Node failures that a cluster tolerates: any one node, any two, any one domain."""

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
from opendrs.rules import (
    FailureSet,
    chooses_domain,
    domain_failures,
    other_domains,
    restart_blocker,
)

MAX_PAIR_PLACEMENTS = 200_000  # restarts for which pairs of nodes are evaluated


@dataclass(frozen=True, slots=True)
class IntoleratedFailure:
    """Failure of nodes after which some guests do not restart.

    Attributes:
        name: Name of the nodes that fail, such as that of their domain.
        nodes: Nodes that fail at the same time.
        displaced: Number of their guests that could start on another node.
        unplaced: Guests for which no node was found.
        detail: Number of nodes that are infeasible for the first of them, by reason.
        is_proven: Whether provably not all of them fit. Otherwise no placement was
            found within the limit of the search.
    """

    name: str
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
        domain: Key of the domains that the limits want tolerated; None if none.
        evaluated_domains: Number of domains whose failure was evaluated; None without
            a key. A node without a label of the key is a domain of its own.
        domains: The failures of one domain that are not tolerated.
        bound: Active guests that cannot restart on another node; they are not counted.
    """

    evaluated_nodes: int
    single: tuple[IntoleratedFailure, ...]
    evaluated_pairs: int | None
    pairs: tuple[IntoleratedFailure, ...]
    domain: str | None
    evaluated_domains: int | None
    domains: tuple[IntoleratedFailure, ...]
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
            name for name in arrays.node_ids if snapshot.nodes[name].reachable
        ]
        self._state = PlacementState(arrays)
        self._budget = SearchBudget()
        self._groups = {
            name: [arrays.displaced_group(part) for part in self._restartable(name)]
            for name in self.nodes
        }

    @property
    def restarts(self) -> int:
        """Return the number of groups that restart if each node fails once."""
        return sum(map(len, self._groups.values()))

    def failures(self, sets: Iterable[FailureSet]) -> Iterator[IntoleratedFailure]:
        """Yield the failures among *sets* that are not tolerated."""
        for failed in sets:
            failure = self.failure(failed)
            if failure is not None:
                failure = self._with_other_domains(failure, failed)
            if failure is not None:
                yield failure

    def _with_other_domains(
        self, failure: IntoleratedFailure, failed: FailureSet
    ) -> IntoleratedFailure | None:
        """Return *failure*; None if guests can gather in other domains after it."""
        snapshot, closed = self.arrays.snapshot, frozenset(failed.nodes)
        if not chooses_domain(snapshot, closed):
            return failure
        others = other_domains(snapshot, closed)
        is_proven = failure.is_proven and others is not None
        for each in others or ():
            found = _FailureModel(each, self.arrays.limits).failure(failed)
            if found is None:
                return None
            is_proven = is_proven and found.is_proven
        return replace(failure, is_proven=is_proven)

    def failure(self, failed: FailureSet) -> IntoleratedFailure | None:
        """Return the failure of *failed*, with these domains; None if tolerated."""
        arrays, state = self.arrays, self._state
        nodes = tuple(arrays.index[name] for name in failed.nodes)
        parts = tuple(part for node in nodes for part in arrays.parts_on[node])
        groups = [group for name in failed.nodes for group in self._groups[name]]
        available, usage = state.available.copy(), state.usage.copy()
        state.displace(parts, *nodes)
        result = place_groups(state, groups, self._budget)
        failure = None if result.fits else self._describe(failed, groups, result)
        state.restore(parts, *nodes)
        state.available, state.usage = available, usage
        return failure

    def _describe(
        self,
        failed: FailureSet,
        groups: Sequence[DisplacedGroup],
        result: PlacementResult,
    ) -> IntoleratedFailure:
        """Return the failure of *failed* after the placement of *groups*."""
        arrays = self.arrays
        unplaced = [
            group
            for group, node in zip(groups, result.nodes, strict=True)
            if node == NO_NODE
        ]
        names = (guest.id for group in unplaced for guest in arrays.parts[group.part])
        first = min(unplaced, key=lambda group: arrays.parts[group.part][0].id)
        return IntoleratedFailure(
            name=failed.name,
            nodes=failed.nodes,
            displaced=sum(len(arrays.parts[group.part]) for group in groups),
            unplaced=tuple(sorted(names)),
            detail=describe_reasons(self._state, first),
            is_proven=result.is_proven,
        )

    def _restartable(self, name: NodeId) -> Iterator[int]:
        """Yield the parts on the node *name* without a bound guest."""
        for part in self.arrays.parts_on[self.arrays.index[name]]:
            if not any(guest.id in self.bound for guest in self.arrays.parts[part]):
                yield part


def failure_tolerance(snapshot: Snapshot, limits: Limits) -> FailureTolerance:
    """Return the node failures that *snapshot* tolerates.

    The failure of each reachable node is evaluated by itself, and that of each domain
    that *limits* names. If all nodes are tolerated, and the cluster is not too large,
    so is each pair of nodes. The guests of the failed nodes restart on others; other
    guests stay where they are.
    """
    model = _FailureModel(snapshot, limits)
    single = tuple(model.failures(FailureSet.of((name,)) for name in model.nodes))
    sets = tuple(domain_failures(snapshot, limits))
    domains = tuple(model.failures(sets))
    count = len(model.nodes)
    evaluates_pairs = (
        not single and count > 2 and model.restarts * count <= MAX_PAIR_PLACEMENTS
    )
    pairs: Iterable[tuple[NodeId, NodeId]] = ()
    if evaluates_pairs:
        pairs = combinations(model.nodes, 2)
    return FailureTolerance(
        evaluated_nodes=count,
        single=single,
        evaluated_pairs=count * (count - 1) // 2 if evaluates_pairs else None,
        pairs=tuple(model.failures(map(FailureSet.of, pairs))),
        domain=limits.tolerated_domain,
        evaluated_domains=None if limits.tolerated_domain is None else len(sets),
        domains=domains,
        bound=tuple(sorted(model.bound)),
    )


def is_tolerated_in_other_domain(
    snapshot: Snapshot, limits: Limits, failed: FailureSet
) -> bool:
    """Return whether guests restart after *failed* if they choose other domains.

    Args:
        snapshot: The cluster, with the domains that affinities within one have chosen.
        limits: Limits of the operator.
        failed: Nodes that fail at the same time.
    """
    closed = frozenset(failed.nodes)
    if not chooses_domain(snapshot, closed):
        return False
    models = (
        _FailureModel(each, limits) for each in other_domains(snapshot, closed) or ()
    )
    return any(each.failure(failed) is None for each in models)
