"""Columns of the cluster of a recorded cycle, and its figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.controller.views import cluster_document, cluster_summary
from opendrs.controller.views.cluster_columns import node_roles
from opendrs.errors import StoreError
from opendrs.model import (
    GIB,
    AntiAffinity,
    GuestState,
    Node,
    NodeId,
    NodeState,
    Pin,
    Pressure,
    Resources,
    Snapshot,
    Stall,
)
from opendrs.ports import CycleRecord
from support.builders import NOON, cluster, guest, guest_ids, node
from support.recorded_cycles import decided

LOPSIDED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"one": ("a", 0.2), "two": ("a", 0.2), "three": ("a", 0.2)},
    rules=[Pin(guests=guest_ids("three"))],
)


def with_nodes(snapshot: Snapshot, *nodes: Node) -> Snapshot:
    return replace(snapshot, nodes={**snapshot.nodes, **{n.id: n for n in nodes}})


def row(columns: dict[str, list[Any]], name: str) -> dict[str, Any]:
    index = columns["id"].index(name)
    return {key: values[index] for key, values in columns.items()}


def test_columns_have_the_loads_of_the_record() -> None:
    found = cluster_document(decided(LOPSIDED), drained=["b"])

    assert {len(column) for column in found["nodes"].values()} == {2}
    assert {len(column) for column in found["guests"].values()} == {3}
    assert row(found["nodes"], "a") == {
        "id": "a",
        "state": "online",
        "group": None,
        "cpu_capacity": 10,
        "memory_capacity": 100 * GIB,
        "cpu": 8,
        "memory": 80 * GIB,
        "role": "neutral",
        "jobs": None,
        "drained": False,
        "over_limit": False,
    }
    assert row(found["nodes"], "b")["drained"] is True
    one = row(found["guests"], "one")
    assert found["nodes"]["id"][one.pop("node")] == "a"
    assert one == {
        "id": "one",
        "migrating_to": None,
        "cpu": 2,
        "memory": 20 * GIB,
        "memory_limit": 20 * GIB,
        "state": "running",
        "managed_by": None,
        "stays": None,
    }


def test_guests_that_stay_have_the_code_of_the_reason() -> None:
    found = cluster_document(decided(LOPSIDED))

    stays = dict(zip(found["guests"]["id"], found["guests"]["stays"], strict=True))
    assert stays == {"one": None, "two": None, "three": "pinned"}
    balanced = cluster({"a": 0.1, "b": 0.1}, {"one": ("a", 0.1)})
    found = cluster_document(decided(balanced))
    assert found["guests"]["stays"] == ["not-chosen"]


def test_unknown_values_are_none() -> None:
    unknown = Node(id=NodeId("c"))
    snapshot = with_nodes(LOPSIDED, unknown, node("d", None))
    stranded = replace(guest("four", "c", None), limit=Resources(0, 0))
    snapshot = replace(snapshot, guests={**snapshot.guests, stranded.id: stranded})

    found = cluster_document(decided(snapshot))

    assert row(found["nodes"], "c") == {
        **dict.fromkeys(("group", "cpu_capacity", "memory_capacity", "cpu", "memory")),
        "id": "c",
        "state": "unknown",
        "role": "neutral",
        "jobs": None,
        "drained": False,
        "over_limit": False,
    }
    assert row(found["nodes"], "d")["cpu"] is None
    four = row(found["guests"], "four")
    assert (four["cpu"], four["memory"], four["memory_limit"]) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"failure_domain": "z1", "labels": frozenset({"rack-3"})}, "z1"),
        ({"labels": frozenset({"ssd", "zone-b", "rack-3"})}, "rack-3"),
        ({"labels": frozenset({"zone-b"}), "groups": frozenset({"agg"})}, "zone-b"),
        ({"groups": frozenset({"agg"})}, "agg"),
        ({"groups": frozenset({"agg", "gpu"})}, None),
        ({"labels": frozenset({"ssd"})}, None),
    ],
)
def test_group_is_the_failure_domain(
    changes: dict[str, Any], expected: str | None
) -> None:
    snapshot = with_nodes(LOPSIDED, node("a", 0.8, **changes))

    found = cluster_document(decided(snapshot))

    assert row(found["nodes"], "a")["group"] == expected


def test_roles_are_those_of_the_steps() -> None:
    steps: list[dict[str, Any]] = [
        {"guest": "one", "source": "a", "target": "b"},
        {"guest": "two", "source": "b", "target": "c"},
        {"guest": None, "source": None, "target": "d"},
    ]

    assert node_roles(steps) == {"a": "source", "b": "both", "c": "target"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (node("a", 0.5), False),
        (node("a", 0.94), False),
        (node("a", 0.96), True),  # both CPU and memory
        (node("a", 0.96, state=NodeState.EXCLUDED), True),
        (node("a", 0.96, state=NodeState.OFFLINE), False),
        (node("a", 0.1, capacity=Resources(10, 50 * GIB)), True),  # 60 GiB committed
        (node("a", None), False),
    ],
)
def test_node_over_its_limits_is_marked(changed: Node, expected: bool) -> None:  # noqa: FBT001
    found = cluster_document(decided(with_nodes(LOPSIDED, changed)))

    assert row(found["nodes"], "a")["over_limit"] is expected


def test_summary_has_the_figures_of_the_cycle() -> None:
    snapshot = cluster(
        nodes={"a": 0.9, "b": 0.3},
        guests={"one": ("a", 0.1), "two": ("a", 0.1), "three": ("b", 0.1)},
        rules=[AntiAffinity(guests=guest_ids("one", "two"))],
    )

    found = cluster_summary(decided(snapshot))

    # The loads 0.9 and 0.3: mean 0.6, deviation 0.3, bound sqrt(2 - 1).
    assert found.imbalance == pytest.approx(0.5)
    assert (found.worst_node, found.worst_load) == ("a", 0.9)
    assert (found.suffering_guests, found.violated_rules) == (0, 1)


def test_suffering_guests_are_stalled_or_on_a_full_node() -> None:
    stalled = Pressure(cpu=Stall(some=0.8))
    snapshot = cluster(
        nodes={"a": 0.2, "b": 0.97},
        guests={"one": ("a", 0.1), "three": ("b", 0.1), "four": ("b", 0.1)},
    )
    guests = [
        replace(snapshot.guests[name], pressure=stalled) for name in guest_ids("one")
    ]
    guests.append(guest("five", "b", 0.1, state=GuestState.STOPPED))
    snapshot = replace(
        snapshot, guests={**snapshot.guests, **{each.id: each for each in guests}}
    )

    assert cluster_summary(decided(snapshot)).suffering_guests == 3


def test_summary_without_known_loads_is_unknown() -> None:
    found = cluster_summary(decided(cluster({"a": None, "b": None}, {})))

    assert (found.imbalance, found.worst_node, found.worst_load) == (None, None, None)


def test_damaged_record_is_an_error_of_the_store() -> None:
    record = CycleRecord(run="run", decided_at=NOON, document={"snapshot": {}})

    with pytest.raises(StoreError, match="cycle run"):
        cluster_document(record)
