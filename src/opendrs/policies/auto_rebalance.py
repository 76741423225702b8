"""Policy that migrates one move group when imbalance has lasted for some cycles.

It is the automatic rebalancing of the HA manager 5.2 of Proxmox VE, with its defaults.
It differs in three ways:

- A node without enough memory is infeasible.
- A guest whose usage is unknown is skipped, instead of preventing all migrations.
- An unmeasured node is left out, instead of preventing all migrations. With fewer than
  two measured nodes, nothing is migrated; but that does not count as balanced, so that
  the hold continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from opendrs.arrays import BestMove, MobilityFilter, SelectionState
from opendrs.metrics import ImbalanceMetric, LoadModel, node_loads
from opendrs.model import DEFAULT_LIMITS, Limits, Snapshot
from opendrs.planning import GroupMove, sequence_in_order
from opendrs.policies.balance_gates import gated
from opendrs.policies.base import MAX_IMBALANCE, Decision, DecisionReason, require_ratio
from opendrs.policies.load_metrics import (
    LoadByNode,
    SelectionMethod,
    best_move,
    explain_move,
    imbalance_text,
    load_imbalance,
    load_metrics,
)
from opendrs.policies.preconditions import (
    MeasuredPart,
    planning_notes,
    unmet_precondition,
    unplaceable_guests,
)
from opendrs.policies.tolerated_failures import keeps_tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRebalance:
    """Selection of the one move that reduces the imbalance most.

    Attributes:
        load_model: Load model: measured use, or the limits of the guests.
        method: Selection method.
        threshold: Imbalance above which a guest is migrated.
        hold: Consecutive cycles in which the imbalance must exceed the threshold; 0 and
            1 act at once.
        margin: Minimum improvement: fraction of the imbalance, in [0, 1].
        imbalance_metric: Imbalance in [0, 1], or the raw coefficient of variation.
        repair_first: True to repair violated strict rules before this policy decides.
        limits: Limits of the operator.

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
    repair_first: bool = True
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        require_ratio("margin", self.margin, 1.0)
        normalized = self.imbalance_metric is ImbalanceMetric.NORMALIZED_CV
        require_ratio("threshold", self.threshold, 1.0 if normalized else MAX_IMBALANCE)
        if self.hold < 0:
            raise ValueError(f"hold: expected at least 0 cycles, got {self.hold}")

    def initial_memory(self) -> int:
        """Return 0: the threshold was not exceeded yet."""
        return 0

    @keeps_tolerance
    @gated()
    def decide(self, snapshot: Snapshot, memory: int) -> Decision[int]:
        """Return the best move, if the hold is reached and the improvement suffices.

        Args:
            snapshot: Current state of the cluster.
            memory: Number of consecutive cycles above the threshold.
        """
        precondition = unmet_precondition(snapshot, self.load_model)
        if precondition is not None:
            return Decision(precondition[0], memory, detail=precondition[1])
        part = MeasuredPart.of(snapshot, self.load_model)
        return part.name_unmeasured(self._decide(part.snapshot, memory))

    def _decide(self, snapshot: Snapshot, memory: int) -> Decision[int]:
        """Return the decision on *snapshot*, of which all or nothing is measured."""
        loads = node_loads(snapshot, self.load_model)
        before = load_imbalance(loads, self.imbalance_metric)
        imbalance = imbalance_text(before, self.imbalance_metric)
        if before <= self.threshold:
            return self._keep(
                DecisionReason.BALANCED,
                0,
                loads,
                f"{imbalance} is not above the threshold {self.threshold:g}",
            )
        if memory + 1 < self.hold:
            return self._keep(
                DecisionReason.HOLD_NOT_REACHED,
                memory + 1,
                loads,
                f"{imbalance} has been above the threshold {self.threshold:g} for "
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
        state = SelectionState(snapshot, self.limits, mobility_filter)
        best = best_move(
            state,
            SelectionMethod.TOPSIS
            if self.method == "topsis"
            else SelectionMethod.EXHAUSTIVE,
            self.imbalance_metric,
        )
        notes = planning_notes(state)
        imbalance = imbalance_text(before, self.imbalance_metric)
        if best is None:
            detail = f"{imbalance} is above the threshold {self.threshold:g}"
            notes += unplaceable_guests(state)
            decision = self._keep(DecisionReason.NO_CANDIDATE, 0, loads, detail, notes)
            return replace(decision, skipped=state.move_groups.skipped)
        improvement = (before - best.imbalance) / before
        if improvement < self.margin:
            detail = (
                f"the best move would reduce {imbalance} by {improvement:.1%}, less "
                f"than the margin {self.margin:.0%}"
            )
            decision = self._keep(
                DecisionReason.IMPROVEMENT_TOO_SMALL, 0, loads, detail, notes
            )
            return replace(decision, skipped=state.move_groups.skipped)
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
        state: SelectionState,
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
            f"{imbalance_text(before, self.imbalance_metric)} → "
            f"{after['imbalance']:.3f}",
            load_metrics(loads, self.imbalance_metric),
            after,
            (*notes, *sequenced.notes),
            state.move_groups.skipped,
        )
