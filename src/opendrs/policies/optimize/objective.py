"""Objective of a plan: its table of terms, and the problem for the optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np

from opendrs.model import NO_LOADS, LoadAmounts
from opendrs.optimizer import (
    Floats,
    Indices,
    Objective,
    Problem,
    Term,
    budget_use,
    cost_breakdown,
    initial_solution,
    priority_weight,
)
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.contention import ContentionThresholds
from opendrs.policies.optimize.encoding import (
    CPU,
    UNCOMPARED,
    EncodedCluster,
    safe_divide,
)
from opendrs.policies.optimize.neighbor_sets import group_sets, node_domains
from opendrs.policies.optimize.placement_costs import NO_TARGETS, PlacementCosts

GIB_ROW, MIGRATIONS_ROW = range(2)  # budgets of the problem
KNEE_GAIN = 0.5  # least gain per GiB of a move, relative to the average gain


class Goal(StrEnum):
    """Goals of a plan; names in the configuration, stable.

    `repair`: no violated strict rules, no memory, committed CPU and further loads above
    what nodes may hold.
    `contention`: no unmet demand for cores or memory. `balance`: equal loads.
    `consolidation`: few nodes with guests.
    """

    REPAIR = "repair"
    CONTENTION = "contention"
    BALANCE = "balance"
    CONSOLIDATION = "consolidation"


# Goal, name, unit and costs of each term. Soft rules and transfers are compared with
# balance; if that is no goal, with the least important goal.
TERMS = (
    (
        Goal.REPAIR,
        "violation",
        "guest that violates a strict rule",
        ("placement", "anti_affinity"),
    ),
    (
        Goal.REPAIR,
        "overfull_memory",
        "memory, CPU or further load above the limits, relative to the balanced load",
        ("overload",),
    ),
    (
        Goal.CONTENTION,
        "contention",
        "load above the contention threshold of a node, relative to the balanced load",
        ("excess",),
    ),
    (
        Goal.BALANCE,
        "cpu_balance",
        "squared relative deviation of a node from the balanced CPU load",
        ("imbalance",),
    ),
    (
        Goal.BALANCE,
        "memory_balance",
        "squared relative deviation of a node from the balanced memory load",
        ("imbalance",),
    ),
    (Goal.CONSOLIDATION, "used_node", "node with guests", ("use",)),
    (
        Goal.BALANCE,
        "soft_rule",
        "guest that violates a soft rule",
        ("placement", "anti_affinity"),
    ),
    (Goal.BALANCE, "transfer", "GiB of migration cost", ("move",)),
)


def load_term(load: str) -> tuple[Goal, str, str, tuple[str, ...]]:
    """Return the term for the balance of a further load."""
    unit = f"squared relative deviation of a node from the balanced {load} load"
    return Goal.BALANCE, f"{load}_balance", unit, ("imbalance",)


MIGRATION_TERM = (Goal.BALANCE, "migration", "guest that migrates", ("move",))
"""Term that an objective has if guests are not migrated for balance alone."""

GATED_BALANCE = 0.5  # cost of the present imbalance, relative to a migration

# Weights of `repair_objective`. A repair may cost 1,000 migrations; no migration is
# made for the balance.
REPAIR_VIOLATION, REPAIR_MIGRATION = 1e5, 1e2


def plan_objective(  # noqa: PLR0913 - one parameter per setting
    priorities: Sequence[Goal],
    *,
    cpu_weight: float,
    memory_weight: float,
    load_weights: LoadAmounts = NO_LOADS,
    soft_rule_penalty: float,
    migration_cost_weight: float,
    mean_memory: float,
    gated_balance: float | None = None,
) -> Objective:
    """Return what a plan minimizes; 1 is the cost of a node with twice the mean load.

    Args:
        priorities: Goals, the most important first.
        cpu_weight: Weight of the balance of CPU load.
        memory_weight: Weight of the balance of memory load.
        load_weights: Weights of the balance of further loads, by name.
        soft_rule_penalty: Weight of a guest that violates a soft rule.
        migration_cost_weight: Weight of the transfer of the memory of a mean node.
        mean_memory: Mean memory in use on a node, in GiB.
        gated_balance: If no guest may be migrated for balance, cost of the present
            imbalance with these weights. Balance is then no goal, but a choice among
            plans with as many migrations. None if the gates are open.
    """
    rank = {goal: index for index, goal in enumerate(priorities)}
    ranks = len(rank) + (gated_balance is not None)
    goal = {each: priority_weight(rank.get(each), ranks) for each in Goal}
    scale = goal[Goal.BALANCE] or 1.0
    if gated_balance is not None:
        goal[Goal.BALANCE] = GATED_BALANCE / max(1.0, gated_balance)
    weight = {
        "violation": goal[Goal.REPAIR],
        "overfull_memory": goal[Goal.REPAIR],
        "contention": goal[Goal.CONTENTION],
        "cpu_balance": goal[Goal.BALANCE] * cpu_weight,
        "memory_balance": goal[Goal.BALANCE] * memory_weight,
        "used_node": goal[Goal.CONSOLIDATION],
        "soft_rule": scale * soft_rule_penalty,
        "transfer": scale * migration_cost_weight / mean_memory,
    }
    further = [load_term(load) for load in load_weights]
    for load, (_, name, _, _) in zip(load_weights, further, strict=True):
        weight[name] = goal[Goal.BALANCE] * load_weights[load]
    if gated_balance is None:
        return _objective(rank, weight, (*TERMS, *further))
    weight["migration"] = 1.0
    return _objective(rank, weight, (*TERMS, *further, MIGRATION_TERM))


def repair_objective(mean_memory: float) -> Objective:
    """Return what a repair minimizes: violations, then migrations.

    Among equals it prefers few violated soft rules, balance and a small transfer.

    Args:
        mean_memory: Mean memory in use on a node, in GiB.
    """
    weight = {
        "violation": REPAIR_VIOLATION,
        "migration": REPAIR_MIGRATION,
        "cpu_balance": 1.0,
        "memory_balance": 1.0,
        "soft_rule": 0.1,
        "transfer": 0.01 / mean_memory,
    }
    return _objective({Goal.REPAIR: 0}, weight, (*TERMS, MIGRATION_TERM))


def soft_rule_objective() -> Objective:
    """Return the objective that soft rules alone count for, by their weights."""
    return _objective({Goal.BALANCE: 0}, {"soft_rule": 1.0}, TERMS)


def _objective(
    rank: Mapping[Goal, int],
    weight: Mapping[str, float],
    terms: Sequence[tuple[Goal, str, str, tuple[str, ...]]],
) -> Objective:
    """Return the terms with these weights; others have the weight 0."""
    return Objective(
        tuple(
            Term(name, rank.get(served), weight.get(name, 0.0), unit, costs)
            for served, name, unit, costs in terms
        )
    )


def encode_problem(
    cluster: EncodedCluster,
    budget: Budget,
    *,
    objective: Objective,
    thresholds: ContentionThresholds,
) -> Problem:
    """Return the problem for the optimizer.

    Its budgets are the rows `GIB_ROW` and `MIGRATIONS_ROW`, inf if unlimited, without
    what gathering at home uses.

    Args:
        cluster: Cluster with its move groups.
        budget: Budget of the plan.
        objective: Objective of the plan.
        thresholds: Loads above which demand counts as unmet.
    """
    weight = objective.weight
    classes = PlacementCosts(cluster)
    mean = cluster.balanced_load * cluster.mean_capacity
    per_balanced_load = safe_divide(np.ones_like(mean), mean)
    safety, excess = _contention(
        cluster, thresholds, weight("contention") * per_balanced_load
    )
    overfull = weight("overfull_memory") * cluster.limited_resources
    return replace(
        relaxed_problem(cluster, budget, objective),
        class_of=_class_of(cluster, classes),
        allowed=classes.allowed,
        group_sets=group_sets(cluster, objective),
        domains=node_domains(cluster),
        overload_weight=overfull * per_balanced_load,
        safety_capacity=safety,
        excess_weight=excess,
        use_cost=np.full(len(cluster.node_ids), weight("used_node")),
        placement_cost=classes.placement_cost(weight("violation"), weight("soft_rule")),
        move_cost=_move_cost(cluster, objective),
    )


def relaxed_problem(
    cluster: EncodedCluster, budget: Budget, objective: Objective
) -> Problem:
    """Return the relaxation of `encode_problem` that ignores all but the balance.

    Every group may run on every node, within the budgets. Whatever leaves a drained
    node, the imbalance does not change by that.
    """
    movable, balanced = cluster.movable, cluster.balanced_load
    capacity = cluster.capacity.copy()
    capacity[cluster.is_drained] *= UNCOMPARED
    weight = _balance_weights(cluster, objective)
    return Problem(
        capacity=capacity,
        demand=movable.demand,
        origin=cluster.origin,
        class_of=np.zeros(len(cluster.groups), np.int64),
        allowed=np.ones((1, len(cluster.node_ids)), np.bool_),
        base_load=cluster.base_load,
        target_load=balanced,
        imbalance_weight=safe_divide(weight, np.square(balanced)),
        budget_weights=np.array([movable.transfer, movable.guest_count]),
        budgets=_budgets(cluster, budget),
        counts_moves=np.array([False, True]),
    )


def _balance_weights(cluster: EncodedCluster, objective: Objective) -> Floats:
    """Return the weight of the balance of each resource; shape (R,)."""
    weights = {term.name: term.weight for term in objective.terms}
    balance = np.zeros(cluster.capacity.shape[1])
    balance[CPU] = weights["cpu_balance"]
    balance[cluster.memory_resource] = weights["memory_balance"]
    for load, resource in cluster.load_resources.items():
        balance[resource] = weights.get(f"{load}_balance", 0.0)
    return balance


def with_knee_price(
    problem: Problem, migration_cost: Floats, *, plain: bool
) -> Problem:
    """Return *problem* with the price per GiB at the knee of gain over transfer.

    The price is half of the average gain per GiB of the moves of an initial solution. A
    further move must gain at least that.

    Args:
        problem: Problem of `encode_problem`.
        migration_cost: Migration cost of each group, in GiB; 0 for those that pay no
            such price; shape (G,).
        plain: True to solve large problems without compiled code.
    """
    reached = initial_solution(problem, plain=plain)
    moved = float(budget_use(problem, reached)[GIB_ROW])
    gain = (
        cost_breakdown(problem, problem.origin).imbalance
        - cost_breakdown(problem, reached).imbalance
    )
    if moved <= 0 or gain <= 0:
        return problem
    price = KNEE_GAIN * gain / moved * migration_cost
    return replace(problem, move_cost=np.maximum(problem.move_cost, price))


def _move_cost(cluster: EncodedCluster, objective: Objective) -> Floats:
    """Return the cost of leaving home of each group; shape (G,)."""
    cost = objective.weight("transfer") * cluster.movable.migration_cost
    if any(term.name == "migration" for term in objective.terms):
        cost = cost + objective.weight("migration") * cluster.movable.guest_count
    return cost


def _contention(
    cluster: EncodedCluster, thresholds: ContentionThresholds, price: Floats
) -> tuple[Floats, Floats]:
    """Return the contention thresholds of each node, and the cost of load above."""
    safety_capacity = np.full_like(cluster.capacity, np.inf)
    safety_capacity[:, CPU] = [thresholds.cpu[name] for name in cluster.node_ids]
    safety_capacity[:, cluster.memory_resource] = [
        thresholds.memory.get(name, np.inf) for name in cluster.node_ids
    ]
    excess = np.zeros_like(cluster.capacity)
    resources = np.array([CPU, cluster.memory_resource])
    excess[:, resources] = price[resources]
    if thresholds.priorities:
        weights = [thresholds.priorities[name] for name in cluster.node_ids]
        excess[:, resources] *= np.array(weights)
    return safety_capacity, excess


def _class_of(cluster: EncodedCluster, classes: PlacementCosts) -> Indices:
    """Return the placement class of each group; shape (G,)."""
    known = cluster.movable.is_known.tolist()
    found = [
        classes.class_of(group.guests) if group.is_free and is_known else NO_TARGETS
        for group, is_known in zip(cluster.groups, known, strict=True)
    ]
    return np.array(found, np.int64)


def _budgets(cluster: EncodedCluster, budget: Budget) -> Floats:
    """Return the limits of GiB and guests, without those used for gathering; (2,)."""
    left = (
        budget.gib - float(cluster.movable.gather_transfer.sum()),
        budget.migrations - cluster.movable.displaced_count,
    )
    return np.array([max(0.0, each) for each in left])
