"""The controller as a process, with a simulated cluster that outlives it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import httpx
import tomli_w

import outside
from integration.lab import eventually
from opendrs.controller.clock import SystemClock
from opendrs.controller.requests.wire import (
    REQUESTS,
    Request,
    Samples,
    Standing,
    Verdict,
)
from outside import Moment, Outside
from vouching import NODES, Vouched, token_of

PROMPT = 60.0  # seconds in which a waiting controller ends, on a busy machine


class Service:
    """A controller that can be killed and started anew, and what it looks after.

    Args:
        place: A directory for its files.
        cluster: What it looks after.
    """

    def __init__(self, place: Path, cluster: Outside) -> None:
        self.cluster = cluster
        self.place = place
        self._vouched = Vouched(place)
        self._sequence = 0
        self._clients: dict[str, httpx.Client] = {}
        settings = self._vouched.settings
        document = {
            "requests": {
                "certificate": settings.certificate.name,
                "key": settings.key.name,
                "tokens": settings.tokens.name,
                "listen": settings.listen,
                "gathering": 0.1,
            },
            "platform": {"away": {"kind": "outside", "address": "cluster"}},
            "policy": {
                "name": "consolidate",
                "consolidate": {"detector": "last-n-average"},
            },
            "limits": {"cooldown": 0.001},
            "store": {"path": "record.sqlite"},
        }
        (place / "opendrs.toml").write_text(tomli_w.dumps(document))

    def command(self) -> list[str]:
        """Return the words that start a controller."""
        return [sys.executable, outside.__file__, "run", "opendrs.toml"]

    def start(self) -> None:
        """Start it, and wait until it has looked around."""
        self._hang_up()
        with (self.place / "log").open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                [*self.command(), "--format", "json"],
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        eventually(lambda: bool(self.told("decided")), 30, "it has looked around")
        (listening,) = self.told("listening")
        port = listening["port"]
        assert isinstance(port, int)
        self._clients = {
            node: self._vouched.client(port, token_of(node)) for node in NODES
        }

    def told(self, event: str) -> list[dict[str, object]]:
        """Return what it has logged of such events since it was started."""
        lines = (self.place / "log").read_text().splitlines(keepends=True)
        told = [json.loads(line) for line in lines if line.endswith("\n")]
        return [line for line in told if line["event"] == event]

    def kill_at(self, moment: Moment) -> None:
        """Let it die once it comes to *moment*; the cluster does not answer it."""

        def strike(now: Moment) -> None:
            if now == moment:
                self.cluster.strike = lambda _: None
                self.process.kill()
                raise EOFError

        self.cluster.strike = strike

    def stop(self, times: int = 1) -> int:
        """Tell it to stop, and return its exit status."""
        for _ in range(times):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PROMPT)

    def end(self) -> None:
        """End all that is left."""
        self._hang_up()
        self.process.kill()
        self.process.wait()

    def _hang_up(self) -> None:
        for client in self._clients.values():
            client.close()

    def ask(
        self, node: str, verdict: Verdict = Verdict.CALM, leaving: Sequence[str] = ()
    ) -> Request:
        """Let the agent of *node* send a request, which is accepted."""
        self._sequence += 1
        request = Request(
            id=uuid4(),
            node=node,
            sequence=self._sequence,
            taken_at=SystemClock().now(),
            verdict=verdict,
            leaving=list(leaving),
            samples=Samples(interval=300.0, guests={}, own=[0.0]),
        )
        assert self.send(request).status_code == 202
        return request

    def send(self, request: Request) -> httpx.Response:
        """Send *request*."""
        body = request.model_dump_json()
        return self._clients[request.node].post(REQUESTS, content=body)

    def standing(self, request: Request) -> Standing:
        """Return how *request* stands."""
        answer = self._clients[request.node].get(f"{REQUESTS}/{request.id}")
        assert answer.status_code == 200, answer.text
        return Standing.model_validate_json(answer.content)

    def closed(self, request: Request) -> Standing:
        """Return how *request* stands once it is closed."""
        eventually(
            lambda: self.standing(request).state.closed, 20, "the request is closed"
        )
        return self.standing(request)

    def places(self) -> dict[str, str]:
        """Return the node of each guest."""
        guests = self.cluster.world.observe().guests
        return {name: guest.node for name, guest in guests.items()}
