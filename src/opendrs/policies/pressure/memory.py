"""Memory of the policy: last check, last change, last migration."""

from __future__ import annotations

import hashlib
import math
from datetime import datetime
from typing import TypedDict

from opendrs.model import GuestId, GuestState, Snapshot


class PressureMemory(TypedDict):
    """State that the policy keeps between cycles; valid JSON.

    Attributes:
        checked_at: Time of the last check for starved guests.
        changed_at: Time at which a guest last appeared, disappeared, or changed its
            state or node.
        fingerprint: Digest of the guests, which detects such changes.
        last_group: Guest that was migrated last, or the first guest of its move group.
        last_migrated_at: Time of that migration.
    """

    checked_at: str | None
    changed_at: str | None
    fingerprint: str | None
    last_group: str | None
    last_migrated_at: str | None


def initial_memory() -> PressureMemory:
    """Return the memory before the first cycle."""
    return {
        "checked_at": None,
        "changed_at": None,
        "fingerprint": None,
        "last_group": None,
        "last_migrated_at": None,
    }


def update_changes(memory: PressureMemory, snapshot: Snapshot) -> PressureMemory:
    """Return *memory* with the changes that *snapshot* shows.

    The first snapshot counts as a change, as in the original. Times in the future,
    after a change of the clock, are set to now.
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

    Changes between two snapshots are derived from uptimes and migration times, if
    known.
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
    """Return *memory* after a migration of the group of *leader*."""
    return {**memory, "last_group": leader, "last_migrated_at": at.isoformat()}


def seconds_since(at: str | None, now: datetime) -> float:
    """Return the seconds from the recorded time *at* to *now*; infinity if None."""
    return math.inf if at is None else _elapsed(datetime.fromisoformat(at), now)


def _elapsed(at: datetime, now: datetime) -> float:
    return max(0.0, (now - at).total_seconds())


def _at_most(at: str | None, now: datetime) -> str:
    """Return the earlier of *at* and *now*; *now* if *at* is None."""
    return (now if at is None else min(datetime.fromisoformat(at), now)).isoformat()


def _fingerprint(snapshot: Snapshot) -> str:
    """Return a digest of the states and nodes of all guests."""
    states = [
        (guest.id, guest.state.value, guest.node, guest.migrating_to)
        for _, guest in sorted(snapshot.guests.items())
    ]
    return hashlib.sha256(repr(states).encode()).hexdigest()
