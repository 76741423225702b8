"""Log events of both processes of a node, CRM and LRM."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.pve_ha.log_events.base import LogEvent, LogLine


@dataclass(frozen=True, slots=True)
class ProcessStateChanged(LogEvent):
    """The state of a process changed."""

    log_line = LogLine.info("status change {0.old} => {0.new}")

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class LockAcquired(LogEvent):
    """A lock was acquired that was not held before."""

    log_line = LogLine.info("got lock '{0.lock}'")

    lock: str


@dataclass(frozen=True, slots=True)
class ShutdownReceived(LogEvent):
    """The CRM was asked to stop."""

    log_line = LogLine.info("server received shutdown request")


@dataclass(frozen=True, slots=True)
class ManagerStatusUnreadable(LogEvent):
    """The CRM failed to read the manager status."""

    log_line = LogLine.error("could not read manager status: {0.error}")

    error: str


@dataclass(frozen=True, slots=True)
class UnexpectedError(LogEvent):
    """An error ended the work of the current step."""

    log_line = LogLine.error("got unexpected error - {0.error}")

    error: str


@dataclass(frozen=True, slots=True)
class InconsistentRoundSkipped(LogEvent):
    """A round was skipped because the cluster file system is inconsistent."""

    log_line = LogLine.notice(
        "temporary inconsistent cluster state (cfs restart?), skip round"
    )


@dataclass(frozen=True, slots=True)
class DisarmedMasterElected(LogEvent):
    """A new master took over a disarmed cluster."""

    log_line = LogLine.info("taking over as disarmed master, skipping watchdog")


@dataclass(frozen=True, slots=True)
class ClusterIdle(LogEvent):
    """The master became idle because there is no service."""

    log_line = LogLine.info(
        "cluster had no service configured for {0.rounds} rounds, going idle."
    )

    rounds: int


@dataclass(frozen=True, slots=True)
class ManagerLockReleased(LogEvent):
    """The master stops and releases its lock."""

    log_line = LogLine.info("voluntary release CRM lock")


@dataclass(frozen=True, slots=True)
class ManagerLockReleaseFailed(LogEvent):
    """The master stops and its lock must expire."""

    log_line = LogLine.notice("CRM lock release failed, let the lock timeout")


@dataclass(frozen=True, slots=True)
class ManagerDisarmed(LogEvent):
    """The HA stack is disarmed, and the master closes its watchdog."""

    log_line = LogLine.info("HA stack fully disarmed, releasing CRM watchdog")


@dataclass(frozen=True, slots=True)
class ManagerRearmed(LogEvent):
    """The HA stack is armed again."""

    log_line = LogLine.info("re-arming HA stack")
