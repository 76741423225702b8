"""Tables and JSON values of drills."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from opendrs.cli.console import TextTable, add_row, create_table, printable
from opendrs.cli.formatting import arrow, format_duration
from opendrs.model import NodeId, format_count
from opendrs.pve_ha import log_events
from opendrs.pve_ha.log_events import LogLevel
from opendrs.pve_ha.simulator import Drill, DrillLogEntry, drill_log
from opendrs.pve_ha.simulator.pve_names import PveNames
from opendrs.pve_ha.simulator.summary import DrillSummary, GuestSummary

MAX_UNREQUESTED_GUESTS = 20  # guests that are listed without --guests

_LEVEL_STYLES = {
    LogLevel.ERROR: "red",
    LogLevel.WARNING: "yellow",
    LogLevel.HARDWARE_WARNING: "yellow",
    LogLevel.MAIL: "magenta",
}

_SIGNIFICANT_EVENTS = (
    drill_log.CommandExecuted,
    drill_log.WatchdogExpired,
    drill_log.DrillFailed,
    log_events.NodeStateChanged,
    log_events.FencingStarted,
    log_events.FencingSucceeded,
    log_events.ServiceRecovered,
    log_events.ServiceRecoveredInPlace,
    log_events.MigrationSelected,
    log_events.RelocationSelected,
    log_events.ServiceStarted,
    log_events.ServiceStopped,
    log_events.ServiceMoveFinished,
    log_events.RebalanceQueued,
    log_events.RuleDropped,
)


def print_drill(screen: Console, drill: Drill, names: PveNames) -> None:
    """Print the significant events of *drill* as a table."""
    del names
    listing = create_table("time", "source", "event", right=["time"])
    for entry in drill.entries:
        if _is_significant(entry):
            text = Text(printable(entry.message.strip()), style=_level_style(entry))
            add_row(listing, f"{entry.time} s", entry.source, text)
    screen.print(listing)


def _is_significant(entry: DrillLogEntry) -> bool:
    return isinstance(entry.event, _SIGNIFICANT_EVENTS) or entry.level in _LEVEL_STYLES


def _level_style(entry: DrillLogEntry) -> str:
    return _LEVEL_STYLES.get(entry.level, "")


def print_drill_summary(
    screen: Console, summary: DrillSummary, *, all_guests: bool
) -> None:
    """Print the figures of the guests, the fencings, and the settling time.

    Args:
        screen: Console.
        summary: Figures of the drill.
        all_guests: List all guests.
    """
    affected = [one for one in summary.guests if all_guests or _is_affected(one)]
    if affected:
        screen.print(
            _guest_table(affected[: None if all_guests else MAX_UNREQUESTED_GUESTS])
        )
        screen.print()
    hidden = 0 if all_guests else len(affected) - MAX_UNREQUESTED_GUESTS
    if hidden > 0:
        screen.print(f"And {hidden} more; use --guests to list all.")
    screen.print(printable(_guest_line(summary)))
    screen.print(printable(_fencing_line(summary)))
    screen.print(printable(_end_line(summary)))


def _is_affected(figures: GuestSummary) -> bool:
    return figures.is_down or figures.downtime > 0 or figures.moves > 0


def _guest_table(figures: Sequence[GuestSummary]) -> TextTable:
    headings = ("guest", "node", "moves", "downtime", "state at the end")
    listing = create_table(*headings, right=["moves", "downtime"])
    for one in figures:
        add_row(
            listing,
            one.guest,
            _node_path(one.first, one.last),
            str(one.moves),
            format_duration(one.downtime) if one.downtime else "-",
            Text("does not run", style="red") if one.is_down else Text("as requested"),
        )
    return listing


def _node_path(first: NodeId | None, last: NodeId | None) -> str:
    if first == last:
        return first or "-"
    return f"{first or '-'} {arrow()} {last or '-'}"


def _guest_line(summary: DrillSummary) -> str:
    total = len(summary.guests)
    down = [one for one in summary.guests if one.downtime]
    lasting = sum(one.is_down for one in summary.guests)
    longest = max((one.downtime for one in down), default=0)
    text = f"{format_count(total, 'guest')}, {len(down)} of them down"
    if down:
        text += f" for up to {format_duration(longest)}"
    still = f"; {lasting} do not run at the end" if lasting else ""
    moves = (
        f"{format_count(len(summary.moves), 'move')}, {summary.recoveries} by recovery"
    )
    return f"{text}{still}. {moves}."


def _fencing_line(summary: DrillSummary) -> str:
    if not summary.fencings:
        return "No node was fenced."
    fenced = ", ".join(f"{node} at {time} s" for time, node in summary.fencings)
    return f"Fenced: {fenced}."


def _end_line(summary: DrillSummary) -> str:
    if summary.failure is not None:
        return f"Drill aborted at {summary.ended_at} s: {summary.failure}"
    if summary.is_settled:
        simulated = f"simulated until {summary.ended_at} s"
        return f"Settled after {summary.settled_at} s; {simulated}."
    return f"Not settled at the end of the drill, at {summary.ended_at} s."


def drill_summary_document(summary: DrillSummary) -> dict[str, object]:
    """Return *summary* as JSON values."""
    return {
        "guests": [
            {
                "guest": one.guest,
                "first": one.first,
                "last": one.last,
                "requested_state": one.should_run,
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
        "settled_at": summary.settled_at if summary.is_settled else None,
        "ended_at": summary.ended_at,
        "failure": summary.failure,
    }
