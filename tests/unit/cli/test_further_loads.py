"""Further loads in the commands `plan`, `check` and `what-if`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opendrs.config import write_snapshot
from opendrs.model import NodeState
from support.builders import partly_compared
from support.terminal import RunOpendrs

WEIGHTED = """
[policy]
name = "optimize"

[[limits.loads]]
name = "network"
weight = 1.0
"""


@pytest.fixture
def weighted() -> tuple[str, str, str]:
    """Return the arguments for a cluster, and a configuration with a further load."""
    write_snapshot(partly_compared(), Path("c.json"))
    Path("opendrs.toml").write_text(WEIGHTED)
    return "c.json", "--config", "opendrs.toml"


def test_headline_metrics_and_distance_of_a_plan_agree(
    opendrs: RunOpendrs, weighted: tuple[str, str, str]
) -> None:
    text = opendrs("plan", *weighted, "--all").out
    found = json.loads(opendrs("plan", *weighted, "--format", "json").out)

    rows = [" ".join(row.split()) for row in text.splitlines()]
    name = "imbalance (RMS deviation from the balanced load)"
    assert f"{name} 0.408 → 0.186;" in rows[0]
    assert any(f"{name}: 0.1863 with this plan; at least" in row for row in rows)
    assert f"{name} 0.408 0.186" in rows
    measured = [found[when]["rms_imbalance"] for when in ("before", "after")]
    assert measured == pytest.approx([0.40825, 0.18634], abs=1e-5)


MISNAMED = """
[platform.saved]
kind = "file"
path = "c.json"

[[limits.loads]]
name = "network"
weight = 1.0

[[limits.loads]]
name = "netwrok"
threshold = 0.7
"""
UNKNOWN_LOAD = (
    'unknown load "netwrok": no node and no guest has it; known loads: "network"; '
    "did you mean network?"
)


@pytest.mark.parametrize("source", ["opendrs.toml", "saved"])
def test_check_warns_of_a_load_that_nothing_has(
    opendrs: RunOpendrs, source: str
) -> None:
    write_snapshot(partly_compared(), Path("c.json"))
    Path("opendrs.toml").write_text(MISNAMED)
    arguments = ("check", source, "--config", "opendrs.toml")

    answer = opendrs(*arguments)
    found = json.loads(opendrs(*arguments, "--format", "json").out)

    assert answer.status == 0
    line = f"opendrs: warning: {source}: limits.loads[1].name: {UNKNOWN_LOAD}"
    assert line in answer.err.splitlines()
    assert found["valid"]
    assert found["diagnostics"] == [
        {
            "severity": "warning",
            "code": "unknown-name",
            "file": source,
            "field": "limits.loads[1].name",
            "message": UNKNOWN_LOAD,
        }
    ]


def test_online_check_fails_for_a_load_that_nothing_has(opendrs: RunOpendrs) -> None:
    write_snapshot(partly_compared(), Path("c.json"))
    Path("opendrs.toml").write_text(MISNAMED)

    answer = opendrs("check", "opendrs.toml", "--online", "--format", "json")

    assert answer.status == 1
    failed = [each for each in json.loads(answer.out)["online"] if not each["ok"]]
    assert [each["subject"] for each in failed] == ["names in limits"]
    assert failed[0]["detail"] == f"limits.loads[1].name: {UNKNOWN_LOAD}"


def test_loads_are_not_checked_while_no_node_is_online(opendrs: RunOpendrs) -> None:
    snapshot = partly_compared()
    nodes = {
        name: replace(node, state=NodeState.UNKNOWN, loads={}, load_capacities={})
        for name, node in snapshot.nodes.items()
    }
    guests = {name: replace(guest, loads={}) for name, guest in snapshot.guests.items()}
    write_snapshot(replace(snapshot, nodes=nodes, guests=guests), Path("c.json"))
    Path("opendrs.toml").write_text(MISNAMED)

    found = json.loads(opendrs("check", "opendrs.toml", "--format", "json").out)

    assert found["diagnostics"] == []


def test_load_that_only_guests_or_capacities_have_is_known(opendrs: RunOpendrs) -> None:
    snapshot = partly_compared()
    nodes = {
        name: replace(node, loads={}, load_capacities={})
        for name, node in snapshot.nodes.items()
    }
    first, *_ = nodes
    nodes[first] = replace(nodes[first], load_capacities={"netwrok": 1.0})
    write_snapshot(replace(snapshot, nodes=nodes), Path("c.json"))
    Path("opendrs.toml").write_text(MISNAMED)

    found = json.loads(opendrs("check", "opendrs.toml", "--format", "json").out)

    assert found["diagnostics"] == []
