"""Whether the guests may leave where they are."""

from __future__ import annotations

from collections.abc import Iterable

from opendrs.guard.case import Case
from opendrs.model import (
    Exclusion,
    Guest,
    GuestState,
    Migration,
    Mobility,
    Move,
    NodeState,
    Pin,
    Rule,
    Snapshot,
)


def source_not_seen(case: Case) -> str | None:
    """Return which guest cannot be seen because its node does not answer."""
    return _first(
        f"{move.source} does not answer, so {move.guest} on it cannot be seen"
        for move in case.moves
        if _is_hidden(move, case.fresh)
    )


def out_of_date(case: Case) -> str | None:
    """Return what has changed since the moves were planned, if anything."""
    names = [move.guest for move in case.moves]
    if twice := {name for name in names if names.count(name) > 1}:
        return f"{min(twice)} cannot be moved twice at once"
    return _first(_changed(move, case.fresh) for move in case.moves)


def may_not_move(case: Case) -> str | None:
    """Return which guest is not to be moved, or not like this, and why."""
    return _first(
        _fixed(guest, move) or _first(_held(guest, rule) for rule in case.fresh.rules)
        for guest, move in zip(case.guests, case.moves, strict=True)
    )


def cooling_down(case: Case) -> str | None:
    """Return which guest was moved too short a time ago, and when."""
    return _first(_hot(guest, case) for guest in case.guests)


def just_started(case: Case) -> str | None:
    """Return which guest has not run for long enough, and for how long."""
    quiet = case.limits.quiet_time
    return _first(
        f"{guest.id} started {guest.uptime:.0f} s ago and is left alone for "
        f"{quiet:.0f} s"
        for guest in case.guests
        if guest.uptime is not None and guest.uptime < quiet
    )


def _first(complaints: Iterable[str | None]) -> str | None:
    return next((complaint for complaint in complaints if complaint), None)


def _is_hidden(move: Move, fresh: Snapshot) -> bool:
    source, guest = fresh.nodes.get(move.source), fresh.guests.get(move.guest)
    if source is None or source.state is not NodeState.UNKNOWN:
        return False
    return guest is None or guest.state is GuestState.UNKNOWN


def _changed(move: Move, fresh: Snapshot) -> str | None:
    guest = fresh.guests.get(move.guest)
    if guest is None:
        return f"{move.guest} is no longer a guest of the cluster"
    return _elsewhere(guest, move, fresh) or _not_movable_now(guest)


def _elsewhere(guest: Guest, move: Move, fresh: Snapshot) -> str | None:
    if guest.node != move.source:
        return f"{guest.id} is on {guest.node}, not on {move.source}"
    if move.target == move.source:
        return f"{guest.id} is on {move.target} already"
    if move.target not in fresh.nodes:
        return f"{move.target} is no longer a node of the cluster"
    return None


def _not_movable_now(guest: Guest) -> str | None:
    if guest.migrating_to is not None:
        return f"{guest.id} is on its way to {guest.migrating_to} already"
    if guest.state is not GuestState.RUNNING:
        return f"{guest.id} does not run: its state is {guest.state}"
    return None


def _fixed(guest: Guest, move: Move) -> str | None:
    why = f": {guest.obstacle}" if guest.obstacle else ""
    if guest.mobility is Mobility.NEVER:
        return f"{guest.id} cannot be moved{why}"
    if guest.mobility is Mobility.STOPPED and isinstance(move, Migration):
        return f"{guest.id} cannot be moved while it runs{why}"
    return None


def _held(guest: Guest, rule: Rule) -> str | None:
    if isinstance(rule, Pin) and guest.id in rule.guests:
        return f"{guest.id} is pinned by a rule: {rule}"
    if isinstance(rule, Exclusion) and guest.tags & rule.tags:
        return f"{guest.id} is excluded by a rule: {rule}"
    return None


def _hot(guest: Guest, case: Case) -> str | None:
    if guest.moved_at is None:
        return None
    # A time in the future is treated as now.
    elapsed = max(0.0, (case.fresh.taken_at - guest.moved_at).total_seconds())
    if elapsed >= case.limits.cooldown:
        return None
    return (
        f"{guest.id} was moved {elapsed:.0f} s ago and is left alone for "
        f"{case.limits.cooldown:.0f} s"
    )
