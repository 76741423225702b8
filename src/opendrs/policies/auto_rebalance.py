"""Migrate one guest once the cluster has been unbalanced for long enough.

The automatic rebalancing of Proxmox VE's HA manager 5.2, with its defaults;
guests that a rule keeps together move as one. It differs in three things: a
node whose memory would not suffice is no target, a guest whose usage is not
known stays where it is instead of stopping everything, and a cluster with an
unmeasured node is left alone instead of being counted as balanced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from opendrs.model import DEFAULT_LIMITS, Limits, Snapshot
from opendrs.policies.base import MOST_UNEVEN, Decision, Reason, require_ratio
from opendrs.policies.board import Board
from opendrs.policies.measures import (
    Loads,
    Method,
    best_move,
    explanation,
    load_imbalance,
    measures,
)
from opendrs.policies.outlook import dead_ends, not_ready, notes
from opendrs.policies.passage import Journey, in_turn
from opendrs.policies.units import Selection
from opendrs.scoring import Best, ImbalanceForm, UsageMode, node_loads


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRebalance:
    """Make the one move that evens the load most.

    Attributes:
        mode: What counts as load: measured use, or the guests' limits.
        method: How the best move is chosen.
        threshold: Imbalance up to which nothing is done.
        hold: Cycles in a row the imbalance must exceed the threshold; 0 and 1
            act at once.
        margin: Least part of the imbalance, in [0, 1], to be taken away.
        form: The imbalance in [0, 1], or the raw coefficient of variation.
        limits: What the operator allows.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "auto-rebalance"
    mode: UsageMode = UsageMode.DYNAMIC
    method: Method = Method.BRUTEFORCE
    threshold: float = 0.3  # ha-auto-rebalance-threshold
    hold: int = 3  # ha-auto-rebalance-hold-duration
    margin: float = 0.1  # ha-auto-rebalance-margin
    form: ImbalanceForm = ImbalanceForm.NORMALISED
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        require_ratio("margin", self.margin, 1.0)
        normalised = self.form is ImbalanceForm.NORMALISED
        require_ratio("threshold", self.threshold, 1.0 if normalised else MOST_UNEVEN)
        if self.hold < 0:
            raise ValueError(f"hold must be at least 0 cycles, not {self.hold}")

    def initial_memory(self) -> int:
        """Return 0: no cycle has exceeded the threshold yet."""
        return 0

    def decide(self, snapshot: Snapshot, memory: int) -> Decision[int]:
        """Return the best move if one is due and worth its cost.

        Args:
            snapshot: The cluster now.
            memory: For how many cycles the threshold has been exceeded.
        """
        waiting = not_ready(snapshot, self.mode)
        if waiting is not None:
            return Decision(waiting[0], memory, detail=waiting[1])
        loads = node_loads(snapshot, self.mode)
        before = load_imbalance(loads, self.form)
        if before <= self.threshold:
            return self._still(
                Reason.BALANCED,
                0,
                loads,
                f"imbalance {before:.3f} is not above the threshold {self.threshold:g}",
            )
        if memory + 1 < self.hold:
            return self._still(
                Reason.NOT_YET_SUSTAINED,
                memory + 1,
                loads,
                f"imbalance {before:.3f} is above the threshold {self.threshold:g} for "
                f"{memory + 1} of {self.hold} cycles",
            )
        return self._best(snapshot, loads, before)

    def _best(self, snapshot: Snapshot, loads: Loads, before: float) -> Decision[int]:
        selection = Selection(
            mode=self.mode, relocate=True, only_ha_managed=True, unlimited=True
        )
        board = Board(snapshot, self.limits, selection)
        best = best_move(board, self.method, self.form)
        told = notes(board)
        if best is None:
            why = f"imbalance is {before:.3f} and no guest may move anywhere"
            told += dead_ends(board)
            return self._still(Reason.NO_CANDIDATE, 0, loads, why, told)
        gain = (before - best.imbalance) / before
        if gain < self.margin:
            why = (
                f"the best move would take away {gain:.1%} of the imbalance "
                f"{before:.3f}, less than the margin {self.margin:.0%}"
            )
            return self._still(Reason.GAIN_BELOW_MARGIN, 0, loads, why, told)
        return self._move(board, best, loads, before, told)

    def _still(
        self,
        reason: Reason,
        memory: int,
        loads: Loads,
        detail: str,
        told: tuple[str, ...] = (),
    ) -> Decision[int]:
        now = measures(loads, self.form)
        return Decision(
            reason, memory, detail=detail, before=now, after=now, notes=told
        )

    def _move(
        self,
        board: Board,
        best: Best,
        loads: Loads,
        before: float,
        told: tuple[str, ...],
    ) -> Decision[int]:
        snapshot = board.snapshot
        why = explanation(board, best, before, self.mode, self.form)
        journey = Journey(board.unit(best), board.target(best), why)
        way = in_turn([journey], snapshot, board.rules, self.limits)
        future = node_loads(snapshot.after(*way.actions), self.mode)
        after: Mapping[str, float] = measures(future, self.form)
        return Decision(
            Reason.IMPROVES_BALANCE,
            0,
            way.plan,
            f"imbalance {before:.3f} → {after['imbalance']:.3f}",
            measures(loads, self.form),
            after,
            (*told, *way.notes),
        )
