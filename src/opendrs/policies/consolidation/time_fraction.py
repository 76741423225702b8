"""Detectors that bound the overload time fraction: OTF and MHOD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from opendrs.policies.base import require_ratio
from opendrs.policies.consolidation.detector import (
    DetectorResult,
    DetectorResults,
    OverloadCounter,
    OverloadCounters,
    require_samples,
)
from opendrs.policies.consolidation.history import Floats, Integers, LoadHistories, Mask
from opendrs.policies.consolidation.markov import (
    SINGULAR,
    OverloadBound,
    grid,
    optimal_policy,
    state_of,
    transition_estimates,
    transition_probabilities,
)


def _count_samples(
    histories: LoadHistories, counters: OverloadCounters, threshold: float
) -> tuple[Mask, OverloadCounters]:
    """Return which hosts are above *threshold*, and the counters with this sample."""
    known = histories.lengths > 0
    is_overloaded = known & (histories.last() >= threshold)
    return is_overloaded, OverloadCounters(
        counters.samples + known, counters.overloaded + is_overloaded
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadTimeFraction:
    """OTF: overloaded if a migration would end with too much time in overload.

    Attributes:
        otf: Fraction of time for which a host may be overloaded.
        threshold: Load from which a host is overloaded.
        limit: Fewest samples; with fewer, the host is not overloaded.
    """

    name: ClassVar[str] = "otf"
    otf: float = 0.2
    threshold: float = 0.8
    limit: int = 10

    def __post_init__(self) -> None:
        require_ratio("otf", self.otf, 1.0)
        require_ratio("threshold", self.threshold, 1.0)
        require_samples("limit", self.limit)

    def judge(
        self, history: Sequence[float], counter: OverloadCounter, migration: float
    ) -> DetectorResult:
        """Return the result for one host; without a sample, nothing is counted."""
        if not history:
            return DetectorResult(overloaded=False, counter=counter)
        is_overloaded = history[-1] >= self.threshold
        samples, overloaded = counter.samples + 1, counter.overloaded + is_overloaded
        exceeded = (migration + overloaded) / (migration + samples) >= self.otf
        enough = len(history) >= self.limit
        return DetectorResult(
            is_overloaded and enough and exceeded, OverloadCounter(samples, overloaded)
        )

    def judge_all(
        self, histories: LoadHistories, counters: OverloadCounters, migration: Floats
    ) -> DetectorResults:
        """Return the results for all hosts."""
        is_overloaded, after = _count_samples(histories, counters, self.threshold)
        time = np.where(histories.lengths > 0, migration + after.samples, 1)
        exceeded = (migration + after.overloaded) / time >= self.otf
        return DetectorResults(
            is_overloaded & (histories.lengths >= self.limit) & exceeded, after
        )


NORMAL, OVERLOADED = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MhodDetector:
    """MHOD: overloaded if no migration policy keeps the overload time fraction.

    The whole history is evaluated each time; OpenStack Neat passes the last hundred
    samples.

    Attributes:
        otf: Fraction of time for which a host may be overloaded.
        threshold: Load from which a host is overloaded.
        windows: Sizes of the windows in which probabilities are estimated.
        step: Grid spacing of the search for the optimal policy.
        learning: Fewest samples; with fewer, the host is not overloaded.
    """

    name: ClassVar[str] = "mhod"
    otf: float = 0.1
    threshold: float = 0.8
    windows: tuple[int, ...] = (30, 40, 50, 60, 70, 80, 90, 100)
    step: float = 0.5
    learning: int = 10

    def __post_init__(self) -> None:
        require_ratio("otf", self.otf, 1.0)
        require_ratio("threshold", self.threshold, 1.0)
        require_samples("learning", self.learning)
        if not self.windows or list(self.windows) != sorted(set(self.windows)):
            raise ValueError(f"windows: expected ascending sizes, got {self.windows}")
        require_samples("windows", self.windows[0], 2)
        if not 0 < self.step <= 1:
            raise ValueError(f"step: expected a number in (0, 1], got {self.step}")

    def judge(
        self, history: Sequence[float], counter: OverloadCounter, migration: float
    ) -> DetectorResult:
        """Return the result for one host; without a sample, nothing is counted."""
        if not history:
            return DetectorResult(overloaded=False, counter=counter)
        is_overloaded = history[-1] >= self.threshold
        after = OverloadCounter(counter.samples + 1, counter.overloaded + is_overloaded)
        if not is_overloaded or len(history) < self.learning:
            return DetectorResult(overloaded=False, counter=after)
        probabilities = self.transition_probabilities(history)
        if probabilities[OVERLOADED][OVERLOADED] == 0:
            return DetectorResult(overloaded=False, counter=after)
        bound = OverloadBound(self.otf, after.samples, after.overloaded, migration)
        migration_probabilities = optimal_policy(
            probabilities, OVERLOADED, bound, self.step
        )
        return DetectorResult(migration_probabilities is None, after)

    def transition_probabilities(self, history: Sequence[float]) -> list[list[float]]:
        """Return the probability of each transition between the two states."""
        states = [state_of(load, (self.threshold,)) for load in history]
        rows = transition_estimates(states, 2, self.windows)
        return [[each.probability for each in row] for row in rows]

    def judge_all(
        self, histories: LoadHistories, counters: OverloadCounters, migration: Floats
    ) -> DetectorResults:
        """Return the results for all hosts."""
        is_overloaded, after = _count_samples(histories, counters, self.threshold)
        candidates = np.flatnonzero(
            is_overloaded & (histories.lengths >= self.learning)
        )
        probabilities = transition_probabilities(
            histories.values[candidates] >= self.threshold,
            histories.lengths[candidates],
            self.windows,
        )
        bound = (
            after.samples[candidates],
            after.overloaded[candidates],
            migration[candidates],
        )
        infeasible = (probabilities[:, 1, 1] > 0) & ~self._bound_can_hold(
            probabilities, *bound
        )
        overloaded = np.zeros(len(is_overloaded), np.bool_)
        overloaded[candidates] = infeasible
        return DetectorResults(overloaded, after)

    def _bound_can_hold(
        self,
        probabilities: Floats,
        samples: Integers,
        overloaded: Integers,
        migration: Floats,
    ) -> Mask:
        """Return True for each overloaded host if any policy keeps the bound."""
        grid_points = np.array(list(grid(0, 1, self.step)))
        stay_probabilities = 1 - np.stack(
            np.meshgrid(grid_points, grid_points, indexing="ij")
        ).reshape(2, -1)
        (q00, q01), (q10, q11) = (
            [
                stay_probabilities[row] * probabilities[:, row, column, None]
                for column in (0, 1)
            ]
            for row in (NORMAL, OVERLOADED)
        )
        determinant = (1 - q00) * (1 - q11) - q01 * q10
        singular = np.abs(determinant) < SINGULAR
        divisor = np.where(singular, 1.0, determinant)
        first, second = q10 / divisor, (1 - q00) / divisor
        spent = np.where(singular, 0.0, (migration + overloaded)[:, None]) + second
        time = np.where(singular, 0.0, (migration + samples)[:, None]) + first + second
        positive = first + second > np.where(singular, SINGULAR, 0.0)
        known = positive & (time != 0)
        fraction = spent / np.where(known, time, 1)
        return np.asarray((known & (fraction <= self.otf)).any(axis=1))
