"""What the record tells about the past."""

from __future__ import annotations

from datetime import datetime, timedelta

from opendrs.model import GuestId, Limits, PowerOff, PowerOn
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
