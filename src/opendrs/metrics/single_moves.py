"""Ranking of single moves, one future cluster after the other.

The plain form of `opendrs.arrays.evaluation`, as Proxmox VE computes it: for small
clusters, and as its oracle.
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
    """A move that could be made.

    Attributes:
        group: What moves: a guest, or the leader of guests that move as one.
        usages: What each member of the unit uses.
        source: Where the unit is.
        target: Where it would go.
    """

    group: GroupT
    usages: tuple[Resources, ...]
    source: NodeT
    target: NodeT


def loads_after(
    loads: Mapping[NodeT, NodeLoad], move: SingleMove[GroupT, NodeT]
) -> dict[NodeT, NodeLoad]:
    """Return the loads once *move* is done, in the same order of nodes."""
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
    """Return the imbalance once *move* is done, cut to 15 decimals."""
    future = loads_after(loads, move).values()
    return math.trunc(1e15 * imbalance([load.mean for load in future], metric)) / 1e15


def rank_by_imbalance(
    loads: Mapping[NodeT, NodeLoad],
    moves: Sequence[SingleMove[GroupT, NodeT]],
    metric: ImbalanceMetric,
) -> list[SingleMove[GroupT, NodeT]]:
    """Return *moves* by the imbalance they leave, the least first.

    Between equals the names of unit, source and target decide.

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
    """Return *moves* by the TOPSIS score of what they leave, the best first.

    Equals keep their order.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method topsis.
    """
    futures = [criteria(list(loads_after(loads, move).values())) for move in moves]
    return [moves[index] for index in rank_descending(topsis(futures, WEIGHTS))]
