"""Player of recorded answers of a Proxmox VE cluster.

At each position in a recording, the player answers what a client asks with the answer
recorded last at that position, or with the next one if there is none before. Lists of
the cluster and of tasks that were not recorded in the form asked for consist of the
rows recorded in other calls, and at first of the state at the start.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote

from support.https_server import Answer, Request

PREFIX = "/api2/json"
GUEST_KINDS = {"qemu-server": "qemu", "lxc": "lxc"}
Row: TypeAlias = dict[str, Any]
# Reasons with which the server answers paths outside /api2/json.
_OTHER_FORMS = ("no formatter", "no such file", "method '")
_NEUTRAL: Mapping[str, object] = {
    "/version": {"version": "9.2.11", "release": "9.2", "repoid": "lab"},
    "/access/permissions": {
        "/": dict.fromkeys(("Sys.Audit", "VM.Audit", "VM.Migrate"), 1)
    },
    "/cluster/status": [],
    "/cluster/options": {},
    "/cluster/replication": [],
    "/cluster/ha/rules": [],
    "/cluster/ha/status/manager_status": {"manager_status": {}},
}


@dataclass(frozen=True)
class Pair:
    """A recorded request and its answer, with saved values put in.

    Attributes:
        is_plain: Whether the request had the encoding of the client, and the answer is
            in JSON as it is; False for the other forms that the API knows.
    """

    index: int
    host: str
    method: str
    path: str
    params: Mapping[str, str]
    auth: Mapping[str, Any]
    status: int
    reason: str
    text: str
    note: str
    headers: tuple[tuple[str, str], ...]
    is_plain: bool

    @property
    def login(self) -> str | None:
        """Return the token or the user that sent the request; None without one."""
        return self.auth.get("token") or self.auth.get("user")

    @property
    def answer(self) -> Answer:
        return Answer(self.status, self.reason, self.text.encode())

    @property
    def exact_answer(self) -> Answer:
        """Return the answer with the headers as they were received."""
        length = str(len(self.text.encode()))
        headers = tuple(
            (name, length if name == "Content-Length" else value)
            for name, value in self.headers
        )
        body = self.text.encode()
        return Answer(self.status, self.reason, body, headers=headers or None)

    @property
    def data(self) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self.text)["data"]


@dataclass(frozen=True)
class Recording:
    """A recorded scenario."""

    name: str
    kind: str
    state: Mapping[str, Any]
    pairs: tuple[Pair, ...]

    @property
    def login(self) -> str:
        """Return the token, or the user by ticket, that sent most of the requests."""
        counts = Counter(pair.login or "" for pair in self.pairs)
        del counts[""]
        return max(counts, key=lambda login: counts[login], default="")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the nodes that were asked, the one asked most often first."""
        counts = Counter(pair.host for pair in self.pairs if pair.status)
        return tuple(host for host, _ in counts.most_common())

    @classmethod
    def load(cls, path: Path) -> Recording:
        return cls.parse(json.loads(path.read_text()))

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Recording:
        return cls(
            document["scenario"],
            document["kind"],
            document["state"],
            tuple(_pairs(document["steps"])),
        )


def _pairs(steps: list[Row]) -> Iterator[Pair]:
    saved: dict[str, str] = {}
    for index, step in enumerate(steps):
        if "method" not in step:
            continue
        text = step.get("text")
        if text is None:
            body = step.get("body")
            text = body if isinstance(body, str) else json.dumps(body)
        for name, pointer in step.get("save", {}).items():
            saved[name] = _resolve(json.loads(text), pointer)
        params = step.get("params") or {}
        yield Pair(
            index,
            step["host"],
            step["method"],
            unquote(_fill(step["path"], saved)),
            {name: _fill(_as_text(value), saved) for name, value in params.items()},
            step.get("auth_detail") or {},
            step["status"],
            step["reason"],
            text,
            step.get("note") or "",
            tuple((name, value) for name, value in step.get("response_headers") or ()),
            _is_plain(step, text),
        )


def _is_plain(step: Row, text: str) -> bool:
    is_write = step["method"] in ("POST", "PUT")
    sent = step.get("form" if is_write else "query") or ""
    values = [value for _, value in parse_qsl(sent, keep_blank_values=True)]
    named = [_as_text(value) for value in (step.get("params") or {}).values()]
    is_repeated = any(value.startswith("[") for value in named)
    is_form = step.get("content_type") in (None, "application/x-www-form-urlencoded")
    other_form = '"success":' in text or step["reason"].startswith(_OTHER_FORMS)
    other_form = other_form or bool(is_write and step.get("query"))
    return (
        is_form and not other_form and (is_repeated or sorted(values) == sorted(named))
    )


