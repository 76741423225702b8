"""What the two processes of a node, manager and agent, say of themselves."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.events.event import Event


@dataclass(frozen=True, slots=True)
class StatusChanged(Event):
    """A process passed to another state."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class LockTaken(Event):
    """A lock that was not held before is held now."""

    lock: str


@dataclass(frozen=True, slots=True)
class ShutdownReceived(Event):
    """The manager process was asked to end."""


@dataclass(frozen=True, slots=True)
class ManagerStatusUnreadable(Event):
    """The manager process could not read the manager status."""

    error: str


@dataclass(frozen=True, slots=True)
class UnexpectedError(Event):
    """Something failed that ends the work of this turn."""

    error: str


@dataclass(frozen=True, slots=True)
class RoundLeftOut(Event):
    """The cluster file system is not in step, so nothing is done."""


@dataclass(frozen=True, slots=True)
class DisarmedMasterTookOver(Event):
    """A new master took over a disarmed cluster."""


@dataclass(frozen=True, slots=True)
class ClusterIdle(Event):
    """No service needs a master any more."""

    rounds: int


@dataclass(frozen=True, slots=True)
class ManagerLockGivenBack(Event):
    """The master ends and gives its lock back."""


@dataclass(frozen=True, slots=True)
class ManagerLockKept(Event):
    """The master ends and its lock has to run out."""


@dataclass(frozen=True, slots=True)
class ManagerDisarmed(Event):
    """All is disarmed, and the master lets go of its watchdog."""


@dataclass(frozen=True, slots=True)
class ManagerRearmed(Event):
    """The master takes up its watchdog again."""
