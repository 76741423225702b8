"""Memory of the policy: last check, last change, last migration."""

from __future__ import annotations

import hashlib
import math
from datetime import datetime
from typing import TypedDict

from opendrs.model import GuestId, GuestState, Snapshot


class PressureMemory(TypedDict):
    """What is kept from one cycle to the next; JSON-able.

    Attributes:
        checked_at: When it was last looked whether anybody is in trouble.
        changed_at: When a guest last came, went, changed its state or its node.
        fingerprint: What tells whether that has happened since the last cycle.
        last_group: The guest that was moved last, or the first of those moved as one.
        last_migrated_at: When.
    """

    checked_at: str | None
    changed_at: str | None
    fingerprint: str | None
    last_group: str | None
    last_migrated_at: str | None


def initial_memory() -> PressureMemory:
    """Return the memory of who has seen nothing."""
    return {
        "checked_at": None,
        "changed_at": None,
        "fingerprint": None,
        "last_group": None,
        "last_migrated_at": None,
    }


def update_changes(memory: PressureMemory, snapshot: Snapshot) -> PressureMemory:
    """Return *memory* with the changes that *snapshot* shows.

    The first look counts as a change, as it does there. What is remembered of a
    time to come, because a clock was set back, is taken to be of now.
    """
    fingerprint, now = _fingerprint(snapshot), snapshot.taken_at
    changed_at = memory["changed_at"] if fingerprint == memory["fingerprint"] else None
    return {
        **memory,
        "fingerprint": fingerprint,
        "changed_at": _at_most(changed_at, now),
        "checked_at": _at_most(memory["checked_at"], now),
        "last_migrated_at": None
        if memory["last_migrated_at"] is None
        else _at_most(memory["last_migrated_at"], now),
    }


def unchanged_for(memory: PressureMemory, snapshot: Snapshot) -> float:
    """Return the seconds since a guest last changed.

    Changes between two looks show in the uptime of those that run, and in when they
    were moved, where that is known.
    """
    now, guests = snapshot.taken_at, snapshot.guests.values()
    running = [g.uptime for g in guests if g.state is GuestState.RUNNING]
    migrations = [
        _elapsed(g.migrated_at, now) for g in guests if g.migrated_at is not None
    ]
    starts = [uptime for uptime in running if uptime is not None]
    return min([seconds_since(memory["changed_at"], now), *starts, *migrations])


def record_check(memory: PressureMemory, at: datetime) -> PressureMemory:
    """Return *memory* after a check."""
    return {**memory, "checked_at": at.isoformat()}


def record_migration(
    memory: PressureMemory, leader: GuestId, at: datetime
) -> PressureMemory:
    """Return *memory* once *leader*, and who moves with it, is the last moved."""
    return {**memory, "last_group": leader, "last_migrated_at": at.isoformat()}


def seconds_since(at: str | None, now: datetime) -> float:
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
