"""The schedule of a controller in the output of `opendrs status` and `mode`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.config.settings import Settings
from opendrs.controller.modes import EffectiveMode, Entries, effective_mode
from opendrs.controller.scheduling import (
    calendar_of,
    describe_entry,
    format_time,
    next_due,
)
from opendrs.model import format_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryStatus:
    """Status of an entry of the schedule.

    Attributes:
        settings: The entry.
        now: Time of the query.
        started_at: Start of its last cycle; None if there was none.
        mode: The mode that applies to its plans now.
        is_executing: Steps are running: no cycle begins before they have ended.
    """

    settings: ScheduleSettings
    now: datetime
    started_at: datetime | None
    mode: EffectiveMode
    is_executing: bool = False

    @property
    def next_due(self) -> datetime | None:
        """Return when its next cycle is due; None if it does not open in a year."""
        return next_due(self.settings, self.started_at, self.now)

    @property
    def line(self) -> str:
        """Return the status in one line."""
        entry, due = self.settings, self.next_due
        if due is None:
            following = "no cycle in the next year"
        elif due <= self.now:
            following = "a cycle is due now"
            if self.is_executing:
                following += ", and begins when the running steps have ended"
        else:
            following = f"next cycle {format_time(due)}"
        last = "none"
        if self.started_at is not None:
            last = format_time(self.started_at)
        return (
            f"{entry.name}: policy {entry.policy}: {describe_entry(entry, self.now)}; "
            f"{following}; last {last}"
        )

    @property
    def mode_line(self) -> str:
        """Return the mode in one line."""
        return f"{self.settings.name}: mode {self.mode.mode} ({self.mode.detail})"

    @property
    def mode_document(self) -> dict[str, Any]:
        """Return the mode as plain values."""
        return {
            "name": self.settings.name,
            "mode": self.mode.mode,
            "source": self.mode.source,
            "detail": self.mode.detail,
        }

    @property
    def document(self) -> dict[str, Any]:
        """Return the status as plain values."""
        entry, due = self.settings, self.next_due
        return {
            "name": entry.name,
            "policy": entry.policy,
            "open": calendar_of(entry).is_open(self.now),
            "state": describe_entry(entry, self.now),
            "started_at": None
            if self.started_at is None
            else format_timestamp(self.started_at),
            "next_due": None if due is None else format_timestamp(due),
            "mode": self.mode.mode,
        }


def schedule_status(
    settings: Settings,
    started: Mapping[str, datetime],
    entries: Entries,
    now: datetime,
    *,
    is_executing: bool = False,
) -> tuple[EntryStatus, ...]:
    """Return the status of each entry, in the order of the file.

    Args:
        settings: The configuration.
        started: Start of the last cycle of entries, by name.
        entries: The entries of the store that operators set, by key.
        now: The time.
        is_executing: Steps are running.

    Raises:
        StoreError: An entry cannot be read.
    """
    return tuple(
        EntryStatus(
            settings=each,
            now=now,
            started_at=started.get(each.name),
            is_executing=is_executing,
            mode=effective_mode(
                settings.controller, entries, now, policy=each.policy, schedule=each
            ),
        )
        for each in settings.schedule
    )


def by_next_due(entries: Sequence[EntryStatus]) -> list[EntryStatus]:
    """Return *entries*, the one that is due next first; those without a cycle last."""
    due = {each.settings.name: each.next_due for each in entries}
    return sorted(
        entries,
        key=lambda each: (
            due[each.settings.name] is None,
            due[each.settings.name] or each.now,
        ),
    )
