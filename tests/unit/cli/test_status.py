"""opendrs status: the controller that leads, and the age of its last cycle."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from opendrs.controller import SystemClock
from opendrs.controller.drained_nodes import DrainedNode
from opendrs.controller.modes import BREAKER_KEY
from opendrs.controller.status import CYCLE_KEY, PROGRESS_KEY
from opendrs.controller.status_recorder import StatusRecorder
from opendrs.errors import PlatformUnavailableError
from opendrs.model import NodeId, StepId, format_timestamp, time_as_text
from opendrs.ports import LeaseHolder, PlanChange, PlanRecord, PlanState, StepRecord
from opendrs.store import DatabasePlanStore, SqliteStore
from opendrs.store.lease import Lease, lease_holder
from support.builders import NOON
from support.monitored_controller import INTERVAL, MonitoredController
from support.simulated_cluster import migration, step
from support.terminal import RunOpendrs

STORE = Path("record.sqlite")
CONFIG = f"""
[platform.lab]
kind = "file"
path = "cluster.json"
[store]
path = "{STORE}"
"""


class EarlierClock(SystemClock):
    """Clock that is behind by some seconds."""

    def __init__(self, seconds: float) -> None:
        self._delay = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() - self._delay


@pytest.fixture(autouse=True)
def _configuration(opendrs: RunOpendrs) -> None:
    del opendrs  # the working directory is its own
    Path("opendrs.toml").write_text(CONFIG)


@contextmanager
def controller(age: float = 0.0) -> Iterator[tuple[SqliteStore, MonitoredController]]:
    """Run one cycle *age* seconds ago; yield the store and the controller."""
    recorder = StatusRecorder(EarlierClock(age))
    with SqliteStore(STORE) as store:
        setup = MonitoredController(recorder)
        recorder.lease_acquired(store)
        setup.observers.configured("balance", INTERVAL)
        setup.controller.run_once()
        yield store, setup


def test_platform_without_store_has_no_controller(opendrs: RunOpendrs) -> None:
    found = opendrs("status", "lab")

    assert found.status == 1
    assert "lab: no controller is running\n" in found.out
    assert not STORE.exists()


def test_running_controller_is_shown(opendrs: RunOpendrs) -> None:
    with controller(age=42):
        found = opendrs("status", "lab")

    assert found.status == 0
    process = f"process {os.getpid()} on {socket.gethostname()}"
    assert f"lab: controller running: {process}\n" in found.out
    assert "policy balance, one cycle every 300 s" in found.out
    assert "balance: improves-balance: 2 steps" in found.out
    assert "unfinished steps: none" in found.out


def test_json_has_all_values(opendrs: RunOpendrs) -> None:
    with controller(age=42):
        document = json.loads(opendrs("status", "lab", "--format", "json").out)

    assert document["running"]
    assert document["recent"]
    assert document["holder"] == {"host": socket.gethostname(), "pid": os.getpid()}
    assert document["controller"]["policy"] == "balance"
    assert document["last_cycle"]["reason"] == "improves-balance"
    assert document["last_cycle"]["steps"] == 2
    assert 42 <= document["last_cycle"]["age"] < 300
    assert document["open_steps"] == []


def test_all_that_limits_the_controller_is_shown(opendrs: RunOpendrs) -> None:
    now = SystemClock().now()
    breaker = {"opened_at": time_as_text(now), "detail": "5 failed steps"}
    drained = DrainedNode(node=NodeId("n2"), since=now, user="ann")
    with controller() as (store, _):
        store.save(BREAKER_KEY, breaker)
        store.save(drained.key, drained.entry)
        assert opendrs("mode", "lab", "automatic").status == 0
        held = json.loads(opendrs("status", "lab", "--format", "json").out)
        text = opendrs("status", "lab").out
        pause = ("--for", "1 h", "--because", "upgrade")
        assert opendrs("pause", "lab", *pause).status == 0
        paused = json.loads(opendrs("status", "lab", "--format", "json").out)

    assert (held["mode"]["mode"], held["mode"]["source"]) == ("advise", "breaker")
    assert (held["breaker"], held["drained_nodes"]) == (breaker, ["n2"])
    assert (paused["mode"]["mode"], paused["mode"]["source"]) == ("observe", "pause")
    assert "mode advise (the circuit breaker is open)" in text
    assert "opendrs breaker lab --reset" in text
    after = "after opendrs breaker lab --reset: mode automatic (set by "
    assert after in text
    assert held["mode"]["following"].startswith(after)
    assert "after the pause and opendrs breaker" in paused["mode"]["following"]
    assert "drained nodes: n2\n" in text


def test_plans_that_have_not_ended_are_shown(opendrs: RunOpendrs) -> None:
    with controller() as (store, _):
        plans = DatabasePlanStore(store)
        for name in ("k7w2x", "p3m4n"):
            plans.add(proposed_plan(name))
        rejected = PlanChange(state=PlanState.REJECTED, at=NOON)
        assert plans.change("p3m4n", rejected)
        document = json.loads(opendrs("status", "lab", "--format", "json").out)
        text = opendrs("status", "lab").out

    assert document["plans"] == [
        {
            "id": "k7w2x",
            "state": "proposed",
            "policy": "balance",
            "steps": 1,
            "expires_at": "2026-11-21T13:00:00Z",
        }
    ]
    assert "k7w2x proposed: balance, 1 step, expires 2026-11-21 13:00:00 UTC" in text


def proposed_plan(name: str) -> PlanRecord:
    return PlanRecord(
        id=name,
        run="run",
        created_at=NOON,
        lifetime=3600.0,
        policy="balance",
        reason="improves-balance",
        reason_detail="",
        steps=(step("1", migration("vm", "a", "b")),),
        groups=(),
        digest="d" * 64,
        snapshot="s" * 64,
        state=PlanState.PROPOSED,
        changed_at=NOON,
    )


def test_ended_controller_is_not_running(opendrs: RunOpendrs) -> None:
    with controller():
        pass

    found = opendrs("status", "lab")

    assert found.status == 1
    assert "no controller is running" in found.out
    assert "improves-balance" in found.out


def test_late_cycle_is_reported(opendrs: RunOpendrs) -> None:
    with controller(age=3 * INTERVAL + 1):
        found = opendrs("status", "lab")

    assert found.status == 1
    assert "controller running" in found.out
    assert "(late or failed)" in found.out


def test_plan_in_execution_is_not_late(opendrs: RunOpendrs) -> None:
    with controller(age=3 * INTERVAL + 1) as (store, _):
        store.write(
            StepRecord(
                run="run",
                step=StepId("s1"),
                action=migration("vm", "a", "b"),
                intended_at=SystemClock().now(),
            )
        )
        found = opendrs("status", "lab")

    assert found.status == 0
    assert "unfinished steps: 1" in found.out


def test_running_step_shows_its_progress_and_timeout(opendrs: RunOpendrs) -> None:
    running = StepRecord(
        run="run",
        step=StepId("s1"),
        action=migration("vm", "a", "b"),
        intended_at=SystemClock().now() + timedelta(minutes=1),
    )
    progress = {
        "step": "s1",
        "total": 4 << 30,
        "remaining": 3 << 30,
        "dirty_rate": None,
        "bandwidth": float(100 << 20),
        "at": "2026-11-21T12:00:00Z",
    }
    limits = "[limits]\nmigration_timeout = 600\n"
    Path("opendrs.toml").write_text(CONFIG + limits)
    with controller() as (store, _):
        store.write(running)
        before = json.loads(opendrs("status", "lab", "--format", "json").out)
        store.save(PROGRESS_KEY, {"steps": [progress]})
        text = opendrs("status", "lab").out
        document = json.loads(opendrs("status", "lab", "--format", "json").out)

    ends = running.intended_at + timedelta(seconds=600)
    assert "25% transferred, 3.0 GiB left, bandwidth 100.0 MiB/s, timeout" in text
    assert f"timeout {ends:%Y-%m-%d %H:%M:%S} UTC" in text
    (shown,) = document["open_steps"]
    assert shown["timeout_at"] == format_timestamp(ends)
    assert shown["progress"]["remaining"] == 3 << 30
    assert before["open_steps"][0]["progress"] is None


def test_timeout_is_unknown_while_the_limits_are_invalid(opendrs: RunOpendrs) -> None:
    """A running controller goes on with the former ones, not with the defaults."""
    running = StepRecord(
        run="run",
        step=StepId("s1"),
        action=migration("vm", "a", "b"),
        intended_at=SystemClock().now(),
    )
    Path("opendrs.toml").write_text(f"{CONFIG}[limits]\nmigration_timeout = -1\n")
    with controller() as (store, _):
        store.write(running)
        text = opendrs("status", "lab")
        document = json.loads(opendrs("status", "lab", "--format", "json").out)

    assert "limits.migration_timeout" in text.err
    assert "timeout unknown: [limits] is invalid" in text.out
    (shown,) = document["open_steps"]
    assert shown["timeout_at"] is None


def test_controller_started_later_gives_a_step_the_full_time(
    opendrs: RunOpendrs,
) -> None:
    with controller() as (store, _):
        store.write(
            StepRecord(
                run="run",
                step=StepId("s1"),
                action=migration("vm", "a", "b"),
                intended_at=NOON - timedelta(days=300),
            )
        )
        document = json.loads(opendrs("status", "lab", "--format", "json").out)

    started_at = datetime.fromisoformat(document["controller"]["started_at"])
    ends = datetime.fromisoformat(document["open_steps"][0]["timeout_at"])
    assert ends == started_at + timedelta(seconds=1800)


def test_unreachable_platform_is_reported(opendrs: RunOpendrs) -> None:
    with controller() as (_, setup):
        setup.observers.cycle_failed(PlatformUnavailableError("no answer"), 1.0)
        found = opendrs("status", "lab")

    assert found.status == 1
    assert "failed: no steps: no answer" in found.out


def test_other_command_with_the_lease_is_no_controller(opendrs: RunOpendrs) -> None:
    with SqliteStore(STORE):
        found = opendrs("status", "lab")

    assert found.status == 1
    assert (
        f"process {os.getpid()} on {socket.gethostname()} uses the store" in found.out
    )


def test_damaged_record_is_an_error(opendrs: RunOpendrs) -> None:
    with controller() as (store, _):
        store.save(CYCLE_KEY, {"ended_at": "yesterday"})
        found = opendrs("status", "lab")

    assert found.status == 3
    assert CYCLE_KEY in found.err


def test_unknown_platform_is_invalid_input(opendrs: RunOpendrs) -> None:
    assert opendrs("status", "lba").status == 2


def test_query_of_the_holder_does_not_prevent_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.touch(0o600)
    with path.open() as probe:

        class EndOfQuery(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                assert timeout
                fcntl.flock(probe, fcntl.LOCK_UN)
                return False

        fcntl.flock(probe, fcntl.LOCK_SH)
        monkeypatch.setattr(
            "opendrs.store.lease.threading", SimpleNamespace(Event=EndOfQuery)
        )
        lease = Lease(path)
        lease.acquire()

    assert lease_holder(path) == LeaseHolder(socket.gethostname(), os.getpid())
    lease.release()
    assert lease_holder(path) is None


SCHEDULE = """
[controller]
mode = "automatic"
[[schedule]]
name = "never"
policy = "consolidate"
blackout = ["2020-01-01/2099-12-31"]
[[schedule]]
name = "always"
policy = "balance"
interval = "1 h"
mode = "advise"
[[schedule]]
policy = "repair"
"""


def test_next_due_entries_of_the_schedule_are_shown(opendrs: RunOpendrs) -> None:
    Path("opendrs.toml").write_text(CONFIG + SCHEDULE)
    started_at = SystemClock().now()
    with controller() as (store, _):
        store.save("schedule/always", {"started_at": time_as_text(started_at)})
        shown = opendrs("status", "lab").out
        document = json.loads(opendrs("status", "lab", "--format", "json").out)

    lines = shown.partition("schedule:\n")[2].splitlines()[:3]
    assert [line.split(":")[0].strip() for line in lines] == [
        "repair",
        "always",
        "never",
    ]
    assert "a cycle is due now; last none" in lines[0]
    assert "no cycle in the next year" in lines[2]
    never, always, repair = document["schedule"]
    assert (never["open"], never["next_due"], never["mode"]) == (False, None, "observe")
    due = datetime.fromisoformat(always["next_due"])
    assert due == started_at + timedelta(hours=1)
    assert (always["open"], always["mode"]) == (True, "advise")
    assert (repair["started_at"], repair["mode"]) == (None, "automatic")


def test_times_of_entries_in_several_zones_are_in_utc(opendrs: RunOpendrs) -> None:
    entries = [
        f'[[schedule]]\nname = "{name}"\npolicy = "balance"\n{zone}'
        for name, zone in (("home", 'timezone = "Asia/Tokyo"\n'), ("plain", ""))
    ]
    Path("opendrs.toml").write_text(CONFIG + "".join(entries))
    started_at = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)  # 08:30 of Sunday in Tokyo
    with controller() as (store, _):
        for name in ("home", "plain"):
            store.save(f"schedule/{name}", {"started_at": time_as_text(started_at)})
        shown = opendrs("status", "lab").out

    assert shown.count("last Sat 2026-11-21 23:30 UTC") == 2


def test_entry_waits_for_running_steps(opendrs: RunOpendrs) -> None:
    Path("opendrs.toml").write_text(CONFIG + SCHEDULE)
    running = StepRecord(
        run="run",
        step=StepId("1"),
        action=migration("vm", "a", "b"),
        intended_at=NOON,
    )
    with controller() as (store, _):
        assert "running steps have ended" not in opendrs("status", "lab").out
        store.write(running)
        shown = opendrs("status", "lab").out

    assert "a cycle is due now, and begins when the running steps have ended" in shown


def test_cycle_of_an_earlier_release_has_no_policy(opendrs: RunOpendrs) -> None:
    with controller() as (store, _):
        recorded = dict(store.load(CYCLE_KEY) or {})
        assert recorded.pop("policy") == "balance"
        store.save(CYCLE_KEY, recorded)
        found = opendrs("status", "lab")

    assert found.status == 0
    assert " ago: improves-balance: 2 steps" in found.out


def test_mode_shows_that_of_each_entry(opendrs: RunOpendrs) -> None:
    Path("opendrs.toml").write_text(CONFIG + SCHEDULE)

    shown = opendrs("mode", "lab").out
    document = json.loads(opendrs("mode", "lab", "--format", "json").out)

    assert "always: mode advise" in shown
    assert document["mode"] == "automatic"
    modes = [(each["name"], each["source"]) for each in document["schedule"]]
    assert modes == [
        ("never", "schedule"),
        ("always", "schedule"),
        ("repair", "configuration"),
    ]
