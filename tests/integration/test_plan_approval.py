"""`opendrs run` in mode advise: operators decide while it runs, and after kill -9."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from integration.libvirt_lab import eventually
from integration.test_standby import RunningController
from opendrs.model import GIB, Snapshot
from opendrs.ports import PlanRecord, PlanState
from opendrs.store import Access, DatabasePlanStore, SqliteStore
from support.builders import cluster
from support.external_cluster import (
    AFTER,
    BEFORE,
    CallMoment,
    ExternalCluster,
    opendrs_outside,
)
from support.forked_program import run_forked

IMBALANCED: Snapshot = cluster(
    {"h1": 0.9, "h2": 0.1, "h3": 0.1},
    {f"vm{number}": ("h1", 0.15) for number in range(1, 6)},
)
TIMEOUT = 120.0  # seconds in which the controller acts, on a busy machine
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
        words = (name, "away", *words, "--format", "json")
        completed = run_forked(opendrs_outside, words, cwd=tmp_path)
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


class Plans:
    """The plans in the store, read while a controller runs.

    Args:
        path: The file of the store.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self, *states: PlanState) -> tuple[PlanRecord, ...]:
        """Return the plans in one of *states*; all without one."""
        if not self._path.exists():
            return ()
        with SqliteStore(self._path, Access.READ) as store:
            return DatabasePlanStore(store).plans(states or tuple(PlanState))

    def wait_for(self, state: PlanState) -> PlanRecord:
        """Return the newest plan in *state*, once there is one."""
        eventually(lambda: bool(self.all(state)), TIMEOUT, f"a plan is {state}")
        return self.all(state)[-1]

    def outcomes(self, plan: PlanRecord) -> set[str]:
        """Return the outcomes of the steps of *plan*."""
        with SqliteStore(self._path, Access.READ) as store:
            return {str(record.outcome) for record in store.records_of(plan.run)}


@pytest.fixture
def plans(tmp_path: Path) -> Plans:
    return Plans(tmp_path / "record.sqlite")


def wait_for_decisions(controller: RunningController, number: int) -> None:
    """Wait for *number* further decisions."""
    before = len(controller.events("decision-made"))
    eventually(
        lambda: len(controller.events("decision-made")) >= before + number,
        TIMEOUT,
        "it decides again",
    )


def test_approved_plan_is_executed_and_the_same_plan_stays(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    plans: Plans,
    controllers: list[RunningController],
) -> None:
    controller = start(tmp_path, controllers)
    plan = plans.wait_for(PlanState.PROPOSED)
    assert len(plan.steps) >= 2
    wait_for_decisions(controller, 2)
    assert [each.id for each in plans.all()] == [plan.id]
    assert not external.starts

    opendrs("approve", plan.id)

    done = plans.wait_for(PlanState.DONE)
    assert done.id == plan.id
    assert sum(external.starts.values()) == len(plan.steps)
    assert plans.outcomes(plan) == {"done"}
    opendrs("approve", plan.id, status=2)


def test_chosen_step_is_executed_alone(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    plans: Plans,
    controllers: list[RunningController],
) -> None:
    start(tmp_path, controllers)
    plan = plans.wait_for(PlanState.PROPOSED)
    step = [each for each in plan.steps if not each.depends_on][-1]

    approved = opendrs("approve", plan.id, "--step", step.id)

    assert approved["approval"]["steps"] == [step.id]
    plans.wait_for(PlanState.DONE)
    assert list(external.starts) == [step.action]


def test_rejected_plan_is_neither_started_nor_proposed_again(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    plans: Plans,
    controllers: list[RunningController],
) -> None:
    controller = start(tmp_path, controllers)
    plan = plans.wait_for(PlanState.PROPOSED)

    opendrs("reject", plan.id, "--because", "vm1 is being tested")

    wait_for_decisions(controller, 2)
    (only,) = plans.all()
    assert only.state is PlanState.REJECTED
    assert "vm1 is being tested" in only.detail
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
def test_running_plan_stops_before_the_next_step(  # noqa: PLR0913, PLR0917 - fixtures
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    plans: Plans,
    controllers: list[RunningController],
    words: tuple[str, ...],
    detail: str,
) -> None:
    start(tmp_path, controllers)
    plan = plans.wait_for(PlanState.PROPOSED)

    def stop(now: CallMoment) -> None:
        if now == ("start", BEFORE):
            external.on_call = lambda _: None
            name, *options = words
            opendrs(name, *([plan.id] if name == "cancel" else options))

    external.on_call = stop
    opendrs("approve", plan.id)

    assert detail in plans.wait_for(PlanState.CANCELLED).detail
    eventually(
        lambda: plans.outcomes(plan) == {"done", "skipped"},
        TIMEOUT,
        "the step in progress is done",
    )
    assert sum(external.starts.values()) == 1


def test_approved_plan_waits_for_the_end_of_a_pause(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    plans: Plans,
    controllers: list[RunningController],
) -> None:
    controller = start(tmp_path, controllers)
    plan = plans.wait_for(PlanState.PROPOSED)
    opendrs("pause", "--for", "1 h", "--because", "a storage upgrade")
    opendrs("approve", plan.id)
    wait_for_decisions(controller, 2)
    assert [each.state for each in plans.all()] == [PlanState.APPROVED]
    assert not external.starts

    opendrs("resume")

    assert plans.wait_for(PlanState.DONE).id == plan.id


@pytest.mark.parametrize("moment", [("start", BEFORE), ("start", AFTER)])
def test_plan_of_a_killed_controller_is_settled_from_its_steps(  # noqa: PLR0913, PLR0917 - fixtures
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    plans: Plans,
    controllers: list[RunningController],
    moment: CallMoment,
) -> None:
    controller = start(tmp_path, controllers)
    plan = plans.wait_for(PlanState.PROPOSED)

    def strike(now: CallMoment) -> None:
        if now == moment:
            external.on_call = lambda _: None
            controller.process.kill()
            raise EOFError

    external.on_call = strike
    opendrs("approve", plan.id)
    assert controller.process.wait(TIMEOUT) == -signal.SIGKILL
    assert plans.wait_for(PlanState.RUNNING).id == plan.id

    start(tmp_path, controllers)

    failed = plans.wait_for(PlanState.FAILED)
    assert failed.id == plan.id
    assert "the controller ended" in failed.detail
    assert sum(external.starts.values()) == (1 if moment[1] == AFTER else 0)


def test_observe_starts_nothing_until_the_mode_is_automatic(
    tmp_path: Path,
    external: ExternalCluster,
    opendrs: Command,
    plans: Plans,
    controllers: list[RunningController],
) -> None:
    configure(tmp_path, mode="observe")
    controller = start(tmp_path, controllers)
    controller.wait_for("decision-made")
    (started,) = controller.events("controller-started")
    assert started["mode"] == "observe"
    assert plans.all() == ()
    assert not external.starts

    assert opendrs("mode", "automatic")["source"] == "operator"

    plan = plans.wait_for(PlanState.DONE)
    assert plan.approval is not None
    assert plan.approval.user is None
    assert sum(external.starts.values()) == len(plan.steps)
    assert controller.events("mode-changed")
