"""Recent actions from the store, and correction of recorded times in the future.

A clock that was ahead and has been set back leaves times in the future. They count as
now. Otherwise a migration recorded an hour ahead would hide for an hour that its guest
migrated, and a node would have to stay on until then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.modes import OPERATOR_ENTRIES
from opendrs.controller.node_inventory import load_known_nodes, save_known_nodes
from opendrs.model import (
    GuestId,
    Limits,
    Migration,
    NodeId,
    PowerOn,
    Snapshot,
    time_as_text,
    time_from_text,
)
from opendrs.ports import Outcome, StepRecord, Store

# Times in the entries of operators: of the mode and the pause, of the circuit breaker,
# of a return of guests, and of a drain.
_PAST_TIMES = ("at", "opened_at", "requested_at", "since")


@dataclass(frozen=True, slots=True)
class RecentActions:
    """Guests and nodes for which the cooldown may not have elapsed.

    Attributes:
        migrated_at: Time of the last migration of each guest.
        powered_on_at: Time of the last power-on of each node.
    """

    migrated_at: Mapping[GuestId, datetime]
    powered_on_at: Mapping[NodeId, datetime]


def recent_actions(store: Store, limits: Limits, now: datetime) -> RecentActions:
    """Return the migrations and power-ons within the cooldown before *now*.

    Raises:
        StoreError: The store cannot be read.
    """
    return RecentActions(
        last_migrations(store, limits, now), last_power_ons(store, limits, now)
    )


def last_migrations(
    store: Store, limits: Limits, now: datetime
) -> dict[GuestId, datetime]:
    """Return the time of the last migration of each guest within the cooldown.

    A migration with the outcome lost counts as well.
    """
    migrated_at: dict[GuestId, datetime] = {}
    for record in _recent_records(store, limits, now):
        if not isinstance(record.action, Migration):
            continue
        if record.outcome in (Outcome.DONE, Outcome.LOST):
            ended_at = min(record.ended_at or record.intended_at, now)
            guest = record.action.guest
            migrated_at[guest] = max(ended_at, migrated_at.get(guest, ended_at))
    return migrated_at


def last_power_ons(
    store: Store, limits: Limits, now: datetime
) -> dict[NodeId, datetime]:
    """Return the time of the last power-on of each node within the cooldown.

    A power-on that timed out counts as well: the node may have come online later.
    """
    return {
        record.action.node: min(record.ended_at, now)
        for record in _recent_records(store, limits, now)
        if isinstance(record.action, PowerOn)
        and record.outcome not in (Outcome.REJECTED, Outcome.SKIPPED)
        and record.ended_at is not None
    }


def add_recent_actions(snapshot: Snapshot, recent: RecentActions) -> Snapshot:
    """Return *snapshot* with the times of the last migrations and power-ons.

    A later time reported by the platform has precedence. No time is later than the
    snapshot.
    """
    guests = {
        name: replace(guest, migrated_at=min(at, snapshot.taken_at))
        for name, guest in snapshot.guests.items()
        if (at := _later(guest.migrated_at, recent.migrated_at.get(name))) is not None
    }
    nodes = {
        name: replace(node, powered_on_at=min(at, snapshot.taken_at))
        for name, node in snapshot.nodes.items()
        if node.online
        and (at := _later(node.powered_on_at, recent.powered_on_at.get(name)))
        is not None
    }
    return replace(
        snapshot,
        guests={**snapshot.guests, **guests},
        nodes={**snapshot.nodes, **nodes},
    )


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _recent_records(
    store: Store, limits: Limits, now: datetime
) -> Iterator[StepRecord]:
    """Yield the records of steps that may have ended within the cooldown."""
    yield from store.recent(now - timedelta(seconds=limits.cooldown))


def correct_times(store: Store, now: datetime) -> None:
    """Set all times in the store that are after *now* to *now*, with one warning.

    So are those of the requests of operators. A pause keeps its duration. The end of a
    reservation is a time in the future, and stays.

    Raises:
        StoreError: The store cannot be read or written.
    """
    corrected_count = store.correct_times(now)
    nodes = load_known_nodes(store)
    ahead = {name for name, node in nodes.items() if node.seen_at > now}
    if ahead:
        corrected = {name: replace(nodes[name], seen_at=now) for name in ahead}
        save_known_nodes({**nodes, **corrected}, store)
    entries = _correct_entries(store, now)
    _log_future_times("record", corrected_count + len(ahead) + entries)


def _correct_entries(store: Store, now: datetime) -> int:
    """Correct the entries of operators; return the number of changes."""
    return sum(
        store.replace(key, entry, corrected)
        for key, entry in store.load_all(OPERATOR_ENTRIES).items()
        if (corrected := _corrected_entry(entry, now)) != entry
    )


def _corrected_entry(entry: Mapping[str, object], now: datetime) -> dict[str, object]:
    """Return *entry* with the times of what has happened at most *now*."""
    corrected = dict(entry)
    for name in _PAST_TIMES:
        text = entry.get(name)
        if not isinstance(text, str) or (time := time_from_text(text)) <= now:
            continue
        corrected[name] = time_as_text(now)
        until = entry.get("until")
        if isinstance(until, str):
            corrected["until"] = time_as_text(time_from_text(until) - (time - now))
    return corrected


def warn_future_records(store: Store, now: datetime) -> None:
    """Log a warning if the store contains times after *now*; correct nothing.

    Raises:
        StoreError: The store cannot be read.
    """
    nodes = load_known_nodes(store).values()
    _log_future_times(
        "record", len(store.recent(now)) + sum(one.seen_at > now for one in nodes)
    )


def warn_future_snapshot(snapshot: Snapshot) -> None:
    """Log a warning if *snapshot* contains times after it was taken."""
    guests = (guest.migrated_at for guest in snapshot.guests.values())
    nodes = (node.powered_on_at for node in snapshot.nodes.values())
    times = [at for at in (*guests, *nodes) if at is not None]
    _log_future_times("snapshot", sum(at > snapshot.taken_at for at in times))


def _log_future_times(source: str, times: int) -> None:
    if times:
        log_event(
            LogEventCode.TIMES_IN_FUTURE,
            f"{source}: times in the future are treated as now: {times}; "
            "check the clock of this machine",
            level=logging.WARNING,
            times=times,
        )
