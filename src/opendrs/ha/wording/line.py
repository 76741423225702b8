"""A line of the log: how important it is, and its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from opendrs.ha.events.event import Event


class Level(StrEnum):
    """How important a line is, as the log of Proxmox VE shows it.

    Processes cut the word to four letters; the hardware does not. CORRUPTED is
    what a slip in one message of Proxmox VE makes of *info*.
    """

    INFO = "info"
    NOTICE = "noti"
    WARNING = "warn"
    ERROR = "err"
    MAIL = "emai"
    HARDWARE_WARNING = "warning"
    CORRUPTED = "\n\t  "

    @property
    def word(self) -> str:
        """Return the whole word, for records and programs."""
        return _WORDS.get(self, self.value)


_WORDS = {
    Level.NOTICE: "notice",
    Level.WARNING: "warning",
    Level.ERROR: "error",
    Level.MAIL: "email",
    Level.CORRUPTED: "info",
}


@dataclass(frozen=True, slots=True)
class Line:
    """How an event reads.

    Attributes:
        level: Its importance.
        template: Its words, with the fields of the event as ``{0.field}``.
    """

    level: Level
    template: str


Lines = Mapping[type[Event], Line]


def info(template: str) -> Line:
    """Return a line that tells how things go."""
    return Line(Level.INFO, template)


def notice(template: str) -> Line:
    """Return a line that is worth a look."""
    return Line(Level.NOTICE, template)


def warning(template: str) -> Line:
    """Return a line about something that may go wrong."""
    return Line(Level.WARNING, template)


def error(template: str) -> Line:
    """Return a line about something that went wrong."""
    return Line(Level.ERROR, template)


def mail(template: str) -> Line:
    """Return a line about a mail to the operator."""
    return Line(Level.MAIL, template)


def hardware_warning(template: str) -> Line:
    """Return a warning that the hardware gives, not a process."""
    return Line(Level.HARDWARE_WARNING, template)


def corrupted(template: str) -> Line:
    """Return the line whose level Proxmox VE spoils."""
    return Line(Level.CORRUPTED, template)
