"""The forecast: how much guests scatter, what they do together, and what is lacking."""

from __future__ import annotations

import math
from statistics import NormalDist, fmean, pvariance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies.consolidation.forecast import (
    BURSTS,
    LATELY,
    PRIOR,
    drift,
    overload,
    scatter,
)

MOST = 10.0
SERIES = st.lists(st.floats(0.0, MOST), min_size=1, max_size=12)


def columns(series: list[float], width: int = 12) -> np.ndarray:
    return np.array([[0.0] * (width - len(series)) + series])


def scattered(series: list[float], mean: float, last_n: int) -> float:
    length = np.array([len(series)])
    (found,) = scatter(
        columns(series), length, np.array([mean]), np.array([MOST]), last_n
    ).tolist()
    return float(found)


def drifted(rows: list[list[float]], mean: list[float], variance: float) -> float:
    samples = np.array(rows)
    lengths = np.full(len(rows), samples.shape[1])
    return drift(samples, lengths, np.array(mean), np.full(len(rows), variance))


@given(SERIES, st.integers(1, 12))
def test_scatter_is_the_variance_seen_and_some_samples_of_the_usual(
    series: list[float], last_n: int
) -> None:
    mean = fmean(series[-last_n:])
    seen, usual = len(series) * pvariance(series), BURSTS * mean * (MOST - mean)
    counted = (seen + PRIOR * usual) / (len(series) - 1 + PRIOR)

    expected = counted * (1 + 1 / min(len(series), last_n))

    assert scattered(series, mean, last_n) == pytest.approx(expected, abs=1e-9)


def test_who_is_hardly_known_is_not_taken_to_be_steady() -> None:
    once, often = scattered([5.0], 5.0, 4), scattered([5.0] * 12, 5.0, 4)

    assert once > often > 0


def test_who_is_idle_or_at_its_limit_scatters_not_at_all() -> None:
    assert scattered([0.0] * 4, 0.0, 4) == 0
    assert scattered([MOST] * 4, MOST, 4) == 0


@given(st.floats(0.0, 0.995), st.floats(0.06, 1.0))
def test_what_is_lacking_is_the_tail_of_the_normal_distribution(
    mean: float, spread: float
) -> None:
    expected = 1 - NormalDist(mean, spread).cdf(1.0)

    found = overload(np.array([mean]), np.array([spread**2]), np.array([1.0]))

    assert found[0] == pytest.approx(expected, abs=3e-4)


def test_who_lacks_more_on_average_is_told_from_who_lacks_less() -> None:
    risk = overload(np.array([1.0, 1.2, 2.0]), np.full(3, 0.01), np.ones(3))

    assert risk[0] == pytest.approx(0.5)
    assert 0.5 < risk[1] < risk[2]


def test_no_host_is_taken_to_be_steadier_than_can_be_known() -> None:
    # One standard deviation, 5 %, of the host's CPU is left.
    (risk,) = overload(np.array([0.95]), np.array([0.0]), np.array([1.0]))

    assert risk == pytest.approx(1 - NormalDist().cdf(1.0), abs=3e-4)


def test_what_all_guests_do_together_is_followed() -> None:
    rows = [[1.0] * 6 + [2.0] * LATELY for _ in range(50)]

    # From a mean of 1.5 to one of 2; nothing of that is chance.
    assert drifted(rows, [1.5] * 50, 0.0) == pytest.approx(2.0 / 1.5)


def test_what_may_be_chance_is_taken_off() -> None:
    rows = [[1.0] * 6 + [2.0] * LATELY]

    # The change is 0.5 and its variance 0.6 / 6: two fifths of 0.25 are chance.
    assert drifted(rows, [1.5], 0.6) == pytest.approx(1 + 0.6 * 0.5 / 1.5)
    assert drifted(rows, [1.5], 0.25 * LATELY) == 1


def test_nothing_is_foretold_of_those_who_are_new_or_idle() -> None:
    assert drifted([[2.0] * LATELY], [1.0], 0.0) == 1
    assert drifted([[0.0] * 12], [0.0], 0.0) == 1
    assert math.isclose(drifted([[2.0] * 12], [2.0], 0.1), 1)
