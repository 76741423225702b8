"""Snapshots that cannot be, or leave nothing to plan: a few lines, and the status."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import cluster
from opendrs.platforms.file import json_text
from terminal import Opendrs

Document = dict[str, Any]
Change = Callable[[Document], object]
SOUND = json_text(
    cluster(nodes={"a": 0.6, "b": 0.1}, guests={"x": ("a", 0.2), "y": ("a", 0.2)})
)
COMMANDS = [("plan",), ("plan", "--policy", "optimize"), ("compare",)]


def at(*place: str, value: object) -> Change:
    """Return what puts *value* at *place* of a document."""

    def change(document: Document) -> None:
        for key in place[:-1]:
            document = document[key]
        document[place[-1]] = value

    return change


def each_node(**changes: object) -> Change:
    def change(document: Document) -> None:
        for node in document["nodes"].values():
            node.update(changes)

    return change


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            at("guests", "x", "usage", "cpu", value=float("nan")),
            "guests.x.usage.cpu: expected a finite number, found NaN",
        ),
        (
            at("nodes", "a", "usage", "cpu", value=float("inf")),
            "nodes.a.usage.cpu: expected a finite number, found Infinity",
        ),
        (
            at("guests", "x", "usage", "memory", value=-1),
            "guests.x.usage.memory: expected 0 or more, found -1",
        ),
        (
            at("guests", "x", "pressure", value={"cpu": {"some": 1.5}}),
            "guests.x.pressure.cpu.some: expected at most 1, found 1.5",
        ),
        (
            at("nodes", "a", "capacity", "cpu", value=0),
            "nodes.a.capacity.cpu: expected 0.001 or more, found 0",
        ),
        (
            at("guests", "x", "node", value="nowhere"),
            'guests.x.node: there is no node "nowhere"',
        ),
        (
            at(
                "rules",
                value=[{"kind": "node-affinity", "guests": ["x"], "nodes": {"c": 0}}],
            ),
            'rules[0].nodes: there is no node "c"',
        ),
        (
            at("rules", value=[{"kind": "anti-affinity", "guests": ["x", "z"]}]),
            'rules[0].guests: there is no guest "z"',
        ),
        (
            at("rules", value=[{"kind": "anti-affinity", "guests": ["x", "x"]}]),
            'rules[0].guests: expected each name only once, found ["x", "x"]',
        ),
    ],
)
def test_what_cannot_be_is_told_with_its_place(
    opendrs: Opendrs, command: tuple[str, ...], change: Change, told: str
) -> None:
    document = json.loads(SOUND)
    change(document)
    Path("bad.json").write_text(json.dumps(document))

    answer = opendrs(*command, "bad.json")

    assert (answer.status, answer.out) == (2, "")
    assert answer.err == f"opendrs: bad.json: {told}\n"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "bad.json is empty"),
        (gzip.compress(SOUND.encode()), "bad.json is compressed: unpack it first"),
        (
            SOUND.replace('"y"', '"x"').encode(),
            "bad.json: guests.x: this key stands more than once",
        ),
    ],
)
def test_files_that_hold_no_snapshot_are_told(
    opendrs: Opendrs, command: tuple[str, ...], content: bytes, told: str
) -> None:
    Path("bad.json").write_bytes(content)

    answer = opendrs(*command, "bad.json")

    assert (answer.status, answer.out, answer.err) == (2, "", f"opendrs: {told}\n")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (each_node(state="offline"), "not-measured - no node is online"),
        (lambda found: found.update(nodes={}, guests={}), "not-measured - no node"),
        (at("guests", value={}), "no feasible move - no guest may be moved"),
        (lambda found: found["nodes"].pop("b"), "balanced - unevenness 0.000"),
        (at("nodes", "b", "usage", value={}), "not-measured - node b has no usage"),
    ],
)
def test_where_nothing_can_be_planned_it_is_said_why(
    opendrs: Opendrs, change: Change, told: str
) -> None:
    document = json.loads(SOUND)
    change(document)
    Path("bare.json").write_text(json.dumps(document))

    answer = opendrs("plan", "bare.json", "--policy", "optimize")

    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith(f"optimize: {told}")
    assert answer.out.endswith("There is nothing to do.\n")
