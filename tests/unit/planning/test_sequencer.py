"""Sequencing of moves in any order."""

from __future__ import annotations

from dataclasses import replace

from opendrs.model import (
    EMPTY_PLAN,
    GIB,
    Affinity,
    AntiAffinity,
    GuestId,
    GuestPriority,
    LiveMigration,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Usage,
)
from opendrs.planning import DetourBudget, SequencedPlan
from support.builders import cluster, guest_ids
from support.sequencing_cases import (
    dependencies,
    group_move,
    move_texts,
    sequence,
    sequence_texts,
    small_cluster,
)


def test_no_moves_give_empty_plan() -> None:
    empty = small_cluster({"a": 0.0}, "")

    assert sequence_texts(empty) == SequencedPlan(EMPTY_PLAN, (), (), ())


def test_move_that_frees_memory_comes_first() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b")

    sequenced = sequence_texts(snapshot, "x b", "y c")

    assert move_texts(sequenced.ordered_moves) == ["y c", "x b"]
    assert sequenced.dropped == ()


def test_anti_affine_guest_leaves_first() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = small_cluster({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b", apart)

    assert move_texts(sequence_texts(snapshot, "x b", "y c").ordered_moves) == [
        "y c",
        "x b",
    ]


def test_two_that_change_places_need_a_third() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")

    sequenced = sequence_texts(snapshot, "x b", "y a")

    # The smaller one makes a detour.
    assert move_texts(sequenced.ordered_moves) == ["y c", "x b", "y a"]
    assert sequenced.ordered_moves[0].detail == "detour: on c until a has enough memory"
    assert sequenced.ordered_moves[2].detail == "because"


def test_a_detour_keeps_to_the_rules() -> None:
    snapshot = small_cluster(
        {"a": 0.9, "b": 0.9, "c": 0.3, "d": 0.0},
        "x:a:0.6 y:b:0.5 z:c",
        AntiAffinity(guests=guest_ids("y", "z")),
        NodeAffinity(guests=guest_ids("x"), nodes={NodeId(n): 1 for n in "ab"}),
    )

    assert "y d" in move_texts(sequence_texts(snapshot, "x b", "y a").ordered_moves)


def test_anti_affine_guest_arrives_after_staged_guest_left() -> None:
    apart = AntiAffinity(guests=guest_ids("y", "v"))
    nodes = {"a": 0.9, "b": 0.9, "c": 0.9, "d": 0.5}
    snapshot = small_cluster(nodes, "x:a:0.6 y:b:0.5 v:c:0.6 w:d:0.2", apart)

    sequenced = sequence_texts(snapshot, "x b", "y a", "v d", "w c")

    # Of all four only y finds room somewhere in the beginning: on d.
    assert move_texts(sequenced.detours) == ["y d", "w a"]
    assert move_texts(sequenced.ordered_moves).index("y a") < move_texts(
        sequenced.ordered_moves
    ).index("v d")


def test_staging_node_has_no_anti_affine_guest() -> None:
    apart = AntiAffinity(guests=guest_ids("y", "v"))
    snapshot = small_cluster(
        {"a": 0.9, "b": 0.9, "c": 0.4, "d": 0.1}, "x:a:0.6 y:b:0.5 v:d:0.1", apart
    )

    # d has more to spare, but v is there.
    assert move_texts(sequence_texts(snapshot, "x b", "y a").detours) == ["y c"]


def test_staging_node_is_compatible() -> None:
    snapshot = small_cluster(
        {"a": 0.9, "b": 0.9, "c": 0.0, "d": 0.1}, "x:a:0.6 y:b:0.5"
    )
    other = replace(snapshot.nodes[NodeId("c")], state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, other.id: other})

    assert move_texts(sequence_texts(snapshot, "x b", "y a").detours) == ["y d"]


def test_least_valuable_move_is_dropped_without_detours() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9}, "x:a:0.6 y:b:0.5")
    moves = [group_move(snapshot, "x b", 2.0), group_move(snapshot, "y a", 1.0)]

    sequenced = sequence(snapshot, moves)

    assert sequenced.ordered_moves == ()
    assert move_texts(sequenced.dropped) == ["y a", "x b"]


