"""Ranking of single moves, evaluated one after the other.

The plain form of `opendrs.arrays.evaluation`, as Proxmox VE computes it. It is used for
small clusters and as an oracle in tests.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from opendrs.metrics.imbalance import ImbalanceMetric, imbalance
from opendrs.metrics.load import WEIGHTS, NodeLoad, criteria
from opendrs.metrics.topsis import rank_descending, topsis
from opendrs.model import Resources

NodeT = TypeVar("NodeT", bound=Hashable)
GroupT = TypeVar("GroupT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class SingleMove(Generic[GroupT, NodeT]):
    """Candidate move of a group to a target.

    Attributes:
        group: Guest, or the leader of the move group.
        usages: Usage of each member of the group.
        source: Node of the group.
        target: Node that the group would move to.
    """

    group: GroupT
    usages: tuple[Resources, ...]
    source: NodeT
    target: NodeT


def loads_after(
    loads: Mapping[NodeT, NodeLoad], move: SingleMove[GroupT, NodeT]
) -> dict[NodeT, NodeLoad]:
    """Return the loads after *move*, in the same order of nodes."""
    source, target = loads[move.source], loads[move.target]
    for usage in move.usages:
        source = source.without_guest(usage)
        target = target.with_guest(usage)
    return {**loads, move.source: source, move.target: target}


def imbalance_after(
    loads: Mapping[NodeT, NodeLoad],
    move: SingleMove[GroupT, NodeT],
    metric: ImbalanceMetric,
) -> float:
    """Return the imbalance after *move*, truncated to 15 decimals."""
    future = loads_after(loads, move).values()
    return math.trunc(1e15 * imbalance([load.mean for load in future], metric)) / 1e15


def rank_by_imbalance(
    loads: Mapping[NodeT, NodeLoad],
    moves: Sequence[SingleMove[GroupT, NodeT]],
    metric: ImbalanceMetric,
) -> list[SingleMove[GroupT, NodeT]]:
    """Return *moves* in increasing order of the resulting imbalance.

    Ties are resolved by the names of group, source and target.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method bruteforce.
    """

    def key(move: SingleMove[GroupT, NodeT]) -> tuple[float, GroupT, NodeT, NodeT]:
        return (
            imbalance_after(loads, move, metric),
            move.group,
            move.source,
            move.target,
        )

    return sorted(moves, key=key)


def rank_by_topsis(
    loads: Mapping[NodeT, NodeLoad], moves: Sequence[SingleMove[GroupT, NodeT]]
) -> list[SingleMove[GroupT, NodeT]]:
    """Return *moves* in decreasing order of the TOPSIS score of the result.

    Ties keep their order.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method topsis.
    """
    futures = [criteria(list(loads_after(loads, move).values())) for move in moves]
    return [moves[index] for index in rank_descending(topsis(futures, WEIGHTS))]
