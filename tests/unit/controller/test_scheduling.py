"""Windows of the schedule: days, midnight, clock changes, blackouts; what is due.

Germany sets clocks forward on 2026-03-29 at 02:00 CET and back on 2026-10-25 at 03:00
CEST. 2026-11-23 is a Monday.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from opendrs.config.schedule_settings import DAY_NAMES, ScheduleSettings
from opendrs.controller.scheduling import (
    calendar_of,
    describe_entry,
    is_due,
    next_due,
    waiting_entries,
)

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
BERLIN = ZoneInfo("Europe/Berlin")


def entry(
    *windows: str, timezone: str = "Europe/Berlin", **settings: object
) -> ScheduleSettings:
    """Return an entry with *windows*; always open without one."""
    return ScheduleSettings(
        policy="balance",
        windows=windows or None,
        timezone=timezone,
        **settings,  # type: ignore[arg-type]
    )


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def berlin(text: str) -> datetime:
    """Return a time in Berlin, given without a time zone."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).astimezone(UTC)


@pytest.mark.parametrize(
    ("window", "open_at", "closed_at"),
    [
        ("Mon-Fri 08:00-18:00", "2026-11-23T08:00", "2026-11-23T07:59:59"),
        ("Mon-Fri 08:00-18:00", "2026-11-27T17:59:59", "2026-11-27T18:00"),
        ("Mon-Fri 08:00-18:00", "2026-11-27T12:00", "2026-11-28T12:00"),
        # Over midnight: the day is that of the start.
        ("Fri 22:00-06:00", "2026-11-27T22:00", "2026-11-27T05:00"),
        ("Fri 22:00-06:00", "2026-11-28T05:59", "2026-11-28T06:00"),
        ("Fri 22:00-06:00", "2026-11-28T00:00", "2026-11-28T22:00"),
        # Over the end of the week.
        ("Sun 22:00-06:00", "2026-11-30T05:00", "2026-11-29T05:00"),
        ("Sat-Mon", "2026-11-30T23:59", "2026-12-01T00:00"),
        ("20:00-24:00", "2026-11-23T23:59:59", "2026-11-24T00:00"),
    ],
)
def test_window_is_open_from_its_start_until_its_end(
    window: str, open_at: str, closed_at: str
) -> None:
    calendar = calendar_of(entry(window))

    assert calendar.is_open(berlin(open_at))
    assert not calendar.is_open(berlin(closed_at))


def test_window_opens_one_hour_earlier_in_utc_in_summer() -> None:
    calendar = calendar_of(entry("08:00-18:00"))

    opened = [
        calendar.next_change(utc(day), to_open=True)
        for day in ("2026-03-28T00:00", "2026-03-29T00:00", "2026-10-25T00:00")
    ]

    assert opened == [
        utc("2026-03-28T07:00"),
        utc("2026-03-29T06:00"),
        utc("2026-10-25T07:00"),
    ]


def open_minutes(day: str, *windows: str) -> int:
    """Return the number of minutes on *day* in Berlin at which an entry is open."""
    calendar, at = calendar_of(entry(*windows)), berlin(f"{day}T00:00")
    end, count = berlin(f"{day}T23:59") + MINUTE, 0
    while at < end:
        count += calendar.is_open(at)
        at += MINUTE
    return count


def test_window_in_the_hour_that_does_not_exist_stays_closed() -> None:
    assert open_minutes("2026-03-28", "02:00-03:00") == 60
    assert open_minutes("2026-03-29", "02:00-03:00") == 0
    assert open_minutes("2026-03-29", "01:00-04:00") == 120
    following = calendar_of(entry("02:00-03:00")).next_change(
        utc("2026-03-28T12:00"), to_open=True
    )
    assert following == utc("2026-03-30T00:00")


def test_window_that_begins_in_the_hour_that_does_not_exist_opens_after_it() -> None:
    calendar = calendar_of(entry("02:30-06:00"))

    assert calendar.next_change(utc("2026-03-29T00:00"), to_open=True) == utc(
        "2026-03-29T01:00"
    )


def test_window_in_the_repeated_hour_is_open_twice() -> None:
    assert open_minutes("2026-10-25", "02:00-02:30") == 60
    assert open_minutes("2026-10-25", "01:00-04:00") == 240
    calendar = calendar_of(entry("02:00-02:30"))
    changes = [utc("2026-10-25T00:00")]
    for number in range(3):
        change = calendar.next_change(changes[-1], to_open=bool(number % 2))
        assert change is not None
        changes.append(change)
    assert [f"{at:%H:%M}" for at in changes] == ["00:00", "00:30", "01:00", "01:30"]


def test_blackout_closes_whole_dates_in_the_time_zone() -> None:
    closed = entry("22:00-06:00", blackout=("2026-12-24/2026-12-26",))
    calendar = calendar_of(closed)

    assert calendar.is_open(berlin("2026-12-23T23:59"))
    assert not calendar.is_open(berlin("2026-12-24T00:00"))
    assert not calendar.is_open(berlin("2026-12-26T23:59"))
    assert calendar.is_open(berlin("2026-12-27T00:00"))
    assert calendar.next_change(berlin("2026-12-24T12:00"), to_open=True) == berlin(
        "2026-12-27T00:00"
    )
    assert "blackout" in describe_entry(closed, berlin("2026-12-25T12:00"))


