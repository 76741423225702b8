"""What the record tells about the past."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from opendrs.model import GuestId, Limits, NodeId, PowerOff, PowerOn, Snapshot
from opendrs.ports import Outcome, StepRecord, Store


@dataclass(frozen=True, slots=True)
class Past:
    """What may still have to rest.

    Attributes:
        moves: When each guest was moved.
        wakes: When each node was woken.
    """

    moves: Mapping[GuestId, datetime]
    wakes: Mapping[NodeId, datetime]


def past(store: Store, limits: Limits, now: datetime) -> Past:
    """Return what the record knows of who was moved, and what was woken.

    Raises:
        StoreError: The record cannot be read.
    """
    return Past(last_moves(store, limits, now), last_wakes(store, limits, now))


def last_moves(store: Store, limits: Limits, now: datetime) -> dict[GuestId, datetime]:
    """Return when each guest was moved that may still have to cool down.

    A move of unknown outcome counts as one.
    """
    found: dict[GuestId, datetime] = {}
    for record in _recent(store, limits, now):
        if isinstance(record.action, PowerOn | PowerOff):
            continue
        if record.outcome in (Outcome.DONE, Outcome.LOST):
            ended_at = min(record.ended_at or record.intended_at, now)
            guest = record.action.guest
            found[guest] = max(ended_at, found.get(guest, ended_at))
    return found


def last_wakes(store: Store, limits: Limits, now: datetime) -> dict[NodeId, datetime]:
    """Return when each node was woken that may still have to stay on.

    A node that was no longer waited for counts as well: it may have come late.
    """
    return {
        record.action.node: min(record.ended_at, now)
        for record in _recent(store, limits, now)
        if isinstance(record.action, PowerOn)
        and record.outcome not in (Outcome.REFUSED, Outcome.SKIPPED)
        and record.ended_at is not None
    }


def recalled(snapshot: Snapshot, known: Past) -> Snapshot:
    """Return *snapshot* with the times at which who is in it was moved or woken.

    A platform that knows of a later time is believed; none is later than the snapshot.
    """
    guests = {
        name: replace(guest, moved_at=min(at, snapshot.taken_at))
        for name, guest in snapshot.guests.items()
        if (at := _later(guest.moved_at, known.moves.get(name))) is not None
    }
    nodes = {
        name: replace(node, woken_at=min(at, snapshot.taken_at))
        for name, node in snapshot.nodes.items()
        if node.online
        and (at := _later(node.woken_at, known.wakes.get(name))) is not None
    }
    return replace(
        snapshot,
        guests={**snapshot.guests, **guests},
        nodes={**snapshot.nodes, **nodes},
    )


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _recent(store: Store, limits: Limits, now: datetime) -> Iterator[StepRecord]:
    """Yield the steps that may have ended within the cooldown."""
    yield from store.recent(now - timedelta(seconds=limits.cooldown))
