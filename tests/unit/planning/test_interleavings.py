"""Sequenced plans are safe in every interleaving, with minimal dependencies."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.planning import DetourBudget, SequencedPlan
from support.builders import cluster
from support.oracles.interleavings import unsafe_states
from support.oracles.placement import current_placement, violated_rules
from support.oracles.worst_case import ancestors, unsafe_steps, without_dependency
from support.sequencing_cases import (
    NO_DETOURS,
    NO_HEADROOM,
    UNLIMITED_DETOURS,
    SequencingCase,
    sequence,
    sequencing_cases,
)

DETOUR_BUDGETS = st.sampled_from([NO_DETOURS, UNLIMITED_DETOURS])


def sequence_case(case: SequencingCase) -> SequencedPlan:
    return sequence(case.snapshot, case.moves)


@settings(max_examples=100)
@given(sequencing_cases(), DETOUR_BUDGETS)
def test_every_interleaving_keeps_rules_and_memory(
    case: SequencingCase, detours: DetourBudget
) -> None:
    sequenced = sequence(case.snapshot, case.moves, detours)

    event(f"detours: {len(sequenced.detours)}")
    event(f"given up: {len(sequenced.dropped)}")
    assert unsafe_states(case.snapshot, sequenced.plan, NO_HEADROOM) == []


@settings(max_examples=100)
@given(sequencing_cases(), DETOUR_BUDGETS)
def test_every_step_is_safe_with_its_dependencies_alone(
    case: SequencingCase, detours: DetourBudget
) -> None:
    sequenced = sequence(case.snapshot, case.moves, detours)

    assert unsafe_steps(case.snapshot, sequenced.plan, NO_HEADROOM) == []


@settings(max_examples=100)
@given(sequencing_cases(pairs=False))
def test_every_dependency_is_necessary(case: SequencingCase) -> None:
    plan = sequence_case(case).plan

    event(f"waits: {sum(len(step.depends_on) for step in plan.steps)}")
    for step in plan.steps:
        for earlier in step.depends_on:
            assert unsafe_steps(
                case.snapshot, without_dependency(plan, step, earlier), NO_HEADROOM
            )


@settings(max_examples=50)
@given(sequencing_cases(), DETOUR_BUDGETS)
def test_every_guest_arrives_or_is_dropped(
    case: SequencingCase, detours: DetourBudget
) -> None:
    sequenced = sequence(case.snapshot, case.moves, detours)

    goals = {each.name: each.target for each in case.moves}
    lost = {each.name for each in sequenced.dropped}
    last = {each.name: each.target for each in sequenced.ordered_moves}
    assert lost | last.keys() == goals.keys()
    for name in goals.keys() - lost:
        assert last[name] == goals[name]
    if detours is NO_DETOURS:
        assert not lost & last.keys()


@settings(max_examples=50)
@given(sequencing_cases())
def test_nothing_is_dropped_with_enough_swap_space(case: SequencingCase) -> None:
    snapshot = case.snapshot
    spare = {f"spare{i}": 0.0 for i in range(len(case.moves))}
    nodes = {**snapshot.nodes, **cluster(spare, {}).nodes}
    wide = replace(snapshot, rules=(), nodes=nodes)

    assert sequence(wide, case.moves).dropped == ()


@settings(max_examples=50)
@given(sequencing_cases())
def test_steps_of_one_group_move_share_their_dependencies(case: SequencingCase) -> None:
    sequenced = sequence_case(case)

    after = {step.action: step.depends_on for step in sequenced.plan.steps}
    for each in sequenced.ordered_moves:
        assert len({after[move] for move in each.migrations}) == 1


@settings(max_examples=50)
@given(sequencing_cases())
def test_dependencies_are_transitively_reduced(case: SequencingCase) -> None:
    plan = sequence_case(case).plan

    implied = ancestors(plan)
    for step in plan.steps:
        further = [implied[earlier] for earlier in step.depends_on]
        assert not set(step.depends_on) & set().union(*further)


@settings(max_examples=50)
@given(sequencing_cases())
def test_no_rule_is_broken_in_the_end_that_was_kept(case: SequencingCase) -> None:
    snapshot = case.snapshot

    after = snapshot.apply(*(step.action for step in sequence_case(case).plan.steps))

    assert violated_rules(after, current_placement(after)) <= violated_rules(
        snapshot, current_placement(snapshot)
    )


@settings(max_examples=50)
@given(sequencing_cases(), st.randoms(use_true_random=False))
def test_order_of_moves_is_irrelevant(case: SequencingCase, random: Random) -> None:
    shuffled = [*case.moves]
    random.shuffle(shuffled)

    assert sequence(case.snapshot, shuffled) == sequence_case(case)
