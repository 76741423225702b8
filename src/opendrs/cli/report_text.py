"""Report of a period: what the controller did, and what a policy would have done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from rich.console import Console

from opendrs.cli.backtest_report import (
    BacktestReport,
    backtest_table,
    record_lines,
    report_document,
    row_notes,
)
from opendrs.cli.console import printable
from opendrs.controller.views.history_entries import move_entry
from opendrs.model import format_count
from opendrs.ports import HistoryFilter, Outcome
from opendrs.simulation.backtest import BacktestRow, RowKind
from opendrs.store import DatabasePlanStore, DatabaseStore, History

MAX_STEPS = 10_000  # the newest steps that are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Activity of the controller in a period.

    Attributes:
        reasons: Number of decisions by the code of their reason.
        plans: Number of plans by state; plans are kept for a limited time.
        steps: Number of steps of executed plans by outcome; `in-progress` without one.
        duration_ratio: Median of the real duration of a migration over the predicted
            one; None if unknown.
    """

    reasons: Mapping[str, int]
    plans: Mapping[str, int]
    steps: Mapping[str, int]
    duration_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityReport:
    """Report of a period.

    Attributes:
        backtest: The recorded load, and the policy simulated on it.
        activity: What the controller did.
    """

    backtest: BacktestReport
    activity: Activity

    @property
    def document(self) -> dict[str, object]:
        """Return the report as plain values."""
        activity = self.activity
        return {
            **report_document(self.backtest, with_series=False),
            "activity": {
                "reasons": dict(activity.reasons),
                "plans": dict(activity.plans),
                "steps": dict(activity.steps),
                "duration_ratio": activity.duration_ratio,
            },
            "summary": summary(self),
        }

    def row(self, kind: RowKind) -> BacktestRow:
        """Return the row of *kind*."""
        return next(row for row in self.backtest.rows if row.kind is kind)


def read_activity(store: DatabaseStore, since: datetime) -> Activity:
    """Return what the controller did from *since* on.

    Raises:
        StoreError: The store cannot be read.
    """
    history, chosen = History(store), HistoryFilter(since=since)
    plans = (
        plan for plan in DatabasePlanStore(store).plans() if plan.created_at >= since
    )
    moves = [move_entry(history, each) for each in history.steps(chosen, MAX_STEPS)]
    ratios = [
        move["seconds"] / move["predicted_seconds"]
        for move in moves
        if move["outcome"] == Outcome.DONE
        and move["seconds"] is not None
        and move["predicted_seconds"]
    ]
    return Activity(
        reasons=_counts(cycle.reason for cycle in history.cycles(chosen)),
        plans=_counts(plan.state.value for plan in plans),
        steps=_counts(move["outcome"] or "in-progress" for move in moves),
        duration_ratio=median(ratios) if ratios else None,
    )


def _counts(names: Iterator[str]) -> dict[str, int]:
    return dict(Counter(names).most_common())


def summary(report: ActivityReport) -> str:
    """Return the result of the simulated policy or schedule in one sentence."""
    row, recorded = report.backtest.rows[-1], report.row(RowKind.RECORDED)
    migrations = format_count(row.migrations, "migration")
    gib = "" if row.gib is None else f" ({row.gib:.1f} GiB)"
    disks = f" and moved {format_count(row.disk_moves, 'disk')}"
    if row.disk_gib is not None:
        disks += f" ({row.disk_gib:.1f} GiB)"
    moved = disks if row.disk_moves else ""
    changes = "; ".join(_changes(row, recorded))
    effect = f": {changes}" if changes and row.migrations else ""
    name = "the schedule" if row.kind is RowKind.SCHEDULE else row.name
    return f"{name} would have done {migrations}{gib}{moved}{effect}"


def _changes(row: BacktestRow, recorded: BacktestRow) -> Iterator[str]:
    """Yield what *row* would have changed; nothing for what stays or is unknown."""
    for before, after, text in (
        (
            recorded.metrics.highest_load_mean,
            row.metrics.highest_load_mean,
            "highest load {after:.0%} on average (recorded: {before:.0%})",
        ),
        (
            recorded.metrics.contention_minutes,
            row.metrics.contention_minutes,
            "{after:.0f} guest minutes of contention (recorded: {before:.0f})",
        ),
        (
            recorded.metrics.rule_minutes,
            row.metrics.rule_minutes,
            "{after:.0f} minutes of violated rules (recorded: {before:.0f})",
        ),
    ):
        if before is None or after is None:
            continue
        values = {"before": before, "after": after}
        if text.format(**values) != text.format(before=after, after=before):
            yield text.format(**values)


def print_report(screen: Console, report: ActivityReport) -> None:
    """Print *report* on *screen*."""
    backtest, record = report.backtest, report.backtest.record
    for line in record_lines(backtest.source, record):
        screen.print(printable(line))
    for line in _activity_lines(report.activity):
        screen.print(printable(line))
    screen.print()
    screen.print(f"{printable(summary(report))}.")
    screen.print()
    screen.print(backtest_table(backtest.rows, record, with_regret=False))
    notes = [note for row in backtest.rows for note in row_notes(row, record)]
    if notes:
        screen.print()
    for note in notes:
        screen.print(printable(note))


def _activity_lines(activity: Activity) -> Iterator[str]:
    for title, counts in (
        ("decisions", activity.reasons),
        ("plans", activity.plans),
        ("steps of executed plans", activity.steps),
    ):
        listed = ", ".join(f"{count} {name}" for name, count in counts.items())
        yield f"{title}: {listed or 'none'}"
    if activity.duration_ratio is not None:
        yield (
            f"migrations took {activity.duration_ratio:.1f} times as long as predicted "
            "(median)"
        )
