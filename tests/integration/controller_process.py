"""The controller as a process, with a simulated cluster that outlives it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import httpx2
import tomli_w
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from integration.libvirt_lab import eventually
from opendrs.config.api_schema import (
    RequestBody,
    RequestStatus,
    UsageSamples,
    request_path,
)
from opendrs.controller import SystemClock
from opendrs.model import LoadState
from support.agent_cluster import put_request
from support.certificates import NODES, CertificateFiles, node_token
from support.external_cluster import CallMoment, ExternalCluster, opendrs_outside
from support.forked_program import ForkedProgram

PROMPT = 120.0  # seconds in which a waiting controller ends, on a busy machine
RUN = ("run", "opendrs.toml", "--no-serve")


class ControllerProcess:
    """A controller that can be killed and restarted, and its cluster.

    Args:
        place: A directory for its files.
        cluster: The cluster that it manages.
    """

    def __init__(self, place: Path, cluster: ExternalCluster) -> None:
        self.cluster = cluster
        self.place = place
        self._certificates = CertificateFiles(place)
        self._sequence = 0
        self._clients: dict[str, httpx2.Client] = {}
        settings = self._certificates.settings
        document = {
            "api": {
                "certificate": settings.certificate.name,
                "key": settings.key.name,
                "tokens": settings.tokens.name,
                "listen": settings.listen,
                "batch_window": 0.1,
            },
            "platform": {"away": {"kind": "external", "address": "cluster"}},
            "controller": {"mode": "automatic"},
            "policy": {
                "name": "consolidate",
                "consolidate": {"detector": "last-n-average"},
            },
            "limits": {"cooldown": 0.001},
            "store": {"path": "record.sqlite"},
        }
        (place / "opendrs.toml").write_text(tomli_w.dumps(document))

    def start(self) -> None:
        """Start it, and wait until it has observed the cluster."""
        self.launch()
        eventually(
            lambda: bool(self.has_logged("decision-made")), 30, "it has looked around"
        )
        (listening,) = self.has_logged("api-listening")
        port = listening["port"]
        assert isinstance(port, int)
        self._clients = {
            node: self._certificates.client(port, node_token(node)) for node in NODES
        }

    def launch(self) -> None:
        """Start it, and do not wait."""
        self._hang_up()
        with (self.place / "log").open("wb") as log:
            self.process = ForkedProgram(
                opendrs_outside, (*RUN, "--format", "json"), cwd=self.place, stdout=log
            )

    def has_logged(self, event: str) -> list[dict[str, object]]:
        """Return the events of this name logged since the start."""
        lines = (self.place / "log").read_text().splitlines(keepends=True)
        line_event = [json.loads(line) for line in lines if line.endswith("\n")]
        return [line for line in line_event if line.get("event") == event]

    def kill_at(self, moment: CallMoment) -> None:
        """Let it die once it comes to *moment*; the cluster does not answer it."""

        def strike(now: CallMoment) -> None:
            if now == moment:
                self.cluster.on_call = lambda _: None
                self.process.kill()
                raise EOFError

        self.cluster.on_call = strike

    def stop(self, times: int = 1) -> int:
        """Send SIGTERM, *times* times, and return the exit status."""
        for _ in range(times):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PROMPT)

    def end(self) -> None:
        """End the remaining processes."""
        self._hang_up()
        self.process.kill()
        self.process.wait()

    def _hang_up(self) -> None:
        for client in self._clients.values():
            client.close()

    def send_request(
        self,
        node: str,
        load_state: LoadState = LoadState.NORMAL,
        evict: Sequence[str] = (),
    ) -> RequestBody:
        """Let the agent of *node* send a request, which is accepted."""
        self._sequence += 1
        request = RequestBody(
            id=uuid4(),
            node=node,
            sequence=self._sequence,
            taken_at=SystemClock().now(),
            load_state=load_state,
            evict=list(evict),
            samples=UsageSamples(interval=300.0, guests={}, host_overhead=[0.0]),
        )
        assert self.send(request).status_code in (200, 202)
        return request

    def send(self, request: RequestBody) -> httpx2.Response:
        """Send *request*."""
        return _repeated(lambda: put_request(self._clients[request.node], request))

    def request_status(self, request: RequestBody) -> RequestStatus:
        """Return the status of *request*."""
        client = self._clients[request.node]
        answer = _repeated(lambda: client.get(request_path(request.id)))
        assert answer.status_code == 200, answer.text
        return RequestStatus.model_validate_json(answer.content)

    def closed(self, request: RequestBody) -> RequestStatus:
        """Return the status of *request* once it is closed."""
        eventually(
            lambda: self.request_status(request).state.closed,
            20,
            "the request is closed",
        )
        return self.request_status(request)

    def guest_nodes(self) -> dict[str, str]:
        """Return the node of each guest."""
        guests = self.cluster.platform.observe().guests
        return {name: guest.node for name, guest in guests.items()}


def _repeated(send: Callable[[], httpx2.Response]) -> httpx2.Response:
    """Return the response to an idempotent request.

    The controller closes connections after a minute, or if a handshake takes too long;
    agents repeat their requests then.
    """
    retrying = Retrying(
        retry=retry_if_exception_type(httpx2.TransportError),
        stop=stop_after_attempt(11),
        reraise=True,
    )
    return retrying(send)
