"""Nova and Placement with state, and the load of their hosts, over HTTP.

It answers the requests of the adapter in the form of Nova 34 (microversion 2.96) and
Placement, with lists in pages, and refuses what Nova refuses. Real Nova is tested
against in tests/integration.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit
from uuid import NAMESPACE_DNS, uuid5

from opendrs.model import GIB, GuestId
from opendrs.platforms.openstack.settings import OpenStackSettings

CLOUD = "double"
TIMEOUT = 60.0  # seconds for an answer, on a busy machine
NODE_CPUS, NODE_MEMORY = 16, 64  # cores, GiB
BEFORE, AFTER = "before", "after"
RUNNING = "running"
Json = dict[str, Any]
QUERIES = {name: name for name in ("node_cpu", "node_memory", "guest_cpu")} | {
    "guest_memory": "guest_memory"
}


def ignore(moment: str, number: int) -> None:
    """Do nothing about a request."""
    del moment, number


class ErrorResponse(Exception):  # noqa: N818 - a response
    """Answer of Nova with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class CloudServer:
    """Server of the cloud.

    Attributes:
        load: Busy cores; as many GiB of memory are in use.
        duration: Requests to the cloud that a migration takes.
    """

    name: str
    host: str
    vcpus: int = 2
    load: float = 0.5
    duration: float = 0.0
    migrating: bool = False
    id: str = field(init=False)

    def __post_init__(self) -> None:
        self.id = str(uuid5(NAMESPACE_DNS, self.name))

    @property
    def guest(self) -> GuestId:
        return GuestId(f"{self.name}/{self.id[:8]}")


@dataclass
class CloudMigration:
    """Record of a live migration."""

    number: int
    server: CloudServer
    source: str
    target: str
    ends_at: float
    status: str = RUNNING

    @property
    def body(self) -> Json:
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000000", time.gmtime())
        return {
            "id": self.number,
            "uuid": str(uuid5(NAMESPACE_DNS, f"migration {self.number}")),
            "status": self.status,
            "migration_type": "live-migration",
            "instance_uuid": self.server.id,
            "source_compute": self.source,
            "dest_compute": self.target,
            "created_at": now,
            "updated_at": now,
            "memory_total_bytes": 100,
            "memory_remaining_bytes": 40,
        }


