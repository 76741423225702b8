"""The few migrations that bring most, at any size, with how near to the best they are.

The plan is searched for as a whole: which guests go where in the end, whatever lies in
between. Only then is the order made in which the steps are safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from opendrs.arrays import MobilityFilter
from opendrs.metrics import LoadModel
from opendrs.model import DEFAULT_LIMITS, GIB, Limits, Snapshot
from opendrs.optimizer import SearchKind
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
from opendrs.policies.optimize.metrics import ClusterMetrics, measure_cluster
from opendrs.policies.optimize.movable_groups import MovableGroups, movable_groups
from opendrs.policies.optimize.objective import Goal, ObjectiveWeights, goal_weight
from opendrs.policies.optimize.run import OptimizeRun
from opendrs.policies.preconditions import cluster_notes, unmet_precondition
from opendrs.rules import CompiledRules, compile_rules

SEARCH_ROUNDS = 20  # in which the work is done
MIN_ITERATIONS = 20_000  # moves that are looked at for the smallest of clusters
MAX_ITERATIONS = 40_000_000  # and for the largest: some half a minute's


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """Make the moves that together bring most for what they cost.

    Attributes:
        load_model: What counts as load: measured use, or the guests' limits.
        priorities: What the plan is for, what matters most first: repair, contention,
            evenness, packing.
        budget: How much may be moved: knee (as far as it brings much), unlimited, or
            amounts such as "500 GiB", "40 migrations" or "30 min".
        cpu_weight: What the evenness of processor load counts.
        memory_weight: What the evenness of memory counts.
        migration_cost_weight: What moving the memory of a whole node costs, where 1 is a node with
            twice the even load: the larger, the less is moved for little.
        soft_rule_penalty: What a guest that breaks a soft rule costs, in the same measure.
        contention_threshold: The part of a node's cores above which guests are taken to wait.
        pressure_threshold: The part of the time, in [0, 1], that a guest may wait for cpu or for
            memory (PSI) before it is contention.
        threshold: The unevenness up to which nothing is done for evenness alone.
        min_improvement: Least part of the unevenness, in [0, 1], that a plan must take away.
        tolerated_node_failures: For the loss of how many nodes there must be room in memory.
        allow_cold_migration: Whether containers may be stopped, moved and started.
        iterations_per_group: How many moves are looked at for each guest, or for some of them where
            few may move; in all, 40 million at most.
        seed: Where the random numbers begin.
        search: Which search plans large clusters: compiled; plain, which needs no
            compiled code and whose plans are a little worse; or auto, which is
            compiled where compiled code is available. A note says where it was plain.
        limits: What the operator allows.

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
                    f"{name} must be at least 0, not {getattr(self, name)}"
                )
        if not self.priorities:
            raise ValueError(f"priorities must name at least one of {', '.join(Goal)}")
        if len(set(self.priorities)) < len(self.priorities):
            raise ValueError("priorities must name each goal once")
        if (
            Goal.BALANCE in self.priorities
            and not self.cpu_weight + self.memory_weight > 0
        ):
            raise ValueError(
                "cpu_weight and memory_weight must not both be 0 for balance"
            )
        Budget.parse(self.budget)

    def initial_memory(self) -> None:
        """Return None: each decision stands by itself."""

    def decide(self, snapshot: Snapshot, memory: None) -> Decision[None]:
        """Return the moves that bring most, and how near to the best they are."""
        del memory
        run = self.start_run(snapshot)
        if isinstance(run, Decision):
            return run
        iterations = min(
            MAX_ITERATIONS,
            max(MIN_ITERATIONS, self.iterations_per_group * run.search_size),
        )
        for portion in range(SEARCH_ROUNDS):
            run.improve(iterations // SEARCH_ROUNDS, (portion + 1) / SEARCH_ROUNDS)
        return run.decision()

    def start_run(self, snapshot: Snapshot) -> OptimizeRun | Decision[None]:
        """Return the work on a decision, or the decision where there is no work."""
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
                reason, None, detail=detail, before=figures, after=figures, notes=notes
            )
        return OptimizeRun(self._context(snapshot, rules, groups, before, notes))

    def _idle_reason(
        self, before: ClusterMetrics, budget: Budget, groups: MovableGroups
    ) -> tuple[DecisionReason, str] | None:
        """Return why there is nothing to search for; None if there is."""
        if self._is_satisfied(before):
            return DecisionReason.BALANCED, (
                f"unevenness {before.imbalance:.3f} is not above the threshold "
                f"{self.threshold:g}, and nothing is broken"
            )
        if budget.is_zero:
            return (
                DecisionReason.MIGRATION_LIMIT_REACHED,
                f"a budget of {budget} lets nothing move",
            )
        if not groups.groups:
            return DecisionReason.NO_CANDIDATE, "no guest may be moved"
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
        cluster = EncodedCluster(
            snapshot, rules, groups.groups, self.limits, self.load_model
        )
        if self.tolerated_node_failures:
            memory = [*cluster.memory_by_node()]
            fill = max_memory_fill(memory, self.tolerated_node_failures)
            if fill is None:
                notes = (*notes, reserve_shortage(memory, self.tolerated_node_failures))
            else:
                cluster = EncodedCluster(
                    snapshot,
                    rules,
                    groups.groups,
                    self.limits,
                    self.load_model,
                    fill=fill,
                )
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
    """Return to what part nodes may be filled, so that *failures* of them can be lost.

    Args:
        loads: Capacity and use of each node's memory.
        failures: How many nodes may be lost at once.

    Returns:
        The part of the capacity; None where what runs is more than that already.
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
    """Return in words that *failures* nodes cannot be lost; as of `max_memory_fill`."""
    capacity = sorted((each for each, _ in loads), reverse=True)
    used = sum(used for _, used in loads) / GIB
    left = sum(capacity[failures:]) / GIB
    lost = "a node" if failures == 1 else f"{failures} nodes"
    return (
        f"there is no room for the loss of {lost} of {len(capacity)}: {used:.1f} GiB "
        f"are in use, and the others might have {left:.1f} GiB"
    )