def test_blackout_without_windows_is_the_only_closed_time() -> None:
    always = entry(blackout=("2026-12-24",))

    assert next_due(always, None, berlin("2026-12-24T10:00")) == berlin(
        "2026-12-25T00:00"
    )
    assert next_due(entry(), None, berlin("2026-12-24T10:00")) == berlin(
        "2026-12-24T10:00"
    )


def test_blackout_of_years_has_no_next_cycle() -> None:
    never = entry(blackout=("2026-01-01/2036-01-01",))

    assert next_due(never, None, utc("2026-11-23T12:00")) is None


def test_blackout_of_months_has_a_next_cycle() -> None:
    later = entry("Mon 08:00-09:00", blackout=("2026-01-01/2026-12-31",))

    assert next_due(later, None, utc("2026-02-01T12:00")) == berlin("2027-01-04T08:00")


def test_entry_is_due_an_interval_after_its_start_within_its_window() -> None:
    day = entry("08:00-18:00", interval=600.0)
    started = berlin("2026-11-23T17:45")

    assert not is_due(day, started, started + 9 * MINUTE)
    assert is_due(day, started, started + 10 * MINUTE)
    assert not is_due(day, started, started + 20 * MINUTE)
    assert next_due(day, started, started) == started + 10 * MINUTE
    late = berlin("2026-11-23T17:55")
    assert next_due(day, late, late) == berlin("2026-11-24T08:00")


def test_start_in_the_future_delays_by_one_interval_at_most() -> None:
    """The clock was ahead."""
    now = utc("2026-11-23T12:00")

    assert next_due(entry(), now + 5 * HOUR, now) == now + timedelta(seconds=300)


def test_entries_wait_in_the_order_of_the_file() -> None:
    names = ("repair", "balance", "consolidate")
    entries = [ScheduleSettings(policy=name) for name in names]

    assert waiting_entries(entries, {}, utc("2026-11-23T12:00")) == names


def test_entry_that_is_always_due_does_not_starve_the_others() -> None:
    """Cycles take ten minutes, twice the interval."""
    entries = [ScheduleSettings(policy=name) for name in ("repair", "balance")]
    now, started, ran = utc("2026-11-23T12:00"), dict[str, datetime](), list[str]()
    waiting: tuple[str, ...] = ()

    for _ in range(6):
        waiting = waiting_entries(entries, started, now, waiting)
        name, *others = waiting
        started[name], waiting = now, tuple(others)
        ran.append(name)
        now += 10 * MINUTE

    assert ran == ["repair", "balance"] * 3


def test_entry_does_not_wait_after_its_window_has_closed() -> None:
    day = entry("08:00-18:00")
    late = berlin("2026-11-23T18:00")

    assert waiting_entries([day], {}, late - MINUTE, ["balance"]) == ("balance",)
    assert waiting_entries([day], {}, late, ["balance"]) == ()


ZONES = ("UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe")
CLOCK_CHANGES = (  # dates, each in one of the zones
    "2026-03-29",
    "2026-04-05",
    "2026-09-06",
    "2026-10-04",
    "2026-10-25",
)
minutes_of_day = st.integers(0, 24 * 60 - 1)


@st.composite
def windows(draw: st.DrawFn) -> str:
    start, length = draw(minutes_of_day), draw(st.integers(1, 24 * 60 - 1))
    end = (start + length) % (24 * 60)
    days = ",".join(draw(st.sets(st.sampled_from(DAY_NAMES), min_size=1)))
    return f"{days} {start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"


@st.composite
def entries_of_schedules(draw: st.DrawFn) -> ScheduleSettings:
    dates = draw(st.lists(st.sampled_from(CLOCK_CHANGES), max_size=2))
    return ScheduleSettings(
        policy="balance",
        windows=tuple(draw(st.lists(windows(), min_size=1, max_size=3))),
        timezone=draw(st.sampled_from(ZONES)),
        blackout=tuple(dates),
        interval=draw(st.sampled_from([60.0, 3600.0, 86_400.0])),
    )


times = st.builds(
    lambda day, minute: utc(day) - DAY + minute * MINUTE,
    st.sampled_from(CLOCK_CHANGES),
    st.integers(0, 2 * 24 * 60),
)


@given(entries_of_schedules(), times, st.none() | st.integers(-2 * 24 * 60, 24 * 60))
def test_next_due_is_the_first_minute_that_is_due(
    schedule: ScheduleSettings, now: datetime, started_minutes: int | None
) -> None:
    started = None if started_minutes is None else now + started_minutes * MINUTE
    due = next_due(schedule, started, now)

    assert due is not None  # windows are weekly
    assert calendar_of(schedule).is_open(due)
    assert due >= now
    known = None if started is None else min(started, now)
    assert is_due(schedule, known, due)
    at = now
    while at < min(due, now + 3 * DAY):
        assert not is_due(schedule, known, at)
        at += MINUTE


@given(entries_of_schedules(), times)
def test_next_change_ends_a_time_without_change(
    schedule: ScheduleSettings, now: datetime
) -> None:
    calendar = calendar_of(schedule)
    is_open = calendar.is_open(now)
    change = calendar.next_change(now, to_open=not is_open)

    assume(change is not None)
    assert change is not None
    assert calendar.is_open(change) != is_open
    assert calendar.is_open(change - timedelta(seconds=1)) == is_open
    at = now
    while at < min(change, now + 3 * DAY):
        assert calendar.is_open(at) == is_open
        at += MINUTE
