"""Failures and removals of nodes of recorded clusters, checked in plain Python."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from opendrs.config import snapshot_from
from opendrs.model import DEFAULT_LIMITS, GuestId, NodeId, Snapshot
from opendrs.placement import (
    Scenario,
    ScenarioResult,
    apply_scenario,
    dispensable_nodes,
    failure_tolerance,
)

BESIDE = Path(__file__).parents[3] / "shared"
CLUSTERS = Path(os.environ.get("OPENDRS_SHARED") or BESIDE) / "data" / "clusters"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not CLUSTERS.exists(), reason=f"there is no {CLUSTERS}"),
]


def paths() -> list[Path]:
    return sorted(CLUSTERS.glob("*.json"))  # larger clusters are compressed


@pytest.fixture(params=paths(), ids=lambda path: path.name)
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    path: Path = request.param
    return snapshot_from(json.loads(path.read_bytes()), path.name)


def assert_safe(result: ScenarioResult) -> None:
    """Check memory and rules of the nodes that guests were placed on."""
    after = result.after
    committed: dict[NodeId, int] = dict.fromkeys(after.nodes, 0)
    for guest in after.guests.values():
        limit = guest.limit.memory if guest.limit is not None else 0
        for occupied in guest.occupied_nodes:
            committed[occupied] += limit or guest.usage.memory or 0
    for name in {each.target for each in result.placed}:
        node = after.nodes[name]
        assert node.online
        assert node.capacity is not None
        assert node.usage.memory is not None
        allowed = node.capacity.memory * (1 - DEFAULT_LIMITS.memory_headroom)
        assert node.usage.memory <= allowed + 1
        overcommit = DEFAULT_LIMITS.memory_overcommit
        assert committed[name] <= node.capacity.memory * overcommit + 1
    assert not result.new_violations


def test_failures_agree_with_scenarios(snapshot: Snapshot) -> None:
    tolerance = failure_tolerance(snapshot, DEFAULT_LIMITS)

    intolerated = {each.nodes[0]: each for each in tolerance.single}
    for name in sorted(snapshot.nodes)[:: max(1, len(snapshot.nodes) // 20)]:
        result = apply_scenario(snapshot, Scenario(fail=(name,)), DEFAULT_LIMITS)
        assert_safe(result)
        unplaced = {each.guest for each in result.unplaced} - {*tolerance.bound}
        assert bool(unplaced) is (name in intolerated)


def test_dispensable_nodes_can_be_removed(snapshot: Snapshot) -> None:
    found = dispensable_nodes(snapshot, DEFAULT_LIMITS)

    assert found.nodes
    displaced: set[GuestId] = {
        guest.id
        for guest in snapshot.guests.values()
        if guest.node in found.nodes and guest.is_active
    }
    result = apply_scenario(snapshot, Scenario(remove=found.nodes), DEFAULT_LIMITS)

    assert_safe(result)
    placed = {each.guest for each in result.placed}
    assert placed | {each.guest for each in result.unplaced} == displaced
    assert not result.is_proven or not result.unplaced
