"""Protocol of the recorded events of a controller, which other processes follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """A log event of the controller.

    Attributes:
        at: Time of the event.
        level: Name of its level: `debug`, `info`, `warning`, `error` or `critical`.
        code: Code of the event.
        message: Description of the event.
        facts: Values of the event; valid JSON.
        sequence: Number of the event, which increases; 0 before it is recorded.
    """

    at: datetime
    level: str
    code: str
    message: str
    facts: Mapping[str, object] = field(default_factory=dict)
    sequence: int = 0


class EventLog(Protocol):
    """Events of a controller, oldest first. Methods may raise `StoreError`."""

    def add(self, events: Sequence[EventRecord]) -> None:
        """Record *events* in their order; delete those that are too old."""

    def after(self, sequence: int, limit: int) -> tuple[EventRecord, ...]:
        """Return the first *limit* events with a number above *sequence*."""

    def newest(self, limit: int) -> tuple[EventRecord, ...]:
        """Return the newest *limit* events, oldest first."""

    def first_sequence(self) -> int:
        """Return the number of the oldest event that is kept; 0 without events."""

    def last_sequence(self) -> int:
        """Return the number of the newest event; 0 without events."""
