"""What is proposed is safe and true, whatever was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from builders import cluster
from opendrs.model import (
    GIB,
    GuestId,
    Limits,
    Migration,
    NodeId,
    NodeState,
    PowerOff,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies import Consolidate, Decision, Reason
from opendrs.policies.consolidation.detection import Tallies
from opendrs.policies.consolidation.memories import no_memory, with_sample
from opendrs.policies.consolidation.moves import Moves
from opendrs.policies.consolidation.neighbours import RulesOfPlaces
from opendrs.policies.consolidation.packing import Packing, Shift
from opendrs.policies.consolidation.power import SPECPOWER
from opendrs.policies.consolidation.proposal import Proposal
from opendrs.policies.consolidation.scene import Scene
from opendrs.policies.consolidation.strategy import Detection

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
POLICY = Consolidate(detector=Detection.LAST_N_AVERAGE, last_n=1, power=True)
ALL = Limits(memory_headroom=0.0)


def proposed(snapshot: Snapshot, *moves: str) -> Decision[None]:
    """Return what is proposed when node a is emptied by moves like "x b"."""
    memory = with_sample(no_memory(), snapshot, 1)
    scene = Scene(snapshot, memory, ALL, SPECPOWER[POLICY.server], wake=True)
    strategy = POLICY.strategy(1)
    packing = Packing(1, scene.fleet, scene.crowd, RulesOfPlaces(scene))
    shifts = [_shift(scene, *move.split()) for move in moves]
    for shift in shifts:
        packing.put(shift.guest, shift.target)
    nobody = np.zeros(len(scene.nodes), np.bool_)
    decided = Moves([], [shifts], nobody, Tallies.none(len(nobody)), packing)
    return Proposal(scene, decided, strategy, power=True).decision(None)


def _shift(scene: Scene, guest: str, target: str) -> Shift:
    names = [unit[0].id for unit in scene.guests]
    place = names.index(GuestId(guest))
    return Shift(place, scene.index[A], scene.index[NodeId(target)])


def actions(decision: Decision[None]) -> Sequence[object]:
    return [step.action for step in decision.plan.steps]


def test_a_host_that_all_have_left_is_put_to_sleep() -> None:
    snapshot = cluster(
        {"a": 0.2, "b": 0.5, "c": 0.1},
        {"x": ("a", 0.1), "w": ("a", 0.1), "y": ("b", 0.5), "z": ("c", 0.1)},
    )

    decision = proposed(snapshot, "x b", "w c")

    assert actions(decision) == [
        Migration(GuestId("x"), A, B),
        Migration(GuestId("w"), A, C),
        PowerOff(A),
    ]
    assert decision.reason is Reason.SAVES_POWER
    assert decision.after["hosts_on"] == 2


def test_who_cannot_go_stays_and_its_host_with_it() -> None:
    snapshot = cluster(
        {"a": 0.2, "b": 0.95, "c": 0.1},
        {"x": ("a", 0.1), "w": ("a", 0.1), "y": ("b", 0.95), "z": ("c", 0.1)},
    )

    decision = proposed(snapshot, "x b", "w c")

    assert actions(decision) == [Migration(GuestId("w"), A, C)]
    assert decision.after["hosts_on"] == decision.after["active_hosts"] == 3
    assert decision.notes == (
        "given up, because there is no safe way: x stay where they are",
    )


def test_no_host_is_woken_for_who_cannot_go() -> None:
    snapshot = cluster({"a": 0.1, "b": 0.5, "c": None}, {"x": ("a", 0.1)})
    small = replace(
        snapshot.nodes[C],
        state=NodeState.OFFLINE,
        capacity=Resources(10, 5 * GIB),
        usage=Usage(),
    )
    snapshot = replace(snapshot, nodes={**snapshot.nodes, C: small})

    decision = proposed(snapshot, "x c")

    assert actions(decision) == [PowerOff(B)]
    assert decision.after["hosts_on"] == decision.after["active_hosts"] == 1
    assert any("x stay where they are" in note for note in decision.notes)
