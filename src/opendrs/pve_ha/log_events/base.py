"""The base class of log events, and the level and template of a log line."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import ClassVar, Self


class LogLevel(StrEnum):
    """Level of a log line, in the spelling of Proxmox VE.

    Processes shorten the word to four letters; the hardware does not. CORRUPTED is the
    level *info* of one message that Proxmox VE formats incorrectly.
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
        """Return the whole word, for JSON."""
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
    """Level and template of the log line of an event class.

    Attributes:
        level: Its level.
        template: Message with the fields of the event as ``{0.field}``.
    """

    level: LogLevel
    template: str

    @classmethod
    def info(cls, template: str) -> Self:
        """Return a line of level info."""
        return cls(LogLevel.INFO, template)

    @classmethod
    def notice(cls, template: str) -> Self:
        """Return a line of level notice."""
        return cls(LogLevel.NOTICE, template)

    @classmethod
    def warning(cls, template: str) -> Self:
        """Return a line of level warning."""
        return cls(LogLevel.WARNING, template)

    @classmethod
    def error(cls, template: str) -> Self:
        """Return a line of level error."""
        return cls(LogLevel.ERROR, template)

    @classmethod
    def mail(cls, template: str) -> Self:
        """Return a line about a mail to the operator."""
        return cls(LogLevel.MAIL, template)

    @classmethod
    def hardware_warning(cls, template: str) -> Self:
        """Return a warning of the hardware rather than of a process."""
        return cls(LogLevel.HARDWARE_WARNING, template)

    @classmethod
    def corrupted(cls, template: str) -> Self:
        """Return a line whose level Proxmox VE formats incorrectly."""
        return cls(LogLevel.CORRUPTED, template)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event in the log of the HA manager.

    Attributes:
        log_line: Level and template; defined by each class of events.
    """

    log_line: ClassVar[LogLine]

    @property
    def name(self) -> str:
        """Return the name of the class in lower case, with hyphens."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", type(self).__name__).lower()

    @property
    def level(self) -> LogLevel:
        """Return the level of the log line."""
        return self.log_line.level

    @property
    def message(self) -> str:
        """Return the message of Proxmox VE."""
        return self.log_line.template.format(self)

    def details(self) -> dict[str, object]:
        """Return the fields and their values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
