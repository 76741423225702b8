"""Migrate as many guests as it takes, the best first.

The measure of `auto-rebalance`, and its choice of a move, again and again on
what the moves before leave. Where one migration per decision takes a cluster
of a hundred nodes hours to settle, this plans the way at once, so that an
operator sees all of it, and steps with nothing between them run together.

Two defaults differ, so that they mean the same for three nodes and for a
thousand: imbalance is the raw coefficient of variation, which does not shrink
as nodes are added, and the margin is shared among the nodes, since a migration
changes only two of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from opendrs.model import DEFAULT_LIMITS, Limits, Snapshot
from opendrs.policies.base import MOST_UNEVEN, Decision, Reason, require_ratio
from opendrs.policies.board import Board
from opendrs.policies.measures import (
    Method,
    best_move,
    explanation,
    load_imbalance,
    measures,
)
from opendrs.policies.outlook import dead_ends, not_ready, notes
from opendrs.policies.passage import Journey, in_turn
from opendrs.policies.units import Selection
from opendrs.scoring import ImbalanceForm, UsageMode, node_loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Make the best move, and the best after it, while that is worth it.

    Attributes:
        mode: What counts as load: measured use, or the guests' limits.
        method: How the best move is chosen.
        threshold: Imbalance up to which nothing (more) is done.
        margin: Least part of the imbalance, in [0, 1], that a move must take
            away where there are two nodes; among n nodes, 2/n of it.
        moves: How many guests are moved at most.
        relocate: Whether containers may be stopped, moved and started.
        form: The imbalance in [0, 1], or the raw coefficient of variation.
        limits: What the operator allows.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "balance"
    mode: UsageMode = UsageMode.DYNAMIC
    method: Method = Method.BRUTEFORCE
    threshold: float = 0.1
    margin: float = 0.1
    moves: int = 100
    relocate: bool = False
    form: ImbalanceForm = ImbalanceForm.RAW
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        require_ratio("margin", self.margin, 1.0)
        normalised = self.form is ImbalanceForm.NORMALISED
        require_ratio("threshold", self.threshold, 1.0 if normalised else MOST_UNEVEN)
        if self.moves < 0:
            raise ValueError(f"moves must be at least 0, not {self.moves}")

    def initial_memory(self) -> None:
        """Return None: each decision stands by itself."""

    def decide(self, snapshot: Snapshot, memory: None) -> Decision[None]:
        """Return the moves that even the load, and why no more of them."""
        waiting = not_ready(snapshot, self.mode)
        if waiting is not None:
            return Decision(waiting[0], memory, detail=waiting[1])
        before = measures(node_loads(snapshot, self.mode), self.form)
        if before["imbalance"] <= self.threshold:
            why = (
                f"imbalance {before['imbalance']:.3f} is not above the threshold "
                f"{self.threshold:g}"
            )
            return Decision(
                Reason.BALANCED, memory, detail=why, before=before, after=before
            )
        board = Board(
            snapshot, self.limits, Selection(mode=self.mode, relocate=self.relocate)
        )
        told = notes(board)
        journeys, reason, why = self._choose(board)
        if not journeys and reason is Reason.NO_CANDIDATE:
            told += dead_ends(board)
        way = in_turn(journeys, snapshot, board.rules, self.limits)
        loads = node_loads(snapshot.after(*way.actions), self.mode)
        after = measures(loads, self.form)
        return Decision(
            Reason.IMPROVES_BALANCE if way.made else reason,
            memory,
            way.plan,
            f"{_change(before, after, moved=bool(way.made))}; {why}",
            before,
            after,
            (*told, *way.notes),
        )

    def _choose(self, board: Board) -> tuple[list[Journey], Reason, str]:
        """Make moves on *board*; return them, and why there are no more."""
        journeys: list[Journey] = []
        left = self.moves
        margin = self.margin * min(1.0, 2 / max(1, len(board.loads)))
        while True:
            before = load_imbalance(board.current_loads(), self.form)
            if before <= self.threshold:
                return journeys, Reason.BALANCED, f"below {self.threshold:g}: enough"
            best = best_move(board, self.method, self.form)
            if best is None:
                return (
                    journeys,
                    Reason.NO_CANDIDATE,
                    "no more guests may move" if journeys else "no guest may move",
                )
            gain = (before - best.imbalance) / before
            if gain <= 0 or gain < margin:
                why = f"the next move would take away only {max(gain, 0):.1%} of it"
                return journeys, Reason.GAIN_BELOW_MARGIN, why
            unit = board.unit(best)
            if len(unit) > left:
                why = f"the limit of {self.moves} moves is reached"
                return journeys, Reason.LIMIT_REACHED, why
            left -= len(unit)
            said = explanation(board, best, before, self.mode, self.form)
            journeys.append(Journey(unit, board.target(best), said))
            board.make(best)


def _change(
    before: Mapping[str, float], after: Mapping[str, float], *, moved: bool
) -> str:
    """Return the imbalance in words, and what it becomes where guests move."""
    change = f"imbalance {before['imbalance']:.3f}"
    return f"{change} → {after['imbalance']:.3f}" if moved else change
