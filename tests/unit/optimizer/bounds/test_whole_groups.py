"""Bound by all placements of whole groups, beside these placements one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from opendrs.optimizer import Problem, imbalance_distance, loads
from opendrs.optimizer.bounds import whole_groups
from opendrs.optimizer.bounds.lower_bound import lower_bound
from opendrs.optimizer.bounds.whole_groups import whole_group_bound


def drawn_problem(seed: int) -> Problem:
    """Return a drawn problem of two to four nodes and one to five groups."""
    draw = np.random.default_rng(seed)
    nodes, groups = int(draw.integers(2, 5)), int(draw.integers(1, 6))
    resources, budgets = int(draw.integers(1, 4)), int(draw.integers(0, 3))
    weight = draw.random(resources)
    weight[1:] *= draw.random(resources - 1) < 0.7
    return Problem(
        capacity=draw.uniform(1, 3, (nodes, resources)),
        demand=draw.random((groups, resources)),
        origin=draw.integers(0, nodes, groups),
        class_of=np.zeros(groups, np.int64),
        allowed=np.ones((1, nodes), np.bool_),
        base_load=0.2 * draw.random((nodes, resources)),
        target_load=draw.random(resources),
        imbalance_weight=weight,
        budget_weights=draw.random((budgets, groups)),
        budgets=0.7 * groups * draw.random(budgets),
    )


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("block", [1, 1_000_000])
def test_bound_is_the_least_distance_within_the_budgets(
    seed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_groups, "BLOCK", block)
    problem = drawn_problem(seed)
    distances = []
    for nodes in product(range(problem.node_count), repeat=problem.group_count):
        placement = np.array(nodes)
        use = problem.budget_weights @ (placement != problem.origin)
        if (use <= problem.budgets).all():
            distances.append(imbalance_distance(problem, loads(problem, placement)))

    bound = whole_group_bound(problem)

    assert bound == pytest.approx(min(distances), abs=2e-5)
    assert bound is not None
    assert bound <= min(distances) + 1e-12


def test_guests_that_cannot_be_divided_have_a_bound_above_zero() -> None:
    """Groups of 4 and 2 on two nodes of size 10: each node is 1/10 off, or more."""
    problem = Problem(
        capacity=np.full((2, 1), 10.0),
        demand=np.array([[4.0], [2.0]]),
        origin=np.zeros(2, np.int64),
        class_of=np.zeros(2, np.int64),
        allowed=np.ones((1, 2), np.bool_),
        target_load=np.full(1, 0.3),
        imbalance_weight=np.ones(1),
    )

    assert lower_bound(problem, problem.origin) == pytest.approx(0.02**0.5)


@pytest.mark.parametrize(("nodes", "groups"), [(4, 40), (3000, 2), (2, 300)])
def test_too_many_placements_are_not_compared(nodes: int, groups: int) -> None:
    problem = Problem(
        capacity=np.ones((nodes, 1)),
        demand=np.ones((groups, 1)),
        origin=np.zeros(groups, np.int64),
        class_of=np.zeros(groups, np.int64),
        allowed=np.ones((1, nodes), np.bool_),
        imbalance_weight=np.ones(1),
    )

    assert whole_group_bound(problem) is None
