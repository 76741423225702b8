"""Polytope bound: no placement is more balanced, and a fractional one is near it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import Problem, cost_breakdown
from opendrs.optimizer.bounds.polytope import nearest_point
from opendrs.optimizer.feasibility import infeasibilities


def drawn(seed: int, nodes: int = 3, units: int = 5) -> Problem:
    """Return a problem with imbalance cost only, small enough for enumeration."""
    draw = np.random.default_rng(seed)
    demand = draw.integers(1, 9, (units, 2)).astype(float)
    capacity = draw.integers(20, 40, (nodes, 2)).astype(float)
    return Problem(
        capacity=capacity,
        demand=demand,
        origin=draw.integers(0, nodes, units),
        class_of=draw.integers(0, 2, units),
        allowed=draw.random((2, nodes)) < 0.8,
        base_load=draw.integers(0, 3, (nodes, 2)).astype(float),
        target_load=demand.sum(axis=0) / capacity.sum(axis=0),
        imbalance_weight=np.array([1.0, 2.0]),
        budget_weights=demand.T[:1].copy(),
        budgets=np.array([float(draw.integers(0, demand[:, 0].sum() + 1))]),
    )


@given(st.integers(0, 5000))
@settings(max_examples=60)
def test_polytope_bound_is_below_all_placements(seed: int) -> None:
    problem = drawn(seed)

    found = nearest_point(problem, 100, 1e-6)

    for places in product(range(problem.node_count), repeat=problem.group_count):
        assignment = np.array(places, np.int64)
        if not infeasibilities(problem, assignment):
            distance = cost_breakdown(problem, assignment).imbalance ** 0.5
            assert found.bound <= distance + 1e-9
    assert found.moved[0] <= problem.budgets[0] + 1e-6
    assert found.bound <= found.distance + 1e-9


@given(st.integers(0, 5000))
@settings(max_examples=60)
def test_polytope_point_is_near_the_bound(seed: int) -> None:
    found = nearest_point(drawn(seed), 500, 1e-6)

    assert found.distance == pytest.approx(found.bound, abs=1e-4)


def two_nodes() -> Problem:
    """Return two nodes with 10 and 0 of 20, which meet at 5 each; 4 may be moved."""
    return Problem(
        capacity=np.full((2, 1), 20.0),
        demand=np.full((2, 1), 5.0),
        origin=np.zeros(2, np.int64),
        class_of=np.zeros(2, np.int64),
        allowed=np.ones((1, 2), np.bool_),
        target_load=np.array([0.25]),
        imbalance_weight=np.ones(1),
        budget_weights=np.full((1, 2), 5.0),
        budgets=np.array([4.0]),
    )


def test_polytope_reaches_the_balanced_load_within_budget() -> None:
    found = nearest_point(two_nodes(), 100, 1e-9)

    # By hand: 4 of the 5 are moved, so each node is 1/20 from the balanced load.
    assert found.bound == pytest.approx(2**0.5 / 20)
    assert found.moved.tolist() == pytest.approx([4.0])


def test_nearest_point_from_good_start_has_the_same_bound() -> None:
    problem = drawn(7)
    places = np.array(problem.origin)

    plain, begun = (
        nearest_point(problem, 500, 1e-6),
        nearest_point(problem, 500, 1e-6, places),
    )

    assert begun.distance == pytest.approx(plain.distance)
