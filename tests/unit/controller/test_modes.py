"""Mode that applies to a plan, and the steps that need no approval."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.controller.modes import (
    API_BREAKER_KEY,
    BREAKER_KEY,
    MODE_KEY,
    PAUSE_KEY,
    EffectiveMode,
    Entries,
    ModeChange,
    ModeSource,
    Pause,
    effective_mode,
    unattended_steps,
    with_prerequisites,
)
from opendrs.errors import StoreError
from opendrs.model import NodeId, PowerOff, StepId
from opendrs.policies import DecisionReason
from support.builders import NOON, cluster, guest
from support.simulated_cluster import migration, step

OBSERVE, ADVISE, AUTOMATIC = Mode.OBSERVE, Mode.ADVISE, Mode.AUTOMATIC
REPAIR = DecisionReason.REPAIRS_RULES.value
BALANCE = DecisionReason.IMPROVES_BALANCE.value


def mode_entry(mode: Mode) -> Entries:
    return {MODE_KEY: ModeChange(mode=mode, user="ada", at=NOON).entry()}


def pause_entry(minutes: int) -> Entries:
    until = NOON + timedelta(minutes=minutes)
    return {PAUSE_KEY: Pause(until=until, because="x", user="ada", at=NOON).entry()}


BREAKER: Entries = {BREAKER_KEY: {}}
API_BREAKER: Entries = {API_BREAKER_KEY: {"opened_at": NOON.isoformat()}}
API_BREAKER_CLOSED: Entries = {API_BREAKER_KEY: {"closed_at": NOON.isoformat()}}


@pytest.mark.parametrize(
    ("settings", "entries", "reason", "mode", "source"),
    [
        ({}, {}, BALANCE, OBSERVE, "configuration"),
        ({"mode": AUTOMATIC}, {}, BALANCE, AUTOMATIC, "configuration"),
        ({"mode": AUTOMATIC}, mode_entry(OBSERVE), BALANCE, OBSERVE, "operator"),
        ({}, mode_entry(AUTOMATIC), BALANCE, AUTOMATIC, "operator"),
        (
            {"mode": AUTOMATIC, "policy_modes": {"balance": ADVISE}},
            {},
            BALANCE,
            ADVISE,
            "policy",
        ),
        (
            {"mode": AUTOMATIC, "policy_modes": {"optimize": ADVISE}},
            {},
            BALANCE,
            AUTOMATIC,
            "configuration",
        ),
        (
            {"mode": OBSERVE, "policy_modes": {"balance": AUTOMATIC}},
            {},
            BALANCE,
            OBSERVE,
            "configuration",
        ),
        ({"mode": ADVISE, "repair": AUTOMATIC}, {}, REPAIR, AUTOMATIC, "repair"),
        ({"mode": ADVISE, "repair": AUTOMATIC}, {}, BALANCE, ADVISE, "configuration"),
        ({"mode": ADVISE}, {}, REPAIR, ADVISE, "configuration"),
        ({"mode": OBSERVE, "repair": AUTOMATIC}, {}, REPAIR, OBSERVE, "configuration"),
        ({"mode": AUTOMATIC}, {}, REPAIR, AUTOMATIC, "configuration"),
        ({"mode": AUTOMATIC}, BREAKER, BALANCE, ADVISE, "breaker"),
        ({"mode": ADVISE, "repair": AUTOMATIC}, BREAKER, REPAIR, ADVISE, "breaker"),
        ({"mode": OBSERVE}, BREAKER, BALANCE, OBSERVE, "configuration"),
        ({"mode": AUTOMATIC}, API_BREAKER, REPAIR, OBSERVE, "api-breaker"),
        ({"mode": AUTOMATIC}, API_BREAKER_CLOSED, BALANCE, AUTOMATIC, "configuration"),
        ({"mode": AUTOMATIC}, pause_entry(1), REPAIR, OBSERVE, "pause"),
        ({"mode": AUTOMATIC}, pause_entry(0), BALANCE, AUTOMATIC, "configuration"),
    ],
)
def test_effective_mode(
    settings: dict[str, Any], entries: Entries, reason: str, mode: Mode, source: str
) -> None:
    found = effective_mode(
        ControllerSettings(**settings), entries, NOON, policy="balance", reason=reason
    )

    assert (found.mode, found.source) == (mode, ModeSource(source))


@pytest.mark.parametrize(
    "entries",
    [
        {MODE_KEY: {}},
        {MODE_KEY: {"mode": "eager", "user": "ada", "at": NOON.isoformat()}},
        {PAUSE_KEY: {"until": 5}},
        {PAUSE_KEY: {"until": "soon", "because": "", "user": "", "at": ""}},
    ],
)
def test_damaged_entries_are_errors(entries: Entries) -> None:
    with pytest.raises(StoreError):
        effective_mode(ControllerSettings(), entries, NOON, policy="balance")


PLAN = (
    step("1", migration("db", "a", "b")),
    step("2", migration("web", "a", "b"), "1"),
    step("3", migration("cache", "a", "b")),
    step("4", migration("mail", "a", "b")),
    step("5", PowerOff(NodeId("a")), "1", "2", "3", "4"),
)
PLAIN = cluster(
    {"a": 0.5, "b": 0.1},
    dict.fromkeys(("db", "web", "cache", "mail"), ("a", 0.1)),
)
TAGGED = guest("db", "a", 0.1, tags=frozenset({"prod"}))
SNAPSHOT = replace(PLAIN, guests={**PLAIN.guests, TAGGED.id: TAGGED})


CONFIGURED = {
    mode: EffectiveMode(mode=mode, source=ModeSource.CONFIGURATION, detail="")
    for mode in Mode
}


def ids(*names: str) -> tuple[StepId, ...]:
    return tuple(StepId(name) for name in names)


@pytest.mark.parametrize(
    ("settings", "groups", "expected"),
    [
        ({}, (), ("1", "2", "3", "4", "5")),
        ({"advise_tags": ("prod",)}, (), ("3", "4")),
        ({"advise_tags": ("test",)}, (), ("1", "2", "3", "4", "5")),
        ({"advise_guests": ("mail",)}, (), ("1", "2", "3")),
        ({"advise_guests": ("mail",)}, (ids("3", "4"),), ("1", "2")),
    ],
)
def test_steps_of_chosen_guests_need_approval(
    settings: dict[str, Any],
    groups: tuple[tuple[StepId, ...], ...],
    expected: tuple[str, ...],
) -> None:
    unattended = unattended_steps(
        PLAN, groups, SNAPSHOT, ControllerSettings(**settings), CONFIGURED[AUTOMATIC]
    )

    assert tuple(each.id for each in unattended) == expected


BATCH: dict[str, Any] = {"automatic_guests": ("cache", "web", "mail")}


@pytest.mark.parametrize(
    ("settings", "groups", "expected"),
    [
        ({}, (), ()),
        (BATCH, (), ("3", "4")),  # 2 depends on 1
        (BATCH | {"automatic_tags": ("prod",)}, (), ("1", "2", "3", "4")),
        (BATCH | {"advise_guests": ("mail",)}, (), ("3",)),
        (
            BATCH | {"automatic_tags": ("prod",), "advise_tags": ("prod",)},
            (),
            ("3", "4"),
        ),
        (BATCH, (ids("1", "4"),), ("3",)),
    ],
)
def test_steps_of_automatic_guests_need_no_approval_in_mode_advise(
    settings: dict[str, Any],
    groups: tuple[tuple[StepId, ...], ...],
    expected: tuple[str, ...],
) -> None:
    """Step 5 powers a node off, which no guest allows."""
    unattended = unattended_steps(
        PLAN, groups, SNAPSHOT, ControllerSettings(**settings), CONFIGURED[ADVISE]
    )

    assert tuple(each.id for each in unattended) == expected


@pytest.mark.parametrize(
    "mode",
    [
        CONFIGURED[OBSERVE],
        EffectiveMode(mode=ADVISE, source=ModeSource.BREAKER, detail=""),
    ],
)
def test_no_step_of_automatic_guests_starts_in_mode_observe_or_with_open_breaker(
    mode: EffectiveMode,
) -> None:
    settings = ControllerSettings(**BATCH)

    assert unattended_steps(PLAN, (), SNAPSHOT, settings, mode) == ()


@pytest.mark.parametrize(
    ("chosen", "groups", "expected"),
    [
        ("3", (), ("3",)),
        ("2", (), ("1", "2")),
        ("2", (ids("1", "4"),), ("1", "2", "4")),
        ("5", (), ("1", "2", "3", "4", "5")),
    ],
)
def test_chosen_steps_include_what_they_depend_on(
    chosen: str, groups: tuple[tuple[StepId, ...], ...], expected: tuple[str, ...]
) -> None:
    assert with_prerequisites(PLAN, groups, ids(chosen)) == expected


SATURDAY = ScheduleSettings(policy="balance", windows=("Sat 11:00-13:00",))


@pytest.mark.parametrize(
    ("configured", "allowed", "day", "expected", "source"),
    [
        ("automatic", "automatic", "Sat", "automatic", "configuration"),
        ("automatic", "advise", "Sat", "advise", "schedule"),
        ("advise", "automatic", "Sat", "advise", "configuration"),
        ("advise", "observe", "Sat", "observe", "schedule"),
        ("observe", "automatic", "Sat", "observe", "configuration"),
        ("automatic", "automatic", "Sun", "observe", "schedule"),
        ("observe", "automatic", "Sun", "observe", "configuration"),
    ],
)
def test_schedule_restricts_the_mode(
    configured: str, allowed: str, day: str, expected: str, source: str
) -> None:
    """NOON is on a Saturday."""
    schedule = replace(SATURDAY, mode=Mode(allowed), windows=(f"{day} 11:00-13:00",))

    found = effective_mode(
        ControllerSettings(mode=Mode(configured)),
        {},
        NOON,
        policy="balance",
        schedule=schedule,
    )

    assert (found.mode, found.source) == (expected, source)


def test_repair_may_be_automatic_in_an_advised_entry_but_not_in_a_closed_one() -> None:
    settings = ControllerSettings(mode=Mode.AUTOMATIC, repair=Mode.AUTOMATIC)
    modes = [
        effective_mode(
            settings,
            {},
            at,
            policy="balance",
            reason="repairs-rules",
            schedule=replace(SATURDAY, mode=Mode.ADVISE),
        ).mode
        for at in (NOON, NOON + timedelta(hours=1))
    ]

    assert modes == [Mode.AUTOMATIC, Mode.OBSERVE]
