"""Answers of the double compared with recorded ones, for the calls of the client.

The double starts from the configuration files of a recording. Statuses, reasons and the
errors of parameters are compared; figures and tasks of the recorded cluster are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from support.https_server import Answer, Request
from support.pve_access import TOKEN, USER
from support.pve_cluster import PveCluster, PveGuest, PveNode
from support.pve_double import LOGIN, PREFIX, PveDouble
from support.pve_player import Pair, Recording
from support.pve_schema import SCHEMA, SHARED

pytestmark = pytest.mark.shared

FOLDER = SHARED / "data" / "pve-api" / "recorded"
# The client sends these; the others of the recordings are for other programs.
CALLS = (
    r"GET /version",
    r"GET /access/permissions",
    r"GET /cluster/(status|resources|options|tasks)",
    r"GET /cluster/ha/(resources|rules|groups|status/manager_status)",
    r"GET /nodes/[^/]+/(status|rrddata|qemu|lxc)",
    r"GET /nodes/[^/]+/(qemu|lxc)/\d+/(config|migrate)",
    r"POST /nodes/[^/]+/(qemu|lxc)/\d+/migrate",
    r"GET /nodes/[^/]+/tasks(/UPID[^/]+/log)?",
    r"DELETE /nodes/[^/]+/tasks/UPID[^/]+",
)
# Parameters of the reads of the client.
SENT = {"type", "timeframe", "target", "vmid", "source", "limit"}
# Recordings in which the state at the start determines the answers.
KINDS = (
    *("privileges", "parameters", "guests", "read", "filters", "moves"),
    *("authentication", "options", "rrddata", "load"),
)
# Paths and parameters whose answers the double does not give, with the reason.
NOT_REPRODUCED = {
    ("/access/permissions", "userid"): "its pattern is of another dialect; the client "
    "asks for its own permissions only",
}


def files() -> list[Any]:
    found = [
        path
        for path in sorted(FOLDER.glob("*.json"))
        if json.loads(path.read_text())["kind"] in KINDS
    ]
    if not found:
        reason = f"no recordings in {FOLDER}; set OPENDRS_SHARED"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(path, id=path.stem) for path in found]


def double_of(recording: Recording) -> PveDouble:
    """Return a double with the configuration of the recorded cluster."""
    cluster = PveCluster()
    nodes = tuple(recording.state["load"])
    cluster.add(*map(PveNode, nodes))
    running = set(recording.state.get("running", ()))
    storages = recording.state["files"].get("storage.cfg", "")
    for path, text in recording.state["files"].items():
        match = re.fullmatch(r"nodes/([^/]+)/(qemu-server|lxc)/(\d+)\.conf", path)
        if match is not None:
            guest = guest_of(match, text, storages, nodes)
            guest.status = "running" if guest.vmid in running else "stopped"
            cluster.add(guest)
    double = PveDouble(cluster)
    grant(double, recording)
    return double


def guest_of(
    match: re.Match[str], text: str, storages: str, nodes: Iterable[str]
) -> PveGuest:
    config = dict(re.findall(r"^(\w+): (.*)$", text.partition("\n[")[0], re.MULTILINE))
    disks = [
        value.partition(",")[0]
        for key, value in config.items()
        if re.fullmatch(r"(scsi|virtio|ide|sata|mp)\d+|rootfs", key) and ":" in value
    ]
    only = dict(
        re.findall(r"^dir: (\w+)\n(?:\t.*\n)*?\tnodes (\S+)", storages, re.MULTILINE)
    )
    lacking = {
        node: storage
        for disk in disks
        if (storage := disk.partition(":")[0]) in only
        for node in nodes
        if node not in only[storage].split(",")
    }
    return PveGuest(
        int(match[3]),
        str(config.get("name", config.get("hostname", ""))),
        match[1],
        kind="lxc" if match[2] == "lxc" else "qemu",
        lock=config.get("lock"),
        template=config.get("template") == "1",
        lacking=lacking,
    )


def grant(double: PveDouble, recording: Recording) -> None:
    """Give the login of the double the rights that the recorded one has."""
    lines = recording.state["files"]["user.cfg"].splitlines()
    login = recording.login
    owner = login.partition("!")[0]
    access = double.access
    access.separated = any(
        parts[1] == login and parts[3] == "1"
        for line in lines
        if (parts := line.split(":"))[0] == "token"
    )
    access.pools = {
        vmid: parts[1]
        for line in lines
        if (parts := line.split(":"))[0] == "pool"
        for vmid in filter(None, parts[3].split(","))
    }
    access.roles = {
        parts[1]: set(parts[2].split(","))
        for line in lines
        if (parts := line.split(":"))[0] == "role"
    }
    access.acl = {
        (parts[2], USER if parts[3] == owner else TOKEN): {parts[4]}
        for line in lines
        if (parts := line.split(":"))[0] == "acl" and parts[3] in (owner, login)
    }
    if owner == "root@pam":  # which has every privilege
        access.roles["Administrator"] = all_privileges()
        access.acl["/", USER] = {"Administrator"}


def all_privileges() -> set[str]:
    """Return all privileges that the API description names."""
    return set(
        re.findall(r'"([A-Z][A-Za-z]+(?:\.[A-Z][A-Za-z]+)+)"', SCHEMA.read_text())
    )


def is_compared(pair: Pair, recording: Recording) -> bool:
    """Return True for calls of the client whose answer the double may know.

    It does not know those about a guest that an earlier request has moved, and errors
    inside the server, about files that only an editor can write.
    """
    return (
        pair.login == recording.login
        and pair.status != 401  # the golden answers have those
        and any(re.fullmatch(call, f"{pair.method} {pair.path}") for call in CALLS)
        and not any((pair.path, name) in NOT_REPRODUCED for name in pair.params)
        and pair.is_plain
        and " at /usr/share/perl5" not in pair.reason
        and not any(is_earlier_move(other, pair) for other in recording.pairs)
    )


def is_earlier_move(other: Pair, pair: Pair) -> bool:
    """Return True if *other* has started a migration of the guest of *pair*."""
    guest = re.match(r"/nodes/[^/]+/(qemu|lxc)/(\d+)/", pair.path)
    return (
        guest is not None
        and (other.method, other.status) == ("POST", 200)
        and other.index < pair.index
        and re.match(rf"/nodes/[^/]+/{guest[1]}/{guest[2]}/", other.path) is not None
    )


@pytest.mark.parametrize("path", files())
def test_double_answers_as_recorded(path: Path) -> None:
    recording = Recording.load(path)
    differences: list[object] = []

    for pair in recording.pairs:
        if is_compared(pair, recording):
            answer = respond(double_of(recording), pair)
            if answer != expected(pair):
                differences.append((pair.index, pair.method, pair.path, pair.params))
                differences.append((answer, expected(pair)))

    assert differences == []


@pytest.mark.parametrize("path", files())
def test_double_answers_in_the_recorded_form(path: Path) -> None:
    """The double has no key that the recorded answer lacks, nor one of another type."""
    recording = Recording.load(path)

    for pair in filter(is_sent_read, recording.pairs):
        if not is_compared(pair, recording):
            continue
        answer = send(double_of(recording), pair)
        found = forms(json.loads(answer.body)["data"], pair)
        recorded = forms(pair.data, pair)
        if recorded.keys() <= {"time"}:  # no rows, or a node without figures
            continue
        assert found.keys() <= recorded.keys(), pair.path
        for key, kinds in found.items():
            assert kinds <= recorded[key], (pair.path, key)


def is_sent_read(pair: Pair) -> bool:
    """Return True for a successful read with parameters that the client sends."""
    is_read = (pair.method, pair.status) == ("GET", 200)
    return is_read and pair.params.keys() <= SENT and not pair.path.endswith("/config")


def forms(data: object, pair: Pair) -> dict[str, set[str]]:
    """Return the types of each key of an answer, or of the rows of a list."""
    if isinstance(data, list):
        rows = [row for row in data if isinstance(row, dict)]
    elif pair.path == "/access/permissions" or not isinstance(data, dict):
        rows = []  # its keys are paths
    else:
        rows = [data]
    found: dict[str, set[str]] = {}
    for row in rows:
        for key, value in row.items():
            kind = "number" if isinstance(value, int | float) else type(value).__name__
            found.setdefault(key, set()).add(kind)
    return found


def send(double: PveDouble, pair: Pair) -> Answer:
    """Return the answer of *double* to the recorded request."""
    sent = tuple(
        (name, each) for name, value in pair.params.items() for each in repeated(value)
    )
    in_body = pair.method == "POST"
    return double.respond(
        Request(
            pair.method,
            PREFIX + pair.path,
            () if in_body else sent,
            {"authorization": f"PVEAPIToken={LOGIN}"},
            urlencode(sent).encode() if in_body else b"",
        )
    )


def respond(double: PveDouble, pair: Pair) -> tuple[int, str, list[str]]:
    answer = send(double, pair)
    return summary(answer.status, answer.reason, answer.body.decode())


def repeated(value: str) -> list[str]:
    """Return the values of a parameter that may have been sent several times."""
    return re.findall(r"'([^']*)'", value) if value.startswith("[") else [value]


def expected(pair: Pair) -> tuple[int, str, list[str]]:
    return summary(pair.status, pair.reason, pair.text)


def summary(status: int, reason: str, text: str) -> tuple[int, str, list[str]]:
    errors = json.loads(text).get("errors", {}) if status == 400 else {}
    return status, reason, sorted(f"{name}: {each}" for name, each in errors.items())
