"""Locks that run out: who has one, has had it within two minutes."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId

LOCK_TIMEOUT = 120  # seconds
MANAGER_LOCK = "ha_manager_lock"


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that was taken.

    Attributes:
        holder: The node whose process took it.
        time: When it was taken or renewed, by the clock of that process.
    """

    holder: NodeId
    time: int

    def expired(self, now: int) -> bool:
        """Return whether anyone may take it."""
        return now - self.time > LOCK_TIMEOUT


def agent_lock(node: NodeId) -> str:
    """Return the name of the lock that the agent of *node* holds while it works."""
    return f"ha_agent_{node}_lock"


def may_acquire(lock: Lock | None, node: NodeId, now: int) -> bool:
    """Return whether *node* gets *lock*, or keeps it."""
    return lock is None or lock.holder == node or lock.expired(now)


def is_newly_acquired(lock: Lock | None, now: int) -> bool:
    """Return whether getting *lock* is news, and not a mere renewal."""
    return lock is None or lock.expired(now)


def is_released(lock: Lock | None, node: NodeId, now: int) -> bool:
    """Return whether *node* is rid of *lock* once it wants to be."""
    return lock is not None and (lock.expired(now) or lock.holder == node)
