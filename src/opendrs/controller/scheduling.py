"""The schedule of policies: which entries are open, due, and due next.

Windows and dates are those of the clocks in the time zone of the entry. When clocks are
set back, a window that contains the repeated hour is open in both. When they are set
forward, the hour that does not exist is part of no window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache

from opendrs.config.schedule_settings import (
    DAY_NAMES,
    MINUTES_PER_DAY,
    ScheduleSettings,
    Window,
    load_time_zone,
    parse_dates,
    parse_window,
)

_HORIZONS = (9, 370)  # days: windows are weekly, and long blackouts are rare
_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Calendar:
    """Times at which an entry of the schedule is open.

    Attributes:
        windows: The windows; None for always.
        zone: Time zone of windows and dates.
        blackout: First and last dates between which no window is open.
    """

    windows: tuple[Window, ...] | None
    zone: tzinfo
    blackout: tuple[tuple[date, date], ...] = ()

    def is_open(self, at: datetime) -> bool:
        """Return True if a window is open at the time *at*, and no blackout applies."""
        local = at.astimezone(self.zone)
        if self.is_blackout(at):
            return False
        if self.windows is None:
            return True
        minute, day = local.hour * 60 + local.minute, local.weekday()
        return any(_contains(window, day, minute) for window in self.windows)

    def is_blackout(self, at: datetime) -> bool:
        """Return True if the date of *at* is in a blackout."""
        today = at.astimezone(self.zone).date()
        return any(first <= today <= last for first, last in self.blackout)

    def next_change(self, at: datetime, *, to_open: bool) -> datetime | None:
        """Return the first time, not before *at*, at which it is open, or closed.

        Returns:
            None if there is none in the next year.
        """
        if self.is_open(at) == to_open:
            return at
        for horizon in _HORIZONS:
            for change in sorted(self._boundaries(at, horizon)):
                if change > at and self.is_open(change) == to_open:
                    return change
        return None

    def _boundaries(self, at: datetime, horizon: int) -> Iterator[datetime]:
        """Yield the times, in UTC, at which it may open or close."""
        minutes = {0}
        for window in self.windows or ():
            minutes |= {window.start, window.end % MINUTES_PER_DAY}
        today = at.astimezone(self.zone).date()
        for number in range(-1, horizon):
            day = today + number * _DAY
            for minute in minutes:
                local = datetime.combine(day, time(*divmod(minute, 60)))
                for fold in (0, 1):  # a repeated hour has two of each
                    yield local.replace(tzinfo=self.zone, fold=fold).astimezone(UTC)
            yield from self._clock_change(day)

    def _clock_change(self, day: date) -> Iterator[datetime]:
        """Yield the time on *day* at which the offset from UTC changes, if it does."""
        start = datetime.combine(day, time(), self.zone).astimezone(UTC)
        before, after = start, start + _DAY
        offset = before.astimezone(self.zone).utcoffset()
        if after.astimezone(self.zone).utcoffset() == offset:
            return
        while after - before > _SECOND:
            middle = before + (after - before) // _SECOND // 2 * _SECOND
            if middle.astimezone(self.zone).utcoffset() == offset:
                before = middle
            else:
                after = middle
        yield after


def _contains(window: Window, day: int, minute: int) -> bool:
    """Return True if *window* is open in a minute of a day of the week."""
    if window.start < window.end:
        return day in window.days and window.start <= minute < window.end
    opened_today = day in window.days and minute >= window.start
    return opened_today or ((day - 1) % 7 in window.days and minute < window.end)


def calendar_of(entry: ScheduleSettings) -> Calendar:
    """Return the times at which *entry* is open."""
    return _calendar(entry.windows, entry.timezone, entry.blackout)


@lru_cache(maxsize=256)
def _calendar(
    windows: tuple[str, ...] | None, timezone: str, blackout: tuple[str, ...]
) -> Calendar:
    return Calendar(
        windows=None if windows is None else tuple(map(parse_window, windows)),
        zone=load_time_zone(timezone),
        blackout=tuple(map(parse_dates, blackout)),
    )


def next_due(
    entry: ScheduleSettings, started_at: datetime | None, now: datetime
) -> datetime | None:
    """Return the time, not before *now*, at which a cycle of *entry* is due.

    Args:
        entry: The entry.
        started_at: Start of its last cycle; None if there was none. A later time than
            *now* counts as now: the clock was ahead.
        now: The time.

    Returns:
        None if it does not open in the next year.
    """
    earliest = now
    if started_at is not None:
        elapsed = min(started_at, now) + timedelta(seconds=entry.interval)
        earliest = max(now, elapsed)
    return calendar_of(entry).next_change(earliest, to_open=True)


def is_due(entry: ScheduleSettings, started_at: datetime | None, now: datetime) -> bool:
    """Return True if a cycle of *entry* is due *now*."""
    if started_at is not None:
        elapsed = now - min(started_at, now)
        if elapsed < timedelta(seconds=entry.interval):
            return False
    return calendar_of(entry).is_open(now)


def waiting_entries(
    entries: Sequence[ScheduleSettings],
    started: Mapping[str, datetime],
    now: datetime,
    waiting: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return the names of the entries that wait for a cycle, the first one first.

    Those that waited before keep their place while they are open. Those that have
    become due follow in the order of *entries*. So no entry waits forever because an
    earlier one is due again after each of its cycles.

    Args:
        entries: The entries, in the order of the file.
        started: Start of the last cycle of entries, by name.
        now: The time.
        waiting: The names that waited before.
    """
    is_open = {each.name: calendar_of(each).is_open(now) for each in entries}
    kept = [name for name in waiting if is_open.get(name)]
    due = (each.name for each in entries if is_due(each, started.get(each.name), now))
    return tuple(dict.fromkeys((*kept, *due)))


def describe_entry(entry: ScheduleSettings, now: datetime) -> str:
    """Return as a phrase whether *entry* is open, and until when."""
    calendar = calendar_of(entry)
    is_open = calendar.is_open(now)
    change = calendar.next_change(now, to_open=not is_open)
    until = "" if change is None else f" until {format_time(change)}"
    if is_open:
        return f"open{until}" if until else "always open"
    return f"blackout{until}" if calendar.is_blackout(now) else f"closed{until}"


def format_time(at: datetime) -> str:
    """Return *at* in UTC, as all times of commands, such as `Mon 2026-11-23 17:00 UTC`.

    Entries of one schedule may have different time zones.
    """
    shown = at.astimezone(UTC)
    return f"{DAY_NAMES[shown.weekday()]} {shown:%Y-%m-%d %H:%M} UTC"
