"""Ranked nodes for the start of a guest, and the reason of each infeasible node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.errors import ModelError, UnknownGuestError
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Affinity,
    AntiAffinity,
    FurtherLoad,
    GuestId,
    Limits,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.placement import (
    InfeasibleReason,
    StartPlacement,
    StartRequest,
    start_placement,
)
from support.builders import cluster, guest_ids, node

NO_HEADROOM = Limits(memory_headroom=0.0)
SMALL = Resources(cpu=1, memory=10 * GIB)  # a tenth of a node


def place(
    snapshot: Snapshot,
    limits: Limits = DEFAULT_LIMITS,
    **request: Any,  # noqa: ANN401
) -> StartPlacement:
    return start_placement(
        snapshot, StartRequest(**{"limit": SMALL, **request}), limits
    )


def ranking(found: StartPlacement) -> list[str]:
    return [each.node for each in found.ranked]


def reasons(found: StartPlacement) -> dict[str, InfeasibleReason]:
    return {each.node: each.reason for each in found.infeasible}


def test_least_loaded_node_is_first_with_its_load_before_and_after() -> None:
    found = place(cluster({"a": 0.5, "b": 0.2, "c": 0.3}, {}))

    assert ranking(found) == ["b", "c", "a"]
    assert found.nodes == ("b",)
    assert found.ranked[0].before.cpu == pytest.approx(0.2)
    assert found.ranked[0].after.memory == pytest.approx(0.3)


def test_each_infeasible_node_has_its_reason() -> None:
    snapshot = cluster(
        {"full": 0.9, "committed": 0.1, "free": 0.1},
        {"vm1": ("committed", 0.95)},
    )
    idle = [node(state.value, 0.1, state=state) for state in NodeState]
    nodes: dict[str, Node] = {
        **{str(name): each for name, each in snapshot.nodes.items()},
        "unmeasured": node("unmeasured", None),
        "partly": node("partly", 0.1, usage=Usage(cpu=None, memory=GIB)),
        "sizeless": node("sizeless", 0.1, capacity=None),
        "tiny": node(
            "tiny", 0.1, capacity=Resources(0.5, 100 * GIB), usage=Usage(0, 0)
        ),
        **{each.id: each for each in idle if not each.online},
    }
    snapshot = replace(
        snapshot, nodes={NodeId(name): value for name, value in nodes.items()}
    )

    found = place(snapshot)

    assert ranking(found) == ["free"]
    assert reasons(found) == {
        "full": InfeasibleReason.INSUFFICIENT_MEMORY,
        "committed": InfeasibleReason.MEMORY_OVERCOMMITTED,
        "unmeasured": InfeasibleReason.METRICS_MISSING,
        "partly": InfeasibleReason.METRICS_MISSING,
        "sizeless": InfeasibleReason.METRICS_MISSING,
        "tiny": InfeasibleReason.INSUFFICIENT_CORES,
        "offline": InfeasibleReason.NODE_OFFLINE,
        "maintenance": InfeasibleReason.NODE_MAINTENANCE,
        "excluded": InfeasibleReason.NODE_EXCLUDED,
        "unknown": InfeasibleReason.NODE_UNREACHABLE,
    }


def test_node_with_a_guest_of_unknown_size_is_not_measured() -> None:
    found = place(cluster({"a": 0.1, "b": 0.2}, {"vm1": ("a", None)}))

    assert reasons(found) == {"a": InfeasibleReason.METRICS_MISSING}


def test_guest_like_another_has_its_strict_rules() -> None:
    rules: list[Rule] = [
        AntiAffinity(guests=guest_ids("web1", "web2")),
        NodeAffinity(guests=guest_ids("web1"), nodes={NodeId(n): 0 for n in "abc"}),
    ]
    snapshot = cluster(
        {"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.0},
        {"web1": ("a", 0.1), "web2": ("b", 0.1)},
        rules,
    )

    found = place(snapshot, like=GuestId("web1"), count=2)

    assert ranking(found) == ["c"]
    assert set(reasons(found).values()) == {InfeasibleReason.RULE_VIOLATED}
    assert found.nodes == ("c", None)  # the second is apart from the first as well
    assert {each.node for each in found.infeasible_after} == set("abcd")


def test_guest_with_a_strict_affinity_starts_beside_its_group() -> None:
    rule = Affinity(guests=guest_ids("app", "cache"))
    snapshot = cluster(
        {"a": 0.5, "b": 0.0}, {"app": ("a", 0.1), "cache": ("a", 0.1)}, [rule]
    )

    found = place(snapshot, like=GuestId("cache"))

    assert ranking(found) == ["a"]
    assert reasons(found) == {"b": InfeasibleReason.RULE_VIOLATED}


def test_rule_of_a_tag_of_the_platform_applies() -> None:
    rule = AntiAffinity(
        guests=guest_ids("web1", "web2"), origin="tag opendrs.anti-affinity.web"
    )
    snapshot = cluster(
        {"a": 0.1, "b": 0.1, "c": 0.5},
        {"web1": ("a", 0.1), "web2": ("b", 0.1)},
        [rule],
    )

    found = place(snapshot, tags=frozenset({"opendrs.anti-affinity.web"}))

    assert ranking(found) == ["c"]


def test_preferred_nodes_come_before_less_loaded_ones() -> None:
    rules: list[Rule] = [
        NodeAffinity(
            guests=guest_ids("db1"),
            nodes={NodeId("a"): 2, NodeId("b"): 1},
            strict=False,
        ),
        AntiAffinity(guests=guest_ids("db1", "db2"), strict=False),
    ]
    snapshot = cluster(
        {"a": 0.7, "b": 0.6, "c": 0.0, "d": 0.1},
        {"db1": ("c", 0.1), "db2": ("c", 0.1)},
        rules,
    )

    found = place(snapshot, like=GuestId("db1"))

    assert ranking(found) == ["a", "b", "d", "c"]
    assert [each.soft_violations for each in found.ranked] == [0, 0, 0, 2]


def test_guests_of_a_count_are_spread_until_none_fits() -> None:
    snapshot = cluster({"a": 0.8, "b": 0.7}, {})

    found = place(snapshot, count=5, limits=NO_HEADROOM)

    assert sorted(map(str, found.nodes)) == ["a", "a", "b", "b", "b"]
    assert place(snapshot, count=6, limits=NO_HEADROOM).nodes[-1] is None


def test_node_is_infeasible_if_a_rack_is_not_tolerated_after_the_start() -> None:
    # After the failure of r1, only c has room for the 0.5 of vm1: 0.65, or 0.45 with
    # the new guest of 0.2.
    loads = {"a": 0.5, "b": 0.1, "c": 0.35, "d": 0.6}
    racks = {"a": "r1", "b": "r1", "c": "r2", "d": "r3"}
    snapshot = cluster(loads, {f"vm-{x}": (x, load) for x, load in loads.items()})
    nodes = {
        name: replace(each, labels=frozenset({f"rack={racks[name]}"}))
        for name, each in snapshot.nodes.items()
    }
    snapshot, size = replace(snapshot, nodes=nodes), Resources(2, 20 * GIB)
    any_rack = replace(NO_HEADROOM, tolerated_domain="rack")

    found = place(snapshot, any_rack, limit=size)

    assert ranking(place(snapshot, NO_HEADROOM, limit=size)) == ["b", "c", "a", "d"]
    assert ranking(found) == ["b", "a", "d"]
    assert reasons(found) == {"c": InfeasibleReason.FAILURE_NOT_TOLERATED}
    assert "the failure of rack r1" in found.infeasible[0].detail


def test_no_node_is_feasible_if_no_start_keeps_failures_tolerated() -> None:
    # Each of two nodes takes the guest of the other, and no further one after it.
    snapshot = cluster({"a": 0.5, "b": 0.5}, {"vm1": ("a", 0.5), "vm2": ("b", 0.5)})

    found = place(snapshot, replace(NO_HEADROOM, tolerated_failures=1), count=2)

    assert found.nodes == (None, None)
    assert set(reasons(found).values()) == {InfeasibleReason.FAILURE_NOT_TOLERATED}
    assert found.infeasible_after == found.infeasible


def test_start_is_feasible_though_others_have_no_node_after_a_failure() -> None:
    # Neither guest of 0.8 has a node after a failure; the new guest of 0.1 has one.
    snapshot = cluster({"a": 0.8, "b": 0.8}, {"vm1": ("a", 0.8), "vm2": ("b", 0.8)})

    found = place(snapshot, replace(NO_HEADROOM, tolerated_failures=1))

    assert sorted(ranking(found)) == ["a", "b"]


def networked(used: dict[str, float | None]) -> Snapshot:
    """Return nodes with this network load and a capacity of 100; vm1 adds 10."""
    snapshot = cluster(dict.fromkeys(used, 0.1), {"vm1": ("a", 0.1)})
    nodes = {
        name: replace(
            each,
            loads={} if (load := used[name]) is None else {"network": load},
            load_capacities={"network": 100.0},
        )
        for name, each in snapshot.nodes.items()
    }
    vm1 = replace(snapshot.guests[GuestId("vm1")], loads={"network": 10.0})
    return replace(snapshot, nodes=nodes, guests={vm1.id: vm1})


NETWORK = replace(NO_HEADROOM, loads=(FurtherLoad(name="network", threshold=0.5),))


def test_node_above_the_threshold_of_a_further_load_is_infeasible() -> None:
    snapshot = networked({"a": 51.0, "b": 50.0, "c": None})

    found = place(snapshot, NETWORK)

    assert ranking(found) == ["b"]
    assert reasons(found) == {
        "a": InfeasibleReason.LOAD_EXCEEDED,
        "c": InfeasibleReason.METRICS_MISSING,
    }
    assert [each.detail for each in found.infeasible] == [
        "network load above the threshold by 1",
        "network load of the node is unknown",
    ]
    assert sorted(ranking(place(snapshot, NO_HEADROOM))) == ["a", "b", "c"]


def test_guests_like_another_add_its_further_loads() -> None:
    # b takes two guests of 10 up to 50, and the third exceeds it by 5.
    snapshot = networked({"a": 41.0, "b": 25.0})

    found = place(snapshot, NETWORK, like=GuestId("vm1"), count=3)

    assert reasons(found) == {"a": InfeasibleReason.LOAD_EXCEEDED}
    assert found.nodes == ("b", "b", None)
    assert [each.detail for each in found.infeasible_after] == [
        "network load above the threshold by 1",
        "network load above the threshold by 5",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"limit": Resources(0, GIB)},
        {"limit": Resources(1, 0)},
        {"count": 0},
        {"count": 10**6},
    ],
)
def test_request_out_of_range_is_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        place(cluster({"a": 0.1}, {}), **changes)


def test_guest_like_an_unknown_one_is_an_error() -> None:
    with pytest.raises(UnknownGuestError):
        place(cluster({"a": 0.1}, {}), like=GuestId("nowhere"))
