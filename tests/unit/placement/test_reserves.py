"""Restarts after each failure, kept up to date by each move."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from opendrs.model import (
    AntiAffinity,
    DomainAffinity,
    GuestId,
    Limits,
    LiveMigration,
    NodeAffinity,
    NodeId,
    NodeState,
    PowerOff,
    Rule,
    Snapshot,
)
from opendrs.placement import FailureReserves
from opendrs.placement.arrays import COMMITTED, MEASURED
from opendrs.rules import (
    HOLD_ORIGIN,
    TOLERANCE_ORIGIN,
    checks_every_set,
    failure_sets,
    with_chosen,
)
from support.builders import cluster, guest_ids

ANY_NODE = Limits(memory_headroom=0.0, tolerated_failures=1)
ANY_RACK = Limits(memory_headroom=0.0, tolerated_domain="rack")


def move(guest: str, source: str, target: str) -> LiveMigration:
    return LiveMigration(GuestId(guest), NodeId(source), NodeId(target))


def in_racks(snapshot: Snapshot, racks: dict[str, str]) -> Snapshot:
    """Return *snapshot* with the rack of each node as a label."""
    nodes = {
        name: replace(node, labels=frozenset({f"rack={racks[name]}"}))
        if name in racks
        else node
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes)


def three_nodes() -> Snapshot:
    """Return a cluster in which any one node may fail, with nothing to spare.

    Each failure leaves one guest of half a node to a node with half of its memory free.
    """
    return cluster(
        {"a": 0.5, "b": 0.5, "c": 0.5},
        {"vm1": ("a", 0.5), "vm2": ("b", 0.5), "vm3": ("c", 0.5)},
    )


def test_failure_sets_of_a_domain_take_unlabeled_nodes_alone() -> None:
    snapshot = in_racks(three_nodes(), {"a": "r1", "b": "r1"})

    found = failure_sets(snapshot, ANY_RACK)

    assert {str(each): each.nodes for each in found} == {
        "c": ("c",),
        "rack r1": ("a", "b"),
    }


def test_failure_sets_of_two_nodes_and_a_rack_have_both() -> None:
    snapshot = in_racks(three_nodes(), {"a": "r1", "b": "r1", "c": "r1"})
    limits = replace(ANY_RACK, tolerated_failures=2)

    found = [each.nodes for each in failure_sets(snapshot, limits)]

    assert found == [("a", "b", "c"), ("a", "b"), ("a", "c"), ("b", "c")]


def test_failure_sets_of_a_large_cluster_pair_each_node_with_the_fullest() -> None:
    # 500 · 499 / 2 pairs with 2 guests each are 249,500 restarts, above 100,000.
    names = [f"n{index:03}" for index in range(500)]
    guests = {f"g{name}": (name, 0.3 if name == "n007" else 0.1) for name in names}
    snapshot = cluster(dict.fromkeys(names, 0.3), guests)
    limits = replace(ANY_NODE, tolerated_failures=2)

    found = failure_sets(snapshot, limits)

    assert not checks_every_set(snapshot, limits)
    assert len(found) == 499
    assert all("n007" in each.nodes for each in found)


def test_reserves_of_a_tolerant_cluster_miss_nothing() -> None:
    assert FailureReserves(three_nodes(), ANY_NODE).missing == 0


def test_reserves_reject_a_power_off_that_leaves_guests_without_a_node() -> None:
    reserves = FailureReserves(three_nodes(), ANY_NODE)

    # With both guests on b, a is empty: it has room for those of b, and for that of c.
    assert reserves.try_actions([move("vm1", "a", "b")]) == ()
    # Without a, c has room for one of the guests of b, and b for no guest of c.
    prevented = reserves.try_actions([PowerOff(NodeId("a"))])

    assert [each.nodes for each in prevented] == [("b",), ("c",)]
    assert reserves.missing == 0
    assert reserves.try_actions([move("vm1", "b", "a")]) == ()


def test_reserves_of_a_rack_count_all_of_its_nodes() -> None:
    # Rack r1 holds 1.0 of a node, r2 0.2: r1 fails onto c with 0.8 free.
    snapshot = in_racks(
        cluster(
            {"a": 0.5, "b": 0.3, "c": 0.2},
            {"vm1": ("a", 0.5), "vm2": ("b", 0.3), "vm3": ("c", 0.2)},
        ),
        {"a": "r1", "b": "r1", "c": "r2"},
    )
    reserves = FailureReserves(snapshot, ANY_RACK)

    assert reserves.missing == 0
    assert reserves.try_actions([move("vm3", "c", "b")]) == ()


def test_reserves_name_the_rack_and_the_guests_without_a_node() -> None:
    snapshot = in_racks(
        cluster(
            {"a": 0.5, "b": 0.6, "c": 0.2},
            {"vm1": ("a", 0.5), "vm2": ("b", 0.6), "vm3": ("c", 0.2)},
        ),
        {"a": "r1", "b": "r1", "c": "r2"},
    )

    found = [*FailureReserves(snapshot, ANY_RACK).intolerated()]

    assert [(str(each), guests) for each, guests in found] == [("rack r1", ("vm1",))]


def test_reserves_obey_strict_rules() -> None:
    rules: list[Rule] = [
        AntiAffinity(guests=guest_ids("vm1", "vm3")),
        NodeAffinity(guests=guest_ids("vm1"), nodes={NodeId("a"): 0, NodeId("c"): 0}),
    ]
    snapshot = cluster(
        {"a": 0.1, "b": 0.1, "c": 0.0},
        {"vm1": ("a", 0.1), "vm3": ("b", 0.1)},
        rules,
    )
    reserves = FailureReserves(snapshot, ANY_NODE)

    prevented = reserves.try_actions([move("vm3", "b", "c")])

    assert [each.nodes for each in prevented] == [("a",)]


def test_reserves_count_no_guest_that_cannot_restart() -> None:
    snapshot = cluster({"a": 0.9, "b": 0.9}, {"vm1": ("a", 0.9), "vm2": ("b", 0.9)})

    assert FailureReserves(snapshot, ANY_NODE).missing == 2


def test_reserves_never_place_a_guest_of_unknown_memory() -> None:
    snapshot = cluster({"a": 0.1, "b": 0.1}, {"vm1": ("a", None), "vm2": ("b", 0.1)})

    found = [*FailureReserves(snapshot, ANY_NODE).intolerated()]

    # Node a is no target either: the memory that its guests may use is unknown.
    assert [guests for _, guests in found] == [("vm1",), ("vm2",)]


def drawn(seed: int) -> Snapshot:
    """Return a drawn cluster of six nodes in three racks."""
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    names = "abcdef"
    guests = {
        f"vm{index}": (random.choice(names), random.choice((0.05, 0.1, 0.2, 0.3)))
        for index in range(14)
    }
    loads = {
        name: sum(load for where, load in guests.values() if where == name)
        for name in names
    }
    rules = [AntiAffinity(guests=guest_ids("vm0", "vm1", "vm2"))]
    if random.random() < 0.5:
        names_of = guest_ids("vm3", "vm4", "vm5", "vm6")
        rules.append(AntiAffinity(guests=names_of, domain="rack", max_guests=2))
    snapshot = cluster(loads, guests, rules)
    return in_racks(snapshot, dict(zip(names, "112233", strict=True)))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("limits", [ANY_NODE, ANY_RACK])
def test_reserves_after_moves_are_valid_placements(seed: int, limits: Limits) -> None:
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    snapshot = drawn(seed)
    reserves = FailureReserves(snapshot, limits)
    for _ in range(30):
        guest = random.choice(sorted(reserves.snapshot.guests))
        source = reserves.snapshot.guests[guest].node
        target = random.choice(sorted(set(snapshot.nodes) - {source}))
        before = reserves.missing
        if reserves.try_actions([LiveMigration(guest, source, target)]):
            assert reserves.missing == before
        assert reserves.missing <= before

    # The placements are kept by differences; the same ones are calculated again.
    fresh = FailureReserves(reserves.snapshot, limits)
    assert are_equal(reserves, fresh)
    for index, restarts in enumerate(reserves.restarts):
        failed = set(reserves.nodes[index])
        assert failed.isdisjoint(restarts.parts_on)
        free = reserves.free_after(index)[[MEASURED, COMMITTED]]
        assert (free[:, [*restarts.parts_on]] >= 0).all()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("limits", [ANY_NODE, ANY_RACK])
def test_sets_against_moves_are_found_without_a_change(
    seed: int, limits: Limits
) -> None:
    snapshot = drawn(seed)
    reserves, fresh = (FailureReserves(snapshot, limits) for _ in range(2))
    guest = min(snapshot.guests)
    source = snapshot.guests[guest].node
    for target in sorted(set(snapshot.nodes) - {source}):
        actions = [LiveMigration(guest, source, target)]

        found = reserves.sets_against(actions)

        assert are_equal(reserves, fresh)
        assert reserves.snapshot == fresh.snapshot
        assert reserves.restarts == fresh.restarts
        assert found == FailureReserves(snapshot, limits).try_actions(actions)


def test_prevented_move_is_not_in_the_snapshot_where_domains_are_chosen() -> None:
    # With vm3 on a, vm2 has no room in the rack of vm1 after the failure of b.
    together = DomainAffinity(guests=guest_ids("vm1", "vm2"), domain="rack")
    snapshot = in_racks(three_nodes(), {"a": "r1", "b": "r1", "c": "r2"})
    snapshot = with_chosen(replace(snapshot, rules=(together,)))
    reserves = FailureReserves(snapshot, ANY_NODE)

    failures = reserves.try_actions([move("vm3", "c", "a")])

    assert failures
    assert reserves.snapshot.guests[GuestId("vm3")].node == "c"


def test_prevented_power_off_leaves_a_node_in_maintenance_closed() -> None:
    # Without d, b has 0.3 left for vm1 of 0.5, and a 0.5 for vm2 of 0.7.
    snapshot = cluster(
        {"a": 0.5, "b": 0.7, "c": 0.0, "d": 0.0},
        {"vm1": ("a", 0.5), "vm2": ("b", 0.7)},
    )
    closed = replace(snapshot.nodes[NodeId("c")], state=NodeState.MAINTENANCE)
    nodes = {**snapshot.nodes, closed.id: closed}
    reserves = FailureReserves(replace(snapshot, nodes=nodes), ANY_NODE)
    index = reserves.arrays.index

    failures = reserves.try_actions([PowerOff(NodeId("c")), PowerOff(NodeId("d"))])

    assert failures
    assert not reserves.state.is_open[index[NodeId("c")]]
    assert reserves.state.is_open[index[NodeId("d")]]


@pytest.mark.parametrize("seed", range(20))
def test_feasible_nodes_of_groups_are_those_of_each_group(seed: int) -> None:
    reserves = FailureReserves(drawn(seed), ANY_NODE)
    state, arrays = reserves.state, reserves.arrays
    groups = [arrays.displaced_group(part) for part in range(len(arrays.parts))]

    found = state.feasible_nodes(groups)

    assert found.tolist() == [state.feasible(group).tolist() for group in groups]


def are_equal(one: FailureReserves, other: FailureReserves) -> bool:
    """Return whether both have the same guests and room on each node."""
    same_memory = bool((abs(one.state.available - other.state.available) < 1).all())
    return same_memory and one.state.node_of.tolist() == other.state.node_of.tolist()


@pytest.mark.parametrize("origin", [HOLD_ORIGIN, TOLERANCE_ORIGIN])
def test_rules_of_migrations_do_not_bind_restarts(origin: str) -> None:
    snapshot = three_nodes()
    stays = NodeAffinity(guests=guest_ids("vm1"), nodes={NodeId("a"): 0}, origin=origin)

    reserves = FailureReserves(replace(snapshot, rules=(stays,)), ANY_NODE)

    assert reserves.missing == FailureReserves(snapshot, ANY_NODE).missing == 0
