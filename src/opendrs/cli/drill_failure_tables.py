"""Tables and JSON values of simulated node failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from opendrs.cli.console import TextTable, add_row, create_table, printable
from opendrs.cli.drill_tables import MAX_UNREQUESTED_GUESTS
from opendrs.cli.formatting import UNKNOWN, arrow, format_bytes, format_duration
from opendrs.model import format_count, format_list
from opendrs.pve_ha.simulator.failure_impact import (
    AffectedGuest,
    FailureImpact,
    RecoveryTarget,
)

MAX_NAMES_LISTED = 10  # guests named in one note
DOWN = "until the node is back"


def print_failure_impact(
    screen: Console, impact: FailureImpact, *, all_guests: bool
) -> None:
    """Print the impact of a failure, with all affected guests if *all_guests*."""
    affected = sorted(impact.affected_guests, key=_severity_key)
    if affected:
        screen.print(
            _affected_table(
                affected if all_guests else affected[:MAX_UNREQUESTED_GUESTS]
            )
        )
        screen.print()
    if not all_guests and len(affected) > MAX_UNREQUESTED_GUESTS:
        hidden = len(affected) - MAX_UNREQUESTED_GUESTS
        screen.print(f"And {hidden} more; use --guests to list all.")
    if impact.targets:
        screen.print(_target_table(impact.targets))
        screen.print()
    for note in _impact_notes(impact):
        screen.print(printable(f"Note: {note}."))
    node_names = ", ".join(impact.nodes)
    conclusion = _conclusion(impact, node_names)
    screen.print(printable(conclusion), style=_impact_style(impact))


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
            DOWN if one.downtime is None else format_duration(one.downtime),
            format_bytes(one.guest.usage.memory),
        )
    return listing


def _restart_text(guest: AffectedGuest) -> str:
    if guest.target is not None:
        return printable(guest.target)
    if not guest.managed:
        return "not HA-managed"
    return "cannot restart" if guest.blocker else "no feasible node"


def _target_table(targets: Sequence[RecoveryTarget]) -> TextTable:
    headings = ("target node", "unused memory", "uncommitted memory", "result")
    listing = create_table(*headings, right=[])
    for one in targets:
        conclusion = {True: "sufficient", False: "insufficient", None: "unknown"}[
            one.fits
        ]
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
        yield "the remaining nodes are not a majority, so no guest is recovered"
    elif impact.includes_master:
        yield (
            f"{min(impact.nodes)} is the HA master in this drill; electing a new one "
            "takes a minute"
        )
    yield from _restart_blocker_notes([impact])
    for rule in impact.new_violations:
        yield f"strict rule violated after the failure: {rule}"
    if impact.moved_before:
        yield _earlier_migrations_note(impact)
    if impact.side_effect_migrations:
        moved = ", ".join(impact.side_effect_migrations)
        yield f"the HA manager also moves {moved}"
    if impact.unprotected:
        yield _unmanaged_note(len(impact.unprotected))


def _restart_blocker_notes(impacts: Iterable[FailureImpact]) -> Iterator[str]:
    """Yield one note per reason for which guests cannot restart elsewhere."""
    by_blocker: dict[str, list[str]] = {}
    for impact in impacts:
        for one in impact.unrestartable:
            by_blocker.setdefault(str(one.blocker), []).append(one.guest.id)
    for reason, guests in by_blocker.items():
        names = format_list(sorted(guests), MAX_NAMES_LISTED)
        yield f"{names} cannot be restarted on another node: {reason}"


def _earlier_migrations_note(impact: FailureImpact) -> str:
    names = format_list(impact.moved_before)
    return f"the HA manager moved {names} before the failure to satisfy rules"


def _unmanaged_note(count: int) -> str:
    verbs = ("is", "stays") if count == 1 else ("are", "stay")
    guests = format_count(count, "running guest")
    state = f"{guests} {verbs[0]} not HA-managed and {verbs[1]} down"
    return f"{state}; use --assume-ha to treat all guests as managed"


def _conclusion(impact: FailureImpact, node_names: str) -> str:
    if impact.survived:
        return _survivor_text(impact, node_names)
    reasons = _failure_reasons(impact)
    return f"The cluster does not survive the failure of {node_names}: {reasons}."


def _survivor_text(impact: FailureImpact, node_names: str) -> str:
    """Return the conclusion; unmanaged guests are excluded by name."""
    managed = " HA-managed" if impact.unprotected else ""
    sentence = f"If {node_names} fails, all{managed} guests restart on another node"
    if left := len(impact.unrestartable):
        verb = "stays" if left == 1 else "stay"
        sentence += f", except {left}, which {verb} down until the node is back"
    return f"{sentence}."


def _every_survivor_text(impacts: Sequence[FailureImpact]) -> str:
    """Return the conclusion of the failures of single nodes, all of them survived."""
    managed = " HA-managed" if any(impact.unprotected for impact in impacts) else ""
    left = {one.guest.id for impact in impacts for one in impact.unrestartable}
    sentence = f"If any one node fails, its{managed} guests restart on other nodes."
    if left:
        their, they = ("its", "it stays") if len(left) == 1 else ("their", "they stay")
        sentence += (
            f" Exception: {format_count(len(left), 'guest')} of the whole cluster "
            f"cannot restart elsewhere; if {their} own node fails, {they} down until "
            f"it is back."
        )
    return sentence


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
            reasons.append(f"the memory of {one.node.id} is unknown")
    reasons += [f"{rule.rule} is violated" for rule in impact.new_violations]
    return "; ".join(reasons)


def _impact_style(impact: FailureImpact) -> str:
    return "green" if impact.survived else "red"


def print_failure_impacts(screen: Console, impacts: Sequence[FailureImpact]) -> None:
    """Print the impact of each failure in a table, and a conclusion."""
    screen.print(_failure_table(impacts))
    screen.print()
    for note in impacts[0].setup.notes if impacts else ():
        screen.print(printable(f"Note: {note}."))
    for sentence in _restart_blocker_notes(impacts):
        screen.print(printable(f"Note: {sentence}."))
    if impacts and impacts[0].moved_before:
        screen.print(printable(f"Note: {_earlier_migrations_note(impacts[0])}."))
    unprotected = sum(len(impact.unprotected) for impact in impacts)
    if unprotected:
        screen.print(f"Note: {_unmanaged_note(unprotected)}.")
    fatal = [impact.nodes[0] for impact in impacts if not impact.survived]
    if fatal:
        names = format_list(fatal, separator=" or ")
        conclusion = f"The cluster does not survive the failure of {names}."
    elif impacts:
        conclusion = _every_survivor_text(impacts)
    else:
        conclusion = "No node is online."
    screen.print(
        printable(conclusion), style="red" if fatal or not impacts else "green"
    )


def _failure_table(impacts: Sequence[FailureImpact]) -> TextTable:
    listing = create_table(
        "failed node",
        "guests",
        "restarted",
        "cannot restart",
        "not HA-managed",
        "longest downtime",
        "result",
        right=["guests", "restarted", "cannot restart", "not HA-managed"],
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
    return listing


def failure_impact_document(impact: FailureImpact) -> dict[str, object]:
    """Return *impact* as JSON values."""
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
