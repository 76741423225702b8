"""The log of a drill, and the log events of the hardware and the simulator."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.log_events import LogEvent, LogLevel, LogLine


@dataclass(frozen=True, slots=True)
class DrillStarted(LogEvent):
    """The drill started."""

    log_line = LogLine.info("starting simulation")


@dataclass(frozen=True, slots=True)
class DrillFinished(LogEvent):
    """The drill finished."""

    log_line = LogLine.info("exit simulation - done")


@dataclass(frozen=True, slots=True)
class DrillFailed(LogEvent):
    """The drill was aborted by an error."""

    # Proxmox VE appends a space to the error, which ends with a newline.
    log_line = LogLine.error("exit simulation - {0.error}\n ")

    error: str


@dataclass(frozen=True, slots=True)
class CommandExecuted(LogEvent):
    """A command of the command list, or of the hardware, was executed."""

    log_line = LogLine.info("execute {0.command}")

    command: str


@dataclass(frozen=True, slots=True)
class RoundSkipped(LogEvent):
    """All processes of a kind skip a round."""

    log_line = LogLine.info("skipping {0.kind} round")

    kind: str


@dataclass(frozen=True, slots=True)
class ProcessExited(LogEvent):
    """A process exited."""

    log_line = LogLine.info("exit (loop end)")


@dataclass(frozen=True, slots=True)
class ProcessKilledByPowerOff(LogEvent):
    """A process was killed by the power loss of its node."""

    log_line = LogLine.info("killed by poweroff")


@dataclass(frozen=True, slots=True)
class WatchdogExpired(LogEvent):
    """An expired watchdog powered off its node."""

    log_line = LogLine.info("server '{0.node}' stopped by poweroff (watchdog)")

    node: NodeId


HARDWARE = "hardware"


@dataclass(frozen=True, slots=True)
class DrillLogEntry:
    """A log entry.

    Attributes:
        time: Time in seconds, by the clock of the source.
        source: hardware, cmdlist, watchdog, reboot, shutdown, run-loop, or a process
            such as node1/crm.
        event: The event.
    """

    time: int
    source: str
    event: LogEvent

    @property
    def level(self) -> LogLevel:
        """Return the level."""
        return self.event.level

    @property
    def message(self) -> str:
        """Return the message of Proxmox VE."""
        return self.event.message

    def line(self) -> str:
        """Return the line of Proxmox VE's log, without a newline."""
        return f"{self.level:<5} {self.time:>5} {self.source:>12}: {self.message}"

    def json(self) -> str:
        """Return the entry as a line of JSON, without a newline."""
        return json.dumps(
            {
                "time": self.time,
                "source": self.source,
                "level": self.level.full_name,
                "event": self.event.name,
                **self.event.details(),
                "message": self.message,
            }
        )


def format_log(entries: Iterable[DrillLogEntry]) -> str:
    """Return *entries* as the text of Proxmox VE's log."""
    return "".join(f"{entry.line()}\n" for entry in entries)
