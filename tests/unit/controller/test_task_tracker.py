"""Details of task outcomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.controller.task_tracker import (
    appears_done,
    describe_location,
    join_details,
    timeout_detail,
)
from opendrs.errors import PlatformUnavailableError
from opendrs.model import ColdMigration, GuestId, NodeId, NodeState, PowerOff, PowerOn
from opendrs.ports import Progress
from support.builders import cluster, node
from support.simulated_cluster import SimulatedCluster, migration

MIB = 1 << 20
HERE = cluster({"a": 0.3, "b": 0.1}, {"vm1": ("a", 0.1)})
MOVE = migration("vm1", "a", "b")
A, B = NodeId("a"), NodeId("b")


def test_join_details_skips_empty() -> None:
    assert join_details("", "b died", "", "vm1 is on a") == "b died; vm1 is on a"


@pytest.mark.parametrize(
    ("progress", "speeds"),
    [
        (None, ""),
        (Progress(), ""),
        (Progress(bandwidth=20.0 * MIB), ": bandwidth 20 MiB/s"),
        (Progress(dirty_rate=30.0 * MIB), ": dirty rate 30 MiB/s"),
        (
            Progress(dirty_rate=30.0 * MIB, bandwidth=20.0 * MIB),
            ": dirty rate 30 MiB/s, bandwidth 20 MiB/s",
        ),
    ],
)
def test_timeout_detail_names_known_rates(
    progress: Progress | None, speeds: str
) -> None:
    assert (
        timeout_detail(MOVE, 60, progress)
        == f"timeout: did not converge within 60 s{speeds}"
    )


@pytest.mark.parametrize("action", [ColdMigration(GuestId("vm1"), A, B), PowerOn(B)])
def test_timeout_detail_of_other_actions_has_no_rates(
    action: ColdMigration | PowerOn,
) -> None:
    assert (
        timeout_detail(action, 60, Progress()) == "timeout: did not finish within 60 s"
    )


def test_location_names_node_and_state() -> None:
    simulation = SimulatedCluster(HERE)
    before = describe_location(simulation.simulated_platform, MOVE)
    simulation.simulated_platform.fail_node(A)

    assert before == "vm1 is on a (running)"
    assert (
        describe_location(simulation.simulated_platform, MOVE)
        == "vm1 is on a (unknown)"
    )


def test_location_of_missing_guest_is_reported() -> None:
    gone = SimulatedCluster(replace(HERE, guests={}))
    silent = SimulatedCluster(HERE)
    silent.simulated_platform.disconnect()

    assert (
        describe_location(gone.simulated_platform, MOVE)
        == "vm1 is on no reachable node"
    )
    assert (
        describe_location(silent.simulated_platform, MOVE)
        == "location of vm1 unknown: platform unreachable"
    )
    assert describe_location(gone.simulated_platform, PowerOn(B)) == ""


def test_migration_appears_done_on_target_only() -> None:
    migrating = cluster({"a": 0.3, "b": 0.1}, {"vm1": ("a", 0.1)}, moving={"vm1": "b"})
    there = cluster({"a": 0.3, "b": 0.1}, {"vm1": ("b", 0.1)})

    assert appears_done(SimulatedCluster(there).simulated_platform, MOVE)
    assert not appears_done(SimulatedCluster(migrating).simulated_platform, MOVE)
    assert not appears_done(SimulatedCluster(HERE).simulated_platform, MOVE)
    assert not appears_done(
        SimulatedCluster(replace(HERE, guests={})).simulated_platform, MOVE
    )


@pytest.mark.parametrize("silent", [A, B])
def test_end_of_migration_is_unknown_while_its_nodes_hide_the_guest(
    silent: NodeId,
) -> None:
    nodes = {**HERE.nodes, silent: node(silent, 0.0, state=NodeState.UNKNOWN)}
    hidden = SimulatedCluster(replace(HERE, nodes=nodes, guests={}))

    with pytest.raises(PlatformUnavailableError, match=f"{silent} does not respond"):
        appears_done(hidden.simulated_platform, MOVE)


def test_end_of_power_action_is_unknown_while_node_is_unreachable() -> None:
    nodes = {**HERE.nodes, B: node("b", 0.0, state=NodeState.UNKNOWN)}
    silent = SimulatedCluster(replace(HERE, nodes=nodes)).simulated_platform

    with pytest.raises(PlatformUnavailableError, match="b does not respond"):
        appears_done(silent, PowerOff(B))


def test_power_action_appears_done_in_target_state() -> None:
    powered_off = node("b", 0.0, state=NodeState.OFFLINE)
    world = SimulatedCluster(
        replace(HERE, nodes={**HERE.nodes, B: powered_off})
    ).simulated_platform

    assert appears_done(world, PowerOn(A))
    assert not appears_done(world, PowerOff(A))
    assert appears_done(world, PowerOff(B))
    assert not appears_done(world, PowerOn(NodeId("z")))
