"""Output of apply and demo: tables and progress on a terminal, or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, TaskID, TextColumn
from rich.text import Text

from opendrs.cli.apply_cycle import ApplyResult
from opendrs.cli.cluster_load import cluster_load, print_change
from opendrs.cli.cluster_tables import cluster_title, print_nodes
from opendrs.cli.console import TerminalConsole, console, print_json, printable
from opendrs.cli.formatting import describe_action, format_bytes, format_duration
from opendrs.cli.plan_summary import (
    MAX_RULES_LISTED,
    PlanSummary,
    decision_document,
    print_summary,
    rule_report,
    summarize,
)
from opendrs.cli.plan_tables import print_decision, print_loads, print_metrics
from opendrs.cli.progress import LiveProgress
from opendrs.cli.schedule_tables import print_schedule
from opendrs.cli.storage_tables import print_storages, storage_changes
from opendrs.controller import CancellationToken, ExecutionObserver, NullObserver
from opendrs.controller.repair_advice import RepairCommand
from opendrs.controller.step_serialization import action_document
from opendrs.guard import Rejection
from opendrs.model import (
    Snapshot,
    Step,
    StepId,
    format_count,
    format_list,
    format_timestamp,
)
from opendrs.planning import estimate_schedule
from opendrs.ports import Outcome, StepRecord, TaskStatus
from opendrs.ports import Progress as TaskProgress
from opendrs.rules import violation_change


class TableOutput:
    """Output for an operator: tables, and progress bars on a terminal.

    Args:
        repair: The command that repairs violated rules.
        show_all: Show all steps, nodes and notes.
        show_cluster: Show the nodes before the plan.
        summary_only: Show only summaries, without steps, nodes and notes.
    """

    def __init__(
        self,
        repair: RepairCommand,
        *,
        show_all: bool = False,
        show_cluster: bool = False,
        summary_only: bool = False,
    ) -> None:
        self._screen = console()
        self._repair = repair
        self._show_all = show_all
        self._show_cluster = show_cluster
        self._summary_only = summary_only
        self._summary: PlanSummary | None = None

    def show_recovery(self, records: Sequence[StepRecord]) -> None:
        """Report that the steps of an interrupted run are recovered first."""
        steps = format_count(len(records), "unfinished step")
        self._screen.print(f"Recovering {steps} of an interrupted run.")

    def show_decision(self, result: ApplyResult) -> None:
        """Show the plan, after the cluster if requested."""
        task, before = result.task, result.before
        self._summary = summary = _summarize_result(result, self._repair)
        if self._summary_only:
            print_summary(
                self._screen, summary, None if self._show_all else MAX_RULES_LISTED
            )
            return
        if self._show_cluster:
            self._screen.print(cluster_title(before, task.source.platform.name))
            self._screen.print()
            print_nodes(self._screen, before, show_all=self._show_all)
            self._screen.print()
        print_decision(self._screen, summary, before, show_all=self._show_all)
        print_schedule(self._screen, summary.schedule, task.policy.limits)

    def repeat_summary(self) -> None:
        """Show the summary again, next to the confirmation prompt."""
        if self._summary is not None:
            self._screen.print()
            print_summary(self._screen, self._summary, max_rules=0)

    def observer(
        self, cancellation: CancellationToken
    ) -> AbstractContextManager[ExecutionObserver]:
        """Return an observer with bars on a terminal, lines elsewhere."""
        self._screen.print()
        return ProgressObserver(console(min_width=1), cancellation)

    def show_result(self, result: ApplyResult) -> None:
        """Show the node loads, the outcomes, and why steps were not completed."""
        report, after = result.report, result.after
        self._screen.print()
        if report is None:
            self._screen.print("The plan has no steps.")
            return
        if after is None:
            self._screen.print("The cluster is unreachable; its new state is unknown.")
        else:
            self._show_change(result, after)
        self._screen.print()
        self._screen.print(f"Result: {report.summary}.")
        for line in _incomplete_steps(report.records):
            self._screen.print(line)

    def _show_change(self, result: ApplyResult, after: Snapshot) -> None:
        screen, before = self._screen, result.before
        if not self._summary_only:
            print_loads(screen, before, after, show_all=self._show_all)
            changes = storage_changes(before, after, result.task.policy.limits)
            print_storages(screen, changes, show_all=self._show_all)
        if self._show_all:
            assert self._summary is not None  # noqa: S101 - shown before the result
            print_metrics(screen, self._summary, result.metrics)
        if not self._summary_only:
            screen.print()
        rules = violation_change(before, after)
        print_change(screen, cluster_load(before), cluster_load(after), rules)


def _incomplete_steps(records: Sequence[StepRecord]) -> Iterator[str]:
    """Yield the steps that were not completed; one line for each reason."""
    by_reason: dict[tuple[str, str], list[StepRecord]] = {}
    for record in records:
        if record.outcome not in (None, Outcome.DONE):
            by_reason.setdefault((record.outcome, record.detail), []).append(record)
    for (outcome, detail), group in by_reason.items():
        names = format_list([record.step for record in group])
        action = f": {describe_action(group[0].action)}" if len(group) == 1 else ""
        yield printable(f"  {outcome} {names}{action}: {detail}")
    if unfinished := [record.step for record in records if record.outcome is None]:
        names = format_list(unfinished)
        yield f"  unfinished {names}: the next apply or run determines the outcome"


def _summarize_result(result: ApplyResult, repair: RepairCommand) -> PlanSummary:
    """Return the summary of the plan of *result*."""
    decision, policy = result.decision, result.task.policy
    before = result.before
    rules = rule_report(before, decision.plan, policy, repair)
    plan_schedule = estimate_schedule(decision.plan, before, policy.limits)
    return summarize(policy, decision, before, plan_schedule, rules)


class JsonOutput:
    """Output for a program: one JSON object at the end.

    Args:
        repair: The command that repairs violated rules.
    """

    def __init__(self, repair: RepairCommand) -> None:
        self._repair = repair

    def show_recovery(self, records: Sequence[StepRecord]) -> None:
        """Print nothing: the final object contains the records."""

    def show_decision(self, result: ApplyResult) -> None:
        """Print nothing: the final object contains the plan."""

    def observer(
        self, cancellation: CancellationToken
    ) -> AbstractContextManager[ExecutionObserver]:
        """Return an observer that prints nothing."""
        del cancellation
        return nullcontext(NullObserver())

    def show_result(self, result: ApplyResult) -> None:
        """Print the plan and the records of its steps."""
        records = result.report.records if result.report else ()
        print_json(
            {
                "recovered": [record_document(each) for each in result.recovered],
                "plan": decision_document(
                    _summarize_result(result, self._repair), result.before
                ),
                "records": [record_document(each) for each in records],
                "metrics": dict(result.metrics),
            }
        )


OUTCOME_STYLES = {
    Outcome.DONE: "green",
    Outcome.FAILED: "red",
    Outcome.LOST: "red",
    Outcome.ABORTED: "yellow",
    Outcome.REJECTED: "yellow",
    Outcome.SKIPPED: "dim",
}


class ProgressObserver:
    """Execution observer that prints events and progress; a context manager.

    Args:
        screen: The console.
        cancellation: The token of the operator; each request is printed once.
    """

    def __init__(
        self, screen: TerminalConsole, cancellation: CancellationToken
    ) -> None:
        self._screen = screen
        self._cancellation = cancellation
        self._reported_cancellations = 0
        self._running: dict[StepId, TaskID | None] = {}
        self._waiting_detail = ""
        self._bars: LiveProgress | None = None
        if screen.is_interactive:
            self._bars = _create_bars(screen)

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def step_started(self, step: Step) -> None:
        """Print that *step* was started, or add its bar."""
        self._running[step.id] = None
        if self._bars is None:
            self._print_line("started", step)
        else:
            self._running[step.id] = self._add_bar(self._bars, step)

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        """Update the bar of *step*."""
        self._report_cancellation()
        if self._bars is None or status.progress is None:
            return
        # A recovered step was started by another process and has no bar yet.
        bar = self._running.get(step.id)
        if bar is None:
            bar = self._running[step.id] = self._add_bar(self._bars, step)
        _update_bar(self._bars, bar, status.progress)

    def step_waiting(self, step: Step, detail: str) -> None:
        """Print the reason of the wait, unless other steps are running."""
        del step
        if not self._running and detail != self._waiting_detail:
            self._screen.print(f"waiting: {printable(detail)}")
        self._waiting_detail = detail

    def step_rejected(self, step: Step, rejection: Rejection) -> None:
        """Do nothing: the outcome is printed with its reason."""

    def steps_polled(self) -> None:
        """Do nothing: steps report their progress."""

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Print the outcome of *step*."""
        bar = self._running.pop(step.id, None)
        if self._bars is not None and bar is not None:
            self._bars.remove_task(bar)
        self._report_cancellation()
        outcome = record.outcome or Outcome.LOST
        self._print_line(
            outcome.value, step, _outcome_text(record), OUTCOME_STYLES[outcome]
        )

    def _add_bar(self, bars: LiveProgress, step: Step) -> TaskID:
        return bars.add_task(describe_action(step.action), total=None, state="")

    def _print_line(
        self, word: str, step: Step, rest: str = "", style: str = ""
    ) -> None:
        padded = f"{word:<8}" if self._screen.is_terminal else word
        line = Text(padded, style=style)
        line.append(
            f" {printable(step.id)}: {describe_action(step.action)}{rest}",
            style="default",
        )
        self._screen.print(line)

    def _report_cancellation(self) -> None:
        cancellations = (
            self._cancellation.stop_requested + self._cancellation.abort_requested
        )
        if cancellations > self._reported_cancellations:
            self._reported_cancellations = cancellations
            self._screen.print(
                "Aborting running migrations."
                if self._cancellation.abort_requested
                else "No further step starts. Running migrations finish; "
                "Ctrl-C again aborts them."
            )


