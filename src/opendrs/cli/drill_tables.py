"""Tables and plain values of drills and node failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from opendrs.cli.console import TextTable, add_row, create_table, printable
from opendrs.cli.formatting import UNKNOWN, arrow, format_bytes, format_duration
from opendrs.model import NodeId, format_count, format_list
from opendrs.pve_ha import log_events
from opendrs.pve_ha.log_events import LogLevel
from opendrs.pve_ha.simulator import Drill, DrillLogEntry, drill_log
from opendrs.pve_ha.simulator.failure_impact import (
    AffectedGuest,
    FailureImpact,
    RecoveryTarget,
)
from opendrs.pve_ha.simulator.pve_names import PveNames
from opendrs.pve_ha.simulator.summary import DrillSummary, GuestSummary

MAX_UNREQUESTED_GUESTS = 20  # guests that are shown without being asked for

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
    """Print what matters to an operator of what happened, as a table."""
    del names
    listing = create_table("time", "where", "what", right=["time"])
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
    """Print what became of the guests, the fencings, and when it came to rest.

    Args:
        screen: Where to print.
        summary: The figures.
        all_guests: Whether to list all guests, however many.
    """
    affected = [one for one in summary.guests if all_guests or _is_affected(one)]
    if affected:
        screen.print(
            _guest_table(affected[: None if all_guests else MAX_UNREQUESTED_GUESTS])
        )
        screen.print()
    hidden = 0 if all_guests else len(affected) - MAX_UNREQUESTED_GUESTS
    if hidden > 0:
        screen.print(f"And {hidden} more; --guests lists them all.")
    screen.print(printable(_guest_line(summary)))
    screen.print(printable(_fencing_line(summary)))
    screen.print(printable(_end_line(summary)))


def _is_affected(figures: GuestSummary) -> bool:
    return figures.is_down or figures.downtime > 0 or figures.moves > 0


def _guest_table(figures: Sequence[GuestSummary]) -> TextTable:
    headings = ("guest", "node", "moves", "downtime", "")
    listing = create_table(*headings, right=["moves", "downtime"])
    for one in figures:
        add_row(
            listing,
            one.guest,
            _node_path(one.first, one.last),
            str(one.moves),
            format_duration(one.downtime) if one.downtime else "-",
            Text("does not run" if one.is_down else "", style="red"),
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
        f"{format_count(len(summary.moves), 'move')}, {summary.recoveries} to recover"
    )
    return f"{text}{still}. {moves}."


def _fencing_line(summary: DrillSummary) -> str:
    if not summary.fencings:
        return "No node was fenced."
    fenced = ", ".join(f"{node} at {time} s" for time, node in summary.fencings)
    return f"Fenced: {fenced}."


def _end_line(summary: DrillSummary) -> str:
    if summary.failure is not None:
        return f"The drill could not go on at {summary.ended_at} s: {summary.failure}"
    if summary.is_settled:
        return f"Settled after {summary.settled_at} s; simulated until {summary.ended_at} s."
    return f"Not settled when the drill ended, at {summary.ended_at} s."


def drill_summary_document(summary: DrillSummary) -> dict[str, object]:
    """Return *summary* as plain values."""
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


MAX_NAMES_LISTED = 10  # in a note on guests that are lost


def print_failure_impact(
    screen: Console, impact: FailureImpact, *, all_guests: bool
) -> None:
    """Print what follows from a loss; list all its guests for *all_guests*."""
    affected = sorted(impact.affected_guests, key=_severity_key)
    if affected:
        screen.print(
            _affected_table(
                affected if all_guests else affected[:MAX_UNREQUESTED_GUESTS]
            )
        )
        screen.print()
    if not all_guests and len(affected) > MAX_UNREQUESTED_GUESTS:
        screen.print(
            f"And {len(affected) - MAX_UNREQUESTED_GUESTS} more; --guests lists them all."
        )
    if impact.targets:
        screen.print(_target_table(impact.targets))
        screen.print()
    for note in _impact_notes(impact):
        screen.print(printable(f"Note: {note}."))
    node_names = ", ".join(impact.nodes)
    screen.print(
        printable(f"{_conclusion(impact, node_names)}"), style=_impact_style(impact)
    )


def _severity_key(guest: AffectedGuest) -> tuple[bool, bool, int, str]:
    is_lost = guest.target is None
    return (not is_lost, guest.managed, -(guest.downtime or 0), guest.guest.id)


def _affected_table(affected: Sequence[AffectedGuest]) -> TextTable:
    headings = ("guest", "from", "restarts on", "downtime", "memory")
    listing = create_table(*headings, right=["memory"])
    for one in affected:
        style = "red" if one.target is None else ""
        add_row(
            listing,
            one.guest.id,
            one.source,
            Text(_restart_text(one), style=style),
            "lasting" if one.downtime is None else format_duration(one.downtime),
            format_bytes(one.guest.usage.memory),
        )
    return listing


def _restart_text(guest: AffectedGuest) -> str:
    if guest.target is not None:
        return printable(guest.target)
    if not guest.managed:
        return "not HA-managed"
    return "cannot" if guest.blocker else "no node"


def _target_table(targets: Sequence[RecoveryTarget]) -> TextTable:
    listing = create_table("node", "memory free", "uncommitted", "", right=[])
    for one in targets:
        conclusion = {True: "fits", False: "does not fit", None: "not known"}[one.fits]
        add_row(
            listing,
            one.node.id,
            _change_text(one.before.measured, one.after.measured),
            _change_text(one.before.committed, one.after.committed),
            Text(conclusion, style="" if one.fits else "red"),
        )
    return listing


def _change_text(before: float | None, after: float | None) -> str:
    return f"{_signed_bytes(before)} {arrow()} {_signed_bytes(after)}"


def _signed_bytes(size: float | None) -> str:
    if size is None:
        return UNKNOWN
    return f"-{format_bytes(-size)}" if size < 0 else format_bytes(size)


def _impact_notes(impact: FailureImpact) -> Iterator[str]:
    yield from impact.setup.notes
    if not impact.quorate:
        yield "the nodes that are left are no majority, so nothing is recovered"
    elif impact.includes_master:
        yield (
            f"{min(impact.nodes)} is the HA master in this drill: to elect a new one "
            "takes a minute longer"
        )
    yield from _restart_blocker_notes([impact])
    for rule in impact.new_violations:
        yield f"a strict rule is broken then: {rule}"
    if impact.moved_before:
        yield _earlier_migrations_note(impact)
    if impact.side_effect_migrations:
        yield f"the HA manager then also moves {', '.join(impact.side_effect_migrations)}"
    if impact.unprotected:
        yield (
            f"{_unmanaged_note(len(impact.unprotected))} down; --assume-ha takes all to be managed"
        )


def _restart_blocker_notes(impacts: Iterable[FailureImpact]) -> Iterator[str]:
    """Yield which guests cannot be restarted elsewhere, in one sentence a reason."""
    by_blocker: dict[str, list[str]] = {}
    for impact in impacts:
        for one in impact.unrestartable:
            by_blocker.setdefault(str(one.blocker), []).append(one.guest.id)
    for reason, guests in by_blocker.items():
        names = format_list(sorted(guests), MAX_NAMES_LISTED)
        yield f"{names} cannot be restarted on another node: {reason}"


def _earlier_migrations_note(impact: FailureImpact) -> str:
    names = format_list(impact.moved_before)
    return f"the HA manager had moved {names} before the loss, so that rules hold"


def _unmanaged_note(count: int) -> str:
    if count == 1:
        return "1 running guest is not HA-managed and stays"
    return f"{count} running guests are not HA-managed and stay"


def _conclusion(impact: FailureImpact, node_names: str) -> str:
    if impact.survived:
        return f"{_survivor_text([impact])} the loss of {node_names}."
    return f"The cluster does not survive the loss of {node_names}: {_failure_reasons(impact)}."


def _survivor_text(impacts: Sequence[FailureImpact]) -> str:
    """Return who survives: what nobody brings back does not."""
    managed = " HA-managed" if any(impact.unprotected for impact in impacts) else ""
    if any(impact.unrestartable for impact in impacts):
        return f"All{managed} guests that can be restarted on another node survive"
    return f"All{managed} guests survive" if managed else "The cluster survives"


def _failure_reasons(impact: FailureImpact) -> str:
    if not impact.setup.names.services:
        return "no guest is HA-managed"
    reasons = []
    if impact.stranded:
        reasons.append(f"no node for {format_count(len(impact.stranded), 'guest')}")
    for one in impact.targets:
        if one.fits is False:
            reasons.append(
                f"{one.node.id} lacks {format_bytes(one.missing_memory)} of memory"
            )
        elif one.fits is None:
            reasons.append(f"the memory of {one.node.id} is not known")
    reasons += [f"{rule.rule} is broken" for rule in impact.new_violations]
    return "; ".join(reasons)


def _impact_style(impact: FailureImpact) -> str:
    return "green" if impact.survived else "red"


def print_failure_impacts(screen: Console, impacts: Sequence[FailureImpact]) -> None:
    """Print what follows from each loss, a line each, and whether all are survived."""
    listing = create_table(
        "node lost",
        "guests",
        "restarted",
        "cannot restart",
        "unmanaged",
        "max downtime",
        "",
        right=["guests", "restarted", "cannot restart", "unmanaged"],
    )
    for impact in impacts:
        downtimes = [
            one.downtime for one in impact.recovered if one.downtime is not None
        ]
        add_row(
            listing,
            impact.nodes[0],
            str(len(impact.affected_guests)),
            str(len(impact.recovered)),
            str(len(impact.unrestartable)),
            str(len(impact.unprotected)),
            format_duration(max(downtimes)) if downtimes else "-",
            Text(
                "survived" if impact.survived else _failure_reasons(impact),
                style=_impact_style(impact),
            ),
        )
    screen.print(listing)
    screen.print()
    for note in impacts[0].setup.notes if impacts else ():
        screen.print(printable(f"Note: {note}."))
    for sentence in _restart_blocker_notes(impacts):
        screen.print(printable(f"Note: {sentence}."))
    if impacts and impacts[0].moved_before:
        screen.print(printable(f"Note: {_earlier_migrations_note(impacts[0])}."))
    unprotected = sum(len(impact.unprotected) for impact in impacts)
    if unprotected:
        conclusion = (
            f"{_unmanaged_note(unprotected)} down; --assume-ha takes all to be managed"
        )
        screen.print(f"Note: {conclusion}.")
    fatal = [impact.nodes[0] for impact in impacts if not impact.survived]
    if fatal:
        conclusion = f"The cluster does not survive the loss of {format_list(fatal)}."
    elif impacts:
        conclusion = f"{_survivor_text(impacts)} the loss of any one node."
    else:
        conclusion = "No node is online."
    screen.print(
        printable(conclusion), style="red" if fatal or not impacts else "green"
    )


def failure_impact_document(impact: FailureImpact) -> dict[str, object]:
    """Return *impact* as plain values."""
    return {
        "nodes": list(impact.nodes),
        "survived": impact.survived,
        "quorate": impact.quorate,
        "guests": [_affected_guest_document(one) for one in impact.affected_guests],
        "cannot_restart": [one.guest.id for one in impact.unrestartable],
        "targets": [_target_document(one) for one in impact.targets],
        "broken_rules": [str(rule) for rule in impact.new_violations],
        "side_effect_migrations": list(impact.side_effect_migrations),
        "moved_before": list(impact.moved_before),
        "notes": list(_impact_notes(impact)),
    }


def _affected_guest_document(one: AffectedGuest) -> dict[str, object]:
    return {
        "guest": one.guest.id,
        "source": one.source,
        "ha_managed": one.managed,
        "target": one.target,
        "downtime": one.downtime,
        "restart_blocker": one.blocker,
    }


def _target_document(one: RecoveryTarget) -> dict[str, object]:
    return {
        "node": one.node.id,
        "fits": one.fits,
        "memory_available": one.after.measured,
        "memory_committable": one.after.committed,
    }
