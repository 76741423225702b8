"""The policy `repair`: repair violated strict rules with the fewest migrations.

It is `optimize` with another objective: violations first, then the number of
migrations, then the balance and the transfer as a choice among equals. Guests on nodes
in maintenance violate the rule that drains these nodes. Memory above what a node may
hold is no violated rule; no plan adds to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from opendrs.arrays import MobilityFilter
from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Limits,
    Snapshot,
    format_count,
    format_memory,
)
from opendrs.optimizer import (
    Objective,
    Problem,
    ScaledIterationLimit,
    SearchKind,
    StoppingCriterion,
    select_search,
)
from opendrs.policies.base import Decision, DecisionReason
from opendrs.policies.optimize.budget import UNLIMITED, Budget
from opendrs.policies.optimize.candidate import CandidatePlan
from opendrs.policies.optimize.contention import (
    ContentionThresholds,
    contention_thresholds,
    unmet_demand,
)
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.domain_choice import best_choice
from opendrs.policies.optimize.encoding import (
    EncodedCluster,
    safe_divide,
)
from opendrs.policies.optimize.explanations import violation_notes
from opendrs.policies.optimize.metrics import (
    ClusterMetrics,
    describe_repair,
    measure_cluster,
)
from opendrs.policies.optimize.movable_groups import movable_groups
from opendrs.policies.optimize.objective import Goal, encode_problem, repair_objective
from opendrs.policies.optimize.policy import SEARCH_ROUNDS
from opendrs.policies.preconditions import (
    MeasuredPart,
    cluster_notes,
    unmet_precondition,
)
from opendrs.policies.restored_tolerance import restore_tolerance
from opendrs.policies.tolerated_failures import keeps_tolerance
from opendrs.rules import (
    compile_rules,
    violations,
    with_drain_rule,
    without_undo_rules,
)

ITERATIONS_PER_GROUP = 100  # moves that are evaluated per move group
MIN_ITERATIONS = 500_000  # and at least
MAX_ITERATIONS = 4_000_000  # and at most: some seconds
NO_STALLS = 1.0  # fraction of time stalled that no guest exceeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """Policy that repairs violated strict rules with the fewest migrations.

    Attributes:
        load_model: Load that counts: measured usage (dynamic) or the limits of guests
            (static).
        budget: Most that a plan may transfer: unlimited, or amounts such as "500 GiB",
            "40 migrations" or "30 min". If not all rules can be repaired within it,
            as many as possible are.
        allow_cold_migration: True if containers may be stopped, moved and started.
        limits: Limits of the operator.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "repair"
    repair_first: ClassVar[bool] = False
    load_model: LoadModel = LoadModel.DYNAMIC
    budget: str = UNLIMITED
    allow_cold_migration: bool = False
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        if Budget.parse(self.budget).knee:
            raise ValueError(
                "budget: expected unlimited, or amounts such as 500 GiB, got "
                f"{self.budget!r}; repairs have no knee"
            )

    def initial_memory(self) -> None:
        """Return None: decisions do not depend on earlier ones."""

    @keeps_tolerance
    def decide(self, snapshot: Snapshot, memory: None) -> Decision[None]:
        """Return the plan that repairs most violations, with the fewest migrations.

        If there is none, failures are made tolerated again. For both, a guest may
        return to a node that it left recently. Guests whose migrations failed are
        migrated for rules only.
        """
        del memory
        decision = self._repair(without_undo_rules(snapshot))
        snapshot = without_undo_rules(snapshot, keeps_held=True)
        if decision.plan.steps or unmet_precondition(snapshot, self.load_model):
            return decision
        budget = Budget.parse(self.budget)
        restored = restore_tolerance(
            MeasuredPart.of(snapshot, self.load_model).snapshot,
            self.limits,
            self._mobility,
            migrations=budget.migrations,
            gib=budget.gib,
        )
        if restored is None:
            return decision
        return replace(
            decision,
            reason=restored.reason,
            plan=restored.plan,
            detail=restored.detail,
            notes=(*decision.notes, *restored.notes),
        )

    @property
    def _mobility(self) -> MobilityFilter:
        return MobilityFilter(
            load_model=self.load_model, allow_cold_migration=self.allow_cold_migration
        )

    def _repair(self, snapshot: Snapshot) -> Decision[None]:
        """Return the plan that repairs most violations in *snapshot*."""
        unmet = unmet_precondition(snapshot, self.load_model)
        part = MeasuredPart.of(snapshot, self.load_model)
        if not any(each.strict for each in violations(snapshot)):
            figures = {} if unmet else self._measure(part.snapshot).figures
            holds = Decision(
                DecisionReason.RULES_HOLD,
                None,
                detail="no strict rule is violated",
                before=figures,
                after=figures,
            )
            return holds if unmet else part.name_unmeasured(holds)
        if unmet is not None:
            return Decision(unmet[0], None, detail=unmet[1])
        return part.name_unmeasured(self._decide(part.snapshot))

    def _decide(self, snapshot: Snapshot) -> Decision[None]:
        """Return the plan for *snapshot*, in which rules are violated."""

        def prepare(snapshot: Snapshot) -> OptimizeContext:
            return self._context(with_drain_rule(snapshot))

        context = prepare(snapshot)
        if context.budget.is_zero:
            return _empty_decision(
                context,
                DecisionReason.MIGRATION_LIMIT_REACHED,
                f"a budget of {context.budget} allows no migration",
            )
        repairs = context.repairs
        if repairs.small is None and not any(
            repairs.may_improve(each)
            for each in violations(context.snapshot)
            if each.strict
        ):
            return _empty_decision(context, DecisionReason.NO_CANDIDATE, _none(context))
        stop = _stopping_criterion()
        plan = best_choice(context, snapshot, prepare, stop, fewest_migrations=True)
        return _repair_decision(plan)

    def _measure(self, snapshot: Snapshot) -> ClusterMetrics:
        thresholds = contention_thresholds(
            snapshot, self.load_model, 1.0, unmet_demand(snapshot, NO_STALLS)
        )
        return measure_cluster(snapshot, self.load_model, self.limits, thresholds)

    def _context(self, snapshot: Snapshot) -> OptimizeContext:
        rules = compile_rules(snapshot)
        budget = Budget.parse(self.budget)
        groups = movable_groups(
            snapshot, rules, self.limits, self._mobility, fewest_migrations=True
        ).within(budget.gib, budget.migrations)
        cluster = EncodedCluster(
            snapshot, rules, groups.groups, self.limits, self.load_model
        )
        objective = repair_objective(cluster.mean_memory)
        before = self._measure(snapshot)
        thresholds = before.thresholds
        encode = partial(_encode, objective=objective, thresholds=thresholds)
        problem = encode(cluster, budget)
        return OptimizeContext(
            snapshot=snapshot,
            rules=rules,
            groups=groups,
            cluster=cluster,
            before=before,
            priorities=(Goal.REPAIR,),
            objective=objective,
            encode=encode,
            problem=problem,
            budget=budget,
            min_improvement=0.0,
            limits=self.limits,
            load_model=self.load_model,
            seed=0,
            search=select_search(SearchKind.AUTO, problem),
            notes=cluster_notes(snapshot, rules, self.limits, groups.skipped),
        )


