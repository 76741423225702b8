"""Clusters after failures, removals, new nodes and growth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.errors import ModelError, UnknownNodeError
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Affinity,
    AntiAffinity,
    Disk,
    GuestId,
    GuestState,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Resources,
    Rule,
    Snapshot,
    Storage,
    Usage,
)
from opendrs.placement import (
    NodeAddition,
    Scenario,
    ScenarioResult,
    UnplacedReason,
    apply_scenario,
)
from support.builders import cluster, guest_ids, node

A, B, C = (NodeId(name) for name in "abc")


def pair(*rules: Rule) -> Snapshot:
    """Return two nodes, of which the first has two guests."""
    return cluster({"a": 0.4, "b": 0.2}, {"vm1": ("a", 0.2), "vm2": ("a", 0.2)}, rules)


def apply(
    snapshot: Snapshot,
    **changes: Any,  # noqa: ANN401
) -> ScenarioResult:
    return apply_scenario(snapshot, Scenario(**changes), DEFAULT_LIMITS)


def changed(
    snapshot: Snapshot,
    name: str,
    **changes: Any,  # noqa: ANN401
) -> Snapshot:
    guest = replace(snapshot.guests[GuestId(name)], **changes)
    return replace(snapshot, guests={**snapshot.guests, guest.id: guest})


def unplaced(result: ScenarioResult) -> dict[str, UnplacedReason]:
    return {each.guest: each.reason for each in result.unplaced}


def test_no_change_fits_and_changes_nothing() -> None:
    result = apply(pair())

    assert result.fits
    assert result.after == result.before


def test_guests_of_a_failed_node_restart_on_another() -> None:
    result = apply(pair(), fail=(A,))

    assert result.fits
    assert {each.guest: each.target for each in result.placed} == {
        "vm1": "b",
        "vm2": "b",
    }
    assert result.after.nodes[A].state is NodeState.OFFLINE
    usage = result.after.nodes[B].usage
    assert usage.cpu == pytest.approx(6.0)
    assert usage.memory == pytest.approx(60 * GIB, abs=9)


def test_guests_without_memory_elsewhere_are_unplaced_and_stopped() -> None:
    snapshot = cluster({"a": 0.6, "b": 0.5}, {"vm1": ("a", 0.6)})

    result = apply(snapshot, fail=(A,))

    assert not result.fits
    assert result.is_proven
    assert unplaced(result) == {"vm1": UnplacedReason.NO_FEASIBLE_NODE}
    assert result.after.guests[GuestId("vm1")].state is GuestState.STOPPED


def test_strict_rules_hold_for_restarted_guests() -> None:
    result = apply(pair(AntiAffinity(guests=guest_ids("vm1", "vm2"))), fail=(A,))

    assert len(result.placed) == len(result.unplaced) == 1
    assert not result.new_violations


def test_guests_of_an_affinity_restart_on_one_node() -> None:
    snapshot = cluster(
        {"a": 0.4, "b": 0.7, "c": 0.7},
        {"vm1": ("a", 0.2), "vm2": ("a", 0.2)},
    )
    rule = Affinity(guests=guest_ids("vm1", "vm2"))

    assert apply(snapshot, fail=(A,)).fits
    result = apply(replace(snapshot, rules=(rule,)), fail=(A,))

    assert sorted(unplaced(result)) == ["vm1", "vm2"]


def test_part_of_a_split_affinity_prefers_the_other_part_but_may_be_elsewhere() -> None:
    rule = Affinity(guests=guest_ids("vm1", "vm2"))
    snapshot = cluster(
        {"a": 0.2, "b": 0.5, "c": 0.1}, {"vm1": ("a", 0.2), "vm2": ("b", 0.5)}, [rule]
    )
    full = replace(snapshot, nodes={**snapshot.nodes, B: node("b", 0.9)})

    near, elsewhere = apply(snapshot, fail=(A,)), apply(full, fail=(A,))

    assert [each.target for each in near.placed] == ["b"]
    assert [each.target for each in elsewhere.placed] == ["c"]
    assert elsewhere.fits  # the rule was violated before


@pytest.mark.parametrize(
    "changes",
    [
        {"mobility": Mobility.NONE},
        {"disks": (Disk(storage="local"),)},
    ],
    ids=["mobility", "disk"],
)
def test_guest_bound_to_a_failed_node_stays_down(changes: dict[str, Any]) -> None:
    snapshot = changed(pair(), "vm1", **changes)
    local = (Storage(id="local", shared=False), Storage(id="san", shared=True))
    nodes = {name: replace(each, storages=local) for name, each in pair().nodes.items()}

    result = apply(replace(snapshot, nodes=nodes), fail=(A,))

    assert unplaced(result) == {"vm1": UnplacedReason.BOUND_TO_NODE}
    assert [each.guest for each in result.placed] == ["vm2"]


def test_pin_keeps_a_guest_on_a_removed_node_but_not_on_a_failed_one() -> None:
    snapshot = pair(Pin(guests=guest_ids("vm1")))

    assert apply(snapshot, fail=(A,)).fits
    result = apply(snapshot, remove=(A,))

    assert unplaced(result) == {"vm1": UnplacedReason.MIGRATION_NOT_ALLOWED}


def test_guests_leave_a_removed_node_in_maintenance() -> None:
    snapshot = pair()
    nodes = {
        **snapshot.nodes,
        A: replace(snapshot.nodes[A], state=NodeState.MAINTENANCE),
    }

    assert apply(replace(snapshot, nodes=nodes), remove=(A,)).fits


def test_unmeasured_node_receives_no_guest() -> None:
    snapshot = cluster({"a": 0.1, "b": None}, {"vm1": ("a", 0.1)})

    assert unplaced(apply(snapshot, fail=(A,))) == {
        "vm1": UnplacedReason.NO_FEASIBLE_NODE
    }


def test_unmeasured_guest_is_never_placed() -> None:
    snapshot = cluster({"a": 0.1, "b": 0.1}, {"vm1": ("a", None)})

    (missing,) = apply(snapshot, fail=(A,)).unplaced

    assert missing.reason is UnplacedReason.NO_FEASIBLE_NODE
    assert "metrics-missing (1 node)" in missing.detail


def test_added_nodes_are_in_the_rules_of_their_template() -> None:
    rule = NodeAffinity(guests=guest_ids("vm1", "vm2"), nodes={A: 0})
    snapshot = pair(rule)

    assert not apply(snapshot, fail=(A,)).fits
    result = apply(snapshot, fail=(A,), add=(NodeAddition(2, A),))

    assert result.fits
    assert sorted(set(result.after.nodes) - set(snapshot.nodes)) == ["a+1", "a+2"]
    assert {each.target for each in result.placed} <= {"a+1", "a+2"}


def test_names_of_added_nodes_are_unique() -> None:
    additions = (NodeAddition(1, A), NodeAddition(2, A), NodeAddition(1, B))

    result = apply(pair(), add=additions)

    assert sorted(result.after.nodes) == ["a", "a+1", "a+2", "a+3", "b", "b+1"]
    assert result.after.nodes[NodeId("a+3")].usage == Usage(0.0, 0)


def test_growth_stops_at_limits_and_adds_to_the_nodes() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1}, {"vm1": ("a", 0.4), "vm2": ("b", None)})
    snapshot = changed(snapshot, "vm1", limit=Resources(cpu=4.4, memory=100 * GIB))

    after = apply(snapshot, growth=0.2).after

    grown = after.guests[GuestId("vm1")].usage
    assert grown.cpu == pytest.approx(4.4)  # not 4.8: its limit
    assert grown.memory == pytest.approx(48 * GIB, abs=1)
    assert after.nodes[A].usage.cpu == pytest.approx(5.4)
    assert after.nodes[A].usage.memory == pytest.approx(58 * GIB, abs=1)
    assert after.guests[GuestId("vm2")].usage == Usage()


def test_growth_beyond_the_headroom_does_not_fit() -> None:
    snapshot = cluster({"a": 0.9, "b": 0.98}, {"vm1": ("a", 0.4)})
    snapshot = changed(snapshot, "vm1", limit=Resources(10, 100 * GIB))

    result = apply(snapshot, growth=0.2)

    assert not result.fits
    assert result.short_of_memory == ("a",)  # b was short of memory before


def test_migration_towards_a_failed_node_ends_at_its_source() -> None:
    snapshot = cluster(
        {"a": 0.2, "b": 0.1, "c": 0.1}, {"vm1": ("a", 0.2)}, moving={"vm1": "b"}
    )

    result = apply(snapshot, fail=(B,))

    assert result.after.guests[GuestId("vm1")].occupied_nodes == ("a",)


def test_unknown_node_is_an_error() -> None:
    with pytest.raises(UnknownNodeError):
        apply(pair(), fail=(C,))


@pytest.mark.parametrize(
    "changes",
    [
        {"add": (NodeAddition(0, A),)},
        {"growth": -1.5},
        {"growth": 99.0},
        {"fail": (A,), "remove": (A,)},
    ],
)
def test_scenario_out_of_range_is_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        apply(pair(), **changes)
