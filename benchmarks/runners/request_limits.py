"""Response time and memory of a controller while its request API is attacked.

    .venv/bin/python benchmarks/runners/request_limits.py
    .venv/bin/python benchmarks/runners/request_limits.py --only bodies
    .venv/bin/python benchmarks/runners/request_limits.py --only connections

A controller with the demo cluster runs in its own process, with TLS on loopback. Memory
is its peak resident size (`VmHWM`) in MiB, minus that before the attack.

bodies: token holders send bodies of 4 MiB, one or four in parallel, once or repeatedly
for some seconds, each with its own connection and token. Meanwhile an honest agent
sends a small request every 0.2 s on new connections. The table has its longest response
time, and the longest time between two cycles, which are due every second.

connections: peers without a token hold connections, or open them repeatedly, from 1, 4
and 64 addresses of 127.0.0.0/8. Honest agents from three addresses send a small request
every 0.2 s, each on a new connection, without retries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from uuid import uuid4

import httpx2
import trustme

from opendrs.config.api_schema import request_path
from opendrs.controller import SystemClock

MAX_BODY_BYTES = 4 * 2**20  # largest body, in bytes
NODES = tuple(f"n{number}" for number in range(1, 9))
CYCLE = 1.0  # seconds
HONEST_INTERVAL = 0.2  # seconds between two requests of an honest agent
TIMEOUT = 30.0  # seconds
CLOCK = SystemClock()
NEVER = threading.Event()  # event that is never set, used to sleep
SETTINGS = f"""
[api]
certificate = "controller.pem"
key = "controller.key"
tokens = "tokens.toml"
listen = "127.0.0.1:0"
max_sample_age = 60.0
[policy]
name = "consolidate"
[controller]
interval = {CYCLE}

"""


def node_token(node: str) -> str:
    """Return the token of *node*."""
    return f"the-token-of-{node}"


@dataclass
class RunningController:
    """A running controller."""

    process: subprocess.Popen[bytes]
    log: Path
    ssl_context: ssl.SSLContext
    port: int = 0

    def events(self) -> Iterator[dict[str, object]]:
        """Yield the logged events."""
        for line in self.log.read_text().splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                yield json.loads(line)

    def memory(self, name: str) -> float:
        """Return `VmRSS` or `VmHWM`, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [each for each in status.splitlines() if each.startswith(name)]
        return int(line.split()[1]) / 1024

    def longest_cycle(self, since: datetime) -> float:
        """Return the longest time between two cycles after *since*, in seconds."""
        moments = [since] + [
            datetime.fromisoformat(str(each["time"]))
            for each in self.events()
            if each["event"] == "decision-made"
        ]
        moments = [each for each in moments if each >= since] + [CLOCK.now()]
        gaps = pairwise(moments)
        return max((later - before).total_seconds() for before, later in gaps)

    def client(self, node: str, source: str = "127.0.0.1") -> httpx2.Client:
        """Return a client with the token of *node*."""
        return httpx2.Client(
            base_url=f"https://127.0.0.1:{self.port}",
            transport=httpx2.HTTPTransport(
                verify=self.ssl_context, local_address=source
            ),
            timeout=TIMEOUT,
            headers={"Authorization": f"Bearer {node_token(node)}"},
        )


@contextmanager
def run_controller() -> Iterator[RunningController]:
    """Run a controller on a free port of loopback, with certificate and tokens."""
    with TemporaryDirectory() as name:
        place = Path(name)
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(str(place / "controller.key"))
        for blob in issued.cert_chain_pems:
            blob.write_to_path(str(place / "controller.pem"), append=True)
        hashes = {node: sha256(node_token(node).encode()).hexdigest() for node in NODES}
        lines = [f'{node} = "{found}"\n' for node, found in hashes.items()]
        (place / "tokens.toml").write_text("".join(lines))
        (place / "opendrs.toml").write_text(SETTINGS)
        trust = ssl.create_default_context()
        authority.configure_trust(trust)
        words = ("run", "opendrs.toml", "--platform", "demo", "--format", "json",
                 "--level", "debug")  # fmt: skip
        start = "from opendrs.cli.main import main; raise SystemExit(main())"
        log = place / "log"
        with log.open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-c", start, *words], cwd=place, stderr=errors
            )
        found = RunningController(process, log, trust)
        try:
            while not found.port:
                NEVER.wait(0.1)
                listening = [e for e in found.events() if e["event"] == "api-listening"]
                found.port = int(str(listening[0]["port"])) if listening else 0
                if process.poll() is not None:
                    raise SystemExit(log.read_text())
            NEVER.wait(2 * CYCLE)
            with found.client(NODES[-1]) as client:
                put_body(client, request_body(NODES[-1], 1))
            yield found
        finally:
            process.kill()
            process.wait()


SOME_PATH = request_path(uuid4())
_ID = re.compile(rb'\{"id":"([^"]*)"')


def put_body(client: httpx2.Client, body: bytes) -> httpx2.Response:
    """Send *body* to the path of its id, if it begins with one."""
    found = _ID.match(body)
    path = request_path(found[1].decode()) if found else SOME_PATH
    return client.put(path, content=body)


