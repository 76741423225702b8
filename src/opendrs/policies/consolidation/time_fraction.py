"""Overload as a part of the time that must not be exceeded."""

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
from opendrs.policies.consolidation.histories import Floats, Histories


@dataclass(frozen=True, slots=True, kw_only=True)
class Otf:
    """OTF: by the time a guest has left, too much time was spent overloaded.

    Attributes:
        otf: The part of the time that a host may be overloaded.
        threshold: The load from which a host is overloaded.
        limit: Fewest samples to judge by.
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
        self, history: Sequence[float], tally: Tally, migration: float
    ) -> Verdict:
        """Return the verdict on one host; nothing is counted without a sample."""
        if not history:
            return Verdict(overloaded=False, tally=tally)
        now = history[-1] >= self.threshold
        seen, overloaded = tally.seen + 1, tally.overloaded + now
        exceeded = (migration + overloaded) / (migration + seen) >= self.otf
        enough = len(history) >= self.limit
        return Verdict(now and enough and exceeded, Tally(seen, overloaded))

    def judge_all(
        self, histories: Histories, tallies: Tallies, migration: Floats
    ) -> Verdicts:
        """Return the verdicts on all hosts."""
        known = histories.lengths > 0
        now = known & (histories.last() >= self.threshold)
        after = Tallies(tallies.seen + known, tallies.overloaded + now)
        time = np.where(known, migration + after.seen, 1)
        exceeded = (migration + after.overloaded) / time >= self.otf
        return Verdicts(now & (histories.lengths >= self.limit) & exceeded, after)
