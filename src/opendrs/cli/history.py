"""The command `opendrs history`: recorded cycles, plans and moves."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import TextCell, add_row, console, create_table, print_json
from opendrs.cli.options import (
    JSON,
    IntegerRange,
    TimeParameter,
    config_option,
    format_option,
)
from opendrs.cli.platform_store import open_to_read
from opendrs.controller import SystemClock
from opendrs.controller.step_serialization import document_path
from opendrs.controller.views.history_entries import (
    cycle_entry,
    move_entry,
    plan_entry,
    with_plans,
)
from opendrs.model import TIME, QuantityError, format_count
from opendrs.ports import HistoryFilter
from opendrs.store import DatabasePlanStore, History

DEFAULT_LIMIT = 20
CYCLES, PLANS, MOVES = "cycles", "plans", "moves"
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


class PastTime(TimeParameter):
    """A time, or an age such as "2 d" before now."""

    name = "time or age"

    def convert(
        self,
        value: str | datetime,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> datetime:
        """Return the time in UTC."""
        if isinstance(value, str):
            try:
                seconds = TIME.parse(value)
            except QuantityError:
                return super().convert(value, param, ctx)
            try:
                return SystemClock().now() - timedelta(seconds=float(str(seconds)))
            except OverflowError:
                self.fail(f"expected an age after year 1, got {value!r}", param, ctx)
        return super().convert(value, param, ctx)


@click.command(name="history")
@click.argument("platform", metavar="PLATFORM")
@click.option(
    "--cycles", "kind", flag_value=CYCLES, default=True, help="Each cycle (default)."
)
@click.option("--plans", "kind", flag_value=PLANS, help="Cycles with a plan.")
@click.option(
    "--moves", "kind", flag_value=MOVES, help="Steps of executed plans, with results."
)
@click.option("--guest", metavar="GUEST", help="Only what concerns this guest.")
@click.option("--node", metavar="NODE", help="Only what concerns this node.")
@click.option(
    "--since", type=PastTime(), metavar="TIME", help="A time, or an age such as '2 d'."
)
@click.option(
    "--until", type=PastTime(), metavar="TIME", help="A time, or an age such as '1 h'."
)
@click.option(
    "--limit",
    type=IntegerRange(1),
    default=DEFAULT_LIMIT,
    metavar="NUMBER",
    help=f"At most so many entries, the newest (default: {DEFAULT_LIMIT}).",
)
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    platform: str,
    kind: str,
    guest: str | None,
    node: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    config: Path | None,
    output_format: str,
) -> None:
    """Show what happened on PLATFORM, the newest first.

    A cycle is shown with the reason code of its decision, a plan with its steps and
    their outcomes. A migration is shown with its predicted and its real duration, and
    with the load of both nodes in the cycle that decided it and in the first one after
    it. A question mark means unknown.

    \b
      opendrs history lab --since '2 d'
      opendrs history lab --plans --limit 5
      opendrs history lab --moves --guest vm7
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    chosen = HistoryFilter(since=since, until=until, guest=guest, node=node)
    with open_to_read(platform, load_settings(config)) as store:
        entries = _entries(History(store), kind, chosen, limit)
        if kind == PLANS:
            entries = with_plans(entries, DatabasePlanStore(store))
    if output_format == JSON:
        print_json(entries)
        return
    shown = format_count(len(entries), kind.removesuffix("s"))
    console().print(f"{platform}: {shown}" if entries else f"{platform}: no {kind}")
    if entries:
        console().print()
        {CYCLES: _print_cycles, PLANS: _print_plans, MOVES: _print_moves}[kind](entries)


def _entries(
    history: History, kind: str, chosen: HistoryFilter, limit: int
) -> list[dict[str, Any]]:
    if kind == MOVES:
        return [move_entry(history, each) for each in history.steps(chosen, limit)]
    cycles = islice(history.cycles(chosen, with_plan=kind == PLANS), limit)
    if kind == CYCLES:
        return [cycle_entry(each) for each in cycles]
    return [plan_entry(history, each) for each in cycles]


def _print_cycles(entries: Iterable[dict[str, Any]]) -> None:
    table = create_table(
        *("time (UTC)", "policy", "reason", "steps", "detail"),
        right=["steps"],
        no_wrap=["time (UTC)"],
    )
    for each in entries:
        words = each["policy"], each["reason"], str(each["steps"]), each["detail"]
        add_row(table, _time(each["decided_at"]), *words)
    console().print(table)


def _print_plans(entries: Iterable[dict[str, Any]]) -> None:
    for each in entries:
        title = f"{_time(each['decided_at'])} UTC  {each['policy']}: {each['reason']}"
        console().print(f"{title}  ({each['run']})", markup=False)
        for plan in each["plans"]:
            console().print(f"plan {plan['id']}: {plan['state']}", markup=False)
        table = create_table("step", "action", "guest", "from", "to", "outcome")
        for step in each["steps"]:
            outcome = step["outcome"] or "not started"
            add_row(table, step["id"], step["kind"], *document_path(step), outcome)
        console().print(table)
        console().print()


def _print_moves(entries: Iterable[dict[str, Any]]) -> None:
    table = create_table(
        *("time\n(UTC)", "guest", "from", "to", "outcome", "predicted", "took"),
        *("CPU\nfrom", "CPU\nto"),
        no_wrap=["time\n(UTC)", "guest", "outcome", "predicted", "took"],
    )
    for each in entries:
        add_row(
            table,
            _short_time(each["intended_at"]),
            *document_path(each),
            each["outcome"] or "running",
            _seconds(each["predicted_seconds"]),
            _seconds(each["seconds"]),
            _change(each, "source"),
            _change(each, "target"),
        )
    console().print(table)


def _time(text: str) -> str:
    return datetime.fromisoformat(text).strftime(_TIME_FORMAT)


def _short_time(text: str) -> TextCell:
    """Return the time of a move, without year and seconds on a terminal."""
    short = datetime.fromisoformat(text).strftime("%m-%d %H:%M")
    return TextCell(Text(short), _time(text))


def _seconds(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f} s"


def _change(entry: dict[str, Any], end: str) -> str:
    """Return the CPU load of a node before and after a move; empty for a disk."""
    if entry.get("disk"):
        return ""
    loads = [entry["load"][when][end] for when in ("before", "after")]
    words = [
        "?" if each is None or each["cpu"] is None else f"{each['cpu']:.0%}"
        for each in loads
    ]
    return " > ".join(words)
