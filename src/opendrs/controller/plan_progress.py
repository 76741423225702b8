"""Progress of a plan: pending steps, and the records of finished ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from opendrs.controller.execution_context import ExecutionContext
from opendrs.guard import Rejection
from opendrs.model import MigrationLoad, Plan, Step, StepId
from opendrs.ports import Outcome, StepRecord


class PlanProgress:
    """Pending steps of a plan, and the records of the finished ones.

    Args:
        plan: The plan.
        run: Name of the execution.
        context: Dependencies of the execution.
    """

    def __init__(self, plan: Plan, run: str, context: ExecutionContext) -> None:
        self._plan = plan
        self._run = run
        self._context = context
        self._pending = {step.id: step for step in plan.steps}
        self._finished: dict[StepId, StepRecord] = {}
        self._reported: dict[StepId, str] = {}

    @property
    def pending(self) -> tuple[Step, ...]:
        """Return the steps that have not started, in the order of the plan."""
        return tuple(self._pending.values())

    @property
    def records(self) -> tuple[StepRecord, ...]:
        """Return the records in the order of the plan; only valid at the end."""
        return tuple(self._finished[step.id] for step in self._plan.steps)

    def is_ready(self, step: Step, together: Iterable[Step] = ()) -> bool:
        """Return True if every dependency of *step* is finished or in *together*."""
        names = {companion.id for companion in together}
        return all(name in self._finished or name in names for name in step.depends_on)

    def record_intention(self, step: Step, load: MigrationLoad | None) -> StepRecord:
        """Write the record that *step* is about to start, and return it.

        Args:
            step: The step.
            load: Measured use before it; None if it is no migration.
        """
        record = replace(self._new_record(step), load=load)
        self._context.store.write(record)
        del self._pending[step.id]
        return record

    def record_end(self, record: StepRecord) -> None:
        """Record the end of a step that was started, or that it is left open."""
        self._finished[record.step] = record

    def reject(self, steps: Sequence[Step], rejection: Rejection) -> None:
        """Finish *steps* as rejected."""
        for step in steps:
            self._context.observer.step_rejected(step, rejection)
        self._finish(steps, Outcome.REJECTED, rejection.detail)

    def skip(self, steps: Iterable[Step], detail: str) -> None:
        """Finish *steps* as skipped."""
        self._finish(steps, Outcome.SKIPPED, detail)

    def skip_blocked(self) -> None:
        """Skip every step with a dependency that ended and was not done."""
        for step in self.pending:
            for name in step.depends_on:
                record = self._finished.get(name)
                if record is not None and record.outcome is not Outcome.DONE:
                    self.skip([step], f"dependency not done: {name}")
                    break

    def report_waiting(self, steps: Iterable[Step], detail: str) -> None:
        """Notify the observer that *steps* are delayed, once for each *detail*."""
        for step in steps:
            if self._reported.get(step.id) != detail:
                self._reported[step.id] = detail
                self._context.observer.step_waiting(step, detail)

    def _finish(self, steps: Iterable[Step], outcome: Outcome, detail: str) -> None:
        for step in steps:
            record = self._new_record(step, outcome, detail)
            self._context.store.write(record)
            self._finished[step.id] = record
            del self._pending[step.id]
            self._context.observer.step_finished(step, record)

    def _new_record(
        self, step: Step, outcome: Outcome | None = None, detail: str = ""
    ) -> StepRecord:
        now = self._context.clock.now()
        return StepRecord(
            run=self._run,
            step=step.id,
            action=step.action,
            intended_at=now,
            ended_at=None if outcome is None else now,
            outcome=outcome,
            detail=detail,
        )
