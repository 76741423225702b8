"""A controller and `opendrs serve` as processes, on a cluster whose load changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import httpx2
import tomli_w

from opendrs.controller import SystemClock
from support import command_cluster, loaded_cluster
from support.forked_program import ForkedProgram, opendrs_program, run_forked
from support.network import free_port

PLATFORM = "lab"
NO_LIMITS: Mapping[str, object] = MappingProxyType({})
TIMEOUT = 240.0  # seconds, on a busy machine
_OPENDRS = (sys.executable, "-c", "from opendrs.cli.main import main; main()")


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait until *condition* is true."""
    clock = SystemClock()
    end = clock.monotonic() + TIMEOUT
    while not condition():
        assert clock.monotonic() < end, f"not in {TIMEOUT:.0f} s: {what}"
        clock.sleep(0.1)


class DashboardLab:
    """A cluster, its controller, and the server of its dashboard.

    Args:
        place: A directory for files.
        seconds: Duration of a migration.
        nodes: Number of nodes.
        guests: Number of guests of each node.
        limits: Further limits of the operator.
        settings: Settings of the controller.
    """

    def __init__(
        self,
        place: Path,
        *,
        seconds: float = 2.0,
        nodes: int = 12,
        guests: int = 6,
        limits: Mapping[str, object] = NO_LIMITS,
        **settings: object,
    ) -> None:
        self.place = place
        self.state = place / "cluster.json"
        self.config = place / "opendrs.toml"
        self._processes: dict[str, subprocess.Popen[bytes] | ForkedProgram] = {}
        loaded_cluster.create(self.state, seconds=seconds, nodes=nodes, guests=guests)
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        program = command_cluster.command(self.state)
        document = {
            "platform": {
                PLATFORM: {
                    "kind": "command",
                    "snapshot_command": [*program, "snapshot"],
                    "action_command": program,
                }
            },
            "controller": {
                "interval": 2.0,
                "mode": "advise",
                "approval_time": 900.0,
                **settings,
            },
            "policy": {"name": "balance", "balance": {"max_migrations": 6}},
            "limits": {"max_parallel_migrations": 2, "cooldown": 60.0, **limits},
            "web": {"listen": f"127.0.0.1:{self.port}", "start": False},
            "store": {"path": str(place / "record.sqlite")},
        }
        self.config.write_text(tomli_w.dumps(document), encoding="utf-8")

    def __enter__(self) -> Self:
        self.start_controller()
        self.start_server()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in tuple(self._processes):
            self.stop(name)

    def start_controller(self) -> None:
        """Start the controller, and wait for its first decision."""
        path = self.place / "run.log"
        with path.open("wb") as log:
            words = ("run", str(self.config), "--format", "json")
            self._processes["run"] = ForkedProgram(
                opendrs_program, words, cwd=self.place, stdout=log
            )
        eventually(lambda: "decision-made" in path.read_text(), "a decision is made")

    def start_server(self) -> None:
        """Start the server, and wait until it responds."""
        # It starts processes itself, which a forked program may not.
        with (self.place / "serve.log").open("wb") as log:
            self._processes["serve"] = subprocess.Popen(  # noqa: S603 - our own program
                [*_OPENDRS, "serve", str(self.config), "--format", "json"],
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        eventually(self._responds, "the server responds")

    def stop(self, name: str) -> None:
        """End the controller (`run`) or the server (`serve`)."""
        process = self._processes.pop(name, None)
        if process is not None:
            process.terminate()
            process.wait(TIMEOUT)

    def kill(self, name: str) -> None:
        """Kill the controller (`run`) or the server (`serve`)."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(TIMEOUT)

    def token(self, role: str) -> str:
        """Return a new token with *role*."""
        words = ["access", "create", PLATFORM, "--name", "anna", "--role", role]
        return str(self.command(*words)["secret"])

    def command(self, *words: str) -> dict[str, Any]:
        """Run a command of the operator, and return its output."""
        words = (*words, "--config", str(self.config), "--format", "json")
        done = run_forked(opendrs_program, words, cwd=self.place)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else {}

    def _responds(self) -> bool:
        try:
            return httpx2.get(f"{self.address}/api/v1/health").is_success
        except httpx2.HTTPError:
            return False
