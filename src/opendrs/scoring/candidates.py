"""The best single move in its plain form, one future after the other.

What `columns.py` does fast, as Proxmox does it: each candidate's cluster is
written out and scored. For small clusters, for members that are added one by
one, and as the oracle of the fast form.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from opendrs.model import Resources
from opendrs.scoring.imbalance import ImbalanceForm, imbalance
from opendrs.scoring.load import WEIGHTS, NodeLoad, criteria
from opendrs.scoring.topsis import ranking, topsis

NodeT = TypeVar("NodeT", bound=Hashable)
UnitT = TypeVar("UnitT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Candidate(Generic[UnitT, NodeT]):
    """A move that could be made.

    Attributes:
        unit: What moves: a guest, or the leader of guests that move as one.
        usages: What each member of the unit uses.
        source: Where the unit is.
        target: Where it would go.
    """

    unit: UnitT
    usages: tuple[Resources, ...]
    source: NodeT
    target: NodeT


def loads_after(
    loads: Mapping[NodeT, NodeLoad], move: Candidate[UnitT, NodeT]
) -> dict[NodeT, NodeLoad]:
    """Return the loads once *move* is done, in the same order of nodes."""
    source, target = loads[move.source], loads[move.target]
    for usage in move.usages:
        source = source.without_running(usage)
        target = target.with_running(usage)
    return {**loads, move.source: source, move.target: target}


def imbalance_after(
    loads: Mapping[NodeT, NodeLoad],
    move: Candidate[UnitT, NodeT],
    form: ImbalanceForm,
) -> float:
    """Return the imbalance once *move* is done, cut to 15 decimals."""
    future = loads_after(loads, move).values()
    return math.trunc(1e15 * imbalance([load.mean for load in future], form)) / 1e15


def rank_by_imbalance(
    loads: Mapping[NodeT, NodeLoad],
    moves: Sequence[Candidate[UnitT, NodeT]],
    form: ImbalanceForm,
) -> list[Candidate[UnitT, NodeT]]:
    """Return *moves* by the imbalance they leave, the least first.

    Between equals the names of unit, source and target decide.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method bruteforce.
    """

    def key(move: Candidate[UnitT, NodeT]) -> tuple[float, UnitT, NodeT, NodeT]:
        return (
            imbalance_after(loads, move, form),
            move.unit,
            move.source,
            move.target,
        )

    return sorted(moves, key=key)


def rank_by_topsis(
    loads: Mapping[NodeT, NodeLoad], moves: Sequence[Candidate[UnitT, NodeT]]
) -> list[Candidate[UnitT, NodeT]]:
    """Return *moves* by the TOPSIS score of what they leave, the best first.

    Equals keep their order.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method topsis.
    """
    futures = [criteria(list(loads_after(loads, move).values())) for move in moves]
    return [moves[index] for index in ranking(topsis(futures, WEIGHTS))]
