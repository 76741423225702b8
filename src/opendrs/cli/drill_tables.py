"""A drill in tables: what happened, and what became of the guests."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from opendrs.cli.figures import arrow, counted, seconds
from opendrs.cli.screen import Table, add_row, table, visible
from opendrs.ha import events
from opendrs.ha.wording import Level
from opendrs.model import NodeId
from opendrs.sim.drill import Drill, happenings
from opendrs.sim.drill.log import Entry
from opendrs.sim.drill.naming import Names
from opendrs.sim.drill.summary import GuestFigures, Summary

FEW = 20  # guests that are shown without being asked for
_COLOURS = {
    Level.ERROR: "red",
    Level.WARNING: "yellow",
    Level.HARDWARE_WARNING: "yellow",
    Level.MAIL: "magenta",
}
_TOLD = (
    happenings.Executed,
    happenings.WatchdogBit,
    happenings.DrillFailed,
    events.NodeStateChanged,
    events.FencingBegun,
    events.FencingSucceeded,
    events.Recovered,
    events.RecoveredInPlace,
    events.MigrationChosen,
    events.RelocationChosen,
    events.Started,
    events.Stopped,
    events.MoveEnded,
    events.Rebalanced,
    events.RuleDropped,
)


def print_course(screen: Console, drill: Drill, names: Names) -> None:
    """Print what matters to an operator of what happened, as a table."""
    del names
    shown = table("time", "where", "what", right=["time"])
    for entry in drill.entries:
        if _matters(entry):
            words = Text(visible(entry.words.strip()), style=_colour(entry))
            add_row(shown, f"{entry.time} s", entry.source, words)
    screen.print(shown)


def _matters(entry: Entry) -> bool:
    return isinstance(entry.event, _TOLD) or entry.level in _COLOURS


def _colour(entry: Entry) -> str:
    return _COLOURS.get(entry.level, "")


def print_summary(screen: Console, summary: Summary, *, everyone: bool) -> None:
    """Print what became of the guests, the fencings, and when it came to rest.

    Args:
        screen: Where to print.
        summary: The figures.
        everyone: Whether to list all guests, however many.
    """
    affected = [one for one in summary.guests if everyone or _is_affected(one)]
    if affected:
        screen.print(_guests(affected[: None if everyone else FEW]))
        screen.print()
    hidden = 0 if everyone else len(affected) - FEW
    if hidden > 0:
        screen.print(f"And {hidden} more; --guests lists them all.")
    screen.print(visible(_guest_line(summary)))
    screen.print(visible(_fencing_line(summary)))
    screen.print(visible(_end_line(summary)))


def _is_affected(figures: GuestFigures) -> bool:
    return figures.is_down or figures.downtime > 0 or figures.moves > 0


def _guests(figures: Sequence[GuestFigures]) -> Table:
    heads = ("guest", "node", "moves", "downtime", "")
    shown = table(*heads, right=["moves", "downtime"])
    for one in figures:
        add_row(
            shown,
            one.guest,
            _way(one.first, one.last),
            str(one.moves),
            seconds(one.downtime) if one.downtime else "-",
            Text("does not run" if one.is_down else "", style="red"),
        )
    return shown


def _way(first: NodeId | None, last: NodeId | None) -> str:
    if first == last:
        return first or "-"
    return f"{first or '-'} {arrow()} {last or '-'}"


def _guest_line(summary: Summary) -> str:
    total = len(summary.guests)
    down = [one for one in summary.guests if one.downtime]
    lasting = sum(one.is_down for one in summary.guests)
    longest = max((one.downtime for one in down), default=0)
    text = f"{counted(total, 'guest')}, {len(down)} of them down"
    if down:
        text += f" for up to {seconds(longest)}"
    still = f"; {lasting} do not run at the end" if lasting else ""
    moves = f"{counted(len(summary.moves), 'move')}, {summary.recoveries} to recover"
    return f"{text}{still}. {moves}."


def _fencing_line(summary: Summary) -> str:
    if not summary.fencings:
        return "No node was fenced."
    fenced = ", ".join(f"{node} at {time} s" for time, node in summary.fencings)
    return f"Fenced: {fenced}."


def _end_line(summary: Summary) -> str:
    if summary.failure is not None:
        return f"The drill could not go on at {summary.end} s: {summary.failure}"
    if summary.at_rest:
        return f"Settled after {summary.rest} s; simulated until {summary.end} s."
    return f"Not settled when the drill ended, at {summary.end} s."


def summary_document(summary: Summary) -> dict[str, object]:
    """Return *summary* as plain values."""
    return {
        "guests": [
            {
                "guest": one.guest,
                "first": one.first,
                "last": one.last,
                "wanted": one.wanted,
                "downtime": one.downtime,
                "moves": one.moves,
            }
            for one in summary.guests
        ],
        "fencings": [{"time": time, "node": node} for time, node in summary.fencings],
        "moves": [
            {
                "time": move.time,
                "guest": move.guest,
                "source": move.source,
                "target": move.target,
                "how": str(move.how),
            }
            for move in summary.moves
        ],
        "rest": summary.rest if summary.at_rest else None,
        "end": summary.end,
        "failure": summary.failure,
    }