class NovaDouble:
    """A cloud and its requests.

    Attributes:
        hosts: Names of the hosts.
        servers: The servers by UUID.
        migrations: All records of migrations, the oldest first.
        disabled: Hosts whose service is disabled.
        groups: Server groups, in the form of Nova.
        page_size: Most objects in a response: `max_limit` of Nova.
        requests: Method and path of each request to Nova and Placement.
        bodies: Bodies of the accepted requests to migrate a server.
        denied: Requests that are not allowed, as method and end of the path, with the
            rule of the policy.
        on_request: Called with the number of each of them, from 1, before and after it
            has its effect.
    """

    def __init__(self, hosts: Iterable[str], *servers: CloudServer) -> None:
        self.hosts = tuple(hosts)
        self.servers = {each.id: each for each in servers}
        self.migrations: list[CloudMigration] = []
        self.disabled: set[str] = set()
        self.groups: list[Json] = []
        self.page_size = 1_000
        self.requests: list[str] = []
        self.bodies: list[Json] = []
        self.denied: dict[str, str] = {}
        self.on_request: Callable[[str, int], None] = ignore
        self._lock = threading.RLock()

    @property
    def starts(self) -> list[str]:
        """Return the name of the server of each migration that was accepted."""
        return [each.server.name for each in self.migrations]

    @property
    def placement(self) -> dict[str, str]:
        """Return the host of each server by its name."""
        with self._lock:
            self._advance()
            return {each.name: each.host for each in self.servers.values()}

    def finish(self, name: str) -> None:
        """Let the migration of a server complete."""
        with self._lock:
            for each in self.migrations:
                if each.server.name == name and each.status == RUNNING:
                    each.ends_at = 0.0

    def count(self, request: str) -> int:
        """Add *request* and return its number."""
        with self._lock:
            self.requests.append(request)
            return len(self.requests)

    def answer(self, method: str, target: str, body: Json) -> tuple[int, object]:
        """Return the status and the body of the response to a request."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query))
        words = [each for each in parts.path.split("/") if each]
        with self._lock:
            self._advance()
            try:
                self._require_allowed(method, parts.path)
                if words[:1] == ["placement"]:
                    return 200, self._placement(words[2], words[3])
                return self._nova(method, words[1:], query, body)
            except ErrorResponse as error:
                fault = {"code": error.status, "message": str(error)}
                return error.status, {"fault": fault}

    def _require_allowed(self, method: str, path: str) -> None:
        for request, rule in self.denied.items():
            denied, _, end = request.partition(" ")
            if method == denied and path.endswith(end):
                raise ErrorResponse(
                    403, f"Policy doesn't allow {rule} to be performed."
                )

    def _advance(self) -> None:
        for each in self.migrations:
            if each.status == RUNNING and len(self.requests) >= each.ends_at:
                each.status, each.server.host = "completed", each.target
                each.server.migrating = False

    def _nova(
        self, method: str, words: list[str], query: Mapping[str, str], body: Json
    ) -> tuple[int, object]:
        if words and words[0] == "servers" and words[1:] not in ([], ["detail"]):
            server = self.servers.get(words[1])
            if server is None:
                raise ErrorResponse(404, "Instance could not be found.")
            return self._server_request(method, server, words[2:], body)
        lists: dict[str, tuple[str, Callable[[], list[Json]]]] = {
            "os-services": ("services", self._services),
            "os-hypervisors/detail": ("hypervisors", self._hypervisors),
            "servers": ("servers", self._servers),
            "servers/detail": ("servers", self._servers),
            "os-migrations": ("migrations", lambda: self._records(query)),
            "os-aggregates": ("aggregates", list),
            "os-server-groups": ("server_groups", lambda: self.groups),
        }
        key, read = lists["/".join(words)]
        return 200, self._page(key, read(), query)

    def _page(self, key: str, objects: list[Json], query: Mapping[str, str]) -> Json:
        """Return a page; only lists with markers have links to the next one."""
        size = min(int(query.get("limit", self.page_size)), self.page_size)
        start = int(query.get("offset", 0))
        if marker := query.get("marker"):
            ids = [each.get("uuid") or each["id"] for each in objects]
            if marker not in ids:
                raise ErrorResponse(400, f"marker [{marker}] not found")
            start = ids.index(marker) + 1
        if key in ("services", "aggregates"):
            size = len(objects)
        body: Json = {key: objects[start : start + size]}
        if key != "server_groups" and start + size < len(objects):
            body[f"{key}_links"] = [{"rel": "next", "href": "next"}]
        return body

    def _services(self) -> list[Json]:
        return [
            {
                "id": f"service-{host}",
                "host": host,
                "zone": "nova",
                "status": "disabled" if host in self.disabled else "enabled",
                "state": "up",
                "forced_down": False,
            }
            for host in self.hosts
        ]

    def _hypervisors(self) -> list[Json]:
        return [
            {
                "id": f"provider-{host}",
                "hypervisor_type": "QEMU",
                "service": {"host": host},
            }
            for host in self.hosts
        ]

    def _servers(self) -> list[Json]:
        return [_server_body(each) for each in self.servers.values()]

    def _records(self, query: Mapping[str, str]) -> list[Json]:
        names = {"instance_uuid", "status", "migration_type"} & query.keys()
        bodies = [each.body for each in reversed(self.migrations)]
        return [
            body for body in bodies if all(body[key] == query[key] for key in names)
        ]

    def _server_request(
        self, method: str, server: CloudServer, words: list[str], body: Json
    ) -> tuple[int, object]:
        active = [
            each
            for each in self.migrations
            if each.server is server and each.status == RUNNING
        ]
        match method, words:
            case "GET", []:
                return 200, {"server": _server_body(server)}
            case "GET", ["migrations"]:
                return 200, {"migrations": [each.body for each in active]}
            case "GET", ["os-instance-actions"]:
                return 200, {"instanceActions": []}
            case "POST", ["action"]:
                self._migrate(server, body["os-migrateLive"]["host"])
                self.bodies.append(body["os-migrateLive"])
                return 202, {}
            case "DELETE", ["migrations", number]:
                migration = _with_number(active, number)
                migration.status, server.migrating = "cancelled", False
                return 202, {}
            case "POST", ["migrations", number, "action"]:
                _with_number(active, number).ends_at = 0.0
                return 202, {}
        raise ErrorResponse(404, "no such resource")

    def _migrate(self, server: CloudServer, target: str) -> None:
        if server.migrating:
            raise ErrorResponse(409, "Cannot migrate in task_state migrating")
        members = {m for each in self.groups for m in each["members"]}
        apart = server.id in members and any(
            other.host == target and other.id in members
            for other in self.servers.values()
        )
        usable = set(self.hosts) - self.disabled - {server.host}
        if target not in usable or apart:
            raise ErrorResponse(400, "No valid host was found.")
        server.migrating = True
        ends_at = len(self.requests) + server.duration
        number = len(self.migrations) + 1
        self.migrations.append(
            CloudMigration(number, server, server.host, target, ends_at)
        )

    def _placement(self, provider: str, part: str) -> Json:
        host = provider.removeprefix("provider-")
        here = [each for each in self.servers.values() if each.host == host]
        plain = {"reserved": 0, "allocation_ratio": 1.0}
        parts: dict[str, object] = {
            "inventories": {
                "VCPU": {**plain, "total": NODE_CPUS, "allocation_ratio": 4.0},
                "MEMORY_MB": {**plain, "total": NODE_MEMORY << 10},
            },
            "usages": {
                "VCPU": sum(each.vcpus for each in here),
                "MEMORY_MB": sum(each.vcpus << 10 for each in here),
            },
            "traits": ["HW_ARCH_X86_64"],
        }
        return {part: parts[part], "resource_provider_generation": len(self.migrations)}

    def vector(self, measure: str) -> Json:
        """Return the load of all nodes or guests, in the form of Prometheus."""
        label, _, resource = measure.partition("_")
        unit = 1 if resource == "cpu" else GIB
        values = dict.fromkeys(self.hosts, 0.0) if label == "node" else {}
        with self._lock:
            self._advance()
            for each in self.servers.values():
                name = each.host if label == "node" else str(each.guest)
                values[name] = values.get(name, 0.0) + each.load * unit
        series = [
            {"metric": {label: name}, "value": [0, str(value)]}
            for name, value in values.items()
        ]
        data = {"resultType": "vector", "result": series}
        return {"status": "success", "data": data}


def _with_number(active: Iterable[CloudMigration], number: str) -> CloudMigration:
    for each in active:
        if str(each.number) == number:
            return each
    raise ErrorResponse(404, f"In-progress migration {number} is not found")


def _server_body(server: CloudServer) -> Json:
    return {
        "id": server.id,
        "name": server.name,
        "tenant_id": "project",
        "flavor": {"vcpus": server.vcpus, "ram": server.vcpus << 10, "disk": 0},
        "image": {"id": "image"},
        "metadata": {},
        "tags": [],
        "locked": False,
        "pinned_availability_zone": None,
        "OS-EXT-SRV-ATTR:host": server.host,
        "OS-EXT-STS:vm_state": "active",
        "OS-EXT-STS:power_state": 1,
        "OS-EXT-STS:task_state": "migrating" if server.migrating else None,
        "OS-SRV-USG:launched_at": "2026-01-01T00:00:00.000000",
    }


@dataclass(frozen=True)
class ServedDouble:
    """A double that can be reached.

    Attributes:
        cloud: The cloud.
        url: Its address; also that of its Prometheus.
        clouds_file: clouds.yaml, with the cloud `CLOUD`.
    """

    cloud: NovaDouble
    url: str
    clouds_file: Path

    @property
    def settings(self) -> OpenStackSettings:
        return OpenStackSettings(
            cloud=CLOUD, clouds_file=self.clouds_file, timeout=TIMEOUT
        )

    @property
    def table(self) -> Json:
        """Return the table of the platform in opendrs.toml."""
        return {
            "kind": "openstack",
            "cloud": CLOUD,
            "clouds_file": str(self.clouds_file),
            "timeout": TIMEOUT,
            "load": {"url": self.url, "queries": QUERIES, "timeout": TIMEOUT},
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    cloud: NovaDouble
    url: str

    def _answer(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        path = urlsplit(self.path).path
        if path.startswith("/api/v1/"):
            self._send(200, self.cloud.vector(parse_qs(text)["query"][0]))
        elif path.rstrip("/") == "/v2.1":
            self._send(200, {"version": _version(f"{self.url}/v2.1/", "2.96")})
        elif path.rstrip("/") == "/placement":
            versions = [_version(f"{self.url}/placement", "1.39")]
            self._send(200, {"versions": versions})
        else:
            number = self.cloud.count(f"{self.command} {path}")
            self.cloud.on_request(BEFORE, number)
            answer = self.cloud.answer(
                self.command, self.path, json.loads(text) if text else {}
            )
            self.cloud.on_request(AFTER, number)
            self._send(*answer)

    def _send(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - of http.server

    def handle(self) -> None:
        with suppress(OSError):  # the client has gone
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


def _version(url: str, newest: str) -> Json:
    return {
        "id": f"v{newest.partition('.')[0]}.0",
        "status": "CURRENT",
        "min_version": f"{newest.partition('.')[0]}.0",
        "max_version": newest,
        "version": newest,
        "links": [{"rel": "self", "href": url}],
    }


@contextmanager
def served(cloud: NovaDouble, directory: Path) -> Iterator[ServedDouble]:
    """Serve *cloud* on this machine; *directory* is for its clouds.yaml."""
    handler = type("Handler", (_Handler,), {"cloud": cloud})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    url = f"http://127.0.0.1:{server.server_address[1]}"
    handler.url = url  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    path = directory / "clouds.yaml"
    path.write_text(f"""\
clouds:
  {CLOUD}:
    auth_type: admin_token
    auth: {{endpoint: '{url}/v2.1', token: admin}}
    compute_endpoint_override: {url}/v2.1
    placement_endpoint_override: {url}/placement
""")
    path.chmod(0o600)
    try:
        yield ServedDouble(cloud, url, path)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
