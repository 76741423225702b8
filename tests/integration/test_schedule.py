"""`opendrs run` with a schedule: balance by day, consolidate by night, repair always.

The clock of the controller and of the cluster is set by the test.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from integration.libvirt_lab import eventually
from integration.test_standby import RunningController
from opendrs.model import GIB
from opendrs.ports import CycleRecord
from opendrs.store import Access, SqliteStore
from support.builders import cluster
from support.external_cluster import (
    CLOCK_VARIABLE,
    ExternalCluster,
    ShiftedClock,
    opendrs_outside,
)
from support.forked_program import run_forked

IMBALANCED = cluster(
    {"h1": 0.5, "h2": 0.1, "h3": 0.1},
    {f"vm{number}": ("h1", 0.05) for number in range(1, 9)},
)
TIMEOUT = 120.0  # seconds in which the controller acts, on a busy machine
DAY = {
    "name": "day",
    "policy": "balance",
    "interval": 1.0,
    "windows": ["Mon-Fri 08:00-18:00"],
    "timezone": "Europe/Berlin",
    "settings": {"threshold": 0.05},
}
NIGHT = {
    "name": "night",
    "policy": "consolidate",
    "interval": 1.0,
    "windows": ["Mon-Fri 22:00-06:00"],
    "timezone": "Europe/Berlin",
    "blackout": ["2026-12-24/2026-12-26"],
}
REPAIR = {"policy": "repair", "interval": 1.0}
MONDAY_NOON = datetime(2026, 11, 23, 11, tzinfo=UTC)  # 12:00 CET
MONDAY_EVENING = datetime(2026, 11, 23, 18, tzinfo=UTC)
MONDAY_NIGHT = datetime(2026, 11, 23, 22, tzinfo=UTC)
TUESDAY_NOON = datetime(2026, 11, 24, 11, tzinfo=UTC)
DAYTIME = timedelta(hours=5)  # until the window of the day ends


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShiftedClock:
    path = tmp_path / "shift"
    monkeypatch.setenv(CLOCK_VARIABLE, str(path))
    found = ShiftedClock(path)
    found.set(MONDAY_NOON)
    return found


@pytest.fixture
def external(tmp_path: Path, clock: ShiftedClock) -> Iterator[ExternalCluster]:
    address = tmp_path / "cluster"
    with ExternalCluster(IMBALANCED, address, 20.0 * GIB, clock) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], RunningController]]:
    started: list[RunningController] = []

    def run() -> RunningController:
        started.append(RunningController(tmp_path, f"controller{len(started)}"))
        return started[-1]

    yield run
    for one in started:
        one.process.kill()
        one.process.wait()


def configure(place: Path, *schedule: dict[str, Any]) -> None:
    document = {
        "platform": {"away": {"kind": "external", "address": "cluster"}},
        "controller": {"interval": 1.0, "mode": "automatic"},
        "limits": {"cooldown": 0.0},
        "protection": {"undo_horizon": 0.0},
        "store": {"path": "record.sqlite"},
        "schedule": list(schedule),
    }
    (place / "opendrs.toml").write_text(tomli_w.dumps(document))


def recorded_cycles(place: Path) -> list[CycleRecord]:
    """Return the recorded cycles of the entries, those of maintenance excepted."""
    with SqliteStore(place / "record.sqlite", Access.READ) as store:
        return [each for each in store.cycles() if entry_of(each) is not None]


def entry_of(cycle: CycleRecord) -> str | None:
    decision: Any = cycle.document["decision"]
    return decision.get("schedule")  # type: ignore[no-any-return]


def entries_between(place: Path, start: datetime, end: datetime) -> set[str]:
    """Return the entries of the cycles recorded in a period.

    The first cycle is not among them: it may have been due before the clock was set.
    """
    cycles = recorded_cycles(place)
    found = [entry_of(each) for each in cycles if start <= each.decided_at < end]
    return {entry for entry in found[1:] if entry is not None}


def wait_for_decision(controller: RunningController, schedule: str) -> None:
    """Wait until the entry *schedule* decides that nothing is to be done."""
    eventually(
        lambda: any(
            event.get("schedule") == schedule and event["steps"] == 0
            for event in controller.events("decision-made")
        ),
        TIMEOUT,
        f"{schedule} has nothing to do",
    )


def nodes_with_guests(external: ExternalCluster) -> int:
    guests = external.platform.observe().guests.values()
    return len({guest.node for guest in guests})


def open_entries(controller: RunningController) -> list[object]:
    return [event["open"] for event in controller.events("schedule-changed")]


def wait_for_open(controller: RunningController, *names: str) -> None:
    eventually(
        lambda: open_entries(controller)[-1:] == [list(names)],
        TIMEOUT,
        f"open are {names}",
    )


def test_balance_by_day_and_consolidate_by_night(
    tmp_path: Path,
    external: ExternalCluster,
    clock: ShiftedClock,
    start: Callable[[], RunningController],
) -> None:
    configure(tmp_path, REPAIR, DAY, NIGHT)
    controller = start()
    wait_for_decision(controller, "day")
    assert nodes_with_guests(external) == 3

    clock.set(MONDAY_EVENING)
    wait_for_open(controller, "repair")
    clock.set(MONDAY_NIGHT)
    wait_for_open(controller, "repair", "night")
    wait_for_decision(controller, "night")
    assert nodes_with_guests(external) < 3

    controller.process.send_signal(signal.SIGKILL)
    controller.process.wait()
    controller = start()
    wait_for_decision(controller, "night")
    assert open_entries(controller) == [["repair", "night"]]

    clock.set(TUESDAY_NOON)
    wait_for_open(controller, "repair", "day")
    wait_for_decision(controller, "day")
    assert nodes_with_guests(external) == 3

    between = partial(entries_between, tmp_path)
    assert between(MONDAY_NOON, MONDAY_EVENING) == {"repair", "day"}
    assert between(MONDAY_EVENING, MONDAY_NIGHT) <= {"repair"}
    assert between(MONDAY_NIGHT, TUESDAY_NOON) == {"repair", "night"}
    assert between(TUESDAY_NOON, TUESDAY_NOON + DAYTIME) == {"repair", "day"}


def test_clock_set_back_and_status(
    tmp_path: Path,
    external: ExternalCluster,
    clock: ShiftedClock,
    start: Callable[[], RunningController],
) -> None:
    assert external
    configure(tmp_path, DAY, NIGHT)
    clock.set(TUESDAY_NOON)
    controller = start()
    wait_for_decision(controller, "day")

    clock.set(MONDAY_NOON)
    before = len(recorded_cycles(tmp_path))
    eventually(
        lambda: len(recorded_cycles(tmp_path)) >= before + 3,
        TIMEOUT,
        "the entry runs after the clock was set back",
    )

    clock.set(MONDAY_EVENING)
    wait_for_open(controller)
    words = ("status", "away", "--format", "json")
    shown = run_forked(opendrs_outside, words, cwd=tmp_path)
    document = json.loads(shown.stdout)
    assert document["controller"]["policy"] == "balance, consolidate"
    states = {
        each["name"]: (each["open"], each["next_due"], each["mode"])
        for each in document["schedule"]
    }
    assert states == {
        "day": (False, "2026-11-24T07:00:00Z", "observe"),
        "night": (False, "2026-11-23T21:00:00Z", "observe"),
    }


def test_reload_changes_the_schedule(
    tmp_path: Path,
    external: ExternalCluster,
    start: Callable[[], RunningController],
) -> None:
    assert external
    configure(tmp_path, DAY)
    controller = start()
    wait_for_decision(controller, "day")

    configure(tmp_path, REPAIR, {**DAY, "windows": []})
    controller.process.send_signal(signal.SIGHUP)
    controller.wait_for("configuration-rejected")
    [rejected] = controller.events("configuration-rejected")
    assert "schedule[1].windows" in str(rejected["problems"])

    configure(tmp_path, REPAIR, NIGHT)
    controller.process.send_signal(signal.SIGHUP)
    controller.wait_for("configuration-loaded")
    [loaded] = controller.events("configuration-loaded")
    assert loaded["changed"] == ["schedule"]
    wait_for_open(controller, "repair")
    wait_for_decision(controller, "repair")
