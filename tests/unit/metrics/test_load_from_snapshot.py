"""Loads computed from a snapshot, and missing metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.metrics import LoadModel, demand, missing_metrics, node_loads
from opendrs.model import GuestState, NodeId, NodeState, Resources, Snapshot, Usage
from support.builders import CAPACITY, cluster, fraction_of_node, guest, node

A, B = NodeId("a"), NodeId("b")


def changed_node(snapshot: Snapshot, name: str, **changes: object) -> Snapshot:
    changed = node(name, 0.5, **changes)
    return replace(snapshot, nodes={**snapshot.nodes, changed.id: changed})


def with_guest(snapshot: Snapshot, where: str, **changes: object) -> Snapshot:
    changed = guest("vm", where, 0.2, **changes)
    return replace(snapshot, guests={changed.id: changed})


PLAIN = cluster({"b": 0.5, "a": 0.1}, {"vm": ("a", 0.2), "other": ("a", 0.4)})


def test_dynamic_loads_are_the_measured_use_of_the_nodes() -> None:
    loads = node_loads(PLAIN, LoadModel.DYNAMIC)

    assert {name: load.mean for name, load in loads.items()} == {A: 0.1, B: 0.5}


def test_static_loads_are_the_limits_of_the_guests() -> None:
    loads = node_loads(PLAIN, LoadModel.STATIC)

    assert loads[A].usage == fraction_of_node(CAPACITY, 0.2).plus(
        fraction_of_node(CAPACITY, 0.4)
    )
    assert loads[B].usage == Resources(0, 0)


@pytest.mark.parametrize("mode", LoadModel)
def test_nodes_come_in_order_of_name(mode: LoadModel) -> None:
    assert list(node_loads(PLAIN, mode)) == [A, B]


@pytest.mark.parametrize("mode", LoadModel)
@pytest.mark.parametrize("state", set(NodeState) - {NodeState.ONLINE})
def test_only_online_nodes_count(mode: LoadModel, state: NodeState) -> None:
    absent = changed_node(PLAIN, "b", state=state, usage=Usage(), capacity=None)

    assert list(node_loads(absent, mode)) == [A]
    assert missing_metrics(absent, mode) == ""


def test_a_guest_on_the_move_counts_on_both_nodes_by_its_limit() -> None:
    moving = cluster({"a": 0, "b": 0}, {"vm": ("a", 0.2)}, moving={"vm": "b"})

    loads = node_loads(moving, LoadModel.STATIC)

    assert loads[A].mean == loads[B].mean == 0.2


def test_a_stopped_guest_takes_nothing_by_its_limit() -> None:
    stopped = with_guest(PLAIN, "a", state=GuestState.STOPPED)

    assert node_loads(stopped, LoadModel.STATIC)[A].usage == Resources(0, 0)


def test_a_guest_without_cpu_limit_may_take_all_cores_of_its_node() -> None:
    unlimited = with_guest(PLAIN, "a", limit=Resources(0, 5))

    taken = node_loads(unlimited, LoadModel.STATIC)[A].usage

    assert taken == Resources(CAPACITY.cpu, 5)


@pytest.mark.parametrize(
    ("usage", "missing"),
    [
        (Usage(), "node b has no usage (nodes.b.usage: cpu, memory)"),
        (Usage(1.0, None), "node b has no memory usage (nodes.b.usage.memory)"),
        (Usage(None, 1), "node b has no cpu usage (nodes.b.usage.cpu)"),
    ],
)
def test_a_node_measured_in_part_is_not_measured(usage: Usage, missing: str) -> None:
    partly = changed_node(PLAIN, "b", usage=usage)

    assert missing_metrics(partly, LoadModel.DYNAMIC) == missing
    assert list(node_loads(partly, LoadModel.DYNAMIC)) == [A]
    assert missing_metrics(partly, LoadModel.STATIC) == ""


@pytest.mark.parametrize("mode", LoadModel)
def test_node_without_capacity_has_missing_metrics(mode: LoadModel) -> None:
    assert missing_metrics(changed_node(PLAIN, "b", capacity=None), mode) == (
        "node b has no capacity (nodes.b.capacity: cpu, memory)"
    )


def test_guest_without_limit_is_missing_in_static_model_only() -> None:
    unlimited = with_guest(PLAIN, "a", limit=None)

    assert missing_metrics(unlimited, LoadModel.STATIC) == (
        "guest vm has no limit (guests.vm.limit: cpu, memory)"
    )
    assert missing_metrics(unlimited, LoadModel.DYNAMIC) == ""


def test_a_stopped_guest_needs_no_limit() -> None:
    stopped = with_guest(PLAIN, "a", limit=None, state=GuestState.STOPPED)

    assert missing_metrics(stopped, LoadModel.STATIC) == ""


def test_missing_metrics_lists_nodes_before_guests() -> None:
    blind = cluster({"b": None, "a": None, "c": 0.1}, {"a-vm": ("c", None)})

    assert missing_metrics(blind, LoadModel.DYNAMIC) == (
        "nodes a, b have no usage (nodes.a.usage: cpu, memory)"
    )
    assert missing_metrics(blind, LoadModel.STATIC) == (
        "guest a-vm has no limit (guests.a-vm.limit: cpu, memory)"
    )


def test_a_guest_takes_along_its_use_or_its_limit() -> None:
    vm = guest("vm", "a", 0.2, limit=Resources(8, 9))

    assert demand(vm, LoadModel.DYNAMIC) == fraction_of_node(CAPACITY, 0.2)
    assert demand(vm, LoadModel.STATIC) == Resources(8, 9)


def test_what_a_guest_takes_along_may_not_be_known() -> None:
    vm = guest("vm", "a", None, usage=Usage(1.0, None))

    assert demand(vm, LoadModel.DYNAMIC) is None
    assert demand(vm, LoadModel.STATIC) is None
