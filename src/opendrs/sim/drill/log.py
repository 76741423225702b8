"""The log of a drill: what happened, when, and who said so."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from opendrs.ha.events import Event
from opendrs.ha.wording import LINES as PROCESS_LINES
from opendrs.ha.wording import Level
from opendrs.ha.wording.line import Lines, error, info
from opendrs.sim.drill import happenings

LINES: Lines = {
    **PROCESS_LINES,
    happenings.DrillBegun: info("starting simulation"),
    happenings.DrillEnded: info("exit simulation - done"),
    # Proxmox VE puts a blank behind the error, which ends in a new line.
    happenings.DrillFailed: error("exit simulation - {0.error}\n "),
    happenings.Executed: info("execute {0.command}"),
    happenings.RoundSkipped: info("skipping {0.kind} round"),
    happenings.LoopEnded: info("exit (loop end)"),
    happenings.KilledByPowerOff: info("killed by poweroff"),
    happenings.WatchdogBit: info("server '{0.node}' stopped by poweroff (watchdog)"),
}
HARDWARE = "hardware"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened.

    Attributes:
        time: When, in seconds, by the clock of who says so.
        source: Who says so: hardware, cmdlist, watchdog, reboot, shutdown,
            run-loop, or a process such as node1/crm.
        event: What happened.
    """

    time: int
    source: str
    event: Event

    @property
    def level(self) -> Level:
        """Return how important it is."""
        return LINES[type(self.event)].level

    @property
    def words(self) -> str:
        """Return it in the words of Proxmox VE."""
        return LINES[type(self.event)].template.format(self.event)

    def line(self) -> str:
        """Return it as a line of Proxmox VE's log, without the new line."""
        line = LINES[type(self.event)]
        words = line.template.format(self.event)
        return f"{line.level:<5} {self.time:>5} {self.source:>12}: {words}"

    def json(self) -> str:
        """Return it as a line of JSON, without the new line."""
        return json.dumps(
            {
                "time": self.time,
                "source": self.source,
                "level": self.level.word,
                "event": self.event.name,
                **self.event.details(),
                "message": self.words,
            }
        )


def log_text(entries: Iterable[Entry]) -> str:
    """Return *entries* as the text of Proxmox VE's log."""
    return "".join(f"{entry.line()}\n" for entry in entries)