def _create_bars(screen: TerminalConsole) -> LiveProgress:
    return LiveProgress(
        screen,
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        TextColumn("{task.fields[state]}", markup=False),
    )


def _update_bar(bars: LiveProgress, bar: TaskID, progress: TaskProgress) -> None:
    """Update a bar; it is indeterminate while the progress is unknown."""
    total, remaining = progress.total, progress.remaining
    if total is None or remaining is None:
        bars.update(bar, state=_progress_text(progress))
        return
    bars.update(
        bar, total=total, completed=total - remaining, state=_progress_text(progress)
    )


def _progress_text(progress: TaskProgress) -> str:
    parts = [
        ""
        if progress.remaining is None
        else f"{format_bytes(progress.remaining)} left",
        ""
        if progress.dirty_rate is None
        else f"dirty {format_bytes(progress.dirty_rate)}/s",
        ""
        if progress.downtime is None
        else f"downtime if now {format_duration(progress.downtime)}",
    ]
    return ", ".join(part for part in parts if part)


def _outcome_text(record: StepRecord) -> str:
    detail = f": {printable(record.detail)}" if record.detail else ""
    if record.outcome is not Outcome.DONE or record.ended_at is None:
        return detail
    duration = (record.ended_at - record.intended_at).total_seconds()
    if duration < 0:  # the clock was set back
        return detail
    return f", in {format_duration(duration)}{detail}"


def record_document(record: StepRecord) -> dict[str, object]:
    """Return *record* as a JSON document."""
    return {
        "run": record.run,
        "step": record.step,
        **action_document(record.action),
        "intended_at": format_timestamp(record.intended_at),
        "task": record.task,
        "ended_at": format_timestamp(record.ended_at) if record.ended_at else None,
        "outcome": record.outcome.value if record.outcome else None,
        "detail": record.detail,
    }
