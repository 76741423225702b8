"""Incus cluster over HTTPS or a unix socket, from recorded answers or built for a test.

It answers the reads of the adapter, moves instances, and fails on demand. The forms of
its answers are those of the recordings.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import socketserver
import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import trustme

from opendrs.platforms.incus import IncusSettings

Document = dict[str, Any]
TIMEOUT = 60.0  # seconds for an answer, on a busy machine
SECRET = "0a1b2c3d-of-a-migration"  # noqa: S105 - not a real one
EXTENSIONS = (
    "clustering",
    "cluster_member_state",
    "instance_all_projects",
    "operation_wait",
    "migration_stateful",
    "migration_vm_live",
    "metrics",
)


class CallMoment(Enum):
    """Moment of a request: not executed yet, or executed and not answered."""

    BEFORE = "before"
    AFTER = "after"


@dataclass
class Failure:
    """Behavior in place of an answer, for requests that match.

    Attributes:
        pattern: Expression for `METHOD PATH?QUERY`.
        status: Status of the answer.
        body: Its body; an error of Incus if None.
        delay: Seconds before the answer.
        drip: Send one byte of the body every so many seconds.
        message: Message of the error.
        act: Called before the answer.
    """

    pattern: str
    status: int = 500
    body: bytes | None = None
    delay: float = 0.0
    drip: float = 0.0
    message: str = "failed for the test"
    act: Callable[[], object] = lambda: None


@dataclass
class IncusDouble:
    """State of the cluster.

    Attributes:
        server: Answer to `GET /1.0`.
        members: All members.
        states: State of each member.
        resources: Resources of each member.
        metrics: Metrics of each member, as text.
        instances: All instances.
        projects: Projects that can be read.
        pools: Storage pools by name.
        operations: Operations, until they are forgotten.
        move_time: Seconds that a move takes.
        slow: Seconds that the moves of some instances take, by name.
        move_error: Error with which moves end; empty if they succeed.
        failures: Behavior for some requests.
        requests: All requests so far, as `METHOD PATH?QUERY`.
        on_call: Called with each request, before it is executed and again before it is
            answered. After ConnectionAbortedError it is not, and has no answer.
        on_arrival: Called with an instance that has moved.
    """

    server: Document
    members: list[Document]
    states: dict[str, Document]
    resources: dict[str, Document]
    metrics: dict[str, str]
    instances: list[Document]
    projects: list[Document]
    pools: dict[str, Document]
    operations: list[Document] = field(default_factory=list)
    move_time: float = 0.1
    slow: dict[str, float] = field(default_factory=dict)
    move_error: str = ""
    failures: list[Failure] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    on_call: Callable[[str, CallMoment], object] = lambda _request, _moment: None
    on_arrival: Callable[[Document], object] = lambda _: None

    @classmethod
    def from_recording(cls, folder: Path) -> IncusDouble:
        """Return the cluster in *folder*.

        State, resources and metrics were recorded for some members; the others answer
        the same.
        """

        def recorded(name: str) -> Any:  # noqa: ANN401 - as parsed
            return json.loads((folder / f"{name}.json").read_text())["metadata"]

        members = recorded("1.0_cluster_members__recursion-1")
        names = [member["server_name"] for member in members]

        def by_member(pattern: str) -> dict[str, str]:
            texts = {
                name: path.read_text()
                for path in sorted(folder.glob(pattern))
                for name in names
                if name in re.split(r"[_.\-]", path.name)
            }
            first = next(iter(texts.values()))
            return {name: texts.get(name, first) for name in names}

        states = by_member("1.0_cluster_members_*_state.json")
        resources = by_member("1.0_resources__target-*.json")
        pools = recorded("1.0_storage-pools__recursion-1")
        return cls(
            server=recorded("1.0"),
            members=members,
            states={n: json.loads(t)["metadata"] for n, t in states.items()},
            resources={n: json.loads(t)["metadata"] for n, t in resources.items()},
            metrics=by_member("1.0_metrics__target-*.txt"),
            instances=recorded("1.0_instances__recursion-1"),
            projects=recorded("1.0_projects__recursion-1"),
            pools={pool["name"]: pool for pool in pools},
        )

    def instance(self, name: str, project: str = "default") -> Document:
        """Return one instance."""
        found = [
            each
            for each in self.instances
            if (each["project"], each["name"]) == (project, name)
        ]
        return found[0]

    def starts(self) -> list[str]:
        """Return the moves that were requested so far."""
        return [each for each in self.requests if each.startswith("POST ")]

    def answer(self, method: str, url: str, body: Document) -> tuple[int, Document]:
        """Return status and document of the answer to a request."""
        parts = urlsplit(url)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        words = [unquote(word) for word in parts.path.split("/")[2:]]
        try:
            if method == "GET":
                return 200, _sync(self._read(words, query))
            return self._write(method, words, query, body)
        except LookupError:
            return 404, _error(404, "not found")

    def _read(  # noqa: C901, PLR0911, PLR0912 - one case for each path
        self, words: list[str], query: Mapping[str, str]
    ) -> object:
        match words:
            case []:
                return self.server
            case ["cluster", "members"]:
                return self.members
            case ["cluster", "members", name]:
                return next(m for m in [*self.members, {}] if m["server_name"] == name)
            case ["cluster", "members", name, "state"]:
                return self.states[name]
            case ["resources"]:
                return self.resources[query["target"]]
            case ["instances"] if "recursion" in query:
                return self.instances
            case ["instances"]:
                return [
                    f"/1.0/instances/{each['name']}?project={each['project']}"
                    for each in self.instances
                ]
            case ["instances", name]:
                return self.instance(name, query.get("project", "default"))
            case ["projects"]:
                return self.projects
            case ["storage-pools", name]:
                return self.pools[name]
            case ["operations"]:
                return self._listed_operations()
            case ["operations", name]:
                return self._operation(name)
            case ["operations", name, "wait"]:
                return self._wait(name, float(query["timeout"]))
        raise LookupError

    def _write(
        self, method: str, words: list[str], query: Mapping[str, str], body: Document
    ) -> tuple[int, Document]:
        match method, words:
            case "PATCH", ["instances", name]:
                instance = self.instance(name, query.get("project", "default"))
                for key in ("config", "expanded_config"):
                    instance.setdefault(key, {}).update(body["config"])
                return 200, _sync({})
            case "POST", ["instances", name]:
                assert body == {"migration": True, "live": True}
                instance = self.instance(name, query.get("project", "default"))
                if query["target"] not in {m["server_name"] for m in self.members}:
                    raise LookupError
                return 202, self._move(instance, query["target"])
        raise LookupError

    def _move(self, instance: Document, target: str) -> Document:
        url = f"/1.0/instances/{instance['name']}"
        if instance["project"] != "default":
            url += f"?project={instance['project']}"
        secrets: Document = {"control": SECRET}
        created = [
            _operation(url, "Migrating instance", "task", instance["location"], {}),
            _operation(
                url, "Migrating instance", "websocket", instance["location"], secrets
            ),
            _operation(url, "Creating instance", "task", target, {}),
        ]
        self.operations += created
        Thread(
            target=self._finish, args=(instance, target, created), daemon=True
        ).start()
        return {
            **_sync(copy.deepcopy(created[0])),
            "type": "async",
            "operation": f"/1.0/operations/{created[0]['id']}",
        }

    def _finish(
        self, instance: Document, target: str, operations: list[Document]
    ) -> None:
        started = monotonic()
        while monotonic() - started < self.slow.get(instance["name"], self.move_time):
            Event().wait(0.02)
        if not self.move_error:
            instance["location"] = target
            instance["last_used_at"] = datetime.now(UTC).isoformat()  # noqa: TID251
            self.on_arrival(instance)
        for operation in operations:
            status = ("Failure", 400) if self.move_error else ("Success", 200)
            operation["err"] = self.move_error
            operation["status"], operation["status_code"] = status

    def _listed_operations(self) -> Document:
        listed: dict[str, list[Document]] = {}
        for operation in self.operations:
            listed.setdefault(operation["status"].lower(), []).append(operation)
        return listed

    def _operation(self, name: str) -> Document:
        return next(each for each in [*self.operations, {}] if each["id"] == name)

    def _wait(self, name: str, seconds: float) -> Document:
        end = monotonic() + seconds
        while monotonic() < end and self._operation(name)["status_code"] < 200:
            Event().wait(0.02)
        return self._operation(name)


def _operation(
    url: str, description: str, kind: str, location: str, metadata: Document
) -> Document:
    return {
        "id": str(uuid.uuid4()),
        "class": kind,
        "description": description,
        "status": "Running",
        "status_code": 103,
        "resources": {"instances": [url]},
        "metadata": metadata,
        "may_cancel": kind == "websocket",
        "err": "",
        "location": location,
    }


def _sync(metadata: object) -> Document:
    return {
        "type": "sync",
        "status": "Success",
        "status_code": 200,
        "operation": "",
    } | {
        "error_code": 0,
        "error": "",
        "metadata": metadata,
    }


def _error(code: int, message: str) -> Document:
    return {"type": "error", "error_code": code, "error": message, "metadata": None}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    double: IncusDouble
    ended: Event

    def do_GET(self) -> None:
        self._respond()

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of the library

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def address_string(self) -> str:
        """Return a constant: a unix socket has no address."""
        return "client"

    def _respond(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        request = f"{self.command} {self.path}"
        self.double.requests.append(request)
        try:
            self.double.on_call(request, CallMoment.BEFORE)
            status, content, drip = self._answer(request, body)
            self.double.on_call(request, CallMoment.AFTER)
        except ConnectionAbortedError:
            self.close_connection = True
            return
        self._send(status, content, drip)

    def _answer(self, request: str, body: Document) -> tuple[int, bytes, float]:
        """Return status and content of the answer, and the seconds between bytes."""
        for failure in self.double.failures:
            if re.search(failure.pattern, request):
                failure.act()
                self.ended.wait(failure.delay)
                error = json.dumps(_error(failure.status, failure.message)).encode()
                content = error if failure.body is None else failure.body
                return failure.status, content, failure.drip
        parts = urlsplit(self.path)
        if parts.path == "/1.0/metrics":
            target = parse_qs(parts.query)["target"][0]
            return 200, self.double.metrics[target].encode(), 0.0
        status, document = self.double.answer(self.command, self.path, body)
        return status, json.dumps(document).encode(), 0.0

    def _send(self, status: int, content: bytes, drip: float) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if not drip:
                self.wfile.write(content)
            for byte in content if drip else b"":
                self.wfile.write(bytes([byte]))
                if self.ended.wait(drip):
                    break
        except OSError:
            self.close_connection = True


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def serve_socket(double: IncusDouble, path: Path) -> Iterator[IncusSettings]:
    """Serve *double* at a unix socket and yield settings for it."""
    ended = Event()
    options = {"double": double, "ended": ended}
    handler = type("_SocketHandler", (_Handler,), options)
    with _UnixServer(str(path), handler) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield IncusSettings(socket=path, timeout=TIMEOUT)
        ended.set()
        server.shutdown()


@dataclass(frozen=True)
class TlsFiles:
    """Certificate of the cluster, another of the same authority, and of the client.

    Args:
        directory: The directory they are in.
    """

    directory: Path

    def __post_init__(self) -> None:
        authority = trustme.CA()
        for name in ("cluster", "renewed", "client"):
            issued = authority.issue_cert("127.0.0.1")
            issued.private_key_pem.write_to_path(self.directory / f"{name}.key")
            issued.cert_chain_pems[0].write_to_path(self.directory / f"{name}.crt")

    def fingerprint(self, name: str = "cluster") -> str:
        """Return the SHA-256 fingerprint of a certificate."""
        text = (self.directory / f"{name}.crt").read_text()
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()

    def settings(self, *urls: str, **changes: Any) -> IncusSettings:  # noqa: ANN401
        """Return settings with these files, with the certificate pinned as a file."""
        plain: dict[str, Any] = {
            "urls": urls,
            "certificate": self.directory / "client.crt",
            "key": self.directory / "client.key",
            "server_certificate": self.directory / "cluster.crt",
            "timeout": TIMEOUT,
        }
        return IncusSettings(**{**plain, **changes})

    @contextmanager
    def serve(self, double: IncusDouble, name: str = "cluster") -> Iterator[str]:
        """Serve *double* by HTTPS with the certificate *name* and yield its URL."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(
            self.directory / f"{name}.crt", self.directory / f"{name}.key"
        )
        # Otherwise each body waits for an acknowledgment of its headers.
        ended = Event()
        options = {
            "double": double,
            "disable_nagle_algorithm": True,
            "ended": ended,
        }
        handler = type("_TlsHandler", (_Handler,), options)
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}"
        finally:
            ended.set()
            server.shutdown()
            server.server_close()
