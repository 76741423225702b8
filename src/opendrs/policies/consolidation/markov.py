"""A host's load as a Markov chain, and when best to move a guest away from it.

The states are ranges of load, the last one overload. From the history, the
probability of each transition is estimated in windows of several sizes: the
largest in which the estimate has been steady. From the chain of two states, the
expected time until a migration is that for which each state's probability to
migrate is chosen; its optimum is looked for on a grid, so no solver is needed.

Where the chain never leaves its states the time is infinite and its parts are
in the proportion of the stationary distribution; the original lets rounding decide.

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

from opendrs.scoring.sums import sum_in_order

Chances = Sequence[Sequence[float]]

SINGULAR = 1e-12  # determinants below this are rounding


class Estimate(NamedTuple):
    """A probability, and the size of the window it was estimated in."""

    chance: float
    window: int


class Stay(NamedTuple):
    """Samples that a host is expected to spend in each state until a migration.

    Attributes:
        normal: In state 0.
        overloaded: In state 1.
    """

    normal: float
    overloaded: float


class Bound(NamedTuple):
    """The part of the time that may be overload, and how it stands.

    Attributes:
        otf: The part.
        seen: Samples until now.
        overloaded: Samples of overload until now.
        migration: Samples that a migration takes.
    """

    otf: float
    seen: float
    overloaded: float
    migration: float

    def fraction(self, stay: Stay) -> float:
        """Return the part of the time that is overload, after a finite *stay*."""
        overload = self.migration + self.overloaded + stay.overloaded
        return overload / (self.migration + self.seen + stay.normal + stay.overloaded)


def state_of(load: float, thresholds: Sequence[float], *, flawed: bool = False) -> int:
    """Return the range that *load* is in: 0 below the first threshold.

    Args:
        load: Part of the CPU in use.
        thresholds: Where ranges begin, ascending.
        flawed: As the original does it, which from the third range on compares
            with the number of the range and so skips it.
    """
    state = bisect_right(thresholds, load)
    if flawed and 2 <= state < len(thresholds) and load < state - 1:
        return len(thresholds)
    return state


def transition_estimates(
    states: Sequence[int], count: int, sizes: Sequence[int]
) -> list[list[Estimate]]:
    """Return the probability of each transition, estimated from *states*.

    Args:
        states: What the host went through, the oldest first; it was in state 0
            before.
        count: How many states there are.
        sizes: Window sizes, ascending, at least 2.

    Returns:
        One row per state left, one estimate per state entered. While fewer
        samples are there than a window has, a row adds up to less than 1.
    """
    before = (0, *states)
    followers = [
        [after for left, after in zip(before, states, strict=False) if left == state]
        for state in range(count)
    ]
    return [
        [_estimate(row, entered, sizes) for entered in range(count)]
        for row in followers
    ]


def _estimate(followers: Sequence[int], entered: int, sizes: Sequence[int]) -> Estimate:
    if not followers:
        return Estimate(0.0, sizes[-1])
    hits = [0, *accumulate(int(each == entered) for each in followers)]
    chosen = sizes[0]
    for size in sizes:
        if not _is_steady(hits, size):
            break
        chosen = size
    return Estimate((hits[-1] - hits[max(0, len(hits) - 1 - chosen)]) / chosen, chosen)


def _is_steady(hits: Sequence[int], size: int) -> bool:
    """Return whether the estimates of late vary no more than chance would.

    Equal variances are common, and rounding decides between them: in the order of
    the original, so that its decisions are found again.
    """
    seen = len(hits) - 1
    if seen < size:
        return False
    estimates = [
        (hits[end] - hits[max(0, end - size)]) / size
        for end in range(seen - size + 1, seen + 1)
    ]
    mean = sum_in_order(estimates) / size
    variance = sum_in_order((each - mean) ** 2 for each in estimates) / (size - 1)
    return variance <= estimates[-1] * (1 - estimates[-1]) / size


def stay(chances: Chances, migrating: Sequence[float], state: int) -> Stay:
    """Return how long a host is expected to be in each of two states.

    Args:
        chances: Probability of each transition.
        migrating: Probability to migrate in each state.
        state: Where the host is now.

    Returns:
        Infinite where the chain never ends and a state is visited again and
        again; NaN where that leaves the time open.
    """
    normal, overloaded, determinant = _cofactors(chances, migrating, state)
    if determinant == 0:
        return Stay(_infinite(normal), _infinite(overloaded))
    return Stay(normal / determinant, overloaded / determinant)


def _cofactors(
    chances: Chances, migrating: Sequence[float], state: int
) -> tuple[float, float, float]:
    """Return both times multiplied by the determinant, and the determinant."""
    (q00, q01), (q10, q11) = (
        [(1 - leaving) * chance for chance in row]
        for leaving, row in zip(migrating, chances, strict=True)
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
    """Yield *start* and what follows in steps, up to *end*, rounding included."""
    while start <= end:
        yield start
        start += step


def best_policy(
    chances: Chances, state: int, bound: Bound, step: float
) -> tuple[float, float] | None:
    """Return the probabilities to migrate that keep the host longest.

    Args:
        chances: Probability of each transition between two states.
        state: Where the host is now.
        bound: What must hold once a guest has left.
        step: Mesh of the grid.

    Returns:
        The probability in each state, the first among equals; None when every
        policy breaks the bound.
    """
    best, longest = None, 0.0
    for policy in ((m0, m1) for m0 in grid(0, 1, step) for m1 in grid(0, 1, step)):
        time = _time_kept(chances, policy, state, bound)
        if time is not None and time > longest:
            best, longest = policy, time
    return best


def _time_kept(
    chances: Chances, policy: Sequence[float], state: int, bound: Bound
) -> float | None:
    """Return the expected time, or None if the bound is broken or time is open."""
    normal, overloaded, determinant = _cofactors(chances, policy, state)
    if determinant == 0:
        whole = normal + overloaded
        if whole <= SINGULAR:
            return None
        return math.inf if overloaded / whole <= bound.otf else None
    time = Stay(normal / determinant, overloaded / determinant)
    if bound.migration + bound.seen + sum(time) == 0:
        return None
    return sum(time) if bound.fraction(time) <= bound.otf else None
