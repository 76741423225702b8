"""Lower bound if the budget counts guests: whole guests move."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from opendrs.optimizer import Problem
from opendrs.optimizer.bounds.lagrangian.dual import lagrangian_bound
from opendrs.policies.optimize import Optimize
from support.builders import cluster

# By hand: one of the two may move; then the nodes are at 0.5 and 0.3, a quarter of
# the balanced 0.4 away from it. A part of one of them would balance both. In the bound
# departures are whole and arrivals are mixed: a is as far away, b is not.
TWO = cluster(nodes={"a": 0.8, "b": 0.0}, guests={"g1": ("a", 0.5), "g2": ("a", 0.3)})
PROBLEM = Problem(
    capacity=np.full((2, 2), 10.0),
    demand=np.array([[5.0, 5.0], [3.0, 3.0]]),
    origin=np.zeros(2, np.int64),
    class_of=np.zeros(2, np.int64),
    allowed=np.ones((1, 2), np.bool_),
    target_load=np.full(2, 0.4),
    imbalance_weight=np.ones(2),
    budget_weights=np.ones((1, 2)),
    budgets=np.ones(1),
)


@pytest.mark.usefixtures("without_exhaustive_search")
def test_bound_of_one_migration_moves_a_whole_guest() -> None:
    policy = Optimize(budget="1 migrations", min_improvement=0.0, threshold=0.0)

    (bound,) = [
        note
        for note in policy.decide(TWO, None).notes
        if note.startswith("distance from the optimum: ")
    ]

    assert re.findall(r"[\d.]+%?", bound) == ["0.2500", "0.1768", "29.3%"]


def test_lagrangian_bound_is_a_distance() -> None:
    # Node a is 1/10 from the balanced load in both resources.
    assert lagrangian_bound(PROBLEM) == pytest.approx(0.02**0.5)


def test_lagrangian_bound_leaves_out_a_third_resource() -> None:
    three = Problem(
        capacity=np.full((2, 3), 10.0),
        demand=np.array([[5.0, 5.0, 5.0], [3.0, 3.0, 3.0]]),
        origin=PROBLEM.origin,
        class_of=PROBLEM.class_of,
        allowed=PROBLEM.allowed,
        target_load=np.full(3, 0.4),
        imbalance_weight=np.ones(3),
        budget_weights=PROBLEM.budget_weights,
        budgets=PROBLEM.budgets,
    )

    # With it, node a would be as far in a third resource: the root of 0.03.
    assert lagrangian_bound(three) == pytest.approx(0.02**0.5)


def test_lagrangian_bound_without_capacity_is_zero() -> None:
    none = np.array([[10.0, 10.0], [10.0, 0.0]])

    assert lagrangian_bound(replace(PROBLEM, capacity=none)) == 0.0


def test_lagrangian_bound_of_balanced_nodes_is_zero() -> None:
    even = replace(PROBLEM, demand=np.zeros((2, 2)), target_load=np.zeros(2))

    assert lagrangian_bound(even) == 0.0
