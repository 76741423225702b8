"""What happened is told in plain words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import cluster, node
from opendrs.controller.words import has_arrived, joined, too_slow, whereabouts
from opendrs.model import GuestId, NodeId, NodeState, PowerOff, PowerOn, Relocation
from opendrs.ports import Progress
from stage import Stage, migration

MIB = 1 << 20
HERE = cluster({"a": 0.3, "b": 0.1}, {"vm1": ("a", 0.1)})
MOVE = migration("vm1", "a", "b")
A, B = NodeId("a"), NodeId("b")


def test_says_only_what_there_is_to_say() -> None:
    assert joined("", "b died", "", "vm1 is on a") == "b died; vm1 is on a"


@pytest.mark.parametrize(
    ("progress", "speeds"),
    [
        (None, ""),
        (Progress(), ""),
        (Progress(bandwidth=20.0 * MIB), ": 20 MiB/s are sent"),
        (Progress(dirty_rate=30.0 * MIB), ": the guest writes 30 MiB/s"),
        (
            Progress(dirty_rate=30.0 * MIB, bandwidth=20.0 * MIB),
            ": the guest writes 30 MiB/s and 20 MiB/s are sent",
        ),
    ],
)
def test_tells_the_speeds_that_are_known(
    progress: Progress | None, speeds: str
) -> None:
    assert too_slow(MOVE, 60, progress) == f"did not converge within 60 s{speeds}"


@pytest.mark.parametrize("action", [Relocation(GuestId("vm1"), A, B), PowerOn(B)])
def test_only_a_live_migration_converges(action: Relocation | PowerOn) -> None:
    assert too_slow(action, 60, Progress()) == "did not end within 60 s"


def test_tells_where_a_guest_is_and_whether_it_runs() -> None:
    stage = Stage(HERE)
    before = whereabouts(stage.world, MOVE)
    stage.world.kill(A)

    assert before == "vm1 is on a (running)"
    assert whereabouts(stage.world, MOVE) == "vm1 is on a (unknown)"


def test_tells_when_a_guest_is_nowhere_to_be_seen() -> None:
    gone = Stage(replace(HERE, guests={}))
    silent = Stage(HERE)
    silent.world.disconnect()

    assert whereabouts(gone.world, MOVE) == "vm1 is on no node that answers"
    assert whereabouts(silent.world, MOVE) == "where vm1 is now could not be seen"
    assert whereabouts(gone.world, PowerOn(B)) == ""


def test_a_guest_has_arrived_when_it_is_on_the_target_and_not_on_its_way() -> None:
    on_its_way = cluster({"a": 0.3, "b": 0.1}, {"vm1": ("a", 0.1)}, moving={"vm1": "b"})
    there = cluster({"a": 0.3, "b": 0.1}, {"vm1": ("b", 0.1)})

    assert has_arrived(Stage(there).world, MOVE)
    assert not has_arrived(Stage(on_its_way).world, MOVE)
    assert not has_arrived(Stage(HERE).world, MOVE)
    assert not has_arrived(Stage(replace(HERE, guests={})).world, MOVE)


def test_a_node_has_arrived_when_it_is_in_the_state_it_was_sent_to() -> None:
    asleep = node("b", 0.0, state=NodeState.OFFLINE)
    world = Stage(replace(HERE, nodes={**HERE.nodes, B: asleep})).world

    assert has_arrived(world, PowerOn(A))
    assert not has_arrived(world, PowerOff(A))
    assert has_arrived(world, PowerOff(B))
    assert not has_arrived(world, PowerOn(NodeId("z")))