def request_body(
    node: str, sequence: int, guests: object = None, **more: object
) -> bytes:
    """Return the body of a request."""
    samples = {"interval": CYCLE, "guests": guests or {}, "host_overhead": [0.1]}
    document = {
        "id": str(uuid4()),
        "node": node,
        "sequence": sequence,
        "taken_at": CLOCK.now().isoformat(),
        "load_state": "normal",
        "evict": [],
        "samples": samples,
    }
    return json.dumps({**document, **more}, separators=(",", ":")).encode()


def _padded(before: str, each: str, after: str) -> bytes:
    """Return a body of 4 MiB that repeats *each*."""
    times = (MAX_BODY_BYTES - len(before) - len(after)) // len(each)
    return (before + (each * times).rstrip(",") + after).encode()


def _filled(guests: int, samples: int, value: float) -> Callable[[str], bytes]:
    def body(node: str) -> bytes:
        histories = {f"vm-{number:05}": [value] * samples for number in range(guests)}
        return request_body(node, time.time_ns(), histories)

    return body


def _distinct_fields() -> bytes:
    fields = ",".join(f'"{number:x}":0' for number in range(400_000))
    return ("{" + fields[: MAX_BODY_BYTES - 2].rpartition(",")[0] + "}").encode()


def _nested_guests() -> bytes:
    guests = ",".join(f'"{number:x}":[]' for number in range(380_000))
    inner = guests[: MAX_BODY_BYTES - 200].rpartition(",")[0]
    return (
        '{"samples":{"interval":1,"host_overhead":[],"guests":{' + inner + "}}}"
    ).encode()


def bodies() -> dict[str, Callable[[str], bytes]]:
    """Return functions that build a body for a node, by name."""
    own = '{"samples":{"interval":1,"guests":{},"host_overhead":['
    fixed = {
        "wrong values": _padded(own, "{},", "]}}"),
        "wrong numbers": _padded(own, "-1,", "]}}"),
        "numbers": _padded(own, "0,", "]}}"),
        "empty names": _padded('{"evict":[', '"",', "]}"),
        "unknown fields": _distinct_fields(),
        "guests without samples": _nested_guests(),
        "same field": _padded("{", '"a":0,', "}"),
        "deep": b"[" * MAX_BODY_BYTES,
        "one string": _padded('{"node":"', "n", '"}'),
        "escaped string": _padded('{"node":"', "\\u0041", '"}'),
        "one integer": _padded('{"sequence":', "9", "}"),
        "spaces": b" " * MAX_BODY_BYTES,
    }
    return {name: lambda _, body=body: body for name, body in fixed.items()} | {
        "valid: 1,000 guests of 200": _filled(1000, 200, 12.345678901234567),
        "valid: 500 guests, one day": _filled(500, 288, 1.3456789012345678),
        "valid: 10,000 guests of 30": _filled(10_000, 30, 1.25),
        "valid: 1,000 guests of 399": _filled(1000, 399, 12.345678),
    }


class HonestAgent:
    """Agent that sends small requests and records the response times."""

    def __init__(self, controller: RunningController, node: str, source: str) -> None:
        self._controller, self._node, self._source = controller, node, source
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.waits: list[float] = []
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._over.wait(HONEST_INTERVAL):
            before = time.perf_counter()
            body = request_body(self._node, time.time_ns())
            try:
                with self._controller.client(self._node, self._source) as client:
                    status = put_body(client, body).status_code
            except httpx2.HTTPError as error:
                self.failures.append(type(error).__name__)
            else:
                self.waits.append(time.perf_counter() - before)
                if status != 202:
                    self.failures.append(str(status))


def _send_body(
    controller: RunningController, node: str, body: bytes
) -> tuple[int, float]:
    before = time.perf_counter()
    try:
        with controller.client(node) as client:
            status = put_body(client, body).status_code
    except httpx2.HTTPError:
        status = 0
    return status, time.perf_counter() - before


def measure_body(make: Callable[[str], bytes], peers: int, seconds: float) -> list[str]:
    """Return the measurements of one kind of body from *peers* parallel senders."""
    with run_controller() as controller:
        before = controller.memory("VmHWM")
        since, until = CLOCK.now(), time.monotonic() + seconds

        def attack(node: str) -> list[tuple[int, float]]:
            answers = [_send_body(controller, node, make(node))]
            while time.monotonic() < until:
                answers.append(_send_body(controller, node, make(node)))
            return answers

        with (
            HonestAgent(controller, NODES[-1], "127.0.0.1") as honest,
            ThreadPoolExecutor(peers) as pool,
        ):
            NEVER.wait(2 * HONEST_INTERVAL)
            answers = [*chain.from_iterable(pool.map(attack, NODES[:peers]))]
            NEVER.wait(2 * HONEST_INTERVAL)
        statuses = sorted({status for status, _ in answers})
        return [
            str(len(answers)),
            ",".join(map(str, statuses)),
            f"{statistics.median(took for _, took in answers):.2f}",
            f"{max(took for _, took in answers):.2f}",
            f"{controller.memory('VmHWM') - before:.0f}",
            f"{max(honest.waits, default=float('nan')):.2f}",
            str(len(honest.failures)),
            f"{controller.longest_cycle(since):.1f}",
        ]


