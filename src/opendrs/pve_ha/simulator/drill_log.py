"""The log of a drill, and the events that the hardware and the simulator add to it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.log_events import LogEvent, LogLevel
from opendrs.pve_ha.log_events.base import LogLines, error, info
from opendrs.pve_ha.log_events.catalog import LOG_LINES as PROCESS_LINES


@dataclass(frozen=True, slots=True)
class DrillStarted(LogEvent):
    """The drill begins."""


@dataclass(frozen=True, slots=True)
class DrillFinished(LogEvent):
    """The drill came to its end."""


@dataclass(frozen=True, slots=True)
class DrillFailed(LogEvent):
    """The drill could not go on."""

    error: str


@dataclass(frozen=True, slots=True)
class CommandExecuted(LogEvent):
    """Something was done to the cluster from outside."""

    command: str


@dataclass(frozen=True, slots=True)
class RoundSkipped(LogEvent):
    """All processes of a kind miss a turn."""

    kind: str


@dataclass(frozen=True, slots=True)
class ProcessExited(LogEvent):
    """A process has ended."""


@dataclass(frozen=True, slots=True)
class ProcessKilledByPowerOff(LogEvent):
    """A process died with its node."""


@dataclass(frozen=True, slots=True)
class WatchdogExpired(LogEvent):
    """A watchdog that nobody fed switched its node off."""

    node: NodeId


DRILL_LOG_LINES: LogLines = {
    **PROCESS_LINES,
    DrillStarted: info("starting simulation"),
    DrillFinished: info("exit simulation - done"),
    # Proxmox VE puts a blank behind the error, which ends in a new line.
    DrillFailed: error("exit simulation - {0.error}\n "),
    CommandExecuted: info("execute {0.command}"),
    RoundSkipped: info("skipping {0.kind} round"),
    ProcessExited: info("exit (loop end)"),
    ProcessKilledByPowerOff: info("killed by poweroff"),
    WatchdogExpired: info("server '{0.node}' stopped by poweroff (watchdog)"),
}

HARDWARE = "hardware"


@dataclass(frozen=True, slots=True)
class DrillLogEntry:
    """One thing that happened.

    Attributes:
        time: When, in seconds, by the clock of who says so.
        source: Who says so: hardware, cmdlist, watchdog, reboot, shutdown,
            run-loop, or a process such as node1/crm.
        event: What happened.
    """

    time: int
    source: str
    event: LogEvent

    @property
    def level(self) -> LogLevel:
        """Return how important it is."""
        return DRILL_LOG_LINES[type(self.event)].level

    @property
    def message(self) -> str:
        """Return it in the words of Proxmox VE."""
        return DRILL_LOG_LINES[type(self.event)].template.format(self.event)

    def line(self) -> str:
        """Return it as a line of Proxmox VE's log, without the new line."""
        line = DRILL_LOG_LINES[type(self.event)]
        message = line.template.format(self.event)
        return f"{line.level:<5} {self.time:>5} {self.source:>12}: {message}"

    def json(self) -> str:
        """Return it as a line of JSON, without the new line."""
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
