"""A report as one HTML file that opens without network: tables and inline plots."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from opendrs.cli.backtest_report import row_title
from opendrs.cli.formatting import format_duration
from opendrs.cli.report_details import ReportDetails
from opendrs.cli.report_text import ActivityReport, summary
from opendrs.controller.step_serialization import document_path
from opendrs.escapes import escape_text
from opendrs.model import format_count
from opendrs.simulation.plots.backtest import draw_backtest
from opendrs.simulation.plots.durations import draw_durations

MAX_ROWS = 200  # of the table of moves
UNKNOWN = "unknown"
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 70rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 0.6rem 0; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.25rem 0.8rem 0.25rem 0;
  border-bottom: 1px solid #ddd; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; overflow-x: auto; } svg { max-width: 100%; height: auto; }
.note { color: #555; }
"""
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
"""


def report_page(
    report: ActivityReport, details: ReportDetails, created_at: datetime
) -> str:
    """Return *report* with its *details* as an HTML document.

    Args:
        report: The recorded load, and the policy simulated on it.
        details: What was done, and what was not.
        created_at: Time of the report.
    """
    title = escape(escape_text(f"OpenDRS: {report.backtest.source}"))
    parts = [
        _HEAD.format(title=title, style=_STYLE),
        *_introduction(report, created_at),
        *_balance(report),
        *_service(report),
        *_moves(details),
        *_not_done(report, details),
        *_results(report, details),
        *_energy(report, details),
        "</body>\n</html>\n",
    ]
    return "".join(parts)


def _introduction(report: ActivityReport, created_at: datetime) -> Iterator[str]:
    record = report.backtest.record
    begin, end = record.times[0], record.times[-1]
    yield _paragraph(
        f"{_time(begin)} to {_time(end)}: {format_count(len(record), 'snapshot')}, "
        f"{format_count(len(record.node_ids), 'node')}, "
        f"{format_count(len(record.guest_ids), 'guest')}. "
        f"Created {_time(created_at)}."
    )
    yield _paragraph(f"{summary(report)}.")


def _balance(report: ActivityReport) -> Iterator[str]:
    backtest = report.backtest
    yield _heading("Balance")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "balance.svg"
        draw_backtest(
            backtest.source, backtest.record, backtest.rows, path, path.suffix
        )
        yield _figure(path, "Highest load and imbalance over time")
    yield _table(
        ["", "highest load (mean)", "highest load (peak)", "imbalance (mean)"],
        (
            [
                row_title(row),
                _percent(row.metrics.highest_load_mean),
                _percent(row.metrics.highest_load_peak),
                _number(row.metrics.imbalance_mean),
            ]
            for row in backtest.rows
        ),
    )


def _service(report: ActivityReport) -> Iterator[str]:
    yield _heading("Service")
    yield _paragraph(
        "Contention: guest minutes on nodes whose demand for cores or memory exceeds "
        "their capacity. Violated rules: violations of strict rules times their "
        "minutes.",
        note=True,
    )
    yield _table(
        ["", "contention", "of cores", "of memory", "violated rules"],
        (
            [
                row_title(row),
                _minutes(row.metrics.contention_minutes),
                _minutes(row.metrics.contention_cpu_minutes),
                _minutes(row.metrics.contention_memory_minutes),
                _minutes(row.metrics.rule_minutes),
            ]
            for row in report.backtest.rows
        ),
    )


def _moves(details: ReportDetails) -> Iterator[str]:
    yield _heading("Moves")
    if not details.moves:
        yield _paragraph("No step was started.")
        return
    shown = details.moves[:MAX_ROWS]
    if len(details.moves) > len(shown):
        yield _paragraph(f"The newest {len(shown)}.", note=True)
    yield _table(
        ["time", "action", "guest", "from", "to", "outcome", "predicted", "took"],
        (_move_row(each) for each in shown),
        numbers=2,
    )


def _move_row(move: Mapping[str, Any]) -> list[str]:
    return [
        _time(datetime.fromisoformat(move["intended_at"])),
        move["kind"],
        *document_path(move),
        move["outcome"] or "in-progress",
        _seconds(move["predicted_seconds"]),
        _seconds(move["seconds"]),
    ]


def _not_done(report: ActivityReport, details: ReportDetails) -> Iterator[str]:
    yield _heading("Not done, and why")
    for title, counts in (
        ("Steps", details.not_done),
        ("Plans", details.not_executed),
    ):
        if counts:
            yield _table(
                [title, "cause", "number"],
                ([state, cause, str(n)] for (state, cause), n in counts.items()),
                numbers=1,
            )
        else:
            yield _paragraph(f"{title}: none was rejected or failed.")
    decisions = sum(report.activity.reasons.values())
    if details.idle:
        yield _table(
            ["Decisions without a plan", "number"],
            ([reason, f"{n} of {decisions}"] for reason, n in details.idle.items()),
            numbers=1,
        )


def _results(report: ActivityReport, details: ReportDetails) -> Iterator[str]:
    yield _heading("Predicted and realized")
    ratio = report.activity.duration_ratio
    if ratio is not None:
        text = f"Migrations took {ratio:.1f} times as long as predicted (median)."
        yield _paragraph(text)
    pairs = [
        (float(move["predicted_seconds"]), float(move["seconds"]))
        for move in details.moves
        if move["outcome"] == "done" and move["predicted_seconds"] and move["seconds"]
    ]
    if pairs:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "durations.svg"
            draw_durations(pairs, path, path.suffix)
            yield _figure(path, "Predicted and real duration of each migration")
    if not details.results:
        yield _paragraph("No executed plan has a prediction and a result.")
        return
    yield _table(
        ["plan of", "metric", "before", "predicted", "realized"],
        (
            [
                _time(each.decided_at),
                each.metric,
                *map(_number, (each.before, each.predicted, each.realized)),
            ]
            for each in details.results
        ),
        numbers=3,
    )


def _energy(report: ActivityReport, details: ReportDetails) -> Iterator[str]:
    yield _heading("Energy")
    hours = report.backtest.record.seconds / 3600
    yield _table(
        ["", "nodes on (mean)", "node hours"],
        (
            [
                row_title(row),
                f"{row.metrics.nodes_mean:.1f}",
                f"{row.metrics.nodes_mean * hours:.1f}",
            ]
            for row in report.backtest.rows
        ),
    )
    if details.energy is None:
        yield _paragraph(
            "The energy is unknown: only the policy consolidate estimates the power.",
            note=True,
        )
    else:
        yield _paragraph(
            f"{details.energy:.2f} kWh in {details.energy_hours:.1f} hours, estimated "
            "by the policy consolidate from its power curve."
        )


def _heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>\n"


def _paragraph(text: str, *, note: bool = False) -> str:
    kind = ' class="note"' if note else ""
    return f"<p{kind}>{escape(escape_text(text))}</p>\n"


def _table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: int | None = None
) -> str:
    """Return a table.

    Args:
        headings: The headings.
        rows: The cells of each row.
        numbers: Number of the last columns with numbers; None for all but the first.
    """
    count = len(headings) - 1 if numbers is None else numbers
    first = len(headings) - count

    def cells(tag: str, texts: Sequence[str]) -> str:
        found = (
            f"<{tag}{_number_class(index >= first)}>{escape(escape_text(text))}</{tag}>"
            for index, text in enumerate(texts)
        )
        return f"<tr>{''.join(found)}</tr>\n"

    body = "".join(cells("td", row) for row in rows)
    head = cells("th", headings)
    return f"<table>\n<thead>{head}</thead>\n<tbody>{body}</tbody>\n</table>\n"


def _number_class(is_number: bool) -> str:  # noqa: FBT001 - of one cell
    return ' class="number"' if is_number else ""


def _figure(path: Path, caption: str) -> str:
    """Return the SVG in the file *path* without what precedes its root element."""
    text = path.read_text(encoding="utf-8")
    svg = text[text.index("<svg") :]
    return f'<figure role="img" aria-label="{escape(caption)}">\n{svg}</figure>\n'


def _time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3g}"


def _minutes(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} min"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else format_duration(value)
