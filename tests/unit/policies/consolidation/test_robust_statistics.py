"""Regression lines compared with the least squares of NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies.consolidation.robust_statistics import (
    interquartile_range,
    loess,
    loess_lines,
    median_absolute_deviation,
    robust_loess,
    robust_weights,
    tricube_weights,
)

samples = st.lists(st.floats(0, 1.3), min_size=3, max_size=30)


def fitted(data: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """Return intercept and slope, computed by NumPy."""
    slope, intercept = np.polyfit(range(1, len(data) + 1), data, 1, w=weights)
    return float(intercept), float(slope)


def test_the_newest_weighs_most_and_the_first_as_the_third() -> None:
    weights = tricube_weights(5)

    # Worked by hand: (1 - (2/4)^3)^3 = (7/8)^3 for the third.
    assert weights[:3].tolist() == [(7 / 8) ** 3] * 3
    assert weights[-1] == 1
    assert np.all(np.diff(weights) >= 0)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_samples_have_no_weights(count: int) -> None:
    with pytest.raises(ValueError, match="3 samples"):
        tricube_weights(count)


@given(samples)
def test_the_line_is_that_of_weighted_least_squares(data: list[float]) -> None:
    expected = fitted(data, tricube_weights(len(data)).tolist())

    assert loess(data) == pytest.approx(expected, abs=1e-9)


def test_the_robust_line_is_fitted_once_more() -> None:
    data = [0.2, 0.3, 0.28, 0.9, 0.35, 0.4, 0.42]
    first = loess(data)
    residuals = [each - first.at(x) for x, each in enumerate(data, 1)]
    expected = fitted(data, robust_weights(residuals).tolist())

    assert robust_loess(data) == pytest.approx(expected, abs=1e-9)


@given(st.floats(-1, 1), st.floats(0, 1), st.integers(3, 30))
def test_the_robust_line_through_a_line_is_that_line(
    slope: float, intercept: float, count: int
) -> None:
    data = [intercept + slope * x for x in range(1, count + 1)]

    assert robust_loess(data) == pytest.approx((intercept, slope), abs=1e-6)


@given(st.lists(st.lists(st.floats(0, 1), min_size=6, max_size=6), min_size=1))
def test_many_lines_are_found_as_one_by_one(rows: list[list[float]]) -> None:
    lines = loess_lines(np.array(rows))

    for intercept, slope, row in zip(*lines, rows, strict=True):
        assert loess(row) == pytest.approx((intercept, slope), abs=1e-12)


def test_dispersion_of_too_few_samples_is_rejected() -> None:
    with pytest.raises(ValueError, match="expected samples, got none"):
        median_absolute_deviation([])
    with pytest.raises(ValueError, match="at least 2 samples, got 1"):
        interquartile_range([0.5])
