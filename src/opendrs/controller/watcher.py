"""Who is told what happens while it happens."""

from __future__ import annotations

from typing import Protocol

from opendrs.model import Step
from opendrs.ports import StepRecord, TaskStatus


class Watcher(Protocol):
    """Someone to be told: a screen, a log."""

    def started(self, step: Step) -> None:
        """Take note that *step* was started."""

    def progressed(self, step: Step, status: TaskStatus) -> None:
        """Take note of how far *step* is; told at every look."""

    def waiting(self, step: Step, why: str) -> None:
        """Take note that *step* cannot go on for now; told when *why* changes."""

    def ended(self, step: Step, record: StepRecord) -> None:
        """Take note of what came of *step*, also if it was never started."""


class SilentWatcher:
    """Tells nobody."""

    def started(self, step: Step) -> None:
        """Say nothing."""

    def progressed(self, step: Step, status: TaskStatus) -> None:
        """Say nothing."""

    def waiting(self, step: Step, why: str) -> None:
        """Say nothing."""

    def ended(self, step: Step, record: StepRecord) -> None:
        """Say nothing."""
