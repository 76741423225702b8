"""Policy that migrates guests until the cluster is balanced.

It uses the metric and the selection of `auto-rebalance`, repeatedly, each time on the
result of the previous moves. With one migration per decision, a cluster of a hundred
nodes takes hours to converge. This policy plans all migrations at once. The operator
sees all of them, and independent steps run in parallel.

Two defaults differ, so that they mean the same for three nodes and for a thousand. The
imbalance is the raw coefficient of variation, which does not shrink with the number of
nodes. The minimum improvement is divided among the nodes, since a migration changes
only two of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from opendrs.arrays import BestMove, MobilityFilter, SelectionState
from opendrs.metrics import ImbalanceMetric, LoadModel, NodeLoad, node_loads
from opendrs.model import (
    DEFAULT_LIMITS,
    GuestId,
    Limits,
    NodeId,
    Seconds,
    Snapshot,
    format_count,
    format_list,
)
from opendrs.planning import GroupMove, group_migration_costs, sequence_in_order
from opendrs.policies.balance_gates import gated
from opendrs.policies.base import MAX_IMBALANCE, Decision, DecisionReason, require_ratio
from opendrs.policies.forecast import ExpectedLoad, HorizonBounds, require_horizon
from opendrs.policies.load_metrics import (
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
from opendrs.rules import balanced_loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Selection of the best moves one after another, while they improve enough.

    Attributes:
        load_model: Load model: measured use, or the limits of the guests.
        method: Selection method.
        threshold: Imbalance above which guests are migrated.
        min_improvement: Least fraction of the imbalance, in [0, 1], that a move must
            remove with two nodes; with n nodes, 2/n of it.
        max_migrations: Most guests that are migrated.
        allow_cold_migration: Whether containers may be stopped, moved and started.
        imbalance_metric: Imbalance in [0, 1], or the raw coefficient of variation.
        forecast_horizon: Time over which the expected load of guests counts instead of
            the measured one, at most 24 h; 0 for the measured load.
        repair_first: True to repair violated strict rules before this policy decides.
        limits: Limits of the operator.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "balance"
    load_model: LoadModel = LoadModel.DYNAMIC
    method: SelectionMethod = SelectionMethod.EXHAUSTIVE
    threshold: float = 0.1
    min_improvement: float = 0.1
    max_migrations: int = 100
    allow_cold_migration: bool = False
    imbalance_metric: ImbalanceMetric = ImbalanceMetric.CV
    forecast_horizon: Seconds = 0.0
    repair_first: bool = True
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        require_ratio("min_improvement", self.min_improvement, 1.0)
        normalized = self.imbalance_metric is ImbalanceMetric.NORMALIZED_CV
        require_ratio("threshold", self.threshold, 1.0 if normalized else MAX_IMBALANCE)
        require_horizon(self.forecast_horizon, self.load_model)
        if self.max_migrations < 0:
            raise ValueError(
                f"max_migrations: expected at least 0, got {self.max_migrations}"
            )

    def initial_memory(self) -> None:
        """Return None: decisions are independent of each other."""

    @keeps_tolerance
    @gated()
    def decide(self, snapshot: Snapshot, memory: None) -> Decision[None]:
        """Return the moves that improve the balance, and why there are no more."""
        precondition = unmet_precondition(snapshot, self.load_model)
        if precondition is not None:
            return Decision(precondition[0], memory, detail=precondition[1])
        part = MeasuredPart.of(snapshot, self.load_model)
        expected = ExpectedLoad.of(part.snapshot, self.forecast_horizon)
        bounds = HorizonBounds(expected.snapshot) if expected.forecast else None
        decision = self._decide(expected.snapshot, bounds)
        if expected.forecast and not decision.plan.steps:
            present = self._decide(part.snapshot, None)
            if present.plan.steps:
                moves = format_count(len(present.plan.steps), "migration")
                now = f"{present.detail} with {moves} for the load now"
                decision = expected.delayed(decision, now)
        decision = replace(decision, notes=(*expected.notes(), *decision.notes))
        return part.name_unmeasured(decision)

    def _decide(
        self, snapshot: Snapshot, bounds: HorizonBounds | None
    ) -> Decision[None]:
        """Return the decision on *snapshot*, of which all or nothing is measured.

        Args:
            snapshot: The cluster.
            bounds: Bounds of the loads that are expected; None without a forecast.
        """
        before = load_metrics(self._loads(snapshot), self.imbalance_metric)
        if before["imbalance"] <= self.threshold:
            detail = (
                f"{imbalance_text(before['imbalance'], self.imbalance_metric)} is not "
                f"above the threshold {self.threshold:g}"
            )
            return Decision(
                DecisionReason.BALANCED,
                None,
                detail=detail,
                before=before,
                after=before,
            )
        return self._balance(snapshot, before, bounds)

    def _loads(self, snapshot: Snapshot) -> dict[NodeId, NodeLoad]:
        """Return the load of each node, with the further loads that are balanced."""
        further = balanced_loads(snapshot, self.limits)
        return node_loads(snapshot, self.load_model, further)

    def _balance(
        self,
        snapshot: Snapshot,
        before: Mapping[str, float],
        bounds: HorizonBounds | None,
    ) -> Decision[None]:
        """Return the moves for *snapshot*, whose metrics are *before*."""
        state = SelectionState(
            snapshot,
            self.limits,
            MobilityFilter(
                load_model=self.load_model,
                allow_cold_migration=self.allow_cold_migration,
            ),
            balanced_loads(snapshot, self.limits),
        )
        notes = planning_notes(state)
        vetoes = Vetoes(state, bounds)
        moves, reason, detail = self._select_moves(state, vetoes)
        notes += vetoes.notes()
        if not moves and reason is DecisionReason.NO_CANDIDATE:
            notes += unplaceable_guests(state)
        sequenced = sequence_in_order(moves, snapshot, state.rules, self.limits)
        loads = self._loads(snapshot.apply(*sequenced.actions))
        after = load_metrics(loads, self.imbalance_metric)
        migrated = bool(sequenced.ordered_moves)
        change = imbalance_text(before["imbalance"], self.imbalance_metric)
        if migrated:
            change += f" → {after['imbalance']:.3f}"
        return Decision(
            DecisionReason.IMPROVES_BALANCE if migrated else reason,
            None,
            sequenced.plan,
            f"{change}; {detail}",
            before,
            after,
            (*notes, *sequenced.notes),
            state.move_groups.skipped,
        )

    def _select_moves(
        self, state: SelectionState, vetoes: Vetoes
    ) -> tuple[list[GroupMove], DecisionReason, str]:
        """Apply moves to *state*; return them, and why there are no more."""
        moves: list[GroupMove] = []
        cost = group_migration_costs(state.cluster)
        left = self.max_migrations
        min_improvement = self.min_improvement * min(1.0, 2 / max(1, len(state.nodes)))
        while True:
            before = load_imbalance(state.current_loads(), self.imbalance_metric)
            if before <= self.threshold:
                return (
                    moves,
                    DecisionReason.BALANCED,
                    f"after the plan, it is at most the threshold {self.threshold:g}",
                )
            best = best_move(state, self.method, self.imbalance_metric, cost)
            if best is None:
                above = f"above the threshold {self.threshold:g}"
                detail = "no further feasible move" if moves else above
                return moves, DecisionReason.NO_CANDIDATE, detail
            improvement = (before - best.imbalance) / before
            if improvement <= 0 or improvement < min_improvement:
                detail = (
                    f"the next move would reduce it by only {max(improvement, 0):.1%}"
                )
                return moves, DecisionReason.IMPROVEMENT_TOO_SMALL, detail
            if vetoes.applies(best):
                continue
            group = state.group(best)
            if len(group) > left:
                limit = format_count(self.max_migrations, "migration")
                detail = f"the limit of {limit} is reached"
                return moves, DecisionReason.MIGRATION_LIMIT_REACHED, detail
            left -= len(group)
            explanation = explain_move(
                state, best, before, self.load_model, self.imbalance_metric
            )
            moves.append(GroupMove(group, state.target(best), explanation))
            vetoes.count(best)
            state.apply(best)


class Vetoes:
    """Targets that are avoided because the forecast objects.

    Args:
        state: State in which moves are selected.
        bounds: Bounds of the loads that are expected; None without a forecast.
    """

    def __init__(self, state: SelectionState, bounds: HorizonBounds | None) -> None:
        self._state, self._bounds = state, bounds
        self._notes: list[str] = []

    def applies(self, best: BestMove) -> bool:
        """Return True if the forecast objects to *best*; close its target then."""
        if self._bounds is None:
            return False
        group, target = self._state.group(best), self._state.target(best)
        objection = self._bounds.objection(group, group[0].node, target)
        if objection is None:
            return False
        names: list[GuestId] = [guest.id for guest in group]
        self._notes.append(f"forecast: {format_list(names)} not moved: {objection}")
        self._state.close_target(best.target)
        return True

    def count(self, best: BestMove) -> None:
        """Count the move *best*, which is part of the plan."""
        if self._bounds is not None:
            group, target = self._state.group(best), self._state.target(best)
            self._bounds.move(group, group[0].node, target)

    def notes(self) -> tuple[str, ...]:
        """Return a note for each move that was avoided."""
        return tuple(self._notes)