class Peers:
    """Connections of peers without a token, in one asyncio loop."""

    def __init__(self, port: int, trust: ssl.SSLContext, kind: str) -> None:
        self._port, self._trust, self._kind = port, trust, kind
        self.opened = 0

    async def keep_attacking(self, source: str, until: float) -> None:
        """Open a connection, use it for the attack, and repeat."""
        while time.monotonic() < until:
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await self._once(source)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.01)

    async def _once(self, source: str) -> None:
        tls = None if self._kind in ("silent", "slow handshake") else self._trust
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=tls, local_addr=(source, 0)
        )
        self.opened += 1
        try:
            await self._use(reader, writer)
        finally:
            writer.transport.abort()

    async def _use(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = f"PUT {SOME_PATH} HTTP/1.1\r\nHost: x\r\n".encode()
        head += b"Content-Length: 4000000\r\n"
        health = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
        if self._kind == "slow handshake":
            await _trickle(writer, b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03", 1)
        elif self._kind == "slow head":
            await _trickle(writer, head, 0.5)
        elif self._kind == "slow body":
            writer.write(head + b"\r\n")
            await _trickle(writer, b"{" * 100, 0.5)
        elif self._kind == "keep-alive":
            while True:
                writer.write(health)
                if not await reader.read(1000):
                    return
                await asyncio.sleep(2)
        elif self._kind == "cycling":
            writer.write(head + b"\r\n")
            await reader.read(1000)
            return
        await reader.read()  # until the controller closes the connection


async def _trickle(writer: asyncio.StreamWriter, data: bytes, pause: float) -> None:
    for each in data:
        writer.write(bytes([each]))
        await writer.drain()
        await asyncio.sleep(pause)


KINDS = (
    "silent", "slow handshake", "no request", "slow head", "slow body", "keep-alive",
    "cycling",
)  # fmt: skip


def attack_connections(words: list[str]) -> None:
    """Attack, in a process of its own; print the number of opened connections."""
    port, kind, addresses, seconds = words
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    peers = Peers(int(port), trust, kind)
    sources = [f"127.0.1.{number + 1}" for number in range(int(addresses))]
    until = time.monotonic() + float(seconds)

    async def all_of_them() -> None:
        each = -(-512 // len(sources))
        await asyncio.gather(
            *(peers.keep_attacking(source, until) for source in sources * each)
        )

    with suppress(KeyboardInterrupt):
        asyncio.run(all_of_them())
    print(peers.opened)


def measure_connections(kind: str, addresses: int, seconds: float) -> list[str]:
    """Return the results of honest agents during an attack without tokens."""
    with run_controller() as controller:
        since = CLOCK.now()
        attackers = subprocess.Popen(  # noqa: S603 - this program
            [
                sys.executable, __file__, "--attack", str(controller.port), kind,
                str(addresses), str(seconds),
            ],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        NEVER.wait(min(3.0, seconds / 3))
        agents = [
            HonestAgent(controller, node, f"127.0.0.{number + 2}")
            for number, node in enumerate(NODES[:3])
        ]
        for agent in agents:
            agent.__enter__()
        opened, _ = attackers.communicate()
        for agent in agents:
            agent.__exit__()
        waits = [wait for agent in agents for wait in agent.waits]
        failures = [failure for agent in agents for failure in agent.failures]
        return [
            str(int(opened)),
            f"{len(waits) - sum(map(str.isdigit, failures))}",
            str(len(failures)),
            f"{statistics.median(waits):.2f}" if waits else "-",
            f"{max(waits):.2f}" if waits else "-",
            f"{controller.longest_cycle(since):.1f}",
        ]


def _print_row(cells: list[str], width: int) -> None:
    print(f"{cells[0]:<{width}}", *(f"{cell:>10}" for cell in cells[1:]), flush=True)


def main() -> None:
    """Run the selected measurements."""
    if sys.argv[1:2] == ["--attack"]:
        attack_connections(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("bodies", "connections"))
    parser.add_argument("--kind", help="only bodies or attacks of this name")
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    if options.only != "connections":
        _print_row(
            ["body, peers, seconds", "sent", "status", "median s", "longest s", "MiB",

             "honest s", "failed", "cycle s"], 42,
        )  # fmt: skip
        for name, make in bodies().items():
            for peers, seconds in ((1, 0.0), (4, 0.0), (4, options.seconds)):
                if options.kind in (None, name):
                    row = measure_body(make, peers, seconds)
                    _print_row([f"{name}, {peers}, {seconds:g}", *row], 42)
    if options.only != "bodies":
        _print_row(
            ["attack, addresses", "opened", "accepted", "failed", "median s",
             "longest s", "cycle s"], 24,
        )  # fmt: skip
        for kind in KINDS:
            for addresses in (1, 4, 64):
                if options.kind in (None, kind):
                    row = measure_connections(kind, addresses, options.seconds)
                    _print_row([f"{kind}, {addresses}", *row], 24)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