def test_no_detour_transfers_more_than_may_be() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")

    assert (
        sequence_texts(
            snapshot, "x b", "y a", detours=DetourBudget(memory=49 * GIB)
        ).ordered_moves
        == ()
    )
    assert (
        len(
            sequence_texts(
                snapshot, "x b", "y a", detours=DetourBudget(memory=50 * GIB)
            ).ordered_moves
        )
        == 3
    )


def test_group_from_several_nodes_arrives_together() -> None:
    together = Affinity(guests=guest_ids("x", "y"))
    snapshot = small_cluster(
        {"a": 0.9, "b": 0.9, "c": 0.6, "d": 0.0}, "x:a y:b z:c", together
    )

    plan = sequence_texts(snapshot, "x,y c", "z d").plan

    assert [step.action for step in plan.steps] == [
        LiveMigration(GuestId("z"), NodeId("c"), NodeId("d")),
        LiveMigration(GuestId("x"), NodeId("a"), NodeId("c")),
        LiveMigration(GuestId("y"), NodeId("b"), NodeId("c")),
    ]
    assert dependencies(plan) == {"1": (), "2": ("1",), "3": ("1",)}


def test_guest_nearest_in_size_makes_detour() -> None:
    nodes = {"a": 0.8, "b": 0.9, "c": 0.0}
    snapshot = small_cluster(nodes, "x:a:0.6 y:b:0.3 z:b:0.5")

    sequenced = sequence_texts(snapshot, "x b", "y a", "z a")

    # With y aside, x could not come yet; with x aside, room would lie idle on a.
    assert move_texts(sequenced.detours) == ["z c"]


def test_larger_guest_makes_detour_when_less_memory_stays_unused() -> None:
    nodes = {"a": 0.9, "b": 0.9, "e": 0.9, "f": 0.9, "c": 0.0}
    snapshot = small_cluster(nodes, "x:a:0.6 z:b:0.5 p:e:0.4 q:f:0.45")

    sequenced = sequence_texts(snapshot, "x b", "z a", "p f", "q e")

    # x needs a tenth more than z frees, and q a twentieth more than p.
    assert move_texts(sequenced.detours) == ["z c", "p c"]


def test_several_guests_make_detours_for_one() -> None:
    nodes = {"a": 1.0, "b": 0.9, "c": 0.0}
    stays = NodeAffinity(guests=guest_ids("x"), nodes={NodeId(n): 1 for n in "ab"})
    snapshot = small_cluster(nodes, "x:a:0.8 y:b:0.4 z:b:0.4", stays)

    sequenced = sequence_texts(snapshot, "x b", "y a", "z a")

    assert move_texts(sequenced.detours) == ["y c", "z c"]
    assert sequenced.dropped == ()


def test_detours_stay_within_budget() -> None:
    nodes = {"a": 1.0, "b": 0.9, "c": 0.0}
    stays = NodeAffinity(guests=guest_ids("x"), nodes={NodeId(n): 1 for n in "ab"})
    snapshot = small_cluster(nodes, "x:a:0.8 y:b:0.4 z:b:0.4", stays)

    sequenced = sequence_texts(
        snapshot, "x b", "y a", "z a", detours=DetourBudget(migrations=1)
    )

    assert len(sequenced.detours) == 1
    assert "x b" in move_texts(sequenced.dropped)


def test_guest_without_live_mobility_makes_no_detour() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")
    cold = replace(snapshot.guests[GuestId("y")], mobility=Mobility.COLD)
    snapshot = replace(snapshot, guests={**snapshot.guests, cold.id: cold})

    assert move_texts(sequence_texts(snapshot, "x b", "y a").detours) == ["x c"]


def test_staging_node_has_largest_memory_surplus() -> None:
    nodes = {"a": 0.9, "b": 0.9, "c": 0.2, "d": 0.3}
    snapshot = small_cluster(nodes, "x:a:0.6 y:b:0.5 v:b:0.3")

    # Once v is on c, less is free there than on d.
    sequenced = sequence_texts(snapshot, "x b", "y a", "v c")

    assert move_texts(sequenced.detours) == ["y d"]


def test_move_without_memory_at_the_end_is_dropped() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.5}, "x:a y:a z:a:0.2")
    moves = [
        group_move(snapshot, f"{name} b", value) for name, value in move_values("xyz")
    ]

    sequenced = sequence(snapshot, moves)

    assert move_texts(sequenced.ordered_moves) == ["z b", "y b"]
    assert move_texts(sequenced.dropped) == ["x b"]


