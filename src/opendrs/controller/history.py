"""Recent actions from the store; recorded times in the future are treated as now."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from opendrs.controller.events import log_event
from opendrs.controller.node_inventory import load_known_nodes, save_known_nodes
from opendrs.model import GuestId, Limits, NodeId, PowerOff, PowerOn, Snapshot
from opendrs.ports import Outcome, StepRecord, Store


@dataclass(frozen=True, slots=True)
class RecentActions:
    """What may still have to rest.

    Attributes:
        migrated_at: When each guest was moved.
        powered_on_at: When each node was woken.
    """

    migrated_at: Mapping[GuestId, datetime]
    powered_on_at: Mapping[NodeId, datetime]


def recent_actions(store: Store, limits: Limits, now: datetime) -> RecentActions:
    """Return what the record knows of who was moved, and what was woken.

    Raises:
        StoreError: The record cannot be read.
    """
    return RecentActions(
        last_migrations(store, limits, now), last_power_ons(store, limits, now)
    )


def last_migrations(
    store: Store, limits: Limits, now: datetime
) -> dict[GuestId, datetime]:
    """Return when each guest was moved that may still have to cool down.

    A move of unknown outcome counts as one.
    """
    migrated_at: dict[GuestId, datetime] = {}
    for record in _recent_records(store, limits, now):
        if isinstance(record.action, PowerOn | PowerOff):
            continue
        if record.outcome in (Outcome.DONE, Outcome.LOST):
            ended_at = min(record.ended_at or record.intended_at, now)
            guest = record.action.guest
            migrated_at[guest] = max(ended_at, migrated_at.get(guest, ended_at))
    return migrated_at


def last_power_ons(
    store: Store, limits: Limits, now: datetime
) -> dict[NodeId, datetime]:
    """Return when each node was woken that may still have to stay on.

    A node that was no longer waited for counts as well: it may have come late.
    """
    return {
        record.action.node: min(record.ended_at, now)
        for record in _recent_records(store, limits, now)
        if isinstance(record.action, PowerOn)
        and record.outcome not in (Outcome.REJECTED, Outcome.SKIPPED)
        and record.ended_at is not None
    }


def add_recent_actions(snapshot: Snapshot, recent: RecentActions) -> Snapshot:
    """Return *snapshot* with the times at which who is in it was moved or woken.

    A platform that knows of a later time is believed; none is later than the snapshot.
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
    """Yield the steps that may have ended within the cooldown."""
    yield from store.recent(now - timedelta(seconds=limits.cooldown))


def correct_times(store: Store, now: datetime) -> None:
    """Set all times in the record that are after *now* to *now*, with one warning.

    Raises:
        StoreError: The record cannot be read or kept.
    """
    corrected_count = store.correct_times(now)
    nodes = load_known_nodes(store)
    ahead = {name for name, node in nodes.items() if node.seen_at > now}
    if ahead:
        corrected = {name: replace(nodes[name], seen_at=now) for name in ahead}
        save_known_nodes({**nodes, **corrected}, store)
    _log_future_times("record", corrected_count + len(ahead))


def warn_future_records(store: Store, now: datetime) -> None:
    """Warn of times in the record that are after *now*, where it is only read.

    Raises:
        StoreError: The record cannot be read.
    """
    nodes = load_known_nodes(store).values()
    _log_future_times(
        "record", len(store.recent(now)) + sum(one.seen_at > now for one in nodes)
    )


def warn_future_snapshot(snapshot: Snapshot) -> None:
    """Warn of times in *snapshot* that are after it was taken."""
    guests = (guest.migrated_at for guest in snapshot.guests.values())
    nodes = (node.powered_on_at for node in snapshot.nodes.values())
    times = [at for at in (*guests, *nodes) if at is not None]
    _log_future_times("snapshot", sum(at > snapshot.taken_at for at in times))


def _log_future_times(source: str, times: int) -> None:
    if times:
        log_event(
            "times-in-future",
            f"{source}: times in the future are treated as now: {times}; check the clock "
            "of this machine",
            level=logging.WARNING,
            times=times,
        )
