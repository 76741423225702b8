"""`opendrs run` in mode advise: operators decide while it runs, and after kill -9."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from integration.libvirt_lab import eventually
from integration.test_standby import RunningController
from opendrs.model import GIB, Snapshot
from support import external_cluster
from support.builders import cluster
from support.external_cluster import AFTER, BEFORE, CallMoment, ExternalCluster

IMBALANCED: Snapshot = cluster(
    {"h1": 0.9, "h2": 0.1, "h3": 0.1},
    {f"vm{number}": ("h1", 0.15) for number in range(1, 6)},
)
Document = dict[str, Any]
Command = Callable[..., Document]


@pytest.fixture
def external(tmp_path: Path) -> Iterator[ExternalCluster]:
    with ExternalCluster(IMBALANCED, tmp_path / "cluster", 20.0 * GIB) as running:
        yield running


@pytest.fixture
def opendrs(tmp_path: Path, external: ExternalCluster) -> Command:
    """Return a function that runs a command for the platform, with JSON output."""
    assert external
    configure(tmp_path)

    def command(name: str, *words: str, status: int = 0) -> Document:
        completed = subprocess.run(  # noqa: S603 - our own program
            [
                *(sys.executable, external_cluster.__file__),
                *(name, "away", *words, "--format", "json"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == status, completed.stderr
        return json.loads(completed.stdout) if completed.stdout else {}

    return command


@pytest.fixture
def controllers() -> Iterator[list[RunningController]]:
    started: list[RunningController] = []
    yield started
    for one in started:
        one.process.kill()
        one.process.wait()


def configure(place: Path, **controller: object) -> None:
    document = {
        "platform": {"away": {"kind": "external", "address": "cluster"}},
        "controller": {"interval": 1.0, "mode": "advise", **controller},
        "limits": {
            "cooldown": 600.0,
            "max_parallel_migrations": 1,
            "max_migrations_per_node": 1,
        },
        "store": {"path": "record.sqlite"},
    }
    (place / "opendrs.toml").write_text(tomli_w.dumps(document))


def start(place: Path, controllers: list[RunningController]) -> RunningController:
    started = RunningController(place, f"controller{len(controllers)}")
    controllers.append(started)
    return started


def plan_in(opendrs: Command, state: str) -> Document:
    """Return the plan in *state*, once there is one."""
    found: list[Document] = []

    def has_plan() -> bool:
        found[:] = opendrs("plans", "--state", state)  # type: ignore[assignment]
        return bool(found)

    eventually(has_plan, 60, f"a plan is {state}")
    return found[-1]


def state_of(opendrs: Command, plan: Document) -> object:
    return opendrs("plans", plan["id"])["state"]


def test_approved_plan_is_executed_and_the_same_plan_stays(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    controllers: list[RunningController],
) -> None:
    controller = start(tmp_path, controllers)
    plan = plan_in(opendrs, "proposed")
    assert len(plan["steps"]) >= 2
    eventually(
        lambda: len(controller.events("decision-made")) >= 3, 60, "it decides again"
    )
    assert [each["id"] for each in opendrs("plans")] == [plan["id"]]  # type: ignore[index]
    assert not external.starts

    opendrs("approve", plan["id"])

    eventually(lambda: state_of(opendrs, plan) == "done", 60, "the plan is done")
    assert sum(external.starts.values()) == len(plan["steps"])
    shown = opendrs("plans", plan["id"])
    assert {step["outcome"] for step in shown["steps"]} == {"done"}
    assert opendrs("approve", plan["id"], status=2) == {}


def test_chosen_step_is_executed_alone(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    controllers: list[RunningController],
) -> None:
    start(tmp_path, controllers)
    plan = plan_in(opendrs, "proposed")
    (step,) = [each for each in plan["steps"] if not each["depends_on"]][-1:]

    approved = opendrs("approve", plan["id"], "--step", step["id"])

    assert approved["approval"]["steps"] == [step["id"]]
    eventually(lambda: state_of(opendrs, plan) == "done", 60, "the plan is done")
    assert [action.guest for action in external.starts] == [step["guest"]]  # type: ignore[union-attr]


def test_rejected_plan_is_neither_started_nor_proposed_again(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    controllers: list[RunningController],
) -> None:
    controller = start(tmp_path, controllers)
    plan = plan_in(opendrs, "proposed")

    opendrs("reject", plan["id"], "--because", "vm1 is being tested")

    decisions = len(controller.events("decision-made"))
    eventually(
        lambda: len(controller.events("decision-made")) > decisions + 1,
        60,
        "it decides again",
    )
    (only,) = opendrs("plans")
    assert only["state"] == "rejected"  # type: ignore[index]
    assert "vm1 is being tested" in only["detail"]  # type: ignore[index]
    assert not external.starts


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (("cancel",), "cancelled by"),
        (("pause", "--for", "1 h", "--because", "a storage upgrade"), "paused by"),
        (("mode", "observe"), "mode observe"),
    ],
    ids=["cancel", "pause", "observe"],
)
def test_running_plan_stops_before_the_next_step(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    controllers: list[RunningController],
    words: tuple[str, ...],
    detail: str,
) -> None:
    start(tmp_path, controllers)
    plan = plan_in(opendrs, "proposed")

    def stop(now: CallMoment) -> None:
        if now == ("start", BEFORE):
            external.on_call = lambda _: None
            name, *options = words
            opendrs(name, *([plan["id"]] if name == "cancel" else options))

    external.on_call = stop
    opendrs("approve", plan["id"])

    eventually(
        lambda: state_of(opendrs, plan) == "cancelled", 60, "the plan is cancelled"
    )
    shown = opendrs("plans", plan["id"])
    assert detail in shown["detail"]
    eventually(
        lambda: (
            {each["outcome"] for each in opendrs("plans", plan["id"])["steps"]}
            == {"done", "skipped"}
        ),
        60,
        "the step in progress is done",
    )
    assert sum(external.starts.values()) == 1


def test_approved_plan_waits_for_the_end_of_a_pause(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    controllers: list[RunningController],
) -> None:
    controller = start(tmp_path, controllers)
    plan = plan_in(opendrs, "proposed")
    opendrs("pause", "--for", "1 h", "--because", "a storage upgrade")
    opendrs("approve", plan["id"])
    decisions = len(controller.events("decision-made"))
    eventually(
        lambda: len(controller.events("decision-made")) > decisions + 1,
        60,
        "it decides again",
    )
    assert state_of(opendrs, plan) == "approved"
    assert not external.starts

    opendrs("resume")

    eventually(lambda: state_of(opendrs, plan) == "done", 60, "the plan is done")


@pytest.mark.parametrize("moment", [("start", BEFORE), ("start", AFTER)])
def test_plan_of_a_killed_controller_is_settled_from_its_steps(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    controllers: list[RunningController],
    moment: CallMoment,
) -> None:
    controller = start(tmp_path, controllers)
    plan = plan_in(opendrs, "proposed")

    def strike(now: CallMoment) -> None:
        if now == moment:
            external.on_call = lambda _: None
            controller.process.kill()
            raise EOFError

    external.on_call = strike
    opendrs("approve", plan["id"])
    assert controller.process.wait(60) == -signal.SIGKILL
    assert state_of(opendrs, plan) == "running"

    start(tmp_path, controllers)

    eventually(lambda: state_of(opendrs, plan) == "failed", 60, "the plan is settled")
    shown = opendrs("plans", plan["id"])
    assert "the controller ended" in shown["detail"]
    assert set(external.starts.values()) <= {1}
    assert sum(external.starts.values()) == (1 if moment[1] == AFTER else 0)


def test_observe_starts_nothing_until_the_mode_is_automatic(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    controllers: list[RunningController],
) -> None:
    configure(tmp_path, mode="observe")
    controller = start(tmp_path, controllers)
    eventually(
        lambda: len(controller.events("decision-made")) >= 2, 60, "it has decided"
    )
    (started,) = controller.events("controller-started")
    assert started["mode"] == "observe"
    assert opendrs("plans") == []
    assert not external.starts

    assert opendrs("mode", "automatic")["source"] == "operator"

    plan = plan_in(opendrs, "done")
    assert plan["approval"]["user"] is None
    assert sum(external.starts.values()) == len(plan["steps"])
    eventually(lambda: bool(controller.events("mode-changed")), 60, "it is logged")