def move_values(names: str) -> list[tuple[str, float]]:
    """Return names, each worth more than the one before."""
    return [(name, float(rank)) for rank, name in enumerate(names)]


def test_no_detour_when_target_is_never_free() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.9, "d": 0.0}, "x:a y:b z:c")

    # z stays on c, so that y has no place there; nor has x, without that of y.
    sequenced = sequence_texts(snapshot, "x b", "y c")

    assert sequenced.ordered_moves == ()
    assert move_texts(sequenced.dropped) == ["x b", "y c"]


def test_move_to_remaining_anti_affine_guest_is_dropped() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = small_cluster({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b", apart)

    sequenced = sequence_texts(snapshot, "x b")

    assert move_texts(sequenced.dropped) == ["x b"]


def test_move_to_arriving_anti_affine_guest_is_dropped() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = cluster(
        {"a": 0.3, "b": 0.3, "c": 0.0},
        {"x": ("a", 0.3), "y": ("b", 0.3)},
        [apart],
        moving={"y": "c"},
    )

    assert move_texts(sequence_texts(snapshot, "x c").dropped) == ["x c"]


def test_of_two_that_must_be_apart_the_more_valuable_arrives() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = small_cluster({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b", apart)
    moves = [group_move(snapshot, "x c", 1.0), group_move(snapshot, "y c", 2.0)]

    sequenced = sequence(snapshot, moves)

    assert move_texts(sequenced.ordered_moves) == ["y c"]
    assert move_texts(sequenced.dropped) == ["x c"]


def test_unmeasured_guest_and_node_are_dropped() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.0, "c": 0.0}, "x:a y:a")
    dark = replace(snapshot.guests[GuestId("x")], usage=Usage(), limit=None)
    veiled = replace(snapshot.nodes[NodeId("c")], usage=Usage())
    snapshot = replace(
        snapshot,
        guests={**snapshot.guests, dark.id: dark},
        nodes={**snapshot.nodes, veiled.id: veiled},
    )

    sequenced = sequence_texts(snapshot, "x b", "y c")

    assert sequenced.ordered_moves == ()
    assert sorted(move_texts(sequenced.dropped)) == ["x b", "y c"]


def test_dropped_moves_and_detours_are_noted() -> None:
    snapshot = small_cluster(
        {"a": 0.9, "b": 0.9, "c": 0.0, "d": 0.9}, "x:a:0.6 y:b:0.5 z:a:0.2"
    )

    assert sequence_texts(snapshot, "x b", "y a", "z d").notes == (
        (
            "detours over a staging node, because of cyclic dependencies: y "
            "(50.0 GiB of additional transfer)"
        ),
        (
            "dropped, because there is no safe sequence: z; "
            "z to d, after the plan: insufficient memory: 10.0 GiB short"
        ),
    )


def test_of_independent_moves_those_of_a_high_priority_come_last() -> None:
    high = GuestPriority(guests=guest_ids("p"), value=2.0)
    low = GuestPriority(guests=guest_ids("s"), value=0.5)
    nodes = {"a": 0.9, "b": 0.0, "c": 0.0}
    snapshot = small_cluster(nodes, "p:a:0.1 q:a:0.1 r:a:0.2 s:a:0.3", high, low)

    sequenced = sequence_texts(snapshot, "p b", "q b", "r c", "s c")

    assert move_texts(sequenced.ordered_moves) == ["s c", "q b", "r c", "p b"]
    steps = [step.action.guest for step in sequenced.plan.steps]  # type: ignore[union-attr]
    assert steps == ["s", "q", "r", "p"]
    assert dependencies(sequenced.plan) == {"1": (), "2": (), "3": (), "4": ()}


def test_a_move_waits_for_one_of_a_high_priority_that_frees_its_memory() -> None:
    high = GuestPriority(guests=guest_ids("y"), value=2.0)
    nodes = {"a": 0.9, "b": 0.9, "c": 0.0}
    snapshot = small_cluster(nodes, "x:a y:b z:a:0.2", high)

    sequenced = sequence_texts(snapshot, "x b", "y c", "z c")

    # x needs the memory that y frees; z waits for none.
    assert move_texts(sequenced.ordered_moves) == ["z c", "y c", "x b"]
    assert dependencies(sequenced.plan) == {"1": (), "2": (), "3": ("2",)}
