"""Forecast: variance of guests, common trend, and risk of nodes."""

from __future__ import annotations

import math
from statistics import NormalDist, fmean, pvariance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies.consolidation.overload_risk import (
    BURST_VARIANCE,
    PRIOR_SAMPLES,
    TREND_SAMPLES,
    common_trend,
    overload_fraction,
    prediction_variance,
)

MOST = 10.0
SERIES = st.lists(st.floats(0.0, MOST), min_size=1, max_size=12)


def columns(series: list[float], width: int = 12) -> np.ndarray:
    return np.array([[0.0] * (width - len(series)) + series])


def variance_of(series: list[float], mean: float, averaging_window: int) -> float:
    length = np.array([len(series)])
    (variance,) = prediction_variance(
        columns(series), length, np.array([mean]), np.array([MOST]), averaging_window
    ).tolist()
    return float(variance)


def trend_of(rows: list[list[float]], mean: list[float], variance: float) -> float:
    samples = np.array(rows)
    lengths = np.full(len(rows), samples.shape[1])
    return common_trend(samples, lengths, np.array(mean), np.full(len(rows), variance))


@given(SERIES, st.integers(1, 12))
def test_prediction_variance_blends_observed_variance_with_prior(
    series: list[float], averaging_window: int
) -> None:
    mean = fmean(series[-averaging_window:])
    observed, prior = (
        len(series) * pvariance(series),
        BURST_VARIANCE * mean * (MOST - mean),
    )
    counted = (observed + PRIOR_SAMPLES * prior) / (len(series) - 1 + PRIOR_SAMPLES)

    expected = counted * (1 + 1 / min(len(series), averaging_window))

    assert variance_of(series, mean, averaging_window) == pytest.approx(
        expected, abs=1e-9
    )


def test_prediction_variance_of_single_sample_is_larger_than_of_many() -> None:
    once, often = variance_of([5.0], 5.0, 4), variance_of([5.0] * 12, 5.0, 4)

    assert once > often > 0


def test_prediction_variance_of_guest_idle_or_at_limit_is_zero() -> None:
    assert variance_of([0.0] * 4, 0.0, 4) == 0
    assert variance_of([MOST] * 4, MOST, 4) == 0


@given(st.floats(0.0, 0.995), st.floats(0.06, 1.0))
def test_overload_fraction_is_tail_of_normal_distribution(
    mean: float, spread: float
) -> None:
    expected = 1 - NormalDist(mean, spread).cdf(1.0)

    found = overload_fraction(np.array([mean]), np.array([spread**2]), np.array([1.0]))

    assert found[0] == pytest.approx(expected, abs=3e-4)


def test_overload_fraction_grows_with_mean_beyond_capacity() -> None:
    risk = overload_fraction(np.array([1.0, 1.2, 2.0]), np.full(3, 0.01), np.ones(3))

    assert risk[0] == pytest.approx(0.5)
    assert 0.5 < risk[1] < risk[2]


def test_overload_fraction_assumes_minimum_deviation() -> None:
    # One standard deviation, 5 %, of the host's CPU is left.
    (risk,) = overload_fraction(np.array([0.95]), np.array([0.0]), np.array([1.0]))

    assert risk == pytest.approx(1 - NormalDist().cdf(1.0), abs=3e-4)


def test_common_trend_follows_recent_change_of_all_guests() -> None:
    rows = [[1.0] * 6 + [2.0] * TREND_SAMPLES for _ in range(50)]

    # From a mean of 1.5 to one of 2; nothing of that is chance.
    assert trend_of(rows, [1.5] * 50, 0.0) == pytest.approx(2.0 / 1.5)


def test_common_trend_is_reduced_by_noise() -> None:
    rows = [[1.0] * 6 + [2.0] * TREND_SAMPLES]

    # The change is 0.5 and its variance 0.6 / 6: two fifths of 0.25 are chance.
    assert trend_of(rows, [1.5], 0.6) == pytest.approx(1 + 0.6 * 0.5 / 1.5)
    assert trend_of(rows, [1.5], 0.25 * TREND_SAMPLES) == 1


def test_common_trend_without_history_or_change_is_one() -> None:
    assert trend_of([[2.0] * TREND_SAMPLES], [1.0], 0.0) == 1
    assert trend_of([[0.0] * 12], [0.0], 0.0) == 1
    assert math.isclose(trend_of([[2.0] * 12], [2.0], 0.1), 1)
