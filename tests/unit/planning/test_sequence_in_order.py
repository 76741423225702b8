"""Sequencing of moves in a given order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.arrays import MobilityFilter
from opendrs.arrays import compile_move_groups as find_units
from opendrs.metrics import LoadModel
from opendrs.model import (
    EMPTY_PLAN,
    Affinity,
    AntiAffinity,
    GuestId,
    LiveMigration,
    NodeId,
    PowerOff,
    PowerOn,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.planning import (
    GroupMove,
    NodePowerAction,
    SequencedPlan,
    sequence_in_order,
)
from opendrs.rules import FeasibilityChecker, compile_rules
from support.builders import cluster, guest, guest_ids
from support.oracles.interleavings import unsafe_states
from support.oracles.worst_case import ancestors, unsafe_steps
from support.sequencing_cases import (
    NO_HEADROOM,
    SequencingCase,
    dependencies,
    group_move,
    move_texts,
    sequencing_cases,
    small_cluster,
)

A, B = NodeId("a"), NodeId("b")
POWER_ON = NodePowerAction(B, "it is needed")
POWER_OFF = NodePowerAction(A, "nobody is on it")


def sequenced_plan(
    snapshot: Snapshot,
    group_moves: Sequence[GroupMove],
    power_on: Sequence[NodePowerAction] = (),
    power_off: Sequence[NodePowerAction] = (),
) -> SequencedPlan:
    rules = compile_rules(snapshot)
    return sequence_in_order(
        group_moves,
        snapshot,
        rules,
        NO_HEADROOM,
        power_on=power_on,
        power_off=power_off,
    )


def sequence(
    snapshot: Snapshot,
    *moves: str,
    power_on: Sequence[NodePowerAction] = (),
    power_off: Sequence[NodePowerAction] = (),
) -> SequencedPlan:
    """Return the way for moves like "x b" that are made one after another."""
    return sequenced_plan(
        snapshot, [group_move(snapshot, each) for each in moves], power_on, power_off
    )


def test_no_moves_are_no_plan() -> None:
    sequenced = sequence(small_cluster({"a": 0.0}, ""))

    assert (sequenced.plan, sequenced.ordered_moves, sequenced.notes) == (
        EMPTY_PLAN,
        (),
        (),
    )


def test_moves_stay_in_their_order_whatever_their_size() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.0}, "x:a:0.3 y:a:0.1 z:a:0.5")

    sequenced = sequence(snapshot, "x b", "z b", "y b")

    assert sequenced.actions == tuple(
        LiveMigration(GuestId(name), A, B) for name in "xzy"
    )
    assert dependencies(sequenced.plan) == {"1": (), "2": (), "3": ()}
    assert {step.detail for step in sequenced.plan.steps} == {"because"}


def test_move_depends_on_departures_that_free_memory() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b")

    assert dependencies(sequence(snapshot, "y c", "x b").plan) == {"1": (), "2": ("1",)}


def test_move_before_its_memory_is_free_is_dropped_with_note() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b")

    sequenced = sequence(snapshot, "x b", "y c")

    assert move_texts(sequenced.ordered_moves) == ["y c"]
    assert move_texts(sequenced.dropped) == ["x b"]
    assert sequenced.notes == ("dropped, because there is no safe sequence: x",)


def test_move_relying_on_dropped_move_is_dropped() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.9, "d": 0.0}, "x:a y:b z:c")

    assert move_texts(sequence(snapshot, "y c", "x b", "z d").dropped) == ["y c", "x b"]


def test_sequence_in_order_makes_no_detour() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")

    sequenced = sequence(snapshot, "x b", "y a")

    assert (sequenced.ordered_moves, sequenced.detours) == ((), ())
    assert move_texts(sequenced.dropped) == ["x b", "y a"]


def test_move_to_node_with_anti_affine_guest_waits_or_is_dropped() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = small_cluster({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b", apart)

    assert move_texts(sequence(snapshot, "x b", "y c").dropped) == ["x b"]
    assert dependencies(sequence(snapshot, "y c", "x b").plan) == {"1": (), "2": ("1",)}


def test_what_is_not_measured_stays() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.0}, "x:a y:a")
    dark = replace(snapshot.guests[GuestId("x")], usage=Usage(), limit=None)
    snapshot = replace(snapshot, guests={**snapshot.guests, dark.id: dark})

    sequenced = sequence(snapshot, "x b", "y b")

    assert (move_texts(sequenced.dropped), move_texts(sequenced.ordered_moves)) == (
        ["x b"],
        ["y b"],
    )


def test_guests_of_one_group_share_their_dependencies() -> None:
    pair = Affinity(guests=guest_ids("x", "w"))
    snapshot = small_cluster({"a": 0.9, "b": 0.6, "c": 0.0}, "x:a w:a y:b", pair)

    plan = sequence(snapshot, "y c", "w,x b").plan

    assert dependencies(plan) == {"1": (), "2": ("1",), "3": ("1",)}


def test_arrivals_depend_on_power_on_and_power_off_on_departures() -> None:
    snapshot = small_cluster({"a": 0.6, "b": 0.0}, "x:a y:a")

    sequenced = sequence(
        snapshot, "x b", "y b", power_on=[POWER_ON], power_off=[POWER_OFF]
    )

    assert sequenced.actions == (
        PowerOn(B),
        LiveMigration(GuestId("x"), A, B),
        LiveMigration(GuestId("y"), A, B),
        PowerOff(A),
    )
    assert dependencies(sequenced.plan) == {
        "1": (),
        "2": ("1",),
        "3": ("1",),
        "4": ("2", "3"),
    }
    assert [step.detail for step in sequenced.plan.steps[::3]] == [
        POWER_ON.detail,
        POWER_OFF.detail,
    ]


def test_empty_node_is_powered_off_without_dependencies() -> None:
    assert dependencies(
        sequence(small_cluster({"a": 0.0}, ""), power_off=[POWER_OFF]).plan
    ) == {"1": ()}


def test_power_actions_of_dropped_moves_are_omitted() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9}, "x:a y:a:0.1")

    sequenced = sequence(snapshot, "x b", power_on=[POWER_ON], power_off=[POWER_OFF])

    assert sequenced.plan == EMPTY_PLAN
    assert move_texts(sequenced.dropped) == ["x b"]


@dataclass(frozen=True)
class OrderedMoves:
    """A cluster, and moves that are open one after another."""

    snapshot: Snapshot
    moves: tuple[GroupMove, ...]


@st.composite
def ordered_moves(draw: st.DrawFn, *, allow_underreported: bool = True) -> OrderedMoves:
    """Draw a cluster with little memory to spare, and moves that suit it.

    Args:
        draw: What draws.
        allow_underreported: Whether guests may seem to use more than their node does.
    """
    names = "abcd"[: draw(st.integers(2, 4))]
    sizes = draw(st.lists(st.integers(1, 4), min_size=3, max_size=7))
    guests = [
        guest(f"g{i}", draw(st.sampled_from(names)), size / 10)
        for i, size in enumerate(sizes)
    ]
    some = st.sets(st.sampled_from([each.id for each in guests]), min_size=2)
    kinds: st.SearchStrategy[type[Affinity | AntiAffinity]] = st.sampled_from(
        [Affinity, AntiAffinity, AntiAffinity]
    )
    rules: list[Rule] = [
        draw(kinds)(guests=frozenset(draw(some)))
        for _ in range(draw(st.integers(0, 3)))
    ]
    used = {
        name: sum(sizes[i] for i, g in enumerate(guests) if g.node == name) / 10
        for name in names
    }
    part = draw(st.sampled_from([1.0, 0.5])) if allow_underreported else 1.0
    snapshot = cluster({name: part * load for name, load in used.items()}, {}, rules)
    snapshot = replace(snapshot, guests={each.id: each for each in guests})
    return OrderedMoves(snapshot, _draw_moves(draw, snapshot))


def _draw_moves(draw: st.DrawFn, snapshot: Snapshot) -> tuple[GroupMove, ...]:
    rules = compile_rules(snapshot)
    selection = MobilityFilter(load_model=LoadModel.DYNAMIC, allow_cold_migration=True)
    groups = list(find_units(snapshot, rules, NO_HEADROOM, selection).movable.values())
    moves: list[GroupMove] = []
    while groups:
        group = groups.pop(draw(st.integers(0, len(groups) - 1)))
        targets = FeasibilityChecker(snapshot, rules, NO_HEADROOM).feasible_nodes(group)
        if targets:
            moves.append(GroupMove(group, draw(st.sampled_from(targets)), "because"))
            snapshot = snapshot.apply(*moves[-1].migrations)
    return tuple(moves)


@settings(max_examples=200)
@given(ordered_moves())
def test_every_reachable_state_keeps_rules_and_memory(case: OrderedMoves) -> None:
    sequenced = sequenced_plan(case.snapshot, case.moves)

    event(f"longest chain of waits: {dependency_depth(sequenced)}")
    event(f"given up: {len(sequenced.dropped)}")
    assert unsafe_states(case.snapshot, sequenced.plan, NO_HEADROOM) == []


@settings(max_examples=100)
@given(ordered_moves(allow_underreported=False))
def test_what_can_be_made_one_by_one_is_made_in_that_order(case: OrderedMoves) -> None:
    sequenced = sequenced_plan(case.snapshot, case.moves)

    assert sequenced.ordered_moves == case.moves
    assert sequenced.actions == tuple(m for each in case.moves for m in each.migrations)
    assert unsafe_steps(case.snapshot, sequenced.plan, NO_HEADROOM) == []


@settings(max_examples=100)
@given(sequencing_cases())
def test_of_moves_in_any_order_those_that_can_are_made(case: SequencingCase) -> None:
    sequenced = sequenced_plan(case.snapshot, case.moves)

    event(f"given up: {len(sequenced.dropped)} of {len(case.moves)}")
    kept = [each for each in case.moves if each not in sequenced.dropped]
    assert sequenced.ordered_moves == tuple(kept)
    assert unsafe_states(case.snapshot, sequenced.plan, NO_HEADROOM) == []
    assert unsafe_steps(case.snapshot, sequenced.plan, NO_HEADROOM) == []


@given(ordered_moves())
def test_steps_of_one_group_share_their_dependencies(case: OrderedMoves) -> None:
    sequenced = sequenced_plan(case.snapshot, case.moves)

    after = {step.action: step.depends_on for step in sequenced.plan.steps}
    for each in sequenced.ordered_moves:
        assert len({after[move] for move in each.migrations}) == 1


@given(ordered_moves())
def test_dependencies_are_transitively_reduced(case: OrderedMoves) -> None:
    plan = sequenced_plan(case.snapshot, case.moves).plan

    implied = ancestors(plan)
    for step in plan.steps:
        further = [implied[earlier] for earlier in step.depends_on]
        assert not set(step.depends_on) & set().union(*further)


def dependency_depth(sequenced: SequencedPlan) -> int:
    """Return how many steps wait for one another at most."""
    depth: dict[str, int] = {}
    for step in sequenced.plan.steps:
        depth[step.id] = 1 + max(
            (depth[earlier] for earlier in step.depends_on), default=0
        )
    return max(depth.values(), default=0)
