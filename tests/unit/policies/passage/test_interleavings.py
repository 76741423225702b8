"""Whatever is to change places: the way is safe, and no wait is for nothing."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from builders import cluster
from opendrs.policies.passage import Detours, Passage
from oracles.passage import faults
from oracles.placement import breaks, placement
from oracles.worst import ancestors, hasty, unsafe
from upheavals import ALL, ANY, NONE, Upheaval, found, upheavals

DETOURS = st.sampled_from([NONE, ANY])


def passed(upheaval: Upheaval) -> Passage:
    return found(upheaval.snapshot, upheaval.journeys)


@settings(max_examples=100)
@given(upheavals(), DETOURS)
def test_every_interleaving_keeps_rules_and_memory(
    upheaval: Upheaval, detours: Detours
) -> None:
    way = found(upheaval.snapshot, upheaval.journeys, detours)

    event(f"detours: {len(way.detours)}")
    event(f"given up: {len(way.given_up)}")
    assert faults(upheaval.snapshot, way.plan, ALL) == []


@settings(max_examples=100)
@given(upheavals(), DETOURS)
def test_no_step_relies_on_what_it_does_not_wait_for(
    upheaval: Upheaval, detours: Detours
) -> None:
    way = found(upheaval.snapshot, upheaval.journeys, detours)

    assert unsafe(upheaval.snapshot, way.plan, ALL) == []


@settings(max_examples=100)
@given(upheavals(pairs=False))
def test_without_any_one_of_its_waits_a_plan_is_unsafe(upheaval: Upheaval) -> None:
    plan = passed(upheaval).plan

    event(f"waits: {sum(len(step.after) for step in plan.steps)}")
    for step in plan.steps:
        for earlier in step.after:
            assert unsafe(upheaval.snapshot, hasty(plan, step, earlier), ALL)


@settings(max_examples=50)
@given(upheavals(), DETOURS)
def test_all_arrive_or_are_given_up(upheaval: Upheaval, detours: Detours) -> None:
    way = found(upheaval.snapshot, upheaval.journeys, detours)

    goals = {each.name: each.target for each in upheaval.journeys}
    lost = {each.name for each in way.given_up}
    last = {each.name: each.target for each in way.made}
    assert lost | last.keys() == goals.keys()
    for name in goals.keys() - lost:
        assert last[name] == goals[name]
    if detours is NONE:
        assert not lost & last.keys()


@settings(max_examples=50)
@given(upheavals())
def test_nothing_is_given_up_where_all_can_step_aside(upheaval: Upheaval) -> None:
    snapshot = upheaval.snapshot
    spare = {f"spare{i}": 0.0 for i in range(len(upheaval.journeys))}
    nodes = {**snapshot.nodes, **cluster(spare, {}).nodes}
    wide = replace(snapshot, rules=(), nodes=nodes)

    assert found(wide, upheaval.journeys).given_up == ()


@settings(max_examples=50)
@given(upheavals())
def test_steps_of_one_journey_share_their_waits(upheaval: Upheaval) -> None:
    way = passed(upheaval)

    after = {step.action: step.after for step in way.plan.steps}
    for each in way.made:
        assert len({after[move] for move in each.moves}) == 1


@settings(max_examples=50)
@given(upheavals())
def test_no_wait_is_told_that_another_implies(upheaval: Upheaval) -> None:
    plan = passed(upheaval).plan

    implied = ancestors(plan)
    for step in plan.steps:
        further = [implied[earlier] for earlier in step.after]
        assert not set(step.after) & set().union(*further)


@settings(max_examples=50)
@given(upheavals())
def test_no_rule_is_broken_in_the_end_that_was_kept(upheaval: Upheaval) -> None:
    snapshot = upheaval.snapshot

    after = snapshot.after(*(step.action for step in passed(upheaval).plan.steps))

    assert breaks(after, placement(after)) <= breaks(snapshot, placement(snapshot))


@settings(max_examples=50)
@given(upheavals(), st.randoms(use_true_random=False))
def test_the_order_of_the_journeys_does_not_matter(
    upheaval: Upheaval, random: Random
) -> None:
    shuffled = [*upheaval.journeys]
    random.shuffle(shuffled)

    assert found(upheaval.snapshot, shuffled) == passed(upheaval)
