"""The move that reduces the imbalance most.

In small clusters each move is scored separately, as in Proxmox VE. Larger clusters,
which Proxmox VE does not support, are scored with arrays. There the sum over the
members of a bundle may differ in the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from opendrs.arrays import BestMove, MoveArrays, best_by_imbalance, best_by_topsis
from opendrs.metrics import (
    ImbalanceMetric,
    SingleMove,
    rank_by_imbalance,
    rank_by_topsis,
)
from opendrs.model import NodeId, resource_pair
from opendrs.pve_ha.manager.node_usage import LoadUsage
from opendrs.pve_ha.states import ServiceId

BRUTEFORCE, TOPSIS = "bruteforce", "topsis"
MAX_PLAIN_LOADS = 5_000_000  # node loads that are summed in a few seconds

BundleMove = SingleMove[ServiceId, NodeId]
Nodes = Collection[NodeId]


@dataclass(frozen=True, slots=True)
class MovableBundle:
    """A bundle and its possible targets.

    Attributes:
        members: Its services, the leader first.
        source: Their node.
        preferred: Preferred nodes by the rules; may include the source.
        anti_affinity_nodes: Nodes of services with which it must not share a node.
    """

    members: Sequence[ServiceId]
    source: NodeId
    preferred: Nodes
    anti_affinity_nodes: frozenset[NodeId]

    @property
    def targets(self) -> list[NodeId]:
        """Return the possible targets, in order of name."""
        excluded = self.anti_affinity_nodes | {self.source}
        return sorted(node for node in self.preferred if node not in excluded)

    @property
    def has_target(self) -> bool:
        """Return True if there is a possible target."""
        excluded = self.anti_affinity_nodes | {self.source}
        return len(self.preferred) > len(excluded) or any(
            node not in excluded for node in self.preferred
        )


def best_move(
    usage: LoadUsage, bundles: Sequence[MovableBundle], method: str
) -> BundleMove | None:
    """Return the best move by *method*; None if there is none or the method is unknown.

    Args:
        usage: Load of each node.
        bundles: Bundles that may move, in order of the leaders.
        method: bruteforce or topsis.
    """
    if not bundles or method not in (BRUTEFORCE, TOPSIS):
        return None
    nodes = len(usage.nodes)
    if len(bundles) * nodes * nodes > MAX_PLAIN_LOADS:
        return best_move_vectorized(usage, bundles, method)
    return best_move_plain(usage, bundles, method)


def best_move_plain(
    usage: LoadUsage, bundles: Sequence[MovableBundle], method: str
) -> BundleMove | None:
    """Return the best move, scoring one move after the other."""
    loads = usage.loads()
    moves = [
        usage.single_move(bundle.members, bundle.source, target)
        for bundle in bundles
        for target in bundle.targets
    ]
    if method == TOPSIS:
        return next(iter(rank_by_topsis(loads, moves)), None)
    return next(iter(rank_by_imbalance(loads, moves, usage.imbalance_metric)), None)


def best_move_vectorized(
    usage: LoadUsage, bundles: Sequence[MovableBundle], method: str
) -> BundleMove | None:
    """Return the best move, scoring all moves at once."""
    if method == BRUTEFORCE:
        bundles = _distinct_bundles(usage, bundles)
    best = _METHODS[method](_move_arrays(usage, bundles), usage.imbalance_metric)
    if best is None:
        return None
    bundle = bundles[best.group]
    return usage.single_move(bundle.members, bundle.source, usage.nodes[best.target])


def _distinct_bundles(
    usage: LoadUsage, bundles: Sequence[MovableBundle]
) -> list[MovableBundle]:
    """Return *bundles* without those that change the loads as an earlier one does.

    Of equal moves that of the first leader is selected, so these cannot be selected.
    TOPSIS needs all of them, because its best move depends on all alternatives.
    """
    first: dict[object, MovableBundle] = {}
    for bundle in bundles:
        nodes = (bundle.source, id(bundle.preferred), bundle.anti_affinity_nodes)
        first.setdefault((_demand(usage, bundle), nodes), bundle)
    return list(first.values())


def _move_arrays(usage: LoadUsage, bundles: Sequence[MovableBundle]) -> MoveArrays:
    loads = list(usage.loads().values())
    index = {node: number for number, node in enumerate(usage.nodes)}
    classes: dict[tuple[int, frozenset[NodeId]], int] = {}
    class_of = [
        classes.setdefault((id(b.preferred), b.anti_affinity_nodes), len(classes))
        for b in bundles
    ]
    allowed = np.zeros((len(classes), len(loads)), bool)
    for bundle, number in zip(bundles, class_of, strict=True):
        if not allowed[number].any():
            allowed[number] = _allowed_row(bundle, index)
    return MoveArrays(
        capacity=np.array([resource_pair(load.capacity) for load in loads]),
        usage=np.array([resource_pair(load.usage) for load in loads]),
        demand=np.array([_demand(usage, bundle) for bundle in bundles]),
        node_of=np.array([index[bundle.source] for bundle in bundles], np.intp),
        class_of=np.array(class_of, np.intp),
        allowed=allowed,
        available=np.full((len(loads), 2), np.inf),
        required=np.zeros((len(bundles), 2)),
    )


def _allowed_row(bundle: MovableBundle, index: Mapping[NodeId, int]) -> list[bool]:
    return [
        node in bundle.preferred and node not in bundle.anti_affinity_nodes
        for node in index
    ]


def _demand(usage: LoadUsage, bundle: MovableBundle) -> tuple[float, float]:
    usages = [usage.demand(service).usage for service in bundle.members]
    return sum(u.cpu for u in usages), float(sum(u.memory for u in usages))


_METHODS: Mapping[str, Callable[[MoveArrays, ImbalanceMetric], BestMove | None]] = (
    MappingProxyType({BRUTEFORCE: best_by_imbalance, TOPSIS: best_by_topsis})
)
