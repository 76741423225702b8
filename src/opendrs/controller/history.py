"""What the record tells about the past."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from opendrs.model import GuestId, Limits, PowerOff, PowerOn, Snapshot
from opendrs.ports import Outcome, Store


def last_moves(store: Store, limits: Limits, now: datetime) -> dict[GuestId, datetime]:
    """Return when each guest was moved that may still have to cool down.

    A move of unknown outcome counts as one.
    """
    # A move that ended within the cooldown may have begun long before it, and
    # to give one up takes as long again.
    since = now - timedelta(seconds=limits.cooldown + 2 * limits.patience)
    found: dict[GuestId, datetime] = {}
    for record in store.recent(since):
        if isinstance(record.action, PowerOn | PowerOff):
            continue
        if record.outcome in (Outcome.DONE, Outcome.LOST):
            ended_at = record.ended_at or record.intended_at
            guest = record.action.guest
            found[guest] = max(ended_at, found.get(guest, ended_at))
    return found


def recalled(snapshot: Snapshot, moves: Mapping[GuestId, datetime]) -> Snapshot:
    """Return *snapshot* with the times at which its guests were last moved.

    A platform that knows of a later move is believed.
    """
    known = {
        name: replace(guest, moved_at=max(moves[name], guest.moved_at or moves[name]))
        for name, guest in snapshot.guests.items()
        if name in moves
    }
    return replace(snapshot, guests={**snapshot.guests, **known})