def _resolve(document: Any, pointer: str) -> str:  # noqa: ANN401 - JSON
    for part in pointer.strip("/").split("/"):
        document = document[int(part) if isinstance(document, list) else part]
    return str(document)


def _fill(text: str, saved: Mapping[str, str]) -> str:
    for name, value in saved.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _as_text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


@dataclass
class PvePlayer:
    """Answers of one recording.

    Attributes:
        recording: The recording.
        position: Position in the recording, an index of a pair.
        host: The node that is asked.
        exact: The only pair that is played; None for the state at the position.
        not_recorded: Requests without a recorded answer.
    """

    recording: Recording
    position: int = 0
    host: str = ""
    exact: Pair | None = None
    not_recorded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host = self.host or next(iter(self.recording.hosts), "")

    def respond(self, request: Request) -> Answer:
        path = unquote(request.path).removeprefix(PREFIX)
        values = dict(request.query if request.method != "POST" else request.form)
        if self.exact is not None:
            return self.exact.exact_answer
        pair = self._find(request.method, path, values)
        data = self._composed(path, values) if request.method == "GET" else None
        if data is not None and (pair is None or pair.status == 200):
            return _success(data)
        if pair is not None and pair.status:
            return pair.answer
        if request.method == "GET" and path in _NEUTRAL:
            return _success(_NEUTRAL[path])
        self.not_recorded.append(f"{request.method} {path}")
        message = f"Method '{request.method} {path}' not implemented"
        body = json.dumps({"data": None, "message": message})
        return Answer(501, message, body.encode())

    def answer(self, path: str, params: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Return the data that `GET` *path* is answered with at the position."""
        data = self._composed(path, params or {})
        if data is not None:
            return data
        pair = self._find("GET", path, params or {})
        if pair is not None and pair.status == 200:
            return pair.data
        return _NEUTRAL[path]

    def _find(self, method: str, path: str, values: Mapping[str, str]) -> Pair | None:
        of_path = [
            pair
            for pair in self._of_login()
            if (pair.method, pair.path) == (method, path)
        ]
        here = [pair for pair in of_path if pair.host == self.host]
        same = [pair for pair in of_path if _is_same(pair.params, values)]
        accepted = [pair for pair in of_path if pair.status not in (400, 501)]
        for candidates in (here, of_path):
            matching = [pair for pair in same if pair in candidates]
            if not matching and method == "GET":
                matching = [pair for pair in accepted if pair in candidates]
            before = [pair for pair in matching if pair.index <= self.position]
            if matching:
                return before[-1] if before else matching[0]
        return None

    def _of_login(self) -> Iterator[Pair]:
        login = self.recording.login
        return (pair for pair in self.recording.pairs if pair.login == login)

    def _before(self) -> Iterator[Pair]:
        """Yield the successful reads at the position that the host answered."""
        for pair in self._of_login():
            is_read = (pair.method, pair.status) == ("GET", 200)
            if is_read and pair.host == self.host and pair.index <= self.position:
                yield pair

    def _composed(self, path: str, values: Mapping[str, str]) -> list[Row] | Row | None:
        """Return a list of the cluster, or the status of a task; None for others."""
        if path == "/cluster/resources":
            wanted = values.get("type")
            return [row for row in self._resources() if _is_wanted(row, wanted)]
        if path == "/cluster/ha/resources" and self._find("GET", path, values) is None:
            manager = self.answer("/cluster/ha/status/manager_status")
            services = manager["manager_status"].get("service_status", {})
            return [{"sid": sid, "state": "started"} for sid in services]
        if found := re.fullmatch(r"/nodes/([^/]+)/tasks/(UPID[^/]+)/status", path):
            known = {row["upid"]: row for row in self._tasks(found[1], None)}
            return _task_status(known[found[2]]) if found[2] in known else None
        if found := re.fullmatch(r"/cluster/tasks|/nodes/([^/]+)/tasks", path):
            rows = self._tasks(found[1], values.get("vmid"))
            return sorted(rows, key=lambda row: -row["starttime"])
        return None

    def _resources(self) -> Iterator[Row]:
        """Yield the rows of nodes, guests and storages, each the latest one."""
        last: dict[str, list[Row]] = {"node": [], "vm": [], "storage": []}
        last["node"] = list(nodes_at_start(self.recording.state))
        last["vm"] = list(guests_at_start(self.recording.state))
        for pair in self._before():
            if pair.path == "/nodes":
                states = {row["node"]: row for row in pair.data}
                last["node"] = [states.get(r["node"], {}) | r for r in last["node"]]
                last["node"] = [
                    row | {"status": states.get(row["node"], row)["status"]}
                    for row in last["node"]
                ]
            elif pair.path == "/cluster/resources":
                for kind in last if not pair.params else (pair.params.get("type"),):
                    if kind in last:
                        found = [row for row in pair.data if _is_wanted(row, kind)]
                        last[kind] = found
        for rows in last.values():
            yield from rows

    def _tasks(self, node: str | None, vmid: str | None) -> Iterator[Row]:
        """Yield the tasks, in the last state in which any call has reported them."""
        tasks: dict[str, Row] = {}
        for pair in self.recording.pairs:
            if pair.index > self.position or pair.status != 200:
                continue
            if pair.method == "POST" and "UPID" in pair.text:
                tasks[str(pair.data)] = _task(str(pair.data))
            elif re.fullmatch(r"/cluster/tasks|/nodes/[^/]+/tasks", pair.path):
                tasks |= {row["upid"]: row for row in pair.data}
            elif re.fullmatch(r"/nodes/[^/]+/tasks/UPID[^/]+/status", pair.path):
                tasks[pair.data["upid"]] = _ended(pair.data)
        for row in tasks.values():
            if node in (None, row["node"]) and vmid in (None, str(row.get("id"))):
                yield row


def nodes_at_start(state: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of nodes according to their load files."""
    for node, text in state["load"].items():
        cpu, maxcpu, mem, maxmem, _ = text.splitlines()[0].split()[1:]
        row: Row = {"id": f"node/{node}", "type": "node", "node": node}
        row |= {"status": "online", "cpu": float(cpu), "maxcpu": int(maxcpu)}
        yield row | {"mem": int(mem), "maxmem": int(maxmem)}


def guests_at_start(state: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of guests according to their configuration files."""
    figures = {
        int(words[1]): words[2:]
        for text in state["load"].values()
        for line in text.splitlines()
        if (words := line.split())[0] == "vm"
    }
    for path, text in state["files"].items():
        match = re.fullmatch(r"nodes/([^/]+)/(qemu-server|lxc)/(\d+)\.conf", path)
        if match is None:
            continue
        vmid, kind = int(match[3]), GUEST_KINDS[match[2]]
        config = dict(re.findall(r"^(\w+): (.*)$", text, re.MULTILINE))
        row: Row = {"id": f"{kind}/{vmid}", "type": kind, "vmid": vmid}
        row |= {"node": match[1], "name": config.get("name") or config.get("hostname")}
        row["status"] = "running" if vmid in state.get("running", ()) else "stopped"
        if vmid in figures:
            cpu, maxcpu, mem, maxmem = map(float, figures[vmid][:4])
            row |= {"cpu": cpu, "maxcpu": maxcpu, "mem": mem, "maxmem": maxmem}
        for name in ("lock", "tags", "template"):
            if name in config:
                row[name] = config[name]
        yield row


def _is_wanted(row: Row, kind: str | None) -> bool:
    return kind is None or row["type"] in (("qemu", "lxc") if kind == "vm" else (kind,))


def _task(upid: str) -> Row:
    _, node, _, _, start, kind, name, user, _ = upid.split(":")
    row = {"upid": upid, "node": node, "type": kind, "id": name, "user": user}
    return row | {"starttime": int(start, 16)}


def _ended(data: Row) -> Row:
    """Return the row of a task in a list from its status."""
    row = {**data, "status": data.get("exitstatus")}
    return row | ({"endtime": row["starttime"]} if data["status"] == "stopped" else {})


def _task_status(row: Row) -> Row:
    """Return the status of a task from its row in a list."""
    if "endtime" not in row:
        return {**row, "status": "running"}
    return {**row, "status": "stopped", "exitstatus": row["status"]}


def _is_same(recorded: Mapping[str, str], values: Mapping[str, str]) -> bool:
    return {k: str(v) for k, v in recorded.items()} == dict(values)


def _success(data: object) -> Answer:
    return Answer(200, "OK", json.dumps({"data": data}).encode())


def positions(pairs: Iterable[Pair], most: int) -> list[int]:
    """Return at most *most* positions of *pairs*, spread evenly."""
    indexes = [pair.index for pair in pairs]
    return indexes[:: -(-len(indexes) // most)] if indexes else []
