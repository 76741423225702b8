"""The policy `optimize`: search for the final placement of all guests.

The optimizer decides the node of each move group as a whole. Sequencing then orders the
migrations so that each step is safe. The plan states how far it is from a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from opendrs.arrays import MobilityFilter
from opendrs.metrics import LoadModel
from opendrs.model import DEFAULT_LIMITS, GIB, Limits, Snapshot
from opendrs.optimizer import IterationLimit, SearchKind
from opendrs.policies.base import (
    MAX_IMBALANCE,
    MAX_WEIGHT,
    Decision,
    DecisionReason,
    require_ratio,
)
from opendrs.policies.optimize.budget import KNEE, Budget
from opendrs.policies.optimize.contention import (
    ContentionThresholds,
    contention_thresholds,
    unmet_demand,
)
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.metrics import (
    IMBALANCE,
    ClusterMetrics,
    measure_cluster,
)
from opendrs.policies.optimize.movable_groups import MovableGroups, movable_groups
from opendrs.policies.optimize.objective import Goal, ObjectiveWeights, goal_weight
from opendrs.policies.optimize.run import OptimizeRun
from opendrs.policies.preconditions import cluster_notes, unmet_precondition
from opendrs.rules import CompiledRules, compile_rules

SEARCH_ROUNDS = 20  # portions in which the search runs
MIN_ITERATIONS = 20_000  # moves that are evaluated for the smallest clusters
MAX_ITERATIONS = 40_000_000  # and for the largest ones: about half a minute


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
        search: Search for large clusters: compiled; plain, which needs no compiled code
            and finds slightly worse plans; or auto, which is compiled where compiled
            code is available. A note states if it was plain.
        limits: Limits of the operator.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "optimize"
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
        Budget.parse(self.budget)

    def initial_memory(self) -> None:
        """Return None: decisions do not depend on earlier ones."""

    def decide(self, snapshot: Snapshot, memory: None) -> Decision[None]:
        """Return the plan with the largest benefit, and its lower bound."""
        del memory
        run = self.start_run(snapshot)
        if isinstance(run, Decision):
            return run
        iterations = min(
            MAX_ITERATIONS,
            max(MIN_ITERATIONS, self.iterations_per_group * run.search_size),
        )
        run.search(IterationLimit(iterations, SEARCH_ROUNDS))
        return run.decision()

    def start_run(self, snapshot: Snapshot) -> OptimizeRun | Decision[None]:
        """Return the run of a decision, or the decision if there is no work."""
        unmet = unmet_precondition(snapshot, self.load_model)
        if unmet is not None:
            return Decision(unmet[0], None, detail=unmet[1])
        demand = unmet_demand(snapshot, self.pressure_threshold)
        snapshot = demand.apply_to(snapshot)
        before = measure_cluster(
            snapshot,
            self.load_model,
            self.limits,
            contention_thresholds(
                snapshot, self.load_model, self.contention_threshold, demand
            ),
        )
        rules = compile_rules(snapshot)
        budget = Budget.parse(self.budget)
        mobility = MobilityFilter(
            load_model=self.load_model, allow_cold_migration=self.allow_cold_migration
        )
        groups = movable_groups(snapshot, rules, self.limits, mobility)
        groups = groups.within(budget.gib, budget.migrations)
        notes = (*demand.notes(), *cluster_notes(snapshot, rules, groups.skipped))
        idle = self._idle_reason(before, budget, groups)
        if idle is not None:
            reason, detail = idle
            figures = before.figures
            return Decision(
                reason,
                None,
                detail=detail,
                before=figures,
                after=figures,
                notes=notes,
                skipped=groups.skipped,
            )
        return OptimizeRun(self._context(snapshot, rules, groups, before, notes))

    def _idle_reason(
        self, before: ClusterMetrics, budget: Budget, groups: MovableGroups
    ) -> tuple[DecisionReason, str] | None:
        """Return the reason to search for nothing; None if there is something."""
        if self._is_satisfied(before):
            return DecisionReason.BALANCED, (
                f"{IMBALANCE} {before.imbalance:.3f} is not above the threshold "
                f"{self.threshold:g}, and no other goal can be improved"
            )
        if budget.is_zero:
            return (
                DecisionReason.MIGRATION_LIMIT_REACHED,
                f"a budget of {budget} allows no migration",
            )
        if not groups.groups:
            return DecisionReason.NO_CANDIDATE, "no guest may migrate"
        return None

    def _is_satisfied(self, before: ClusterMetrics) -> bool:
        goals = set(self.priorities)
        return not (
            Goal.CONSOLIDATION in goals
            or (Goal.REPAIR in goals and (before.violations or before.overfull_gib > 0))
            or (Goal.CONTENTION in goals and before.contention > 0)
            or (Goal.BALANCE in goals and before.imbalance > self.threshold)
        )

    def _context(
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        groups: MovableGroups,
        before: ClusterMetrics,
        notes: tuple[str, ...],
    ) -> OptimizeContext:
        encode = partial(
            EncodedCluster,
            snapshot,
            rules,
            groups.groups,
            self.limits,
            self.load_model,
        )
        cluster = encode()
        if self.tolerated_node_failures:
            memory = [*cluster.memory_by_node()]
            fill = max_memory_fill(memory, self.tolerated_node_failures)
            if fill is None:
                notes = (*notes, reserve_shortage(memory, self.tolerated_node_failures))
            else:
                cluster = encode(fill=fill)
        return OptimizeContext(
            snapshot=snapshot,
            rules=rules,
            groups=groups,
            cluster=cluster,
            before=before,
            priorities=self.priorities,
            weights=self._weights(cluster, before.thresholds),
            budget=Budget.parse(self.budget),
            min_improvement=self.min_improvement,
            limits=self.limits,
            load_model=self.load_model,
            seed=self.seed,
            search=self.search,
            notes=notes,
        )

    def _weights(
        self, cluster: EncodedCluster, thresholds: ContentionThresholds
    ) -> ObjectiveWeights:
        balance = goal_weight(Goal.BALANCE, self.priorities)
        unit_weight = balance if balance > 0 else 1.0
        return ObjectiveWeights(
            violation=goal_weight(Goal.REPAIR, self.priorities),
            contention=goal_weight(Goal.CONTENTION, self.priorities),
            cpu_balance=balance * self.cpu_weight,
            memory_balance=balance * self.memory_weight,
            used_node=goal_weight(Goal.CONSOLIDATION, self.priorities),
            soft_rule=unit_weight * self.soft_rule_penalty,
            thresholds=thresholds,
            gib=unit_weight * self.migration_cost_weight / cluster.mean_memory,
        )


def max_memory_fill(
    loads: Sequence[tuple[float, float]], failures: int
) -> float | None:
    """Return the fraction to which nodes may be filled to tolerate *failures*.

    Args:
        loads: Memory capacity and usage of each node, in bytes.
        failures: Number of nodes that may fail at once.

    Returns:
        Fraction of the capacity; None if the usage exceeds the remaining memory
        already.
    """
    if failures == 0:
        return 1.0
    capacity = sorted((each for each, _ in loads), reverse=True)
    total = sum(capacity)
    left = sum(capacity[failures:])
    if total <= 0 or sum(used for _, used in loads) > left:
        return None
    return left / total


def reserve_shortage(loads: Sequence[tuple[float, float]], failures: int) -> str:
    """Return a note that *failures* nodes cannot be tolerated.

    The arguments are those of `max_memory_fill`.
    """
    capacity = sorted((each for each, _ in loads), reverse=True)
    used = sum(used for _, used in loads) / GIB
    left = sum(capacity[failures:]) / GIB
    return (
        f"not enough memory for the failure of {failures} of {len(capacity)} nodes: "
        f"{used:.1f} GiB in use, {left:.1f} GiB on the remaining nodes"
    )
