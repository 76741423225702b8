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
from typing import ClassVar, Literal

from opendrs.arrays import AssignmentState, BestMove, MobilityFilter
from opendrs.metrics import ImbalanceMetric, LoadModel, node_loads
from opendrs.model import DEFAULT_LIMITS, Limits, Snapshot
from opendrs.planning import GroupMove, sequence_in_order
from opendrs.policies.base import MAX_IMBALANCE, Decision, DecisionReason, require_ratio
from opendrs.policies.load_metrics import (
    LoadByNode,
    SelectionMethod,
    best_move,
    explain_move,
    load_imbalance,
    load_metrics,
)
from opendrs.policies.preconditions import (
    planning_notes,
    unmet_precondition,
    unplaceable_guests,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRebalance:
    """Make the one move that evens the load most.

    Attributes:
        load_model: What counts as load: measured use, or the guests' limits.
        method: How the best move is chosen.
        threshold: Imbalance up to which nothing is done.
        hold: Cycles in a row the imbalance must exceed the threshold; 0 and 1
            act at once.
        margin: Least part of the imbalance, in [0, 1], to be taken away.
        imbalance_metric: The imbalance in [0, 1], or the raw coefficient of variation.
        limits: What the operator allows.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "auto-rebalance"
    load_model: LoadModel = LoadModel.DYNAMIC
    method: Literal["bruteforce", "topsis"] = "bruteforce"
    threshold: float = 0.3  # ha-auto-rebalance-threshold
    hold: int = 3  # ha-auto-rebalance-hold-duration
    margin: float = 0.1  # ha-auto-rebalance-margin
    imbalance_metric: ImbalanceMetric = ImbalanceMetric.NORMALIZED_CV
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        require_ratio("margin", self.margin, 1.0)
        normalized = self.imbalance_metric is ImbalanceMetric.NORMALIZED_CV
        require_ratio("threshold", self.threshold, 1.0 if normalized else MAX_IMBALANCE)
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
        precondition = unmet_precondition(snapshot, self.load_model)
        if precondition is not None:
            return Decision(precondition[0], memory, detail=precondition[1])
        loads = node_loads(snapshot, self.load_model)
        before = load_imbalance(loads, self.imbalance_metric)
        if before <= self.threshold:
            return self._keep(
                DecisionReason.BALANCED,
                0,
                loads,
                f"imbalance {before:.3f} is not above the threshold {self.threshold:g}",
            )
        if memory + 1 < self.hold:
            return self._keep(
                DecisionReason.HOLD_NOT_REACHED,
                memory + 1,
                loads,
                f"imbalance {before:.3f} is above the threshold {self.threshold:g} for "
                f"{memory + 1} of {self.hold} cycles",
            )
        return self._select_move(snapshot, loads, before)

    def _select_move(
        self, snapshot: Snapshot, loads: LoadByNode, before: float
    ) -> Decision[int]:
        mobility_filter = MobilityFilter(
            load_model=self.load_model,
            allow_cold_migration=True,
            only_ha_managed=True,
            include_unlimited=True,
        )
        state = AssignmentState(snapshot, self.limits, mobility_filter)
        best = best_move(
            state,
            SelectionMethod.TOPSIS
            if self.method == "topsis"
            else SelectionMethod.EXHAUSTIVE,
            self.imbalance_metric,
        )
        notes = planning_notes(state)
        if best is None:
            detail = f"imbalance is {before:.3f} and no guest may move anywhere"
            notes += unplaceable_guests(state)
            return self._keep(DecisionReason.NO_CANDIDATE, 0, loads, detail, notes)
        improvement = (before - best.imbalance) / before
        if improvement < self.margin:
            detail = (
                f"the best move would take away {improvement:.1%} of the imbalance "
                f"{before:.3f}, less than the margin {self.margin:.0%}"
            )
            return self._keep(
                DecisionReason.IMPROVEMENT_TOO_SMALL, 0, loads, detail, notes
            )
        return self._move(state, best, loads, before, notes)

    def _keep(
        self,
        reason: DecisionReason,
        memory: int,
        loads: LoadByNode,
        detail: str,
        notes: tuple[str, ...] = (),
    ) -> Decision[int]:
        now = load_metrics(loads, self.imbalance_metric)
        return Decision(
            reason, memory, detail=detail, before=now, after=now, notes=notes
        )

    def _move(
        self,
        state: AssignmentState,
        best: BestMove,
        loads: LoadByNode,
        before: float,
        notes: tuple[str, ...],
    ) -> Decision[int]:
        snapshot = state.snapshot
        detail = explain_move(
            state, best, before, self.load_model, self.imbalance_metric
        )
        move = GroupMove(state.group(best), state.target(best), detail)
        sequenced = sequence_in_order([move], snapshot, state.rules, self.limits)
        future = node_loads(snapshot.apply(*sequenced.actions), self.load_model)
        after: Mapping[str, float] = load_metrics(future, self.imbalance_metric)
        return Decision(
            DecisionReason.IMPROVES_BALANCE,
            0,
            sequenced.plan,
            f"imbalance {before:.3f} → {after['imbalance']:.3f}",
            load_metrics(loads, self.imbalance_metric),
            after,
            (*notes, *sequenced.notes),
        )
