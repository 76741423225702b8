"""What a controller remembers of what it decided and did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from opendrs.model import Action, StepId
from opendrs.ports.platform import TaskId


class Outcome(StrEnum):
    """What came of a step."""

    DONE = "done"
    FAILED = "failed"
    ABORTED = "aborted"
    REJECTED = "rejected"
    SKIPPED = "skipped"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What is kept of one step that was to be executed.

    Attributes:
        run: The run of `apply` or of the controller it belongs to.
        step: Its name in the plan.
        action: What was to be done.
        intended_at: When it was decided to start it; written before the start.
        task: What the platform calls it; None until the platform has said.
        ended_at: When the outcome was seen.
        outcome: What came of it; None while it is not known.
        detail: Why, in words for the operator.
    """

    run: str
    step: StepId
    action: Action
    intended_at: datetime
    task: TaskId | None = None
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRecord:
    """What was decided in one cycle, and by what.

    Attributes:
        run: What the execution of its plan is called.
        decided_at: When.
        document: The policy, its settings, the snapshot, the memory, and the
            decision; can be written as JSON.
    """

    run: str
    decided_at: datetime
    document: Mapping[str, object]


class Store(Protocol):
    """What a controller remembers. May raise `StoreError`.

    What is saved is safe from a crash before the method returns.
    """

    def load(self, key: str) -> Mapping[str, object] | None:
        """Return what was saved under *key*, or None."""

    def save(self, key: str, value: Mapping[str, object]) -> None:
        """Save *value*, which can be written as JSON, under *key*."""

    def write(self, record: StepRecord) -> None:
        """Add *record*, or replace the one of the same run and step."""

    def unfinished(self) -> tuple[StepRecord, ...]:
        """Return the records without an outcome, the oldest first."""

    def recent(self, since: datetime) -> tuple[StepRecord, ...]:
        """Return the records intended or ended at or after *since*.

        The oldest come first, by when they were intended. A step that was recovered
        after a restart may end long after it was intended.
        """

    def correct_times(self, now: datetime) -> int:
        """Set the recorded times that are after *now* to *now*.

        A clock that was ahead has recorded them, and has been set back since. What an
        agent measured counts as measured just before all that was done.

        Returns:
            The number of entries that had such a time.
        """

    def records_of(self, run: str) -> tuple[StepRecord, ...]:
        """Return the records of that run, the oldest first."""

    def record_cycle(self, cycle: CycleRecord) -> None:
        """Keep what was decided in a cycle; the oldest of many are forgotten."""

    def cycles(self) -> tuple[CycleRecord, ...]:
        """Return what was decided in the cycles that are kept, the oldest first."""
