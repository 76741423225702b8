"""The base of all log events, and the form of a log line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class LogEvent:
    """Something that happened, for the log and for whoever counts."""

    @property
    def name(self) -> str:
        """Return what kind of event it is, in words joined by hyphens."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", type(self).__name__).lower()

    def details(self) -> dict[str, object]:
        """Return the values of its fields by their names."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class LogLevel(StrEnum):
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
    def full_name(self) -> str:
        """Return the whole word, for records and programs."""
        return _FULL_NAMES.get(self, self.value)


_FULL_NAMES = {
    LogLevel.NOTICE: "notice",
    LogLevel.WARNING: "warning",
    LogLevel.ERROR: "error",
    LogLevel.MAIL: "email",
    LogLevel.CORRUPTED: "info",
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """How an event reads.

    Attributes:
        level: Its importance.
        template: Its words, with the fields of the event as ``{0.field}``.
    """

    level: LogLevel
    template: str


LogLines = Mapping[type[LogEvent], LogLine]


def info(template: str) -> LogLine:
    """Return a line that tells how things go."""
    return LogLine(LogLevel.INFO, template)


def notice(template: str) -> LogLine:
    """Return a line that is worth a look."""
    return LogLine(LogLevel.NOTICE, template)


def warning(template: str) -> LogLine:
    """Return a line about something that may go wrong."""
    return LogLine(LogLevel.WARNING, template)


def error(template: str) -> LogLine:
    """Return a line about something that went wrong."""
    return LogLine(LogLevel.ERROR, template)


def mail(template: str) -> LogLine:
    """Return a line about a mail to the operator."""
    return LogLine(LogLevel.MAIL, template)


def hardware_warning(template: str) -> LogLine:
    """Return a warning that the hardware gives, not a process."""
    return LogLine(LogLevel.HARDWARE_WARNING, template)


def corrupted(template: str) -> LogLine:
    """Return the line whose level Proxmox VE spoils."""
    return LogLine(LogLevel.CORRUPTED, template)
