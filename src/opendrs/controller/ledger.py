"""Which steps of a plan are still to start, and what came of the others."""

from __future__ import annotations

from collections.abc import Iterable

from opendrs.controller.means import Means
from opendrs.model import Plan, Step, StepId
from opendrs.ports import Outcome, StepRecord


class Ledger:
    """Which steps of a plan are still to start, and what came of the others.

    Args:
        plan: The plan.
        run: What its execution is called.
        means: What is at hand.
    """

    def __init__(self, plan: Plan, run: str, means: Means) -> None:
        self._plan = plan
        self._run = run
        self._means = means
        self._to_start = {step.id: step for step in plan.steps}
        self._ended: dict[StepId, StepRecord] = {}
        self._told: dict[StepId, str] = {}

    @property
    def to_start(self) -> tuple[Step, ...]:
        """Return the steps that are still to start, in the order of the plan."""
        return tuple(self._to_start.values())

    @property
    def records(self) -> tuple[StepRecord, ...]:
        """Return what came of each step, in the order of the plan, at the end."""
        return tuple(self._ended[step.id] for step in self._plan.steps)

    def is_ready(self, step: Step, together: Iterable[Step] = ()) -> bool:
        """Return whether *step* waits for nothing but those it starts with."""
        names = {companion.id for companion in together}
        return all(name in self._ended or name in names for name in step.after)

    def intend(self, step: Step) -> StepRecord:
        """Write down that *step* is about to start."""
        record = self._record(step)
        self._means.store.write(record)
        del self._to_start[step.id]
        return record

    def close(self, record: StepRecord) -> None:
        """Take note of how a step that was started has ended."""
        self._ended[record.step] = record

    def refuse(self, steps: Iterable[Step], why: str) -> None:
        """Write down that *steps* may not start."""
        self._end(steps, Outcome.REFUSED, why)

    def skip(self, steps: Iterable[Step], why: str) -> None:
        """Write down that *steps* are not started."""
        self._end(steps, Outcome.SKIPPED, why)

    def skip_the_hopeless(self) -> None:
        """Skip every step that waits for one that was not done."""
        for step in self.to_start:
            for name in step.after:
                record = self._ended.get(name)
                if record is not None and record.outcome is not Outcome.DONE:
                    self.skip([step], f"it waits for {name}, which was not done")
                    break

    def wait(self, steps: Iterable[Step], why: str) -> None:
        """Tell the watcher that *steps* cannot start yet, unless it knows."""
        for step in steps:
            if self._told.get(step.id) != why:
                self._told[step.id] = why
                self._means.watcher.waiting(step, why)

    def _end(self, steps: Iterable[Step], outcome: Outcome, why: str) -> None:
        for step in steps:
            record = self._record(step, outcome, why)
            self._means.store.write(record)
            self._ended[step.id] = record
            del self._to_start[step.id]
            self._means.watcher.ended(step, record)

    def _record(
        self, step: Step, outcome: Outcome | None = None, detail: str = ""
    ) -> StepRecord:
        now = self._means.clock.now()
        return StepRecord(
            run=self._run,
            step=step.id,
            action=step.action,
            intended_at=now,
            ended_at=None if outcome is None else now,
            outcome=outcome,
            detail=detail,
        )
