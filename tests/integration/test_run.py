"""The controller, killed, stopped and started twice: nothing is lost, nothing repeated.

It looks after a simulated cluster in another process, which goes on without it, and
is asked over TLS.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import cluster
from integration.lab import eventually
from integration.service import PROMPT, Service
from opendrs.controller.requests.wire import RequestState, Verdict
from opendrs.model import GIB
from outside import AFTER, BEFORE, Moment, Outside

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
def service(tmp_path: Path) -> Iterator[Service]:
    with Outside(CROWDED, tmp_path / "cluster", SPEED) as cluster:
        found = Service(tmp_path, cluster)
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
def test_killed_at_any_moment_it_loses_nothing_and_does_nothing_twice(
    service: Service, moment: Moment, state: RequestState, moves: int
) -> None:
    calm = [service.ask("h2"), service.ask("h3")]
    service.kill_at(moment)
    asked = service.ask("h1", Verdict.OVERLOADED, ["vm1"])
    assert service.process.wait(PROMPT) == -signal.SIGKILL

    service.start()

    standing = service.closed(asked)
    assert standing.state is state, standing
    assert sum(service.cluster.starts.values()) == moves
    assert (service.places()["vm1"] != "h1") == bool(moves)
    for request in calm:
        assert service.closed(request).state is RequestState.DONE
        assert service.send(request).status_code == 200
    # What came to nothing may be asked for again.
    again = service.ask("h1", Verdict.OVERLOADED, ["vm2"])
    assert service.closed(again).state is RequestState.DONE
    assert service.stop() == 0


def test_told_to_stop_it_lets_end_what_runs(service: Service) -> None:
    for node in ("h2", "h3"):
        service.ask(node)
    asked = service.ask("h1", Verdict.OVERLOADED, ["vm1"])
    eventually(lambda: bool(service.told("step-started")), 10, "a step is started")

    # Connections of agents are open, which holds up nobody.
    assert service.stop() == 0

    (ended,) = service.told("step-ended")
    assert ended["state"] == "done"
    assert service.places()["vm1"] != "h1"
    assert service.told("stopped")
    service.start()
    assert service.standing(asked).state is RequestState.DONE
    assert sum(service.cluster.starts.values()) == 1


def test_a_second_one_is_refused_and_the_first_goes_on(service: Service) -> None:
    second = subprocess.run(  # noqa: S603 - our own program
        service.command(),
        cwd=service.place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert second.returncode == 3
    last = second.stderr.splitlines()[-1]
    assert f"process {service.process.pid} is at work on this cluster" in last
    assert "Traceback" not in second.stderr
    assert service.standing(service.ask("h1")).state is RequestState.QUEUED
