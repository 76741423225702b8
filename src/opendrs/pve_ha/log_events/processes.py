"""Log events of both processes of a node, CRM and LRM."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.pve_ha.log_events.base import LogEvent, LogLines, error, info, notice


@dataclass(frozen=True, slots=True)
class ProcessStateChanged(LogEvent):
    """A process passed to another state."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class LockAcquired(LogEvent):
    """A lock that was not held before is held now."""

    lock: str


@dataclass(frozen=True, slots=True)
class ShutdownReceived(LogEvent):
    """The manager process was asked to end."""


@dataclass(frozen=True, slots=True)
class ManagerStatusUnreadable(LogEvent):
    """The manager process could not read the manager status."""

    error: str


@dataclass(frozen=True, slots=True)
class UnexpectedError(LogEvent):
    """Something failed that ends the work of this turn."""

    error: str


@dataclass(frozen=True, slots=True)
class InconsistentRoundSkipped(LogEvent):
    """The cluster file system is not in step, so nothing is done."""


@dataclass(frozen=True, slots=True)
class DisarmedMasterElected(LogEvent):
    """A new master took over a disarmed cluster."""


@dataclass(frozen=True, slots=True)
class ClusterIdle(LogEvent):
    """No service needs a master any more."""

    rounds: int


@dataclass(frozen=True, slots=True)
class ManagerLockReleased(LogEvent):
    """The master ends and gives its lock back."""


@dataclass(frozen=True, slots=True)
class ManagerLockReleaseFailed(LogEvent):
    """The master ends and its lock has to run out."""


@dataclass(frozen=True, slots=True)
class ManagerDisarmed(LogEvent):
    """All is disarmed, and the master lets go of its watchdog."""


@dataclass(frozen=True, slots=True)
class ManagerRearmed(LogEvent):
    """The master takes up its watchdog again."""


PROCESS_LINES: LogLines = {
    ProcessStateChanged: info("status change {0.old} => {0.new}"),
    LockAcquired: info("got lock '{0.lock}'"),
    ShutdownReceived: info("server received shutdown request"),
    ManagerStatusUnreadable: error("could not read manager status: {0.error}"),
    UnexpectedError: error("got unexpected error - {0.error}"),
    InconsistentRoundSkipped: notice(
        "temporary inconsistent cluster state (cfs restart?), skip round"
    ),
    DisarmedMasterElected: info("taking over as disarmed master, skipping watchdog"),
    ClusterIdle: info(
        "cluster had no service configured for {0.rounds} rounds, going idle."
    ),
    ManagerLockReleased: info("voluntary release CRM lock"),
    ManagerLockReleaseFailed: notice("CRM lock release failed, let the lock timeout"),
    ManagerDisarmed: info("HA stack fully disarmed, releasing CRM watchdog"),
    ManagerRearmed: info("re-arming HA stack"),
}
