"""Entries of the schedule in the configuration, with one error for each wrong value."""

from __future__ import annotations

from datetime import UTC, date
from pathlib import Path

import pytest

from opendrs.cli.platforms import PLATFORMS
from opendrs.config import schedule_settings
from opendrs.config.controller_settings import Mode
from opendrs.config.parsing import parse
from opendrs.config.schedule_settings import (
    ScheduleSettings,
    Window,
    load_time_zone,
    parse_dates,
    parse_window,
)
from opendrs.config.settings import Settings
from opendrs.config.settings_reading import settings_and_diagnostics
from opendrs.errors import DiagnosticCode

DAY = 24 * 60
EVERY_DAY = frozenset(range(7))


def read(text: str) -> tuple[Settings, dict[str, DiagnosticCode]]:
    """Return the settings in TOML, and the code of each error by its place."""
    document = parse(text, "opendrs.toml", ".toml")
    settings, diagnostics = settings_and_diagnostics(
        document, "opendrs.toml", Path(), PLATFORMS
    )
    return settings, {
        str(each).partition(": ")[0]: each.code for each in diagnostics if each.code
    }


@pytest.mark.parametrize(
    ("text", "days", "start", "end"),
    [
        ("Mon-Fri 08:00-18:00", {0, 1, 2, 3, 4}, 480, 1080),
        ("mon,WED , fri 08:30 - 24:00", {0, 2, 4}, 510, DAY),
        ("Fri-Mon 22:00-06:00", {4, 5, 6, 0}, 1320, 360),
        ("Sat,Sun", {5, 6}, 0, DAY),
        ("22:00-06:00", EVERY_DAY, 1320, 360),
        ("Mon-Mon 00:00-00:01", {0}, 0, 1),
    ],
)
def test_window_has_days_and_minutes(
    text: str, days: set[int], start: int, end: int
) -> None:
    assert parse_window(text) == Window(frozenset(days), start, end)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "always",
        "Mon-",
        "-Fri",
        "Montag",
        "08:00",
        "08:00-08:00",
        "24:00-06:00",
        "08:00-24:01",
        "8:00-18:00",
        "08:60-18:00",
        "Mon 08:00-18:00 Tue",
        "\u0660\u0668:00-18:00",  # digits that are not ASCII
    ],
)
def test_window_with_another_form_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_window(text)


def test_unknown_time_zone_suggests_a_known_one() -> None:
    with pytest.raises(ValueError, match="did you mean Europe/Berlin"):
        load_time_zone("Europe/Berlim")


def test_machine_without_time_zones_has_only_utc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule_settings, "available_timezones", set)

    with pytest.raises(ValueError, match="tzdata"):
        load_time_zone("Europe/Absent")
    assert load_time_zone("UTC") is UTC


def test_dates_include_the_first_and_the_last() -> None:
    eve = date(2026, 12, 24)

    assert parse_dates("2026-12-24") == (eve, eve)
    assert parse_dates("2026-12-24/2027-01-02") == (eve, date(2027, 1, 2))


def test_entry_has_the_name_of_its_policy_by_default() -> None:
    settings, errors = read('[[schedule]]\npolicy = "balance"\n')

    assert not errors
    assert settings.schedule == (ScheduleSettings(policy="balance", name="balance"),)
    assert settings.controller_policies == ("balance",)


def test_schedule_is_read_with_dates_units_and_settings() -> None:
    settings, errors = read(
        """
        [policy]
        name = "optimize"
        [policy.balance]
        threshold = 0.2

        [[schedule]]
        name = "day"
        policy = "balance"
        interval = "10 min"
        windows = ["Mon-Fri 08:00-18:00"]
        timezone = "Europe/Berlin"
        blackout = [2026-12-24, "2026-12-31/2027-01-02"]
        mode = "advise"
        settings = { max_migrations = 3 }

        [[schedule]]
        policy = "repair"
        """
    )

    assert not errors
    day = settings.schedule[0]
    assert (day.interval, day.mode) == (600.0, Mode.ADVISE)
    assert day.blackout == ("2026-12-24", "2026-12-31/2027-01-02")
    assert settings.controller_policies == ("balance", "repair")
    assert settings.load_policy().name == "optimize"


