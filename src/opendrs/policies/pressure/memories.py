"""What the policy remembers: when it looked, what changed when, whom it moved."""

from __future__ import annotations

import hashlib
import math
from datetime import datetime
from typing import TypedDict

from opendrs.model import GuestId, GuestState, Snapshot


class Memory(TypedDict):
    """What is kept from one cycle to the next; JSON-able.

    Attributes:
        checked_at: When it was last looked whether anybody is in trouble.
        changed_at: When a guest last came, went, changed its state or its node.
        seen: What tells whether that has happened since the last cycle.
        last: The guest that was moved last, or the first of those moved as one.
        last_at: When.
    """

    checked_at: str | None
    changed_at: str | None
    seen: str | None
    last: str | None
    last_at: str | None


def no_memory() -> Memory:
    """Return the memory of who has seen nothing."""
    return {
        "checked_at": None,
        "changed_at": None,
        "seen": None,
        "last": None,
        "last_at": None,
    }


def watched(memory: Memory, snapshot: Snapshot) -> Memory:
    """Return *memory* with the changes that *snapshot* shows.

    The first look counts as a change, as it does there. What is remembered of a
    time to come, because a clock was set back, is taken to be of now.
    """
    seen, now = _fingerprint(snapshot), snapshot.taken_at
    changed_at = memory["changed_at"] if seen == memory["seen"] else None
    return {
        **memory,
        "seen": seen,
        "changed_at": _at_most(changed_at, now),
        "checked_at": _at_most(memory["checked_at"], now),
        "last_at": None
        if memory["last_at"] is None
        else _at_most(memory["last_at"], now),
    }


def quiet_for(memory: Memory, snapshot: Snapshot) -> float:
    """Return the seconds since a guest last changed.

    Changes between two looks show in the uptime of those that run, and in when they
    were moved, where that is known.
    """
    now, guests = snapshot.taken_at, snapshot.guests.values()
    running = [g.uptime for g in guests if g.state is GuestState.RUNNING]
    moves = [_elapsed(g.moved_at, now) for g in guests if g.moved_at is not None]
    starts = [uptime for uptime in running if uptime is not None]
    return min([since(memory["changed_at"], now), *starts, *moves])


def checked(memory: Memory, at: datetime) -> Memory:
    """Return *memory* after a check."""
    return {**memory, "checked_at": at.isoformat()}


def moved(memory: Memory, leader: GuestId, at: datetime) -> Memory:
    """Return *memory* once *leader*, and who moves with it, is the last moved."""
    return {**memory, "last": leader, "last_at": at.isoformat()}


def since(at: str | None, now: datetime) -> float:
    """Return the seconds from the remembered time *at* to *now*; inf if never."""
    return math.inf if at is None else _elapsed(datetime.fromisoformat(at), now)


def _elapsed(at: datetime, now: datetime) -> float:
    return max(0.0, (now - at).total_seconds())


def _at_most(at: str | None, now: datetime) -> str:
    """Return the earlier of *at* and *now*, and *now* if there is no *at*."""
    return (now if at is None else min(datetime.fromisoformat(at), now)).isoformat()


def _fingerprint(snapshot: Snapshot) -> str:
    """Return what is the same as long as all guests are, and are where they are."""
    states = [
        (guest.id, guest.state.value, guest.node, guest.migrating_to)
        for _, guest in sorted(snapshot.guests.items())
    ]
    return hashlib.sha256(repr(states).encode()).hexdigest()
