"""Crash, stop and restart of the controller: no step is lost or repeated.

It manages a simulated cluster in another process, which continues without it, and
receives requests over TLS.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.controller_process import PROMPT, RUN, ControllerProcess
from integration.libvirt_lab import eventually
from opendrs.model import GIB, LoadState
from opendrs.ports import RequestState
from support.builders import cluster
from support.external_cluster import (
    AFTER,
    BEFORE,
    CallMoment,
    ExternalCluster,
    opendrs_outside,
)
from support.forked_program import run_forked

CROWDED = cluster(
    {"h1": 0.95, "h2": 0.2, "h3": 0.2},
    {
        "vm1": ("h1", 0.3),
        "vm2": ("h1", 0.3),
        "vm3": ("h1", 0.3),
        "vm4": ("h2", 0.1),
        "vm5": ("h3", 0.1),
    },
)
SPEED = 20.0 * GIB  # a second: a guest of 30 GiB takes some 1.5 s


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ControllerProcess]:
    with ExternalCluster(CROWDED, tmp_path / "cluster", SPEED) as cluster:
        found = ControllerProcess(tmp_path, cluster)
        found.start()
        yield found
        found.end()


@pytest.mark.parametrize(
    ("moment", "state", "moves"),
    [
        (("observe", AFTER), RequestState.DONE, 1),
        (("start", BEFORE), RequestState.FAILED, 0),
        (("start", AFTER), RequestState.DONE, 1),
        (("status", AFTER), RequestState.DONE, 1),
    ],
)
def test_killed_controller_loses_and_repeats_nothing(
    service: ControllerProcess, moment: CallMoment, state: RequestState, moves: int
) -> None:
    balanced = [service.send_request("h2"), service.send_request("h3")]
    service.kill_at(moment)
    requested = service.send_request("h1", LoadState.OVERLOADED, ["vm1"])
    assert service.process.wait(PROMPT) == -signal.SIGKILL

    service.start()

    status = service.closed(requested)
    assert status.state is state, status
    assert sum(service.cluster.starts.values()) == moves
    assert (service.guest_nodes()["vm1"] != "h1") == bool(moves)
    for request in balanced:
        assert service.closed(request).state is RequestState.DONE
        assert service.send(request).status_code == 200
    # What came to nothing may be asked for again.
    again = service.send_request("h1", LoadState.OVERLOADED, ["vm2"])
    assert service.closed(again).state is RequestState.DONE
    assert service.stop() == 0


def test_stopped_controller_finishes_running_steps(service: ControllerProcess) -> None:
    for node in ("h2", "h3"):
        service.send_request(node)
    requested = service.send_request("h1", LoadState.OVERLOADED, ["vm1"])
    eventually(
        lambda: bool(service.has_logged("step-started")), 30, "a step is started"
    )

    # Open connections of agents do not delay the end.
    assert service.stop() == 0

    (ended,) = service.has_logged("step-finished")
    assert ended["state"] == "done"
    assert service.guest_nodes()["vm1"] != "h1"
    assert service.has_logged("controller-stopped")
    service.start()
    assert service.request_status(requested).state is RequestState.DONE
    assert sum(service.cluster.starts.values()) == 1


@pytest.mark.parametrize("method", ["find", "status"])
def test_stopped_controller_leaves_steps_of_failing_platform_to_the_next(
    service: ControllerProcess, method: str
) -> None:
    for node in ("h2", "h3"):
        service.send_request(node)
    service.kill_at(("start", AFTER))
    requested = service.send_request("h1", LoadState.OVERLOADED, ["vm1"])
    assert service.process.wait(PROMPT) == -signal.SIGKILL
    service.cluster.failing_method = method
    service.launch()
    eventually(
        lambda: bool(service.has_logged("step-waiting")), 30, "the task is not found"
    )

    assert service.stop() == 0

    (stopped,) = service.has_logged("controller-stopped")
    assert stopped["unfinished"] == 1
    service.cluster.failing_method = None
    service.start()
    assert service.closed(requested).state is RequestState.DONE
    assert sum(service.cluster.starts.values()) == 1


def test_second_controller_is_rejected(service: ControllerProcess) -> None:
    second = run_forked(opendrs_outside, RUN, cwd=service.place, timeout=PROMPT)

    assert second.returncode == 3
    last = second.stderr.splitlines()[-1]
    assert f"locked by process {service.process.pid}" in last
    assert "Traceback" not in second.stderr
    assert (
        service.request_status(service.send_request("h1")).state is RequestState.QUEUED
    )
