"""Pooled bound: no placement is more balanced, and it is near the polytope bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import Problem, cost_breakdown
from opendrs.optimizer.bounds.lower_bound import lower_bound
from opendrs.optimizer.bounds.polytope import nearest_point
from opendrs.optimizer.bounds.pooled_loads import pooled_bound
from opendrs.optimizer.bounds.reachable_loads import ReachableLoads
from opendrs.optimizer.feasibility import budget_use, infeasibilities
from opendrs.optimizer.problem import select_budgets
from unit.optimizer.bounds.test_polytope import two_nodes


def drawn(seed: int, nodes: int, groups: int, resources: int = 2) -> Problem:
    """Return a problem with imbalance cost and two budgets."""
    draw = np.random.default_rng(seed)
    demand = draw.integers(1, 9, (groups, resources)).astype(float)
    capacity = draw.integers(20, 40, (nodes, resources)).astype(float)
    return Problem(
        capacity=capacity,
        demand=demand,
        origin=draw.integers(0, nodes, groups),
        class_of=draw.integers(0, 2, groups),
        allowed=draw.random((2, nodes)) < 0.8,
        base_load=draw.integers(0, 3, (nodes, resources)).astype(float),
        target_load=demand.sum(axis=0) / capacity.sum(axis=0),
        imbalance_weight=np.arange(1.0, resources + 1),
        budget_weights=np.vstack([demand[:, 0], np.ones(groups)]),
        budgets=np.array([0.3 * demand[:, 0].sum(), 0.6 * groups]).round(),
    )


@given(st.integers(0, 5000), st.sampled_from([1, 2, 3]))
@settings(max_examples=40)
def test_pooled_bound_is_below_all_placements(seed: int, resources: int) -> None:
    problem = drawn(seed, 3, 5, resources)

    bound = pooled_bound(problem, problem.origin)

    for places in product(range(problem.node_count), repeat=problem.group_count):
        assignment = np.array(places, np.int64)
        if not infeasibilities(problem, assignment):
            distance = cost_breakdown(problem, assignment).imbalance ** 0.5
            assert bound <= distance + 1e-9


@pytest.mark.parametrize(
    ("resources", "least"),
    [(1, 0.99), (2, 0.9), (3, 0.75)],
)
@pytest.mark.parametrize("seed", range(4))
def test_pooled_bound_is_near_the_polytope_bound(
    seed: int, resources: int, least: float
) -> None:
    # Ten groups on each of 20 nodes; the budget is a tenth of the first resource.
    drawn_problem = drawn(seed, 20, 200, resources)
    problem = select_budgets(
        replace(drawn_problem, budgets=drawn_problem.budgets / 3), np.array([0])
    )

    pooled = pooled_bound(problem, problem.origin)

    nearest = nearest_point(problem, 500, 1e-4)
    assert pooled <= nearest.distance + 1e-9
    assert pooled >= least * nearest.bound


def test_both_budgets_raise_the_pooled_bound() -> None:
    problem = drawn(1, 20, 200)
    both = replace(problem, budgets=problem.budgets / np.array([3.0, 6.0]))

    bound = pooled_bound(both, both.origin)

    for row in range(2):
        one = select_budgets(both, np.array([row]))
        assert bound > pooled_bound(one, one.origin) - 1e-3


def test_pooled_bound_by_hand() -> None:
    problem = two_nodes()

    # Each node is 1/20 from the balanced load at best.
    assert pooled_bound(problem, problem.origin) == pytest.approx(2**0.5 / 20)


def test_pooled_bound_without_movable_groups_is_the_distance() -> None:
    problem = drawn(2, 4, 8)
    fixed = replace(problem, allowed=np.zeros_like(problem.allowed))

    distance = cost_breakdown(fixed, fixed.origin).imbalance ** 0.5
    assert pooled_bound(fixed, fixed.origin) == pytest.approx(distance)


def test_pooled_bound_ignores_classes_without_groups() -> None:
    problem = drawn(2, 4, 8)
    alone = replace(
        problem,
        class_of=np.zeros(8, np.int64),
        allowed=np.array([[False] * 4, [True] * 4]),
    )

    distance = cost_breakdown(alone, alone.origin).imbalance ** 0.5
    assert pooled_bound(alone, alone.origin) == pytest.approx(distance)


def test_large_clusters_have_the_pooled_bound() -> None:
    problem = drawn(3, 151, 600)
    moved = np.where(
        (np.arange(600) < 20) & problem.allowed[problem.class_of, 0], 0, problem.origin
    )
    used = replace(problem, budgets=budget_use(problem, moved))

    assert lower_bound(problem, moved) >= pooled_bound(used, moved)
    reachable = ReachableLoads(used)
    assert lower_bound(problem, moved) <= np.linalg.norm(
        reachable.vertex(moved).position
    )
