"""Report of a backtest: the rows side by side, and what limits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from opendrs.cli.console import TextTable, add_row, console, create_table, printable
from opendrs.cli.formatting import UNKNOWN, format_duration
from opendrs.model import format_count, format_timestamp
from opendrs.policies import DecisionReason
from opendrs.policies.base import reason_text
from opendrs.simulation.backtest import BacktestRow, LoadRecord, RowKind

COLUMNS = (
    "moves",
    "GiB",
    "disks\nmoved",
    "GiB of\ndisks",
    "highest\nload",
    "CV",
    "contention\nminutes",
    "rules\nviolated",
    "nodes\non",
    "regret",
)
DISK_COLUMNS = COLUMNS[2:4]  # of tables in which a disk is moved
REGRET = COLUMNS[-1]
ROW_TITLES = {
    RowKind.RECORDED: "(as recorded)",
    RowKind.STATIC: "(nothing moved)",
    RowKind.BEST: "(best plan)",
}
HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestReport:
    """Result of a backtest.

    Attributes:
        source: The platform or history.
        record: The recorded load.
        every: Least seconds between two decisions.
        seed: Seed of dirty rates that are not recorded.
        rows: The rows.
    """

    source: str
    record: LoadRecord
    every: float
    seed: int
    rows: Sequence[BacktestRow]


def row_title(row: BacktestRow) -> str:
    """Return the heading of *row*; those without a policy are in parentheses."""
    return ROW_TITLES.get(row.kind, row.name)


def report_document(
    report: BacktestReport, *, with_series: bool = True
) -> dict[str, object]:
    """Return *report* as plain values, with or without the series of each row."""
    record = report.record
    return {
        "source": report.source,
        "record": {
            "snapshots": len(record),
            "first": format_timestamp(record.times[0]),
            "last": format_timestamp(record.times[-1]),
            "interval": record.interval,
            "hours": record.seconds / HOUR,
            "gaps": [
                {"start": format_timestamp(gap.start), "seconds": gap.seconds}
                for gap in record.gaps
            ],
            "nodes": len(record.node_ids),
            "guests": len(record.guest_ids),
        },
        "every": report.every,
        "seed": report.seed,
        "rows": [
            {
                **_row_document(row, record),
                **(_series(row, record) if with_series else {}),
            }
            for row in report.rows
        ],
    }


def _row_document(row: BacktestRow, record: LoadRecord) -> dict[str, object]:
    return {
        "name": row.name,
        "kind": row.kind.value,
        "migrations": row.migrations,
        "gib": row.gib,
        "migration_minutes": row.migration_minutes,
        "disk_moves": row.disk_moves,
        "disk_gib": row.disk_gib,
        "unfinished_steps": dict(row.unfinished_steps),
        "relocations": row.relocations,
        **asdict(row.metrics),
        "regret": row.regret,
        "reasons": dict(row.reasons),
        "notes": list(row_notes(row, record)),
        "cpu_seconds": row.cpu_seconds,
    }


def _series(row: BacktestRow, record: LoadRecord) -> dict[str, object]:
    return {
        "series": [
            {"taken_at": format_timestamp(time), **asdict(point)}
            for time, point in zip(record.times, row.series, strict=True)
        ]
    }


def print_report(report: BacktestReport) -> None:
    """Print the record, the table of the rows, and notes below it."""
    screen = console()
    for line in record_lines(report.source, report.record):
        screen.print(printable(line))
    screen.print()
    screen.print(backtest_table(report.rows, report.record))
    notes = [note for row in report.rows for note in row_notes(row, report.record)]
    if notes:
        screen.print()
    for note in notes:
        screen.print(printable(note))


def backtest_table(
    rows: Sequence[BacktestRow], record: LoadRecord, *, with_regret: bool = True
) -> TextTable:
    """Return the table of *rows*, with the columns of disks if one is moved."""
    without = set() if any(row.disk_moves for row in rows) else {*DISK_COLUMNS}
    if not with_regret:
        without.add(REGRET)
    columns = [each for each in COLUMNS if each not in without]
    table = create_table(
        "policy", *columns, right=columns, no_wrap=["policy", *columns]
    )
    for row in rows:
        cells = dict(zip(COLUMNS, _cells(row, record), strict=True))
        add_row(table, row_title(row), *(cells[each] for each in columns))
    return table


def record_lines(source: str, record: LoadRecord) -> Iterator[str]:
    """Yield the extent of *record* of the platform or history *source*."""
    first, last = (
        format_timestamp(record.times[index].replace(microsecond=0))
        for index in (0, -1)
    )
    yield (
        f"{source}: {format_count(len(record), 'snapshot')} from {first} to "
        f"{last}, median interval {format_duration(record.interval)}; "
        f"{format_count(len(record.node_ids), 'node')}, "
        f"{format_count(len(record.guest_ids), 'guest')}"
    )
    if record.gaps:
        missing = sum(gap.seconds for gap in record.gaps)
        yield (
            f"{format_count(len(record.gaps), 'gap')} in the record: "
            f"{format_duration(missing)} that no figure includes"
        )


def _cells(row: BacktestRow, record: LoadRecord) -> list[str]:
    metrics = row.metrics
    is_best = row.kind is RowKind.BEST
    return [
        "" if is_best else str(row.migrations),
        "" if is_best else _number(row.gib, 1),
        "" if is_best else str(row.disk_moves),
        "" if is_best else _number(row.disk_gib, 1),
        UNKNOWN
        if metrics.highest_load_mean is None
        else f"{metrics.highest_load_mean:.0%}",
        _number(metrics.imbalance_mean, 3),
        _number(metrics.contention_minutes, 0),
        _number(metrics.rule_minutes / (record.seconds / 60), 1),
        _number(metrics.nodes_mean, 1),
        _number(row.regret, 3),
    ]


def _number(value: float | None, digits: int) -> str:
    """Return *value* with *digits* decimals; `?` for None, never 0 for more than 0."""
    if value is None:
        return UNKNOWN
    least = 10.0**-digits
    if 0 < value < least / 2:
        return f"<{least:.{digits}f}"
    return f"{value:.{digits}f}"


def row_notes(row: BacktestRow, record: LoadRecord) -> Iterator[str]:
    """Yield what the figures of *row* do not show."""
    title = row_title(row)
    unknown = record.seconds - row.metrics.measured_hours * HOUR
    if unknown > 1:
        yield (
            f"{title}: load unknown for {format_duration(unknown)} of "
            f"{format_duration(record.seconds)}: not in load, CV, contention and regret"
        )
    if row.relocations:
        yield (
            f"{title}: {format_count(row.relocations, 'guest')} placed on another "
            "node because theirs was off"
        )
    if row.unfinished_steps:
        steps = ", ".join(
            f"{count} {outcome}" for outcome, count in row.unfinished_steps.items()
        )
        yield f"{title}: steps not done: {steps}"
    reasons = {**row.reasons}
    reasons.pop(DecisionReason.RELIEVES_STORAGE, None)  # it moves disks alone
    if row.kind not in ROW_TITLES and not row.migrations and reasons:
        reason, count = max(reasons.items(), key=lambda each: each[1])
        yield (
            f"{title}: no migrations: {reason_text(DecisionReason(reason))} "
            f"({count} of {format_count(sum(row.reasons.values()), 'decision')})"
        )
