"""What came of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ports import Outcome, StepRecord


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a plan.

    Attributes:
        records: One per step, in the order of the plan; all have an outcome.
    """

    records: tuple[StepRecord, ...] = ()

    def count(self, outcome: Outcome) -> int:
        """Return how many steps ended in *outcome*."""
        return sum(record.outcome is outcome for record in self.records)

    @property
    def complete(self) -> bool:
        """Return whether every step was done."""
        return self.count(Outcome.DONE) == len(self.records)

    @property
    def summary(self) -> str:
        """Return the outcomes that occur, each with its number."""
        counts = ((outcome, self.count(outcome)) for outcome in Outcome)
        words = (f"{count} {outcome}" for outcome, count in counts if count)
        return ", ".join(words) or "nothing to do"
