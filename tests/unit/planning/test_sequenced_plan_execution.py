"""Execution of sequenced plans without rejections by the guard."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given, settings

from opendrs.model import GIB, Limits, Network, NodeId, Snapshot
from opendrs.planning import estimate_schedule
from opendrs.ports import Outcome
from opendrs.simulation.migration_model import guest_behavior
from support.sequencing_cases import (
    SequencingCase,
    sequence,
    sequence_texts,
    sequencing_cases,
    small_cluster,
)
from support.simulated_cluster import SimulatedCluster, outcomes

LIMITS = Limits(
    memory_headroom=0.0, max_migrations_per_node=9, max_parallel_migrations=9
)


def test_a_guest_on_a_detour_goes_on_before_it_has_cooled_down() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")
    stage = SimulatedCluster(snapshot, LIMITS)

    report = stage.execute(*sequence_texts(snapshot, "x b", "y a").plan.steps)

    assert outcomes(report) == [Outcome.DONE] * 3
    assert stage.elapsed < LIMITS.cooldown
    assert (stage.node_of("x"), stage.node_of("y")) == ("b", "a")


@settings(max_examples=30)
@given(sequencing_cases())
def test_all_steps_of_sequenced_plan_are_done(case: SequencingCase) -> None:
    sequenced = sequence(case.snapshot, case.moves)
    stage = SimulatedCluster(case.snapshot, LIMITS)

    report = stage.execute(*sequenced.plan.steps)

    event(f"{len(sequenced.detours)} detours of {len(sequenced.ordered_moves)}")
    assert set(outcomes(report)) <= {Outcome.DONE}


def with_simulated_dirty_rates(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* with the dirty rates that its guests have when simulated."""
    guests = {
        name: replace(each, dirty_rate=guest_behavior(each, seed=0).dirty_rate)
        for name, each in snapshot.guests.items()
    }
    return replace(snapshot, guests=guests)


UPLINK = Network(
    name="uplink", nodes=(NodeId("c"), NodeId("d")), max_parallel_migrations=1
)


@pytest.mark.parametrize("networks", [(), (UPLINK,)])
@pytest.mark.parametrize("max_parallel", [1, 2, 9])
def test_schedule_estimates_duration_of_simulated_execution(
    max_parallel: int, networks: tuple[Network, ...]
) -> None:
    at = "p:a:0.2 q:a:0.2 r:a:0.2 s:b:0.3 t:b:0.3 u:c:0.1"
    snapshot = with_simulated_dirty_rates(
        small_cluster({"a": 0.9, "b": 0.9, "c": 0.5, "d": 0.0}, at)
    )
    limits = replace(
        LIMITS,
        max_parallel_migrations=max_parallel,
        bandwidth=0.5 * GIB,
        networks=networks,
    )
    plan = sequence_texts(snapshot, "p b", "q c", "r d", "s d", "t a", "u a").plan
    stage = SimulatedCluster(snapshot, limits, bandwidth=0.5 * GIB)

    report = stage.execute(*plan.steps)

    assert set(outcomes(report)) == {Outcome.DONE}
    assert estimate_schedule(plan, snapshot, limits).seconds == pytest.approx(
        stage.elapsed, rel=0.1
    )
