"""MHOD: overload by a Markov chain and an optimal policy under a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from opendrs.policies.base import require_ratio
from opendrs.policies.consolidation.detection import (
    Tallies,
    Tally,
    Verdict,
    Verdicts,
    require_samples,
)
from opendrs.policies.consolidation.histories import Floats, Histories, Integers, Truths
from opendrs.policies.consolidation.markov import (
    SINGULAR,
    Bound,
    best_policy,
    grid,
    state_of,
    transition_estimates,
)
from opendrs.policies.consolidation.windows import transition_chances

NORMAL, OVERLOADED = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mhod:
    """MHOD: no policy of migrating keeps the overload time fraction.

    Judges by the whole history it is given, anew each time; OpenStack Neat gives it
    the last hundred samples.

    Attributes:
        otf: The part of the time that a host may be overloaded.
        threshold: The load from which a host is overloaded.
        windows: Sizes of the windows in which probabilities are estimated.
        step: Mesh of the grid on which the optimal policy is looked for.
        learning: Fewest samples to judge by.
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
            raise ValueError(f"windows must ascend, unlike {self.windows}")
        require_samples("windows", self.windows[0], 2)
        if not 0 < self.step <= 1:
            raise ValueError(f"step must be in (0, 1], not {self.step}")

    def judge(
        self, history: Sequence[float], tally: Tally, migration: float
    ) -> Verdict:
        """Return the verdict on one host; nothing is counted without a sample."""
        if not history:
            return Verdict(overloaded=False, tally=tally)
        now = history[-1] >= self.threshold
        after = Tally(tally.seen + 1, tally.overloaded + now)
        if not now or len(history) < self.learning:
            return Verdict(overloaded=False, tally=after)
        chances = self.chances(history)
        if chances[OVERLOADED][OVERLOADED] == 0:
            return Verdict(overloaded=False, tally=after)
        bound = Bound(self.otf, after.seen, after.overloaded, migration)
        policy = best_policy(chances, OVERLOADED, bound, self.step)
        return Verdict(policy is None, after)

    def chances(self, history: Sequence[float]) -> list[list[float]]:
        """Return the probability of each transition between the two states."""
        states = [state_of(load, (self.threshold,)) for load in history]
        rows = transition_estimates(states, 2, self.windows)
        return [[each.chance for each in row] for row in rows]

    def judge_all(
        self, histories: Histories, tallies: Tallies, migration: Floats
    ) -> Verdicts:
        """Return the verdicts on all hosts."""
        known = histories.lengths > 0
        now = known & (histories.last() >= self.threshold)
        after = Tallies(tallies.seen + known, tallies.overloaded + now)
        asked = np.flatnonzero(now & (histories.lengths >= self.learning))
        chances = transition_chances(
            histories.values[asked] >= self.threshold,
            histories.lengths[asked],
            self.windows,
        )
        bound = (after.seen[asked], after.overloaded[asked], migration[asked])
        hopeless = (chances[:, 1, 1] > 0) & ~self._can_be_kept(chances, *bound)
        overloaded = np.zeros(len(known), np.bool_)
        overloaded[asked] = hopeless
        return Verdicts(overloaded, after)

    def _can_be_kept(
        self, chances: Floats, seen: Integers, overloaded: Integers, migration: Floats
    ) -> Truths:
        """Return for each host, which is overloaded, whether any policy will do."""
        mesh = np.array(list(grid(0, 1, self.step)))
        stays = 1 - np.stack(np.meshgrid(mesh, mesh, indexing="ij")).reshape(2, -1)
        (q00, q01), (q10, q11) = (
            [stays[row] * chances[:, row, column, None] for column in (0, 1)]
            for row in (NORMAL, OVERLOADED)
        )
        determinant = (1 - q00) * (1 - q11) - q01 * q10
        singular = np.abs(determinant) < SINGULAR
        by = np.where(singular, 1.0, determinant)
        first, second = q10 / by, (1 - q00) / by
        spent = np.where(singular, 0.0, (migration + overloaded)[:, None]) + second
        time = np.where(singular, 0.0, (migration + seen)[:, None]) + first + second
        lasting = first + second > np.where(singular, SINGULAR, 0.0)
        known = lasting & (time != 0)
        fraction = spent / np.where(known, time, 1)
        return np.asarray((known & (fraction <= self.otf)).any(axis=1))
