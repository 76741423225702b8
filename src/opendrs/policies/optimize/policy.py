"""The policy `optimize`: search for the final placement of all guests.

The optimizer decides the node of each move group as a whole. Sequencing then orders the
migrations so that each step is safe. The plan states how far it is from a lower bound.

Source:
    Lourenço, Martin and Stützle, Iterated local search (2003): small clusters.
    Kirkpatrick, Gelatt and Vecchi, Optimization by simulated annealing, Science 220
    (1983): large clusters. `opendrs.optimizer.solve` names the other methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from opendrs.arrays import MobilityFilter
from opendrs.metrics import LoadModel, node_loads
from opendrs.model import DEFAULT_LIMITS, Limits, Seconds, Snapshot
from opendrs.optimizer import (
    Objective,
    ScaledIterationLimit,
    SearchKind,
    StoppingCriterion,
    select_search,
)
from opendrs.policies.balance_gates import closed_gates
from opendrs.policies.base import (
    MAX_IMBALANCE,
    MAX_WEIGHT,
    Decision,
    DecisionReason,
    require_ratio,
)
from opendrs.policies.forecast import ExpectedLoad, require_horizon
from opendrs.policies.optimize.budget import KNEE, Budget
from opendrs.policies.optimize.contention import (
    ContentionThresholds,
    contention_thresholds,
    unmet_demand,
)
from opendrs.policies.optimize.context import OptimizeContext, memory_fill
from opendrs.policies.optimize.decision import (
    explain_decision,
    idle_decision,
    idle_reason,
    open_goals,
)
from opendrs.policies.optimize.domain_choice import best_choice
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.metrics import ClusterMetrics, measure_cluster
from opendrs.policies.optimize.movable_groups import (
    EncodedGroup,
    MovableGroups,
    departing_groups,
    movable_groups,
    movable_units,
)
from opendrs.policies.optimize.objective import Goal, encode_problem, plan_objective
from opendrs.policies.optimize.soft_rule_plan import soft_rule_decision
from opendrs.policies.optimize.soft_rules import SoftRules, has_soft_rules
from opendrs.policies.preconditions import (
    MeasuredPart,
    cluster_notes,
    unmet_precondition,
)
from opendrs.policies.restored_tolerance import restore_tolerance
from opendrs.policies.tolerated_failures import keeps_tolerance
from opendrs.rules import (
    CompiledRules,
    balanced_loads,
    compile_rules,
    violations,
    with_drain_rule,
)

SEARCH_ROUNDS = 20  # portions in which the search runs
MIN_ITERATIONS = 500_000  # moves that are evaluated for the smallest clusters
MAX_ITERATIONS = 40_000_000  # and for the largest ones: about half a minute
PLAIN_NOTE = "search: plain"
NOT_COMPILED_NOTE = (
    f"{PLAIN_NOTE}: compiled code not found; run opendrs compile once for better plans"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """Policy that searches for the best final placement within a budget.

    Attributes:
        load_model: Load that counts: measured usage (dynamic) or the limits of guests
            (static).
        priorities: Goals, the most important first: repair, contention, balance,
            consolidation.
        budget: Most that a plan may transfer: knee (as long as a further GiB gains
            enough), unlimited, or amounts such as "500 GiB", "40 migrations" or "30
            min".
        cpu_weight: Weight of the balance of CPU load.
        memory_weight: Weight of the balance of memory load.
        migration_cost_weight: Cost of transferring the memory of a whole node; 1 is the
            cost of a node with twice the balanced load. The larger, the fewer
            migrations with little gain.
        soft_rule_penalty: Cost of a guest that violates a soft rule, on the same scale.
        contention_threshold: Fraction of the cores of a node above which demand counts
            as unmet.
        pressure_threshold: Fraction of the time, in [0, 1], that a guest may be stalled
            for CPU or memory (PSI) before that counts as contention.
        threshold: Imbalance up to which no migration is made for balance alone.
        min_improvement: Least fraction of the imbalance, in [0, 1], that a plan must
            remove.
        tolerated_node_failures: Number of nodes whose guests must fit in the memory of
            the others.
        allow_cold_migration: True if containers may be stopped, moved and started.
        iterations_per_group: Moves evaluated per move group, at most 40 million in
            total. If a budget of migrations binds, other numbers of groups count.
        seed: Seed of the random numbers.
        forecast_horizon: Time over which the expected load of guests counts instead of
            the measured one, at most 24 h; 0 for the measured load.
        search: Search for large clusters: compiled; plain, which needs no compiled code
            and finds slightly worse plans; or auto, which is compiled where compiled
            code is available. A note states if it was plain.
        limits: Limits of the operator.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "optimize"
    repair_first: ClassVar[bool] = False  # its goal `repair` does that
    load_model: LoadModel = LoadModel.DYNAMIC
    priorities: tuple[Goal, ...] = (Goal.REPAIR, Goal.CONTENTION, Goal.BALANCE)
    budget: str = KNEE
    cpu_weight: float = 1.0
    memory_weight: float = 1.0
    migration_cost_weight: float = 0.01
    soft_rule_penalty: float = 0.1
    contention_threshold: float = 0.85
    pressure_threshold: float = 0.2
    threshold: float = 0.05
    min_improvement: float = 0.1
    tolerated_node_failures: int = 0
    allow_cold_migration: bool = False
    iterations_per_group: int = 1000
    seed: int = 0
    forecast_horizon: Seconds = 0.0
    search: SearchKind = SearchKind.AUTO
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in (
            "cpu_weight",
            "memory_weight",
            "migration_cost_weight",
            "soft_rule_penalty",
        ):
            require_ratio(name, getattr(self, name), MAX_WEIGHT)
        for name in ("min_improvement", "pressure_threshold", "contention_threshold"):
            require_ratio(name, getattr(self, name), 1.0)
        require_ratio("threshold", self.threshold, MAX_IMBALANCE)
        for name in ("tolerated_node_failures", "iterations_per_group", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"{name}: expected at least 0, got {getattr(self, name)}"
                )
        if not self.priorities:
            raise ValueError(
                f"priorities: expected at least one of {', '.join(Goal)}, got none"
            )
        if len(set(self.priorities)) < len(self.priorities):
            raise ValueError(
                f"priorities: expected each goal once, got {', '.join(self.priorities)}"
            )
        if (
            Goal.BALANCE in self.priorities
            and not self.cpu_weight + self.memory_weight > 0
        ):
            raise ValueError(
                "cpu_weight, memory_weight: expected one above 0 for the goal balance, "
                "got 0 and 0"
            )
        require_horizon(self.forecast_horizon, self.load_model)
        Budget.parse(self.budget)

    def initial_memory(self) -> None:
        """Return None: decisions do not depend on earlier ones."""

    def decide(self, snapshot: Snapshot, memory: None) -> Decision[None]:
        """Return the plan with the largest benefit, and its lower bound."""
        del memory
        return self.decide_until(snapshot, self._iterations(MAX_ITERATIONS))

    def _iterations(self, most: int) -> ScaledIterationLimit:
        """Return the limit of a search that evaluates at most *most* moves."""
        return ScaledIterationLimit(
            per_group=self.iterations_per_group,
            least=MIN_ITERATIONS,
            most=most,
            count=SEARCH_ROUNDS,
        )

    @keeps_tolerance
    def decide_until(
        self, snapshot: Snapshot, stop: StoppingCriterion
    ) -> Decision[None]:
        """Return the decision of a search that *stop* ends."""
        unmet = unmet_precondition(snapshot, self.load_model)
        if unmet is not None:
            return Decision(unmet[0], None, detail=unmet[1])
        part = MeasuredPart.of(snapshot, self.load_model)
        repairs = self.limits.tolerates_failures and any(
            each.strict for each in violations(with_drain_rule(part.snapshot))
        )
        restored = None if repairs else self._restored(part.snapshot)
        if restored is not None:
            return part.name_unmeasured(restored)
        gate = closed_gates(part.snapshot, self.limits, self.load_model)
        expected = ExpectedLoad.of(part.snapshot, self.forecast_horizon)
        decision = self._search(expected, gate, stop)
        if repairs and not decision.plan.steps:
            restored = self._restored(part.snapshot)
        if restored is None and expected.forecast and not decision.plan.steps:
            short = self._iterations(MIN_ITERATIONS)
            present = self._search(ExpectedLoad.of(part.snapshot, 0.0), gate, short)
            if present.plan.steps:
                now = f"{present.detail} for the load now"
                decision = expected.delayed(decision, now)
        return part.name_unmeasured(restored or decision)

    def _search(
        self, expected: ExpectedLoad, gate: str | None, stop: StoppingCriterion
    ) -> Decision[None]:
        """Return the decision on *expected*, with the parameters of `_prepare`."""
        prepare = partial(self._prepare, expected=expected, gate=gate)
        prepared = prepare(expected.snapshot)
        if isinstance(prepared, Decision):
            return prepared
        decision = prepared.idle or explain_decision(
            best_choice(prepared, expected.snapshot, prepare, stop)
        )
        if decision.plan.steps or Goal.BALANCE not in self.priorities:
            return decision
        if prepared.priorities != self.priorities:  # soft rules are not gated
            known = prepared.cluster, prepared.groups, prepared.before
            prepared = self._context(*known, self.priorities, prepared.notes)
        return soft_rule_decision(prepared, stop) or decision

    def _restored(self, snapshot: Snapshot) -> Decision[None] | None:
        """Return the plan that makes failures tolerated, or None if none is needed."""
        if Goal.REPAIR not in self.priorities or not self.limits.tolerates_failures:
            return None
        mobility = MobilityFilter(
            load_model=self.load_model, allow_cold_migration=self.allow_cold_migration
        )
        budget = Budget.parse(self.budget)
        return restore_tolerance(
            snapshot,
            self.limits,
            mobility,
            migrations=budget.migrations,
            gib=budget.gib,
        )

    def _prepare(
        self, snapshot: Snapshot, expected: ExpectedLoad, gate: str | None
    ) -> OptimizeContext | Decision[None]:
        """Return the context of the search, or the decision if there is no work.

        Args:
            snapshot: Cluster with the load that counts, with chosen domains.
            expected: The same cluster.
            gate: Why no guest is migrated for balance; None if one may be.
        """
        goals = open_goals(self.priorities, gate)
        if Goal.REPAIR in goals:
            snapshot = with_drain_rule(snapshot)
        demand = unmet_demand(snapshot, self.pressure_threshold)
        snapshot = demand.apply_to(snapshot)
        fill, shortages = memory_fill(
            snapshot, self.load_model, self.tolerated_node_failures
        )
        thresholds = contention_thresholds(
            snapshot, self.load_model, self.contention_threshold, demand
        ).with_margins(snapshot, expected.cpu_margins())
        rules = compile_rules(snapshot)
        groups = self._movable_groups(snapshot, rules)
        nodes = node_loads(snapshot, self.load_model)
        departing = departing_groups(snapshot, groups, nodes)
        before = self._measure(snapshot, thresholds, fill, departing)
        notes = (
            *expected.notes(),
            *demand.notes(),
            *cluster_notes(snapshot, rules, self.limits, groups.skipped),
            *shortages,
            *self._gate_notes(gate),
        )
        idle = idle_reason(
            before, self.priorities, self.threshold, gate, Budget.parse(self.budget)
        )
        decision = idle and idle_decision(idle, before, groups, notes)
        if not (groups.groups or any(movable_units(snapshot, groups, nodes))):
            none = DecisionReason.NO_CANDIDATE, "no guest may migrate"
            return decision or idle_decision(none, before, groups, notes)
        if decision and not has_soft_rules(rules):
            return decision
        cluster = EncodedCluster(
            snapshot, rules, departing, self.limits, self.load_model, fill=fill
        ).with_groups(groups.groups)
        context = self._context(cluster, groups, before, goals, notes)
        return replace(context, idle=decision)

    def _measure(
        self,
        snapshot: Snapshot,
        thresholds: ContentionThresholds,
        fill: float,
        departing: Sequence[EncodedGroup],
    ) -> ClusterMetrics:
        """Return the metrics of *snapshot*."""
        further, model = balanced_loads(snapshot, self.limits), self.load_model
        weights = self.cpu_weight, self.memory_weight, *(x.weight for x in further)
        guests = [guest for each in departing for guest in each.guests]
        return measure_cluster(
            snapshot, model, self.limits, thresholds, weights, fill, departing=guests
        )

    def _movable_groups(
        self, snapshot: Snapshot, rules: CompiledRules
    ) -> MovableGroups:
        budget = Budget.parse(self.budget)
        mobility = MobilityFilter(
            load_model=self.load_model, allow_cold_migration=self.allow_cold_migration
        )
        groups = movable_groups(snapshot, rules, self.limits, mobility)
        return groups.within(budget.gib, budget.migrations)

    def _gate_notes(self, gate: str | None) -> tuple[str, ...]:
        closed = open_goals(self.priorities, gate) != self.priorities
        return (f"no migration for balance: {gate}",) if closed else ()

    def _context(
        self,
        cluster: EncodedCluster,
        groups: MovableGroups,
        before: ClusterMetrics,
        goals: tuple[Goal, ...],
        notes: tuple[str, ...],
    ) -> OptimizeContext:
        objective = self._objective(cluster, goals, before)
        budget = Budget.parse(self.budget)
        encode = partial(
            encode_problem, objective=objective, thresholds=before.thresholds
        )
        problem = encode(cluster, budget)
        search = select_search(self.search, problem)
        if search is SearchKind.PLAIN:
            is_chosen = self.search is SearchKind.PLAIN
            notes = (*notes, PLAIN_NOTE if is_chosen else NOT_COMPILED_NOTE)
        return OptimizeContext(
            snapshot=cluster.snapshot,
            rules=cluster.rules,
            groups=groups,
            cluster=cluster,
            before=before,
            priorities=goals,
            objective=objective,
            encode=encode,
            problem=problem,
            budget=budget,
            min_improvement=self.min_improvement,
            limits=self.limits,
            load_model=self.load_model,
            seed=self.seed,
            search=search,
            notes=tuple(dict.fromkeys(notes)),
            soft_rules=SoftRules(cluster, groups, before.thresholds)
            if has_soft_rules(cluster.rules)
            else None,
        )

    def _objective(
        self, cluster: EncodedCluster, goals: tuple[Goal, ...], before: ClusterMetrics
    ) -> Objective:
        further = balanced_loads(cluster.snapshot, self.limits)
        load_weights = {each.name: each.weight for each in further}
        gated = None
        if goals != self.priorities:
            weight = self.cpu_weight + self.memory_weight + sum(load_weights.values())
            gated = len(cluster.node_ids) * weight * before.imbalance**2
        return plan_objective(
            goals,
            cpu_weight=self.cpu_weight,
            memory_weight=self.memory_weight,
            load_weights=load_weights,
            soft_rule_penalty=self.soft_rule_penalty,
            migration_cost_weight=self.migration_cost_weight,
            mean_memory=cluster.mean_memory,
            gated_balance=gated,
        )
