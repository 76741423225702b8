"""The further load `network`: its setting, and loads from counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.config.network_load import (
    Counters,
    capacity_problems,
    guest_load,
    transferred,
    with_capacity,
    with_guest_traffic,
)
from opendrs.model import (
    Guest,
    GuestId,
    GuestState,
    LoadAmounts,
    NodeId,
    NodeState,
    Snapshot,
)
from support.builders import cluster

A, B = NodeId("a"), NodeId("b")
CAPACITY = 1000.0
SNAPSHOT = cluster(
    {"a": 0.3, "b": 0.3}, {"g1": ("a", 0.1), "g2": ("a", 0.1), "g3": ("b", 0.1)}
)


def guests(**loads: float | None) -> list[Guest]:
    return [
        replace(SNAPSHOT.guests[GuestId(name)], loads=known_loads(load))
        for name, load in loads.items()
    ]


def known_loads(load: float | None) -> LoadAmounts:
    return {} if load is None else {"network": load}


def node_loads(snapshot: Snapshot, there: list[Guest]) -> dict[str, float | None]:
    nodes = with_guest_traffic(with_capacity(snapshot.nodes, CAPACITY), there)
    return {str(name): node.loads.get("network") for name, node in nodes.items()}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"eth0": 10, "eth1": 5}, {"eth0": 30, "eth1": 6}, 21),
        ({"eth0": 10}, {"eth0": 10}, 0),
        ({}, {}, 0),
        ({"eth0": 10, "eth1": 5}, {"eth0": 30, "eth1": 4}, None),  # began again
        ({"eth0": 10}, {"eth0": 30, "eth1": 6}, None),  # added
        ({"eth0": 10, "eth1": 5}, {"eth0": 30}, None),  # removed
        (None, {"eth0": 30}, None),
        ({"eth0": 10}, None, None),
    ],
)
def test_transferred_is_the_difference_of_equal_interfaces(
    before: Counters | None, after: Counters | None, expected: int | None
) -> None:
    assert transferred(before, after) == expected


@pytest.mark.parametrize(
    ("amount", "seconds", "expected"),
    [
        (500, 2.0, 250.0),
        (0, 2.0, 0.0),
        (None, 2.0, None),
        (500, 0.0, None),
        (10**17, 2.0, None),  # no network transfers that much
    ],
)
def test_guest_load_is_the_amount_per_second(
    amount: int | None, seconds: float, expected: float | None
) -> None:
    assert guest_load(amount, seconds).get("network") == expected


def test_load_of_a_node_is_the_sum_of_its_guests() -> None:
    assert node_loads(SNAPSHOT, guests(g1=100, g2=50, g3=7)) == {"a": 150, "b": 7}


def test_node_without_guests_has_no_traffic() -> None:
    assert node_loads(SNAPSHOT, []) == {"a": 0, "b": 0}


def test_load_of_a_node_with_an_unmeasured_guest_is_unknown() -> None:
    assert node_loads(SNAPSHOT, guests(g1=100, g2=None, g3=7)) == {"a": None, "b": 7}


def test_stopped_guest_has_no_traffic() -> None:
    first, *others = guests(g1=None, g2=50, g3=7)
    stopped = replace(first, state=GuestState.STOPPED)

    assert node_loads(SNAPSHOT, [stopped, *others]) == {"a": 50, "b": 7}


def test_nodes_without_response_and_without_setting_have_no_capacity() -> None:
    silent = replace(SNAPSHOT.nodes[B], state=NodeState.UNKNOWN)
    nodes = {**SNAPSHOT.nodes, B: silent}

    set_, unset = with_capacity(nodes, CAPACITY), with_capacity(nodes, None)

    assert set_[A].load_capacities == {"network": CAPACITY}
    assert set_[B].load_capacities == {}
    assert with_guest_traffic(unset, guests()) == nodes


@pytest.mark.parametrize(
    ("capacity", "count"), [(None, 0), (1024.0, 0), (1000.0, 1), (1e16, 1)]
)
def test_capacity_has_a_range(capacity: float | None, count: int) -> None:
    assert len(list(capacity_problems(capacity))) == count
    assert not count or "1024 to 1e+15" in next(capacity_problems(capacity))
