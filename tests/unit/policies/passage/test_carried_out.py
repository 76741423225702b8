"""What was ordered is carried out: the guard objects to nothing on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given, settings

from opendrs.model import GIB, Limits, Network, NodeId, Snapshot
from opendrs.ports import Outcome
from opendrs.scoring import schedule
from opendrs.sim.temper import temper_of
from stage import Stage, outcomes
from upheavals import Upheaval, found, scene, through, upheavals

LIMITS = Limits(memory_headroom=0.0, moves_per_node=9, moves_at_once=9)


def test_a_guest_on_a_detour_goes_on_before_it_has_cooled_down() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")
    stage = Stage(snapshot, LIMITS)

    report = stage.play(*through(snapshot, "x b", "y a").plan.steps)

    assert outcomes(report) == [Outcome.DONE] * 3
    assert stage.elapsed < LIMITS.cooldown
    assert (stage.node_of("x"), stage.node_of("y")) == ("b", "a")


@settings(max_examples=30)
@given(upheavals())
def test_all_that_was_ordered_is_done(upheaval: Upheaval) -> None:
    way = found(upheaval.snapshot, upheaval.journeys)
    stage = Stage(upheaval.snapshot, LIMITS)

    report = stage.play(*way.plan.steps)

    event(f"{len(way.detours)} detours of {len(way.made)}")
    assert set(outcomes(report)) <= {Outcome.DONE}


def told_of_tempers(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* with the dirty rates that its guests have when simulated."""
    guests = {
        name: replace(each, dirty_rate=temper_of(each, seed=0).dirty_rate)
        for name, each in snapshot.guests.items()
    }
    return replace(snapshot, guests=guests)


UPLINK = Network(name="uplink", nodes=(NodeId("c"), NodeId("d")), moves=1)


@pytest.mark.parametrize("networks", [(), (UPLINK,)])
@pytest.mark.parametrize("at_once", [1, 2, 9])
def test_the_schedule_foretells_how_long_a_simulated_cluster_takes(
    at_once: int, networks: tuple[Network, ...]
) -> None:
    at = "p:a:0.2 q:a:0.2 r:a:0.2 s:b:0.3 t:b:0.3 u:c:0.1"
    snapshot = told_of_tempers(scene({"a": 0.9, "b": 0.9, "c": 0.5, "d": 0.0}, at))
    limits = replace(
        LIMITS, moves_at_once=at_once, bandwidth=0.5 * GIB, networks=networks
    )
    plan = through(snapshot, "p b", "q c", "r d", "s d", "t a", "u a").plan
    stage = Stage(snapshot, limits, bandwidth=0.5 * GIB)

    report = stage.play(*plan.steps)

    assert set(outcomes(report)) == {Outcome.DONE}
    assert schedule(plan, snapshot, limits).seconds == pytest.approx(
        stage.elapsed, rel=0.1
    )