@pytest.mark.parametrize(
    ("line", "place", "code"),
    [
        ("windows = []", "windows", "invalid-value"),
        ('windows = ["Mon-Fri 25:00-26:00"]', "windows", "invalid-value"),
        ('windows = "Mon-Fri"', "windows", "wrong-type"),
        ('timezone = "Europe/Berlim"', "timezone", "invalid-value"),
        ('timezone = "../../etc/passwd"', "timezone", "invalid-value"),
        ('timezone = "Europe"', "timezone", "invalid-value"),
        ('timezone = ""', "timezone", "invalid-value"),
        ('blackout = ["24.12.2026"]', "blackout", "invalid-value"),
        ('blackout = ["2027-01-02/2026-12-24"]', "blackout", "invalid-value"),
        ("interval = 0", "interval", "out-of-range"),
        ("interval = 100000", "interval", "out-of-range"),
        ('name = "a b"', "name", "invalid-value"),
        ('mode = "manual"', "mode", "unknown-value"),
        ('windwos = ["Mon"]', "windwos", "unknown-key"),
        ("settings = { thresold = 1 }", "settings.thresold", "unknown-key"),
        ("settings = { threshold = -1.0 }", "settings.threshold", "out-of-range"),
        ("settings = 3", "settings", "wrong-type"),
    ],
)
def test_invalid_value_is_one_error_at_its_place(
    line: str, place: str, code: str
) -> None:
    _, errors = read(f'[[schedule]]\npolicy = "balance"\n{line}\n')

    assert errors == {f"schedule[0].{place}": DiagnosticCode(code)}


@pytest.mark.parametrize(
    ("text", "place", "code"),
    [
        ('schedule = "x"', "schedule", "wrong-type"),
        ("schedule = [1]", "schedule[0]", "wrong-type"),
        ("[[schedule]]\n", "schedule[0].policy", "missing-key"),
        ('[[schedule]]\npolicy = "balanse"', "schedule[0].policy", "unknown-name"),
        ('[[schedule]]\npolicy = "drain"', "schedule[0].policy", "unknown-name"),
        (
            '[[schedule]]\npolicy = "repair"\n[[schedule]]\npolicy = "repair"',
            "schedule[1].name",
            "duplicate-name",
        ),
        (
            '[policy.balance]\nthreshold = -1.0\n[[schedule]]\npolicy = "balance"',
            "policy.balance.threshold",
            "out-of-range",
        ),
    ],
)
def test_invalid_schedule_is_one_error(text: str, place: str, code: str) -> None:
    _, errors = read(text)

    assert errors == {place: DiagnosticCode(code)}


AGENTS = '[api]\ncertificate = "c"\nkey = "k"\ntokens = "t"\n'
BALANCE = '[[schedule]]\npolicy = "balance"\n'
BY_NIGHT = '[[schedule]]\npolicy = "consolidate"\nname = "night"\ninterval = 60\n'


def test_agents_use_the_interval_of_the_entry_of_consolidate() -> None:
    settings, errors = read(BALANCE + BY_NIGHT + AGENTS)

    assert errors == {}
    assert settings.agent_interval == 60


def test_agents_use_the_interval_of_the_controller_without_schedule() -> None:
    text = '[policy]\nname = "consolidate"\n[controller]\ninterval = 90\n'

    settings, _ = read(text + AGENTS)

    assert settings.agent_interval == 90


@pytest.mark.parametrize(
    "entries",
    [
        BALANCE,  # nothing decides on requests
        BY_NIGHT + '[[schedule]]\npolicy = "consolidate"\ninterval = 300\n',
    ],
)
def test_schedule_that_does_not_fit_agents_is_rejected(entries: str) -> None:
    _, errors = read(entries + AGENTS)

    assert errors == {"schedule": DiagnosticCode.INCONSISTENT}


def test_settings_of_an_entry_are_checked_with_those_of_the_policy() -> None:
    """`min_risk_reduction` has no effect with the detector of the table."""
    _, errors = read(
        '[policy.consolidate]\ndetector = "otf"\n[[schedule]]\n'
        'policy = "consolidate"\nsettings = { min_risk_reduction = 0.1 }\n'
    )

    assert list(errors) == ["schedule[0].settings.min_risk_reduction"]
