"""Which nodes rules leave to a guest, against asking every node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.model import Guest, NodeId, Snapshot
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.memories import no_memory, with_sample
from opendrs.policies.consolidation.neighbours import RulesOfPlaces
from opendrs.policies.consolidation.power import SPECPOWER
from opendrs.policies.consolidation.scene import Scene
from opendrs.rules import Targets
from piles import piles
from strategies import snapshots

POLICY = Consolidate()


def scene_of(snapshot: Snapshot) -> Scene:
    curve = SPECPOWER[POLICY.server]
    memory = with_sample(no_memory(), snapshot, 1)
    return Scene(snapshot, memory, POLICY.limits, curve, wake=False)


def asked(scene: Scene, snapshot: Snapshot, unit: tuple[Guest, ...]) -> Iterator[bool]:
    """Ask every node but that of *unit*, one by one."""
    targets = Targets(snapshot, scene.rules, scene.limits)
    now = tuple(snapshot.guests[guest.id] for guest in unit)
    for name in scene.nodes:
        if name != now[0].node:
            suits = scene.targets.suits(unit, scene.snapshot.nodes[name])
            yield suits and targets.disturbed(now, name) is None


def found(
    scene: Scene, places: RulesOfPlaces, guest: int, home: NodeId
) -> Iterator[bool]:
    open_ = places.open_to(guest)
    for place, name in enumerate(scene.nodes):
        if name != home:
            yield bool(open_[place])


@given(snapshots(settled=True) | piles(), st.data())
def test_what_is_open_is_open_asked_node_by_node(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    scene = scene_of(snapshot)
    places, now = RulesOfPlaces(scene), scene.snapshot
    if not scene.guests:
        return

    for _ in range(3):
        for guest, unit in enumerate(scene.guests):
            home = now.guests[unit[0].id].node
            answers = list(found(scene, places, guest, home))
            event(f"some are closed: {not all(answers)}")
            assert answers == list(asked(scene, now, unit))
        guest = data.draw(st.integers(0, len(scene.guests) - 1))
        target = data.draw(st.integers(0, len(scene.nodes) - 1))
        places.moved(guest, target)
        moved = {
            each.id: replace(each, node=scene.nodes[target])
            for each in scene.guests[guest]
        }
        now = replace(now, guests={**now.guests, **moved})
