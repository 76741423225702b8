"""Decision context: the cluster, its problem and the settings of one decision.

It also defines the memory that is reserved for the guests of failed nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from opendrs.metrics import LoadModel, node_loads
from opendrs.model import GIB, Limits, Snapshot
from opendrs.optimizer import Floats, Objective, Problem, SearchKind
from opendrs.policies.base import Decision
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.metrics import ClusterMetrics, measure_cluster
from opendrs.policies.optimize.movable_groups import MovableGroups
from opendrs.policies.optimize.objective import Goal, with_knee_price
from opendrs.policies.optimize.repairs import RepairBlockers
from opendrs.policies.optimize.soft_rules import (
    SoftRules,
    soft_rule_problem,
    violating_groups,
)
from opendrs.rules import CompiledRules


@dataclass(frozen=True, kw_only=True)
class OptimizeContext:
    """Cluster and settings of one decision.

    Attributes:
        snapshot: Cluster, with demanded cores.
        rules: Compiled rules.
        groups: Move groups that may migrate.
        cluster: The same as arrays.
        before: Metrics of the cluster.
        priorities: Goals, the most important first.
        objective: Terms to minimize.
        encode: Function that returns the problem of a cluster and a budget.
        problem: Problem for the optimizer, without a price of the knee.
        budget: Budget of the plan.
        min_improvement: Least relative improvement of balance and contention.
        limits: Limits of the operator.
        load_model: Load that counts.
        seed: Seed of the random numbers.
        search: Search that is used; `auto` for small clusters.
        notes: Notes for the operator.
        soft_rules: Soft rules; None if there are none, or for a repair.
        for_soft_rules: True if the plan is for soft rules alone: less imbalance than
            now is no gain then.
        idle: Decision if nothing but soft rules is to be searched for, or None.
    """

    snapshot: Snapshot
    rules: CompiledRules
    groups: MovableGroups
    cluster: EncodedCluster
    before: ClusterMetrics
    priorities: tuple[Goal, ...]
    objective: Objective
    encode: Callable[[EncodedCluster, Budget], Problem]
    problem: Problem
    budget: Budget
    min_improvement: float
    limits: Limits
    load_model: LoadModel
    seed: int
    search: SearchKind
    notes: tuple[str, ...]
    soft_rules: SoftRules | None = None
    for_soft_rules: bool = False
    idle: Decision[None] | None = None

    @cached_property
    def soft_problem(self) -> Problem | None:
        """The problem in which soft rules alone have a cost; None without them."""
        if self.soft_rules is None:
            return None
        return soft_rule_problem(self.cluster, self.before.thresholds)

    @cached_property
    def problem_to_solve(self) -> Problem:
        """The problem with the price of the knee, if that is the budget."""
        if not self.budget.knee:
            return self.problem
        plain = self.search is SearchKind.PLAIN
        return with_knee_price(self.problem, self.knee_cost, plain=plain)

    @cached_property
    def knee_cost(self) -> Floats:
        """Migration cost for which groups pay the price of the knee, in GiB; (G,).

        It is 0 for groups that violate a soft rule: the gain of its repair is no part
        of the imbalance that determines the price.
        """
        cost = self.cluster.movable.migration_cost
        if self.soft_problem is None:
            return cost
        return np.where(violating_groups(self.soft_problem), 0.0, cost)

    @property
    def transfer_price(self) -> float:
        """Cost of the transfer of a GiB in the problem to solve."""
        pays = self.knee_cost > 0
        if not pays.any():
            return self.objective.weight("transfer")
        cost = self.cluster.movable.migration_cost[pays]
        return float(self.problem_to_solve.move_cost[pays].sum() / cost.sum())

    @cached_property
    def repairs(self) -> RepairBlockers:
        """Explanations of what prevents the repair of rules."""
        return RepairBlockers(self.cluster, self.groups)

    @property
    def weights(self) -> tuple[float, ...]:
        """Weights of the balance of CPU, of memory, and of further loads."""
        terms = self.objective.terms
        return tuple(each.weight for each in terms if each.costs == ("imbalance",))

    def imbalance_cost(self, imbalance: float) -> float:
        """Return the cost of *imbalance* in the objective."""
        return len(self.cluster.node_ids) * sum(self.weights) * imbalance**2

    def within(self, budget: Budget) -> OptimizeContext:
        """Return the context with a smaller *budget*.

        Groups that cannot be gathered within it stay.
        """
        groups = self.groups.within(budget.gib, budget.migrations)
        return self.with_groups(groups, budget)

    def without_split_groups(self) -> OptimizeContext | None:
        """Return the context in which groups on several nodes stay there.

        None if there is no such group.
        """
        groups = self.groups.within(0.0, 0.0)
        if groups is self.groups:
            return None
        return self.with_groups(groups, self.budget)

    def with_groups(self, groups: MovableGroups, budget: Budget) -> OptimizeContext:
        """Return the context with other *groups*, and another *budget*."""
        cluster = self.cluster.with_groups(groups.groups)
        return replace(
            self,
            groups=groups,
            cluster=cluster,
            problem=self.encode(cluster, budget),
            budget=budget,
        )

    def measure(self, snapshot: Snapshot) -> ClusterMetrics:
        """Return the metrics of *snapshot*, by the measure of the cluster before."""
        return measure_cluster(
            snapshot,
            self.load_model,
            self.limits,
            self.before.thresholds,
            fill=self.cluster.fill,
            balance=self.before.balance,
        )


def memory_fill(
    snapshot: Snapshot, load_model: LoadModel, failures: int
) -> tuple[float, list[str]]:
    """Return the part of its memory that each node may use, and notes about it.

    Args:
        snapshot: Cluster.
        load_model: Load that counts.
        failures: Number of nodes that may fail at once.
    """
    memory = [
        (load.capacity.memory, float(snapshot.nodes[name].usage.memory or 0))
        for name, load in node_loads(snapshot, load_model).items()
    ]
    fill = max_memory_fill(memory, failures)
    if fill is None:
        return 1.0, [reserve_shortage(memory, failures)]
    return fill, []


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
