"""Settings of the schedule of policies, tables `[[schedule]]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from opendrs.config.controller_settings import MAX_INTERVAL, Mode
from opendrs.config.diagnostics import KeyPath, suggestion
from opendrs.errors import InvalidSettingError
from opendrs.escapes import repr_value
from opendrs.model import Seconds
from opendrs.policies import CONSOLIDATE

DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MINUTES_PER_DAY = 24 * 60
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})")
_TIMES = re.compile(r"\s*(\S+?)\s*-\s*(\S+)\s*")
_WINDOW = "expected days, times or both, such as Mon-Fri 08:00-18:00"


@dataclass(frozen=True, slots=True)
class Window:
    """Times of the week in which a policy may run.

    Attributes:
        days: Days on which it opens; 0 is Monday.
        start: Minute of the day at which it opens.
        end: Minute of the day at which it closes, at most 1440. If it is not after
            *start*, it is a minute of the next day.
    """

    days: frozenset[int]
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSettings:
    """Settings of one entry of the schedule, table `[[schedule]]`.

    Attributes:
        policy: Name of the policy.
        name: Name of the entry, which is unique; empty for that of the policy.
        interval: Seconds between the starts of two of its cycles.
        windows: Times of the week at which it runs; None for always.
        timezone: Time zone of the windows and dates, as in the IANA database.
        blackout: Dates on which it does not run: `DATE`, or `FIRST/LAST`.
        mode: The most that is allowed to its plans.
        settings: Settings that override those of the table of the policy.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
    """

    policy: str
    name: str = ""
    interval: Seconds = 300.0
    windows: tuple[str, ...] | None = None
    timezone: str = "UTC"
    blackout: tuple[str, ...] = ()
    mode: Mode = Mode.AUTOMATIC
    settings: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.policy)
        problems = [*self._problems()]
        if problems:
            raise InvalidSettingError(*problems)

    def _problems(self) -> Iterator[str]:
        if self.name and not _NAME.fullmatch(self.name):
            yield (
                "name: expected letters, digits, and _ . - after the first, got "
                f"{repr_value(self.name)}"
            )
        if not 0 < self.interval <= MAX_INTERVAL:
            yield (
                f"interval: expected seconds above 0 and up to {MAX_INTERVAL}, got "
                f"{self.interval:g}"
            )
        if self.windows is not None and not self.windows:
            yield (
                "windows: expected at least one window, got none; without this "
                "setting, the policy always runs"
            )
        for text in self.windows or ():
            yield from _problem("windows", parse_window, text)
        yield from _problem("timezone", load_time_zone, self.timezone)
        for text in self.blackout:
            yield from _problem("blackout", parse_dates, text)


Schedule = Sequence[ScheduleSettings]


def agent_intervals(schedule: Schedule) -> tuple[float, ...]:
    """Return the intervals of the entries that decide on requests of agents."""
    found = {each.interval for each in schedule if each.policy == CONSOLIDATE}
    return tuple(sorted(found))


def agent_problem(policy: str, schedule: Schedule) -> tuple[KeyPath, str] | None:
    """Return why agents cannot be combined with other settings; None if they can.

    Args:
        policy: Name of the policy without a schedule.
        schedule: The schedule.

    Returns:
        The setting that does not fit, and the error.
    """
    if not schedule and policy != CONSOLIDATE:
        error = f"[api] requires the policy {CONSOLIDATE}, got {repr_value(policy)}"
        return ("policy", "name"), error
    intervals = agent_intervals(schedule)
    if schedule and not intervals:
        error = f"[api] requires an entry with the policy {CONSOLIDATE}"
        return ("schedule",), error
    if len(intervals) <= 1:
        return None
    listed = ", ".join(f"{seconds:g} s" for seconds in intervals)
    return ("schedule",), (
        f"expected one interval in all entries of {CONSOLIDATE}, that of the "
        f"agents, got {listed}"
    )


def _problem(name: str, parse: Callable[[str], object], text: str) -> Iterator[str]:
    """Yield the error of the setting *name* if *text* is invalid."""
    try:
        parse(text)
    except ValueError as error:
        yield f"{name}: {repr_value(text)}: {error}"


def parse_window(text: str) -> Window:
    """Return the window that *text* describes, such as `Mon-Fri 22:00-06:00`.

    Days are names or ranges of names, separated by commas; without days, the window
    opens daily. Without times, it comprises whole days.

    Raises:
        ValueError: The text describes no window; with what is expected.
    """
    days, times = text.strip(), ""
    for first, character in enumerate(days):
        if character.isdigit():
            days, times = days[:first].strip(), days[first:]
            break
    if not days and not times:
        raise ValueError(_WINDOW)
    start, end = _minutes(times) if times else (0, MINUTES_PER_DAY)
    return Window(_days(days) if days else frozenset(range(7)), start, end)


def _days(text: str) -> frozenset[int]:
    """Return the days in *text*; a range may contain the end of the week."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start = _day(first)
        length = (_day(last) - start) % 7 if dash else 0
        found |= {(start + number) % 7 for number in range(length + 1)}
    return frozenset(found)


def _day(text: str) -> int:
    name = text.strip().capitalize()
    if name not in DAY_NAMES:
        raise ValueError(f"{_WINDOW}, with the days {', '.join(DAY_NAMES)}")
    return DAY_NAMES.index(name)


def _minutes(text: str) -> tuple[int, int]:
    """Return the minutes of the day at which a window opens and closes."""
    parts = _TIMES.fullmatch(text)
    if parts is None:
        raise ValueError(_WINDOW)
    start, end = (_minute(part) for part in parts.groups())
    if start == MINUTES_PER_DAY:
        raise ValueError("expected a start before 24:00")
    if start == end:
        raise ValueError("expected another end than start; all day is 00:00-24:00")
    return start, end


def _minute(text: str) -> int:
    parts = _TIME.fullmatch(text)
    minute = -1 if parts is None else int(parts[1]) * 60 + int(parts[2])
    if parts is None or int(parts[2]) > 59 or minute > MINUTES_PER_DAY:
        raise ValueError("expected times from 00:00 to 24:00")
    return minute


def parse_dates(text: str) -> tuple[date, date]:
    """Return the first and the last date of `DATE` or `FIRST/LAST`.

    Raises:
        ValueError: The text contains other than dates, or the last one is earlier.
    """
    first, slash, last = text.partition("/")
    try:
        dates = date.fromisoformat(first), date.fromisoformat(last if slash else first)
    except ValueError:
        example = "such as 2026-12-24 or 2026-12-24/2027-01-02"
        raise ValueError(f"expected a date or two, {example}") from None
    if dates[1] < dates[0]:
        raise ValueError("expected the later date last")
    return dates


def load_time_zone(name: str) -> tzinfo:
    """Return the time zone *name*.

    Raises:
        ValueError: The time zone database has none of that name.
    """
    if name == "UTC":
        return UTC  # also without a database
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
        if not known:
            raise ValueError(
                "expected UTC, because this machine has no time zone database (tzdata)"
            ) from None
        raise ValueError(
            "expected a name of the IANA database, such as Europe/Berlin"
            f"{suggestion(name, known)}"
        ) from None
