"""Markov chain of a host's load, and the best time to migrate a guest off it.

The states are ranges of load; the last one is overload. The probability of each
transition is estimated from the history in windows of several sizes. The largest
window in which the estimate is steady is used. A policy is a probability to migrate
in each of two states. The chain gives the expected time until the migration, and the
best policy is searched on a grid, so no solver is needed.

If the chain never leaves its states, the time is infinite and its parts are in the
proportion of the stationary distribution. The original lets rounding decide there.

Source:
    Beloglazov and Buyya, Managing overloaded hosts for dynamic consolidation of
    virtual machines in cloud data centers under quality of service constraints,
    IEEE TPDS 24 (2013) 1366-1379.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from opendrs.metrics import sum_in_order, sum_of_rows
from opendrs.policies.consolidation.history import Floats, Integers, Mask

TransitionMatrix = Sequence[Sequence[float]]
SINGULAR = 1e-12  # determinants below this are rounding errors


class TransitionEstimate(NamedTuple):
    """Estimated probability, and the size of the window it was estimated in."""

    probability: float
    window: int


class ExpectedSojourn(NamedTuple):
    """Expected number of samples in each state until a migration.

    Attributes:
        normal: Samples in state 0.
        overloaded: Samples in state 1.
    """

    normal: float
    overloaded: float


class OverloadBound(NamedTuple):
    """Bound on the overload time fraction, and the counts so far.

    Attributes:
        otf: Largest allowed fraction of time in overload.
        samples: Samples until now.
        overloaded: Samples in overload until now.
        migration: Duration of a migration in samples.
    """

    otf: float
    samples: float
    overloaded: float
    migration: float

    def fraction(self, sojourn: ExpectedSojourn) -> float:
        """Return the overload time fraction after a finite *sojourn*."""
        overload = self.migration + self.overloaded + sojourn.overloaded
        return overload / (
            self.migration + self.samples + sojourn.normal + sojourn.overloaded
        )


def state_of(load: float, thresholds: Sequence[float], *, flawed: bool = False) -> int:
    """Return the state of *load*: 0 below the first threshold.

    Args:
        load: Used fraction of the CPU.
        thresholds: Lower bounds of states 1, 2, ..., ascending.
        flawed: True to reproduce a bug of the original, which from the third
            state on compares with the number of the state and so skips it.
    """
    state = bisect_right(thresholds, load)
    if flawed and 2 <= state < len(thresholds) and load < state - 1:
        return len(thresholds)
    return state


def transition_estimates(
    states: Sequence[int], count: int, sizes: Sequence[int]
) -> list[list[TransitionEstimate]]:
    """Return the probability of each transition, estimated from *states*.

    Args:
        states: States of the host, oldest first; state 0 precedes them.
        count: Number of states.
        sizes: Window sizes, ascending, at least 2.

    Returns:
        One row per state left, one estimate per state entered. With fewer
        samples than a window has, the sum of a row is less than 1.
    """
    before = (0, *states)
    followers = [
        [
            after
            for origin, after in zip(before, states, strict=False)
            if origin == state
        ]
        for state in range(count)
    ]
    return [
        [_estimate(row, entered, sizes) for entered in range(count)]
        for row in followers
    ]


def _estimate(
    followers: Sequence[int], entered: int, sizes: Sequence[int]
) -> TransitionEstimate:
    if not followers:
        return TransitionEstimate(0.0, sizes[-1])
    hits = [0, *accumulate(int(each == entered) for each in followers)]
    chosen = sizes[0]
    for size in sizes:
        if not _is_steady(hits, size):
            break
        chosen = size
    return TransitionEstimate(
        (hits[-1] - hits[max(0, len(hits) - 1 - chosen)]) / chosen, chosen
    )


def _is_steady(hits: Sequence[int], size: int) -> bool:
    """Return True if recent estimates vary no more than random estimates do.

    Equal variances are common, and rounding decides between them. The sums are
    computed in the order of the original to reproduce its decisions.
    """
    samples = len(hits) - 1
    if samples < size:
        return False
    estimates = [
        (hits[end] - hits[max(0, end - size)]) / size
        for end in range(samples - size + 1, samples + 1)
    ]
    mean = sum_in_order(estimates) / size
    variance = sum_in_order((each - mean) ** 2 for each in estimates) / (size - 1)
    return variance <= estimates[-1] * (1 - estimates[-1]) / size


def expected_sojourn(
    probabilities: TransitionMatrix, migrating: Sequence[float], state: int
) -> ExpectedSojourn:
    """Return the expected time of a host in each of two states.

    Args:
        probabilities: Probability of each transition.
        migrating: Probability to migrate in each state.
        state: Current state of the host.

    Returns:
        Infinite if the chain never ends and the state recurs; NaN if the time is
        then undetermined.
    """
    normal, overloaded, determinant = _cofactors(probabilities, migrating, state)
    if determinant == 0:
        return ExpectedSojourn(_infinite(normal), _infinite(overloaded))
    return ExpectedSojourn(normal / determinant, overloaded / determinant)


def _cofactors(
    probabilities: TransitionMatrix, migrating: Sequence[float], state: int
) -> tuple[float, float, float]:
    """Return both times multiplied by the determinant, and the determinant."""
    (q00, q01), (q10, q11) = (
        [(1 - migration_probability) * probability for probability in row]
        for migration_probability, row in zip(migrating, probabilities, strict=True)
    )
    determinant = (1 - q00) * (1 - q11) - q01 * q10
    if abs(determinant) < SINGULAR:
        determinant = 0.0
    normal = q10 if state else 1 - q11
    overloaded = 1 - q00 if state else q01
    return normal, overloaded, determinant


def _infinite(cofactor: float) -> float:
    return math.inf if cofactor > SINGULAR else math.nan


def grid(start: float, end: float, step: float) -> Iterator[float]:
    """Yield *start*, *start* + *step*, ... up to *end*, with accumulated rounding."""
    while start <= end:
        yield start
        start += step


def optimal_policy(
    probabilities: TransitionMatrix, state: int, bound: OverloadBound, step: float
) -> tuple[float, float] | None:
    """Return the migration probabilities that keep the guests on the host longest.

    Args:
        probabilities: Probability of each transition between two states.
        state: Current state of the host.
        bound: Bound that must hold after the migration.
        step: Grid spacing.

    Returns:
        The probability in each state, the first of equal ones; None if every
        policy violates the bound.
    """
    best, longest = None, 0.0
    for policy in ((m0, m1) for m0 in grid(0, 1, step) for m1 in grid(0, 1, step)):
        time = _expected_time(probabilities, policy, state, bound)
        if time is not None and time > longest:
            best, longest = policy, time
    return best


def _expected_time(
    probabilities: TransitionMatrix,
    policy: Sequence[float],
    state: int,
    bound: OverloadBound,
) -> float | None:
    """Return the expected time; None if it violates the bound or is undetermined."""
    normal, overloaded, determinant = _cofactors(probabilities, policy, state)
    if determinant == 0:
        whole = normal + overloaded
        if whole <= SINGULAR:
            return None
        return math.inf if overloaded / whole <= bound.otf else None
    time = ExpectedSojourn(normal / determinant, overloaded / determinant)
    if bound.migration + bound.samples + sum(time) == 0:
        return None
    return sum(time) if bound.fraction(time) <= bound.otf else None


def transition_probabilities(
    overloaded: Mask, lengths: Integers, sizes: Sequence[int]
) -> Floats:
    """Return `transition_estimates` for two states and many hosts.

    Args:
        overloaded: True where the host was in state 1; shape (hosts, samples),
            newest last, valid samples at the end of each row.
        lengths: Number of valid samples in each row; shape (hosts,).
        sizes: Window sizes, ascending, at least 2.

    Returns:
        The probability of each transition; shape (hosts, left, entered).
    """
    hosts, samples = overloaded.shape
    valid = np.arange(samples) >= samples - lengths[:, None]
    before = np.zeros_like(overloaded)
    before[:, 1:] = overloaded[:, :-1] & valid[:, :-1]
    probabilities = np.zeros((hosts, 2, 2))
    for left in (0, 1):
        selected = valid & (before == bool(left))
        followers, count = _right_align(overloaded, selected), selected.sum(axis=1)
        present = np.arange(samples) >= samples - count[:, None]
        for entered in (0, 1):
            hits = present & (followers == bool(entered))
            probabilities[:, left, entered] = _estimates(hits, count, sizes)
    return probabilities


def _right_align(values: Mask, selected: Mask) -> Mask:
    """Return the *selected* values of each row in order, right-aligned."""
    order = np.argsort(selected, axis=1, kind="stable")
    aligned: Mask = np.take_along_axis(values, order, axis=1)
    return aligned


def _estimates(hits: Mask, count: Integers, sizes: Sequence[int]) -> Floats:
    so_far = np.zeros((hits.shape[0], hits.shape[1] + 2 * sizes[-1]), np.int64)
    so_far[:, 2 * sizes[-1] :] = np.cumsum(hits, axis=1)
    steady = np.ones(len(count), np.bool_)
    probabilities = np.zeros(len(count))
    for size in sizes:
        estimates = (so_far[:, -size:] - so_far[:, -2 * size : -size]) / size
        last = estimates[:, -1]
        if size == sizes[0]:
            probabilities = last
        mean = sum_of_rows(estimates.T) / size
        variance = sum_of_rows((estimates.T - mean) ** 2) / (size - 1)
        steady &= (count >= size) & (variance <= last * (1 - last) / size)
        probabilities = np.where(steady, last, probabilities)
    return probabilities