def _encode(
    cluster: EncodedCluster,
    budget: Budget,
    *,
    objective: Objective,
    thresholds: ContentionThresholds,
) -> Problem:
    """Return the problem, in which no plan adds memory above what nodes may hold.

    Gathering a move group at its home is no move of the problem, so that the capacity
    does not prevent it. Memory above both the capacity and the present load therefore
    costs as much as a violation.
    """
    problem = encode_problem(
        cluster, budget, objective=objective, thresholds=thresholds
    )
    present = cluster.load_in(cluster.snapshot)
    mean = cluster.balanced_load * cluster.mean_capacity
    price = objective.weight("violation") * safe_divide(np.ones_like(mean), mean)
    price *= cluster.limited_resources
    return replace(
        problem,
        safety_capacity=np.maximum(cluster.capacity, present),
        excess_weight=np.tile(price, (len(cluster.node_ids), 1)),
    )


def _stopping_criterion() -> StoppingCriterion:
    return ScaledIterationLimit(
        per_group=ITERATIONS_PER_GROUP,
        least=MIN_ITERATIONS,
        most=MAX_ITERATIONS,
        count=SEARCH_ROUNDS,
    )


def _repair_decision(candidate: CandidatePlan) -> Decision[None]:
    """Return the decision for *candidate*; its plan is empty unless it repairs."""
    context = candidate.context
    before, after = context.before, candidate.after
    if after.violations >= before.violations or not candidate.sequenced.plan.steps:
        return _empty_decision(context, DecisionReason.NO_CANDIDATE, _none(context))
    count = format_count(candidate.migrations, "migration")
    return Decision(
        DecisionReason.REPAIRS_RULES,
        None,
        candidate.sequenced.plan,
        f"{describe_repair(before, after)}; {count}, "
        f"{format_memory(candidate.gib * GIB)}",
        before.figures,
        after.figures,
        (
            *context.notes,
            *candidate.sequenced.notes,
            *violation_notes(context, candidate.snapshot),
        ),
        context.groups.skipped,
    )


def _none(context: OptimizeContext) -> str:
    before = context.before
    remaining = [f"violated: {before.violated}"] if before.violated.rules else []
    if before.to_drain:
        remaining.append(f"guests to drain: {before.to_drain}")
    return "; ".join(("no plan repairs a strict rule", *remaining))


def _empty_decision(
    context: OptimizeContext, reason: DecisionReason, detail: str
) -> Decision[None]:
    figures = context.before.figures
    return Decision(
        reason,
        None,
        detail=detail,
        before=figures,
        after=figures,
        notes=(*context.notes, *violation_notes(context, context.snapshot)),
        skipped=context.groups.skipped,
    )
