"""Snapshots that cannot be, or leave nothing to plan: a few lines, and the status."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opendrs.config import json_text
from support.builders import cluster
from support.terminal import RunOpendrs

Document = dict[str, Any]
Change = Callable[[Document], object]
VALID_SNAPSHOT = json_text(
    cluster(nodes={"a": 0.6, "b": 0.1}, guests={"x": ("a", 0.2), "y": ("a", 0.2)})
)
COMMANDS = [("plan",), ("plan", "--policy", "optimize"), ("compare",)]


def set_value(*place: str, value: object) -> Change:
    """Return what puts *value* at *place* of a document."""

    def change(document: Document) -> None:
        for key in place[:-1]:
            document = document[key]
        document[place[-1]] = value

    return change


def change_nodes(**changes: object) -> Change:
    def change(document: Document) -> None:
        for node in document["nodes"].values():
            node.update(changes)

    return change


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("change", "output"),
    [
        (
            set_value("guests", "x", "usage", "cpu", value=float("nan")),
            "guests.x.usage.cpu: expected a finite number, got NaN",
        ),
        (
            set_value("nodes", "a", "usage", "cpu", value=float("inf")),
            "nodes.a.usage.cpu: expected a finite number, got Infinity",
        ),
        (
            set_value("guests", "x", "usage", "memory", value=-1),
            "guests.x.usage.memory: expected 0 or more, got -1",
        ),
        (
            set_value("guests", "x", "pressure", value={"cpu": {"some": 1.5}}),
            "guests.x.pressure.cpu.some: expected at most 1, got 1.5",
        ),
        (
            set_value("nodes", "a", "capacity", "cpu", value=0),
            "nodes.a.capacity.cpu: expected 0.001 or more, got 0",
        ),
        (
            set_value("guests", "x", "node", value="nowhere"),
            'guests.x.node: unknown node "nowhere"',
        ),
        (
            set_value(
                "rules",
                value=[{"kind": "node-affinity", "guests": ["x"], "nodes": {"c": 0}}],
            ),
            'rules[0].nodes: unknown node "c"',
        ),
        (
            set_value("rules", value=[{"kind": "anti-affinity", "guests": ["x", "z"]}]),
            'rules[0].guests: unknown guest "z"',
        ),
        (
            set_value("rules", value=[{"kind": "anti-affinity", "guests": ["x", "x"]}]),
            'rules[0].guests: expected each name only once, got ["x", "x"]',
        ),
    ],
)
def test_impossible_value_is_reported_with_its_path(
    opendrs: RunOpendrs, command: tuple[str, ...], change: Change, output: str
) -> None:
    document = json.loads(VALID_SNAPSHOT)
    change(document)
    Path("bad.json").write_text(json.dumps(document))

    answer = opendrs(*command, "bad.json")

    assert (answer.status, answer.out) == (2, "")
    assert answer.err == f"opendrs: bad.json: {output}\n"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("content", "output"),
    [
        (b"", "bad.json: empty file"),
        (
            gzip.compress(VALID_SNAPSHOT.encode()),
            "bad.json: compressed; decompress it first",
        ),
        (
            VALID_SNAPSHOT.replace('"y"', '"x"').encode(),
            "bad.json: guests.x: duplicate key; remove all but one",
        ),
    ],
)
def test_file_without_snapshot_is_rejected(
    opendrs: RunOpendrs, command: tuple[str, ...], content: bytes, output: str
) -> None:
    Path("bad.json").write_bytes(content)

    answer = opendrs(*command, "bad.json")

    assert (answer.status, answer.out, answer.err) == (2, "", f"opendrs: {output}\n")


@pytest.mark.parametrize(
    ("change", "output"),
    [
        (change_nodes(state="offline"), "metrics missing: no node is online"),
        (lambda found: found.update(nodes={}, guests={}), "metrics missing: no node"),
        (set_value("guests", value={}), "no feasible move: no guest may migrate"),
        (lambda found: found["nodes"].pop("b"), "balanced: imbalance (RMS deviation "),
        (
            set_value("nodes", "b", "usage", value={}),
            "metrics missing: node b has no usage",
        ),
    ],
)
def test_empty_plan_states_its_reason(
    opendrs: RunOpendrs, change: Change, output: str
) -> None:
    document = json.loads(VALID_SNAPSHOT)
    change(document)
    Path("bare.json").write_text(json.dumps(document))

    answer = opendrs("plan", "bare.json", "--policy", "optimize")

    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith(f"optimize: {output}")
    assert answer.out.endswith("The plan has no steps.\n")
