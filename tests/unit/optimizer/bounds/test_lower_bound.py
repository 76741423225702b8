"""Lower bound: the budgets that count, and its place in a solution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opendrs.optimizer import Problem, evaluate
from opendrs.optimizer.bounds import whole_groups
from opendrs.optimizer.bounds.lower_bound import lower_bound

# Groups of 4 and 2 on the first of two nodes of size 10: balanced at 3 each.
PROBLEM = Problem(
    capacity=np.full((2, 2), 10.0),
    demand=np.array([[4.0, 4.0], [2.0, 2.0]]),
    origin=np.zeros(2, np.int64),
    class_of=np.zeros(2, np.int64),
    allowed=np.ones((1, 2), np.bool_),
    target_load=np.full(2, 0.3),
    imbalance_weight=np.ones(2),
)
AMOUNT = replace(
    PROBLEM, budget_weights=np.array([[4.0, 2.0]]), budgets=np.array([np.inf])
)


@pytest.fixture(autouse=True)
def without_all_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide groups as in larger problems."""
    monkeypatch.setattr(whole_groups, "MAX_PLACEMENTS", 0)


def test_bound_without_budgets_is_zero_if_parts_of_groups_balance() -> None:
    bound = lower_bound(PROBLEM, PROBLEM.origin)

    assert bound == pytest.approx(0, abs=1e-6)


def test_bound_counts_what_the_assignment_uses_of_an_unlimited_budget() -> None:
    assignment = np.array([0, 1])

    # By hand: of the 2 units that may move, both nodes are 1/10 off in two resources.
    assert lower_bound(AMOUNT, assignment) == pytest.approx(0.2)
    assert evaluate(AMOUNT, assignment).terms.imbalance == pytest.approx(0.04)


def test_bound_of_the_origin_is_its_distance() -> None:
    # Nothing moves: 6 and 0 are 3/10 off in two resources.
    assert lower_bound(AMOUNT, AMOUNT.origin) == pytest.approx(0.6)
