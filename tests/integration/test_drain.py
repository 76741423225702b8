"""Drains by processes that are killed, beside controllers, on a simulated cluster."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from integration.libvirt_lab import eventually
from opendrs.model import GIB, GuestId, GuestState, Snapshot
from opendrs.simulation import running_action
from support.builders import cluster
from support.external_cluster import (
    AFTER,
    BEFORE,
    CallMoment,
    ExternalCluster,
    opendrs_outside,
)
from support.forked_program import ForkedProgram, run_forked

PROMPT = 240.0  # seconds in which a command ends, on a busy machine
SPEED = 20.0 * GIB  # a second: a guest of 10 GiB takes half a second


def initial_cluster() -> Snapshot:
    snapshot = cluster(
        {"n1": 0.3, "n2": 0.1, "n3": 0.1},
        {
            "a": ("n1", 0.1),
            "b": ("n1", 0.1),
            "c": ("n1", 0.1),
            "s": ("n1", 0.0),
            "d": ("n2", 0.1),
            "e": ("n3", 0.1),
        },
    )
    stopped = replace(snapshot.guests[GuestId("s")], state=GuestState.STOPPED)
    return replace(snapshot, guests={**snapshot.guests, stopped.id: stopped})


class DrainLab:
    """Simulated cluster, and commands about it in processes of their own."""

    def __init__(self, place: Path, cluster: ExternalCluster) -> None:
        self.cluster = cluster
        self._place = place
        self._processes: list[ForkedProgram] = []
        document = {
            "platform": {"away": {"kind": "external", "address": "cluster"}},
            "store": {"path": "record.sqlite"},
            "controller": {"interval": 3600, "mode": "automatic"},
            "policy": {"name": "balance", "balance": {"threshold": 5.0}},
        }
        (place / "opendrs.toml").write_text(tomli_w.dumps(document))

    def start(self, *words: str, log: str = "log") -> ForkedProgram:
        with (self._place / log).open("ab") as output:
            process = ForkedProgram(
                opendrs_outside, words, cwd=self._place, stdout=output
            )
        self._processes.append(process)
        return process

    def run(self, *words: str) -> tuple[int, dict[str, Any]]:
        words = (*words, "--format", "json")
        found = run_forked(opendrs_outside, words, cwd=self._place, timeout=PROMPT)
        assert "Traceback" not in found.stderr, found.stderr
        return found.returncode, json.loads(
            found.stdout or found.stderr.splitlines()[-1]
        )

    def log(self, name: str = "log") -> str:
        return (self._place / name).read_text()

    def on(self, node: str) -> list[str]:
        guests = self.cluster.platform.observe().guests.values()
        return sorted(guest.id for guest in guests if guest.node == node)

    def kill_at(self, process: ForkedProgram, moment: CallMoment) -> None:
        """Let *process* die once it comes to *moment*."""
        self._kill_at(lambda: process, moment)

    def start_until(self, moment: CallMoment, *words: str) -> ForkedProgram:
        """Start a command that dies once it comes to *moment*."""
        started: Future[ForkedProgram] = Future()
        self._kill_at(started.result, moment)
        started.set_result(self.start(*words))
        return started.result()

    def _kill_at(
        self, process: Callable[[], ForkedProgram], moment: CallMoment
    ) -> None:
        def strike(now: CallMoment) -> None:
            if now == moment:
                self.cluster.on_call = lambda _: None
                process().kill()
                raise EOFError

        self.cluster.on_call = strike

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DrainLab]:
    monkeypatch.setattr(running_action, "RESTART_TIME", 0.5)
    with ExternalCluster(initial_cluster(), tmp_path / "cluster", SPEED) as cluster:
        found = DrainLab(tmp_path, cluster)
        yield found
        found.end()


def test_node_is_drained_listed_and_refilled(lab: DrainLab) -> None:
    status, document = lab.run("drain", "away", "n1", "--yes", "--because", "disk")

    assert (status, document["empty"], document["remaining"]) == (0, True, [])
    assert lab.on("n1") == []
    assert {each["outcome"] for each in document["records"]} == {"done"}
    kinds = [each["kind"] for each in document["records"]]
    assert sorted(kinds) == [*["live-migration"] * 3, "relocation"]
    (listed,) = lab.run("drain", "away")[1]["nodes"]
    assert (listed["node"], listed["because"], listed["guests"]) == ("n1", "disk", [])

    # No other command places guests there, although the node is the least loaded.
    assert lab.run("apply", "away", "--yes", "--policy", "optimize")[0] == 0
    assert lab.on("n1") == []

    status, document = lab.run("undrain", "away", "n1", "--bring-back")
    assert status == 0
    assert lab.on("n1") == ["a", "b", "c", "s"]
    assert lab.run("drain", "away")[1] == {"nodes": [], "rolling": None}
    status, document = lab.run("replay", "away")
    assert status == 0


@pytest.mark.parametrize(
    "moment",
    [("observe", AFTER), ("start", BEFORE), ("start", AFTER), ("status", AFTER)],
)
def test_killed_drain_is_continued_without_loss(
    lab: DrainLab, moment: CallMoment
) -> None:
    process = lab.start_until(moment, "drain", "away", "n1", "--yes")
    assert process.wait(PROMPT) == -signal.SIGKILL

    status, document = lab.run("drain", "away", "n1", "--yes")

    assert (status, document["empty"]) == (0, True)
    assert lab.on("n1") == []
    assert sum(lab.cluster.starts.values()) == 4
    assert set(lab.cluster.starts.values()) == {1}


def test_controller_drains_at_once_keeps_empty_and_returns(lab: DrainLab) -> None:
    controller = lab.start("run", "opendrs.toml", "--no-serve", log="controller")
    eventually(lambda: "no steps planned" in lab.log("controller"), 30, "a first cycle")

    status, document = lab.run("drain", "away", "n1", "--yes", "--wait")

    assert (status, document["executed_by"], document["empty"]) == (
        0,
        "controller",
        True,
    )
    assert lab.on("n1") == []
    assert lab.run("undrain", "away", "n1", "--bring-back")[0] == 0
    eventually(lambda: len(lab.on("n1")) == 4, 30, "the guests returned")
    controller.send_signal(signal.SIGTERM)
    assert controller.wait(PROMPT) == 0
    assert sum(lab.cluster.starts.values()) == 8


def test_killed_controller_drains_after_its_restart(lab: DrainLab) -> None:
    controller = lab.start("run", "opendrs.toml", "--no-serve", log="controller")
    eventually(lambda: "no steps planned" in lab.log("controller"), 30, "a first cycle")
    lab.kill_at(controller, ("start", AFTER))
    assert lab.run("drain", "away", "n1", "--yes")[0] == 0
    assert controller.wait(PROMPT) == -signal.SIGKILL

    lab.start("run", "opendrs.toml", "--no-serve", log="second")
    eventually(lambda: lab.on("n1") == [], 30, "the node is empty")

    assert set(lab.cluster.starts.values()) == {1}


def test_unknown_nodes_and_platforms_are_errors(lab: DrainLab) -> None:
    assert lab.run("drain", "away", "n9", "--yes")[0] == 2
    assert lab.run("drain", "gone", "n1", "--yes")[0] == 2
    assert lab.run("drain", "away", "n1")[0] == 2  # without confirmation
    assert lab.run("undrain", "away", "n1")[0] == 2
    assert lab.run("drain", "away")[1] == {"nodes": [], "rolling": None}
    assert len(lab.on("n1")) == 4


def test_killed_rolling_maintenance_is_continued(lab: DrainLab, tmp_path: Path) -> None:
    hook = tmp_path / "hook.sh"
    hook.write_text(
        f'echo "$1" >> {tmp_path}/order\n'
        f"while [ ! -e {tmp_path}/continue ]; do sleep 0.1; done\n"
    )
    words = ("drain", "away", "--for", "updates", "--yes", "--hook", f"sh {hook}")
    before = {node: lab.on(node) for node in ("n1", "n2", "n3")}

    process = lab.start(*words)
    eventually((tmp_path / "order").exists, 60, "the first hook has run")
    lab.kill_at(process, ("start", AFTER))  # while guests return to the first node
    (tmp_path / "continue").touch()
    assert process.wait(PROMPT) == -signal.SIGKILL
    status, document = lab.run(*words)

    assert (status, document["done"]) == (0, ["n1", "n2", "n3"])
    assert (tmp_path / "order").read_text().split() == ["n1", "n2", "n3"]
    assert {node: lab.on(node) for node in before} == before
    assert lab.run("drain", "away")[1] == {"nodes": [], "rolling": None}
    assert set(lab.cluster.starts.values()) == {1}


def test_rolling_maintenance_beside_a_controller(lab: DrainLab) -> None:
    lab.start("run", "opendrs.toml", "--no-serve", log="controller")
    eventually(lambda: "no steps planned" in lab.log("controller"), 30, "a first cycle")
    before = {node: lab.on(node) for node in ("n1", "n2", "n3")}

    status, document = lab.run(
        "drain", "away", "--for", "updates", "--yes", "--hook", "true"
    )

    assert (status, document["done"]) == (0, ["n1", "n2", "n3"])
    assert {node: lab.on(node) for node in before} == before


def test_rolling_maintenance_waits_for_the_approval_of_each_plan(
    lab: DrainLab,
) -> None:
    lab.start("run", "opendrs.toml", "--no-serve", log="controller")
    eventually(lambda: "no steps planned" in lab.log("controller"), 30, "a first cycle")
    before = {node: lab.on(node) for node in ("n1", "n2")}
    assert lab.run("mode", "away", "advise")[0] == 0

    process = lab.start(
        *("drain", "away", "--for", "updates", "--nodes", "n1,n2", "--yes"),
        *("--hook", "true"),
    )

    def is_ended() -> bool:
        plans: Any = lab.run("plans", "away", "--state", "proposed")[1]
        for plan in plans:
            lab.run("approve", "away", plan["id"])
        return process.poll() is not None

    eventually(is_ended, 60, "the rolling maintenance has ended")
    assert process.returncode == 0
    assert {node: lab.on(node) for node in before} == before
    plans: Any = lab.run("plans", "away")[1]
    assert sorted(plan["policy"] for plan in plans) == ["drain"] * 2 + ["return"] * 2
    assert all(plan["approval"]["user"] for plan in plans)


def test_mode_of_the_controller_prevents_a_drain_and_says_so(lab: DrainLab) -> None:
    lab.start("run", "opendrs.toml", "--no-serve", log="controller")
    eventually(lambda: "no steps planned" in lab.log("controller"), 30, "a first cycle")
    assert lab.run("mode", "away", "observe")[0] == 0

    status, document = lab.run("drain", "away", "n1", "--yes", "--wait")

    assert (status, document["executed_by"], document["empty"]) == (
        1,
        "controller",
        False,
    )
    assert "opendrs mode away automatic" in document["blocked"]
