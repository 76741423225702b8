"""Fractional knapsack: the most valuable items within the budgets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.optimizer.bounds.knapsack import fractional_knapsack

AMOUNTS = st.integers(0, 9)


def test_knapsack_takes_best_density_and_part_of_the_next() -> None:
    # By hand: worth per cost is 3, 2 and 1; 4 are left for the second, of 8.
    part = fractional_knapsack(
        np.array([5.0, 16.0, 6.0]), np.array([[5.0, 8.0, 2.0]]), np.array([6.0])
    )

    assert part.tolist() == pytest.approx([0.0, 0.5, 1.0])


def test_knapsack_skips_items_without_value() -> None:
    part = fractional_knapsack(
        np.array([0.0, -1.0, 2.0]), np.zeros((1, 3)), np.zeros(1)
    )

    assert part.tolist() == [0.0, 0.0, 1.0]


@given(st.data(), st.integers(1, 5), st.integers(0, 2))
def test_knapsack_bounds_all_whole_choices(
    data: st.DataObject, things: int, measures: int
) -> None:
    worth = np.array([data.draw(st.integers(-3, 9)) for _ in range(things)], float)
    costs = np.array(
        [[data.draw(AMOUNTS) for _ in range(things)] for _ in range(measures)], float
    ).reshape(measures, things)
    budgets = np.array([data.draw(AMOUNTS) for _ in range(measures)], float)

    part = fractional_knapsack(worth, costs, budgets)

    assert ((part >= 0) & (part <= 1)).all()
    assert (costs @ part <= budgets + 1e-6).all()
    for number in range(2**things):
        chosen = np.array([number >> i & 1 for i in range(things)], float)
        if (costs @ chosen <= budgets).all():
            assert worth @ chosen <= worth @ part + 1e-6
