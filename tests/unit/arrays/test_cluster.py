"""Columns of a snapshot, and assignments with undo."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opendrs.arrays import (
    AssignmentState,
    ClusterArrays,
    move_groups,
)
from opendrs.arrays.cluster import resource_amounts, resource_columns
from opendrs.metrics import LoadModel, node_loads
from opendrs.model import DEFAULT_LIMITS, GIB, NodeState, Snapshot
from opendrs.rules import AvailableMemory, compile_rules, required_memory
from support.builders import cluster, node
from support.strategies import snapshots


def arrays_of(
    snapshot: Snapshot, load_model: LoadModel | None = LoadModel.DYNAMIC
) -> ClusterArrays:
    rules = compile_rules(snapshot)
    groups = tuple(move_groups(snapshot, rules))
    return ClusterArrays(snapshot, rules, DEFAULT_LIMITS, groups, load_model)


def test_columns_are_in_order_of_names() -> None:
    snapshot = cluster({"b": 0.4, "a": 0.5}, {"y": ("b", 0.1), "x": ("a", 0.3)})

    arrays = arrays_of(snapshot)

    assert arrays.node_ids == ("a", "b")
    assert [group[0].id for group in arrays.groups] == ["x", "y"]
    assert arrays.node_of.tolist() == [0, 1]
    assert arrays.group_of == {"x": 0, "y": 1}
    assert arrays.capacity.tolist() == [[10.0, 100.0 * GIB]] * 2
    assert arrays.usage.tolist() == [[5.0, 50.0 * GIB], [4.0, 40.0 * GIB]]
    assert arrays.demand.tolist() == [[3.0, 30.0 * GIB], [1.0, 10.0 * GIB]]
    assert arrays.required.tolist() == [[30.0 * GIB] * 2, [10.0 * GIB] * 2]


def test_nodes_without_known_load_are_in_arrays_without_load_model() -> None:
    snapshot = cluster({"a": 0.5, "b": None}, {"x": ("a", 0.3)})

    assert arrays_of(snapshot).node_ids == ("a",)
    everything = arrays_of(snapshot, None)
    assert everything.node_ids == ("a", "b")
    assert everything.loads == {}
    assert everything.demand.tolist() == [[0.0, 0.0]]


def test_unknown_memory_has_the_missing_value() -> None:
    unknown = AvailableMemory(None, 3.0)

    columns = resource_columns([unknown], -math.inf, limits_cpu=False)

    assert resource_amounts(unknown, math.inf, limits_cpu=False) == (math.inf, 3.0, 0.0)
    assert columns.tolist() == [[-math.inf, 3.0]]
    assert resource_columns([], 0.0, limits_cpu=False).shape == (0, 2)
    assert resource_columns([], 0.0, limits_cpu=True).shape == (0, 3)


@given(snapshots(), st.sampled_from([None, *LoadModel]))
def test_columns_agree_with_rules_and_metrics(
    snapshot: Snapshot, load_model: LoadModel | None
) -> None:
    arrays = arrays_of(snapshot, load_model)

    if load_model is not None:
        assert arrays.loads == node_loads(snapshot, load_model)
    for row, name in enumerate(arrays.node_ids):
        available = arrays.feasibility.available_memory[name]
        expected = resource_amounts(available, -math.inf, limits_cpu=False)
        assert tuple(arrays.available[row]) == expected[:2]
    for row, group in enumerate(arrays.groups):
        required = required_memory(group)
        expected = resource_amounts(required, math.inf, limits_cpu=False)
        assert tuple(arrays.required[row]) == expected[:2]


@given(snapshots())
def test_compatible_nodes_agree_with_feasibility_checker(snapshot: Snapshot) -> None:
    arrays = arrays_of(snapshot, None)

    for group in arrays.groups:
        expected = [
            arrays.feasibility.is_compatible(group, snapshot.nodes[name])
            for name in arrays.node_ids
        ]
        assert arrays.classes.compatible(group).tolist() == expected


def test_offline_nodes_suit_no_group() -> None:
    plain = cluster({"a": 0.5, "b": 0.4}, {"x": ("a", 0.3)})
    down = node("b", 0.4, state=NodeState.OFFLINE)
    arrays = arrays_of(replace(plain, nodes={**plain.nodes, down.id: down}), None)

    assert arrays.classes.suited(arrays.groups[0]).tolist() == [True, False]
    assert arrays.classes.permitted(arrays.groups[0]).tolist() == [True, True]


def test_assignment_undoes_moves_exactly() -> None:
    # The source frees at most what it may use: 7 + 0.1 are more than 7.05.
    available = np.array([[7.0, 7.0], [5.0, 5.0]])
    state = AssignmentState(
        np.array([0]), np.array([[0.1, 0.1]]), available, available + 0.05
    )

    undo = state.place(0, 1)

    assert state.node_of.tolist() == [1]
    assert state.available.tolist() == [[7.05, 7.05], [4.9, 4.9]]
    assert state.has_resources(0).tolist() == [True, True]
    undo()
    assert state.node_of.tolist() == [0]
    assert (state.available == available).all()
