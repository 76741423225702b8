"""Player of recorded answers of a Proxmox VE cluster.

At each position in a recording, the player answers what a client asks with the answer
recorded last at that position, or with the next one if there is none before.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from support.https_server import Answer, Request

PREFIX = "/api2/json"
_NEUTRAL: Mapping[str, object] = {
    "/version": {"version": "9.2.11", "release": "9.2", "repoid": "lab"},
    "/access/permissions": {
        "/": dict.fromkeys(("Sys.Audit", "VM.Audit", "VM.Migrate"), 1)
    },
    "/cluster/status": [],
    "/cluster/resources": [],
    "/cluster/tasks": [],
    "/cluster/options": {},
    "/cluster/ha/resources": [],
    "/cluster/ha/rules": [],
    "/cluster/ha/status/manager_status": {"manager_status": {}},
}


@dataclass(frozen=True)
class Pair:
    """A recorded request and its answer, with saved values put in."""

    index: int
    method: str
    path: str
    params: Mapping[str, str]
    auth: Mapping[str, Any]
    status: int
    reason: str
    text: str
    note: str

    @property
    def answer(self) -> Answer:
        return Answer(self.status, self.reason, self.text.encode())

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
    def token(self) -> str | None:
        """Return the token that sent most of the requests."""
        counts = Counter(pair.auth.get("token") for pair in self.pairs)
        return counts.most_common(1)[0][0]

    @classmethod
    def load(cls, path: Path) -> Recording:
        document = json.loads(path.read_text())
        return cls(
            document["scenario"],
            document["kind"],
            document["state"],
            tuple(_pairs(document["steps"])),
        )


def _pairs(steps: list[dict[str, Any]]) -> list[Pair]:
    saved: dict[str, str] = {}
    pairs = []
    for index, step in enumerate(steps):
        if "method" not in step:
            continue
        text = step.get("text")
        if text is None:
            body = step.get("body")
            text = body if isinstance(body, str) else json.dumps(body)
        for name, pointer in step.get("save", {}).items():
            saved[name] = _resolve(json.loads(text), pointer)
        pairs.append(
            Pair(
                index,
                step["method"],
                unquote(_fill(step["path"], saved)),
                {
                    k: _fill(_as_text(v), saved)
                    for k, v in step.get("params", {}).items()
                },
                step.get("auth_detail", {}),
                step["status"],
                step["reason"],
                text,
                step.get("note", ""),
            )
        )
    return pairs


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
        exact: The only pair that is played; None for the state at the position.
        not_recorded: Requests without a recorded answer.
    """

    recording: Recording
    position: int = 0
    exact: Pair | None = None
    not_recorded: list[str] = field(default_factory=list)

    def respond(self, request: Request) -> Answer:
        path = unquote(request.path).removeprefix(PREFIX)
        values = dict(request.query if request.method != "POST" else request.form)
        if self.exact is not None:
            return self.exact.answer
        pair = self._find(request.method, path, values)
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
        pair = self._find("GET", path, params or {})
        if pair is not None and pair.status == 200:
            return pair.data
        return _NEUTRAL[path]

    def _find(self, method: str, path: str, values: Mapping[str, str]) -> Pair | None:
        of_path = [
            pair
            for pair in self.recording.pairs
            if (pair.method, pair.path) == (method, path)
            and pair.auth.get("token") == self.recording.token
        ]
        same = [pair for pair in of_path if _is_same(pair.params, values)]
        accepted = [pair for pair in of_path if pair.status not in (400, 501)]
        matching = same or (accepted if method == "GET" else [])
        before = [pair for pair in matching if pair.index <= self.position]
        return before[-1] if before else next(iter(matching), None)


def _is_same(recorded: Mapping[str, str], values: Mapping[str, str]) -> bool:
    return {k: str(v) for k, v in recorded.items()} == dict(values)


def _success(data: object) -> Answer:
    return Answer(200, "OK", json.dumps({"data": data}).encode())
