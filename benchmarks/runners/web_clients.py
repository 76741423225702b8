"""Cycle time of a controller beside clients that follow the dashboard.

    .venv/bin/python benchmarks/runners/web_clients.py
    .venv/bin/python benchmarks/runners/web_clients.py --clients 200 --rounds 8

The controller runs cycles of `balance` on a simulated cluster whose load varies, and
records them in an SQLite file; nothing is executed. `opendrs serve` runs in a process
of its own, and so do the clients: each reads the whole state, compressed, and follows
the events. Cycles without clients and with them alternate, so that other load of the
machine affects both alike. A pause after each cycle lets the server read the store and
send the changes while the next cycle runs.

The default snapshot is that of 1,000 nodes and 20,000 guests in `data/clusters` below
OPENDRS_SHARED, or beside the project; `--snapshot` names another one.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import tomli_w

from opendrs.api.access_control import create_token
from opendrs.config.policy_loading import build_policy
from opendrs.controller import (
    CancellationToken,
    CycleContext,
    ExecutionContext,
    NullObserver,
    SystemClock,
    run_cycle,
)
from opendrs.controller.consent import ConsentApproval
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.controller.operator_commands import Actor
from opendrs.platforms.snapshot_file import SnapshotFilePlatform
from opendrs.ports import Role
from opendrs.simulation import SimulatedPlatform
from opendrs.store import DatabaseAccessStore, SqliteStore

BESIDE = Path(__file__).parents[3] / "shared"
SHARED = Path(os.environ.get("OPENDRS_SHARED", BESIDE))
SNAPSHOT = SHARED / "data" / "clusters" / "c1000x20000.plain.json.gz"
PORT = 18470
LOAD_VARIATION = 0.3  # of the CPU usage of a guest
CLOCK = SystemClock()


class SilentObserver:
    """Cycle observer that ignores the events."""

    def recovery_started(self, records: object) -> None:
        """Do nothing."""

    def decision_recorded(self, decided: object) -> None:
        """Do nothing."""

    def running_steps(self) -> Any:  # noqa: ANN401 - not called
        """Do nothing."""


def controller(store: SqliteStore, snapshot: Path) -> Callable[[], None]:
    """Return a function that runs a cycle."""
    policy = build_policy("balance", {})
    initial = SnapshotFilePlatform(snapshot).observe()
    platform = SimulatedPlatform(initial, CLOCK, load_variation=LOAD_VARIATION)
    context = CycleContext(
        command="run",
        execution=ExecutionContext(
            platform=platform,
            clock=CLOCK,
            store=store,
            limits=policy.limits,
            observer=NullObserver(),
            cancellation=CancellationToken(),
        ),
        observe=platform.observe,
        decision_source=PolicyDecisionSource(policy, store),
        approval=ConsentApproval(lambda _: False),
        observer=SilentObserver(),
    )

    def record_cycle() -> None:
        run_cycle(context)

    return record_cycle


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Run `opendrs serve` in a `with` block; yield its process id."""
    document = {
        "platform": {"lab": {"kind": "file", "path": "cluster.json"}},
        "store": {"path": "store.sqlite"},
        "web": {"listen": f"127.0.0.1:{PORT}"},
    }
    (folder / "opendrs.toml").write_text(tomli_w.dumps(document))
    command = [sys.executable, "-m", "opendrs", "serve", "opendrs.toml"]
    with subprocess.Popen(  # noqa: S603 - our own program
        [*command, "--level", "warning"], cwd=folder
    ) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


@contextmanager
def following(count: int, token: str) -> Iterator[None]:
    """Let *count* clients follow the events in a `with` block."""
    command = [sys.executable, __file__, "--follow", str(count), token]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        if process.stdout.readline().strip() != "all connected":
            raise RuntimeError("the clients could not connect")
        try:
            yield
        finally:
            process.terminate()


async def follow_all(count: int, token: str) -> None:
    """Follow the events with *count* connections, until killed."""
    connections = [await _follow(token) for _ in range(count)]
    print("all connected", flush=True)
    await asyncio.gather(*(_read(reader) for reader, _ in connections))


async def _follow(token: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for path in ("state", "events"):
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        head = (
            f"GET /api/v1/{path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n"
            f"Authorization: Bearer {token}\r\n"
        )
        ends = "Connection: close\r\n" if path == "state" else ""
        writer.write(f"{head}{ends}\r\n".encode())
        line = await reader.readline()
        if b" 200 " not in line:
            raise RuntimeError(line.decode())
        if path == "state":
            await reader.read()
            writer.close()
    return reader, writer


async def _read(reader: asyncio.StreamReader) -> None:
    while await reader.read(65_536):
        pass


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith("VmRSS"))
    return int(found) / 1024


def timed_cycles(
    run: Callable[[], None], cycles: int, pause: float
) -> list[tuple[float, float]]:
    """Return the elapsed and the CPU seconds of each cycle."""
    times = []
    for _ in range(cycles):
        begun, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - begun, time.process_time() - cpu))
        CLOCK.sleep(pause)
    return times


def measure(arguments: argparse.Namespace) -> None:
    """Print the cycle times without clients and with them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        snapshot: Path = arguments.snapshot
        if snapshot.suffix == ".gz":
            plain = folder / "cluster.json"
            plain.write_bytes(gzip.decompress(snapshot.read_bytes()))
            snapshot = plain
        with SqliteStore(folder / "store.sqlite") as store:
            store.save("platform", {"name": "lab"})
            run = controller(store, snapshot)
            token = create_token(
                DatabaseAccessStore(store),
                CLOCK,
                Actor(user="benchmark"),
                name="benchmark",
                role=Role.VIEWER,
                seconds=86_400,
            ).secret
            run()
            with serving(folder) as pid:
                _measure_rounds(arguments, run, pid, token)


def _measure_rounds(
    arguments: argparse.Namespace, run: Callable[[], None], pid: int, token: str
) -> None:
    _await_serving(token)
    alone, beside = [], []
    for _ in range(arguments.rounds):
        alone += timed_cycles(run, arguments.cycles, arguments.pause)
        with following(arguments.clients, token):
            before, begun = cpu_seconds(pid), time.perf_counter()
            beside += timed_cycles(run, arguments.cycles, arguments.pause)
            used = cpu_seconds(pid) - before
            share = used / (time.perf_counter() - begun)
            mib = resident_mib(pid)
    print(f"{'':24}{'elapsed s':>12}{'CPU s':>10}")
    for text, times in (("no client", alone), (f"{arguments.clients} clients", beside)):
        elapsed, cpu = (median(column) for column in zip(*times, strict=True))
        print(f"{text:24}{elapsed:12.3f}{cpu:10.3f}")
    for text, column in (("elapsed", 0), ("CPU", 1)):
        ratio = median(each[column] for each in beside) / median(
            each[column] for each in alone
        )
        print(f"ratio, {text}: {ratio:.3f}")
    print(
        f"server with {arguments.clients} clients: {share:.1%} of a core, {mib:.0f} MiB"
    )
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; cores: {os.cpu_count()}")


def _await_serving(token: str) -> None:
    for _ in range(600):
        try:
            asyncio.run(_follow(token))
        except (OSError, RuntimeError):
            CLOCK.sleep(0.1)
        else:
            return
    raise RuntimeError("the server did not start")


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snapshot", type=Path, default=SNAPSHOT)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--cycles", type=int, default=4, help="in each phase of a round"
    )
    parser.add_argument("--pause", type=float, default=1.0, help="seconds")
    parser.add_argument("--follow", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.follow:
        count, token = arguments.follow
        asyncio.run(follow_all(int(count), token))
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
