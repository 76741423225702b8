"""Distance of a plan from the optimum, by a lower bound of the imbalance.

The bound holds for every plan that transfers at most as much. Each relaxation below
drops constraints, so that no plan is excluded.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from opendrs.model import NodeId
from opendrs.optimizer import (
    Floats,
    Indices,
    Problem,
    budget_use,
    imbalance_distance,
    loads,
    lower_bound,
)
from opendrs.policies.optimize.candidate import CandidatePlan
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.divided_nodes import DividedNodes
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.metrics import IMBALANCE
from opendrs.policies.optimize.movable_groups import EncodedGroup, movable_units
from opendrs.policies.optimize.objective import GIB_ROW, Goal, relaxed_problem
from opendrs.rules import chooses_domain, drained_nodes

ANY_PLAN = "with any plan that transfers at most as much memory"
FEW_MIGRATIONS = "in at most as many migrations"
ANY_DRAIN = "with any plan that drains the nodes and transfers at most as much memory"
NO_LEAST = (
    "lower bound 0, because a bound ignores rules, the capacity of nodes and the order "
    "of migrations, and in large clusters divides guests"
)
MIN_SHOWN_GAP = 0.0005  # fraction below which the gap to the lower bound is not shown


@dataclass(frozen=True, slots=True)
class _Relaxation:
    """Problem whose assignments include all plans that count.

    Attributes:
        problem: The problem.
        load: Load of each node after the plan; shape (N, R).
        bound: Lower bound of the imbalance distance of these plans.
        plans: The plans that count, in words.
    """

    problem: Problem
    load: Floats
    bound: float
    plans: str


def distance_note(candidate: CandidatePlan) -> Iterator[str]:
    """Yield a note with the gap between *candidate* and the lower bound.

    There is no note if balance is no goal, or if a guest that could migrate remains on
    a node that is drained: plans that drain more have another balanced load.
    """
    context = candidate.context
    if Goal.BALANCE not in context.priorities or sum(context.weights) <= 0:
        return
    drained = drained_nodes(context.snapshot)
    relaxation = _drained(candidate, drained) if drained else _relaxed(candidate)
    if relaxation is None:
        return
    nodes = relaxation.problem.node_count
    scale = math.sqrt(nodes * sum(context.weights))
    reached = imbalance_distance(relaxation.problem, relaxation.load)
    yield _note(reached / scale, relaxation.bound / scale, relaxation.plans)


def _note(reached: float, least: float, plans: str) -> str:
    better = (reached - least) / reached if reached > 0 else 0.0
    if better < -MIN_SHOWN_GAP:
        limit = f"defect: the lower bound is {least:.4f}; please report it"
    elif better >= 1 - MIN_SHOWN_GAP:
        limit = NO_LEAST
    elif better >= MIN_SHOWN_GAP:
        limit = f"at least {least:.4f} ({better:.1%} lower) {plans}"
    else:
        limit = f"at least {least:.4f} {plans}"
    return (
        f"distance from the optimum: {IMBALANCE}: {reached:.4f} with this plan; {limit}"
    )


def _relaxed(candidate: CandidatePlan) -> _Relaxation:
    """Return a problem that allows whatever a plan can do.

    The move groups of the plan allow all of it if they are the units that can move.
    Otherwise some guests of a group could move alone, or those of a group that stays.
    Guests might gather in another domain, or the nodes be divided otherwise between two
    sides: then every guest may run on every node.
    """
    context = candidate.context
    cluster, problem = context.cluster, context.problem
    is_open = chooses_domain(context.snapshot) or DividedNodes(cluster).is_strict
    units = _units(context)
    if is_open or not _same_guests(units, cluster.groups):
        cluster = cluster.with_groups(units)
        problem = relaxed_problem(cluster, context.budget, context.objective)
    bound = None if is_open else candidate.solution.bound
    if bound is None:
        assignment = _assignment(candidate, cluster)
        use = _use(candidate, problem, assignment)
        bound = lower_bound(problem, assignment, use)
    load = cluster.load_in(candidate.snapshot)
    plans = ANY_PLAN
    if math.isfinite(context.budget.migrations):
        plans = f"{ANY_PLAN} {FEW_MIGRATIONS}"
    return _Relaxation(problem, load, bound, plans)


def _drained(
    candidate: CandidatePlan, drained: Collection[NodeId]
) -> _Relaxation | None:
    """Return the problem of the nodes that are kept; None if units remain on others.

    Every plan that counts migrates the units on drained nodes once, at least. They
    start on their node after the plan, and may run anywhere for no further transfer.
    Migrations are not limited.
    """
    context = candidate.context
    cluster = context.cluster.with_groups(_units(context))
    if cluster.load_resources:
        return None  # a drained node may not be compared by them
    relaxed = relaxed_problem(cluster, context.budget, context.objective)
    assignment = _assignment(candidate, cluster)
    kept = np.array([name not in drained for name in cluster.node_ids])
    if not kept[assignment].all():
        return None
    place = np.cumsum(kept) - 1  # of each node among those that are kept
    leaves = ~kept[relaxed.origin]
    transfer = relaxed.budget_weights[GIB_ROW]
    use = _use(candidate, relaxed, assignment)[GIB_ROW] - transfer[leaves].sum()
    use = max(0.0, float(use))  # below 0 by rounding
    problem = Problem(
        capacity=relaxed.capacity[kept],
        demand=relaxed.demand,
        origin=place[np.where(leaves, assignment, relaxed.origin)],
        class_of=relaxed.class_of,
        allowed=relaxed.allowed[:, kept],
        base_load=relaxed.base_load[kept],
        target_load=relaxed.target_load,
        imbalance_weight=relaxed.imbalance_weight,
        budget_weights=np.where(leaves, 0.0, transfer)[None],
        budgets=relaxed.budgets[[GIB_ROW]],
        counts_moves=relaxed.counts_moves[[GIB_ROW]],
    )
    after = place[assignment]
    bound = lower_bound(problem, after, np.array([use]))
    return _Relaxation(problem, loads(problem, after), bound, ANY_DRAIN)


def _units(context: OptimizeContext) -> list[EncodedGroup]:
    """Return the guests that can move, each with those that must move with it."""
    nodes = frozenset(context.cluster.node_ids)
    return [*movable_units(context.snapshot, context.groups, nodes)]


def _same_guests(
    units: Collection[EncodedGroup], groups: Collection[EncodedGroup]
) -> bool:
    names, others = (
        [[guest.id for guest in each.guests] for each in some]
        for some in (units, groups)
    )
    return names == others


def _assignment(candidate: CandidatePlan, cluster: EncodedCluster) -> Indices:
    """Return the node of each group of *cluster* after the plan; shape (G,)."""
    after, index = candidate.snapshot.guests, cluster.arrays.index
    nodes = [index[after[each.guests[0].id].node] for each in cluster.groups]
    return np.array(nodes, np.int64)


def _use(candidate: CandidatePlan, problem: Problem, assignment: Indices) -> Floats:
    """Return what the plan uses of each budget, detours included; shape (B,)."""
    own = candidate.gib, candidate.migrations
    used: Floats = np.maximum(budget_use(problem, assignment), own)
    return used
