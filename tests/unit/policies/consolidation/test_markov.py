"""Markov chain, expected time until a migration, and optimal policy."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from opendrs.policies.consolidation.markov import (
    ExpectedSojourn,
    OverloadBound,
    TransitionEstimate,
    expected_sojourn,
    grid,
    optimal_policy,
    state_of,
    transition_estimates,
)

chance = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize(("load", "state"), [(0.1, 0), (0.5, 1), (0.6, 1), (0.9, 2)])
def test_state_range_includes_its_threshold(load: float, state: int) -> None:
    assert state_of(load, (0.5, 0.8)) == state


def test_original_skips_third_state() -> None:
    thresholds = (0.25, 0.5, 0.75)

    assert state_of(0.6, thresholds) == 2
    assert state_of(0.6, thresholds, flawed=True) == 3


def test_estimates_are_shares_of_the_window_also_while_it_fills() -> None:
    rows = transition_estimates([0, 0, 1], 2, (5, 10))

    # Left from 0, the state before the first: to 0, 0 and 1.
    assert rows[0] == [TransitionEstimate(2 / 5, 5), TransitionEstimate(1 / 5, 5)]
    assert rows[1] == [TransitionEstimate(0.0, 10), TransitionEstimate(0.0, 10)]


def test_a_steady_chain_is_estimated_in_the_largest_window() -> None:
    rows = transition_estimates([0] * 30, 2, (5, 10, 15))

    assert rows[0] == [TransitionEstimate(1.0, 15), TransitionEstimate(0.0, 15)]


def test_a_chain_that_changed_is_estimated_in_a_small_window() -> None:
    rows = transition_estimates([0] * 20 + [0, 1] * 5, 2, (4, 20))

    assert rows[0][1].window == 4


@given(chance, chance, chance, chance, st.integers(0, 1))
def test_the_time_is_the_sum_of_all_powers_of_the_chain(
    stays: float, returns: float, m0: float, m1: float, start: int
) -> None:
    probabilities = np.array([[stays, 1 - stays], [returns, 1 - returns]])
    kept = probabilities * np.array([[1 - m0], [1 - m1]])
    assume(max(abs(np.linalg.eigvals(kept))) < 0.99)
    expected = np.eye(2)[start] @ np.linalg.inv(np.eye(2) - kept)

    assert expected_sojourn(probabilities.tolist(), (m0, m1), start) == pytest.approx(
        expected.tolist()
    )


def test_expected_sojourn_without_migration_is_infinite() -> None:
    assert expected_sojourn([[0.5, 0.5], [0.5, 0.5]], (0, 0), 1) == ExpectedSojourn(
        math.inf, math.inf
    )


def test_the_grid_includes_both_ends() -> None:
    assert list(grid(0, 1, 0.25)) == [0, 0.25, 0.5, 0.75, 1.0]


def test_optimal_policy_never_migrates_when_bound_always_holds() -> None:
    # Overload is a fifth of the time in the long run: 0.1 / (0.1 + 0.4).
    probabilities = [[0.9, 0.1], [0.4, 0.6]]

    assert optimal_policy(probabilities, 1, OverloadBound(0.21, 10, 9, 1.0), 0.5) == (
        0,
        0,
    )
    assert (
        optimal_policy(probabilities, 1, OverloadBound(0.19, 10, 9, 1.0), 0.5) is None
    )


@given(chance, chance, st.floats(0.05, 0.95), st.integers(1, 50), st.integers(0, 50))
def test_no_policy_on_the_grid_keeps_the_host_longer(
    stays: float, returns: float, otf: float, seen: int, overloaded: int
) -> None:
    probabilities = [[stays, 0.9 - stays * 0.9], [returns * 0.9, 0.9 - returns * 0.9]]
    bound = OverloadBound(otf, seen, min(seen, overloaded), 0.3)
    best = optimal_policy(probabilities, 1, bound, 0.5)
    longest = sum(expected_sojourn(probabilities, best, 1)) if best else 0.0
    assume(not math.isnan(longest))

    for policy in product((0, 0.5, 1.0), repeat=2):
        time = expected_sojourn(probabilities, policy, 1)
        if all(map(math.isfinite, time)) and bound.fraction(time) <= otf:
            assert best is not None
            assert sum(time) <= longest * (1 + 1e-12)


def test_policy_with_undefined_time_is_ignored() -> None:
    # The estimates of a row may add up to more than 1; here the time is 0.
    probabilities = [[1.5, 0.0], [0.5, 0.0]]

    assert optimal_policy(probabilities, 1, OverloadBound(1.0, 0, 0, 0.0), 1.0) == (
        1.0,
        0,
    )
