"""opendrs killed at each call to an Incus cluster of the test, and started again.

The cluster continues what it has accepted. Whatever the call was, each machine is moved
once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, Lock

import pytest
import tomli_w

from integration.libvirt_lab import eventually
from support.forked_program import ForkedProgram, polling_opendrs
from support.incus_documents import double, instance, metrics, resources, state
from support.incus_double import (
    TIMEOUT,
    CallMoment,
    Document,
    IncusDouble,
    TlsFiles,
)

pytestmark = pytest.mark.slow

MACHINES = ("v1", "v2")
PROMPT = 240.0  # seconds in which a command ends, on a busy machine
NEED = (0.15, 1.2)  # of each machine: fraction of memory, load
LAST_MOVE = "volatile.rebalance.last_move"
APPLY = ("apply", "lab", "--yes", "--config", "opendrs.toml")
RUN = ("run", "opendrs.toml", "--no-serve")
EXPECTED = [
    f"POST /1.0/instances/{name}?project=default&target={target}"
    for name, target in (("v1", "h2"), ("v2", "h3"))
]


def imbalanced() -> IncusDouble:
    """Return a cluster that has no more moves once v1 and v2 have left h1."""
    limits = {"limits.cpu": "2", "limits.memory": "4GiB"}
    cluster = double(*(instance(name, expanded_config=limits) for name in MACHINES))
    cluster.metrics = dict.fromkeys(cluster.metrics, "".join(map(metrics, MACHINES)))
    loads = {"h1": (0.9, 7.5), "h2": (0.1, 0.4), "h3": (0.1, 0.4)}

    def set_loads() -> None:
        for name, figures in loads.items():
            cluster.states[name] = state(*figures)
            cluster.resources[name] = resources(*figures)

    def arrive(moved: Document) -> None:
        for name, sign in (("h1", -1), (moved["location"], 1)):
            memory, load = loads[name]
            loads[name] = memory + sign * NEED[0], load + sign * NEED[1]
        set_loads()

    cluster.on_arrival = arrive
    set_loads()
    return cluster


@dataclass
class AtCall:
    """Event at one call of a process.

    Attributes:
        number: Number of the call, from 1.
        act: Called with the id of the process.
        moment: Moment of the calls that are counted.
        writes: Count only calls that change something.
        request: The call, once it was made.
    """

    number: int
    act: Callable[[int], object]
    moment: CallMoment = CallMoment.BEFORE
    writes: bool = False
    request: str = ""
    _count: int = 0
    _lock: Lock = field(default_factory=Lock)

    def notice(self, request: str, moment: CallMoment, process: int) -> None:
        """Count a call, and act if it is the one."""
        with self._lock:
            if moment is self.moment and not (self.writes and request[:3] == "GET"):
                self._count += 1
                if self._count == self.number:
                    self.request = request
                    self.act(process)


@dataclass
class Job:
    """Command of an operator for one cluster, in a directory of its own.

    Attributes:
        words: Arguments of opendrs; `run` does not end by itself.
        directory: The directory.
        cluster: The cluster.
        moves: Requests to move a machine that the cluster has executed.
    """

    words: tuple[str, ...]
    directory: Path
    cluster: IncusDouble
    moves: list[str] = field(default_factory=list)

    def write(self, tls: TlsFiles, url: str) -> None:
        """Write the configuration."""
        document = {
            "platform": {
                "lab": {
                    "kind": "incus",
                    "urls": [url],
                    "certificate": str(tls.directory / "client.crt"),
                    "key": str(tls.directory / "client.key"),
                    "fingerprint": tls.fingerprint(),
                    "timeout": TIMEOUT,
                }
            },
            "policy": {
                "name": "threshold-rebalance",
                "threshold-rebalance": {"max_migrations": 2},
            },
            "limits": {"min_uptime": 0, "migrate_local_disks": True},
            "store": {"path": "record.sqlite"},
            "controller": {"interval": 0.5, "mode": "automatic"},
        }
        (self.directory / "opendrs.toml").write_text(tomli_w.dumps(document))

    def run_until_killed(self, kill: AtCall) -> None:
        """Run until the kill, or until the command has ended before."""
        self._start(kill).wait(PROMPT)

    def run_to_the_end(self) -> int:
        """Run until all is done, and return the exit status.

        Moves that are held end at a call in which they could be noticed.
        """
        end_moves = AtCall(4, lambda _: setattr(self.cluster, "move_time", 0.0))
        process, before = self._start(end_moves), self._observations()
        if self.words[0] == "run":
            eventually(self.is_done, 30, "all has been moved and recorded")
            eventually(lambda: self._observations() > before + 1, 30, "a cycle more")
            process.terminate()
        return process.wait(PROMPT)

    def is_done(self) -> bool:
        """Return True if all machines have left h1 and Incus knows the time."""
        return all(
            each["location"] != "h1" and LAST_MOVE in each["config"]
            for each in self.cluster.instances
        )

    def _observations(self) -> int:
        return sum("/1.0/instances?" in each for each in self.cluster.requests)

    def _start(self, event: AtCall) -> ForkedProgram:
        started = Event()
        process: ForkedProgram | None = None

        def on_call(request: str, moment: CallMoment) -> None:
            started.wait()
            if request.startswith("POST") and moment is CallMoment.AFTER:
                self.moves.append(request)
            assert process is not None
            event.notice(request, moment, process.pid)

        self.cluster.on_call = on_call
        with (self.directory / "log").open("ab") as log:
            process = ForkedProgram(
                polling_opendrs, self.words, cwd=self.directory, stdout=log
            )
        started.set()
        return process


@pytest.mark.parametrize(
    ("moment", "writes", "held"),
    [
        (CallMoment.BEFORE, False, True),
        (CallMoment.AFTER, True, True),
        (CallMoment.AFTER, True, False),
    ],
)
@pytest.mark.parametrize("words", [APPLY, RUN])
def test_killed_at_each_call_and_started_again_moves_each_machine_once(
    tmp_path: Path,
    words: tuple[str, ...],
    *,
    moment: CallMoment,
    writes: bool,
    held: bool,  # moves are in progress at the restart, or have ended
) -> None:
    tls = TlsFiles(tmp_path)
    differences, numbers = [], count(1)
    killed, is_done = True, False

    while killed and not is_done:
        job = Job(words, tmp_path / f"{next(numbers)}", imbalanced())
        kill = AtCall(int(job.directory.name), killing(job, held=held), moment, writes)
        job.directory.mkdir()
        with tls.serve(job.cluster) as url:
            job.write(tls, url)
            job.run_until_killed(kill)
            killed, is_done = bool(kill.request), job.is_done()
            status = job.run_to_the_end()
        if status != 0 or sorted(job.moves) != EXPECTED or not job.is_done():
            differences.append((kill.number, kill.request, status, job.moves))

    assert differences == []
    assert next(numbers) > (len(EXPECTED) if writes else 25)


def killing(job: Job, *, held: bool) -> Callable[[int], object]:
    """Return a function that kills a process, and holds the moves in progress."""
    job.cluster.move_time = 0.5 if held else 0.0

    def kill(process: int) -> None:
        if held:
            job.cluster.move_time = 600.0
        os.kill(process, signal.SIGKILL)
        raise ConnectionAbortedError

    return kill
