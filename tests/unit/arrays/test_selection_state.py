"""Assignment state against the plain form, also after moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.arrays import (
    BestMove,
    MobilityFilter,
    MoveArrays,
    SelectionState,
    best_by_imbalance,
    best_by_topsis,
    migrations_of,
)
from opendrs.arrays.evaluation import exact_imbalances
from opendrs.metrics import ImbalanceMetric, LoadModel, node_loads
from opendrs.model import (
    GIB,
    ColdMigration,
    GuestId,
    GuestKind,
    Limits,
    LiveMigration,
    Mobility,
    NodeId,
    NodeState,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies.preconditions import MeasuredPart, unmet_precondition
from opendrs.rules import FeasibilityChecker
from support.builders import cluster, guest, node
from support.strategies import snapshots

A, B = NodeId("a"), NodeId("b")
EXACT = Limits(memory_headroom=0.0)  # whole bytes, so that both forms agree on them


def state_of(
    snapshot: Snapshot,
    load_model: LoadModel = LoadModel.DYNAMIC,
    limits: Limits = EXACT,
) -> SelectionState:
    return SelectionState(
        snapshot,
        limits,
        MobilityFilter(load_model=load_model, allow_cold_migration=True),
    )


def feasible_nodes(state: SelectionState, index: int) -> set[NodeId]:
    """Return the nodes which the columns leave open to a unit."""
    return {state.nodes[i] for i in np.flatnonzero(state.feasible_mask(index))}


def rejections(state: SelectionState, index: int) -> dict[NodeId, str]:
    """Return why each node but its own that is closed to a unit is so."""
    details = {
        name: state.rejection(index, place)
        for place, name in enumerate(state.nodes)
        if place != state.arrays.node_of[index]
    }
    return {name: detail for name, detail in details.items() if detail is not None}


def group_count(state: SelectionState) -> int:
    return len(state.arrays.demand)


@given(
    snapshots() | snapshots(settled=True) | snapshots(settled=True, measured=True),
    st.sampled_from(LoadModel),
)
def test_feasible_nodes_agree_with_feasibility_checker(
    snapshot: Snapshot, load_model: LoadModel
) -> None:
    if unmet_precondition(snapshot, load_model):
        return
    snapshot = MeasuredPart.of(snapshot, load_model).snapshot
    state = state_of(snapshot, load_model)
    done: set[int] = set()

    while True:
        event(f"after {len(done)} moves")
        checker = FeasibilityChecker(state.snapshot, state.rules, EXACT)
        for index in range(group_count(state)):
            group = [state.snapshot.guests[guest.id] for guest in state.members(index)]
            expected = set() if index in done else set(checker.feasible_nodes(group))
            assert feasible_nodes(state, index) == expected
            if index not in done:
                assert rejections(state, index) == {
                    name: detail
                    for name, detail in checker.infeasible_nodes(group).items()
                    if name in state.nodes
                }
        best = best_by_imbalance(state.arrays, ImbalanceMetric.CV)
        if best is None:
            break
        state.apply(best)
        done.add(best.group)


@settings(max_examples=50)
@given(snapshots(measured=True, settled=True))
def test_array_usage_agrees_with_node_loads(snapshot: Snapshot) -> None:
    state = state_of(snapshot)

    while True:
        usage = [
            (load.usage.cpu, load.usage.memory)
            for load in state.current_loads().values()
        ]
        assert state.arrays.usage == pytest.approx(np.array(usage))
        best = best_by_imbalance(state.arrays, ImbalanceMetric.CV)
        if best is None:
            break
        state.apply(best)


def better_infeasible(
    state: SelectionState, best: BestMove, metric: ImbalanceMetric
) -> list[tuple[str, str]]:
    """Return better infeasible nodes as from all nodes of the snapshot."""
    group, index = state.group(best), state.cluster.index
    checker = FeasibilityChecker(state.snapshot, state.rules, state.cluster.limits)
    infeasible = checker.infeasible_nodes(group)
    known = [name for name in infeasible if name in index]
    futures = exact_imbalances(
        state.arrays,
        np.full(len(known), best.group),
        np.array([index[name] for name in known], np.intp),
        metric,
    )
    return [
        (f"{name} (imbalance {future:.3f})", infeasible[name])
        for future, name in sorted(zip(futures, known, strict=True))
        if future < best.imbalance
    ]


@settings(max_examples=200)
@given(
    snapshots(measured=True, settled=True),
    st.sampled_from(LoadModel),
    st.sampled_from(ImbalanceMetric),
    st.sampled_from([best_by_imbalance, best_by_topsis]),
)
def test_state_after_moves_is_that_of_the_whole_snapshot(
    snapshot: Snapshot,
    load_model: LoadModel,
    metric: ImbalanceMetric,
    find: Callable[[MoveArrays, ImbalanceMetric], BestMove | None],
) -> None:
    if unmet_precondition(snapshot, load_model):
        return
    snapshot = MeasuredPart.of(snapshot, load_model).snapshot
    state, plain = state_of(snapshot, load_model, Limits()), snapshot
    while (best := find(state.arrays, metric)) is not None:
        assert [*state.better_infeasible_nodes(best, metric)] == better_infeasible(
            state, best, metric
        )

        state.apply(best)

        event("moved")
        plain = plain.apply(*migrations_of(state.group(best), state.target(best)))
        assert state.snapshot == plain
        assert state.current_loads() == node_loads(plain, load_model)
        checker = FeasibilityChecker(plain, state.rules, Limits())
        for group in range(group_count(state)):
            for place in range(len(state.nodes)):
                if place != state.arrays.node_of[group]:
                    expected = checker.rejection(
                        state.members(group), state.nodes[place]
                    )
                    assert state.rejection(group, place) == expected


def migration_types(mobility: Mobility | None, kind: GuestKind) -> list[type]:
    group = (guest("x", "a", 0.1, mobility=mobility, kind=kind),)
    return [type(move) for move in migrations_of(group, B)]


def test_guests_move_live_where_they_can() -> None:
    assert migration_types(Mobility.LIVE, GuestKind.CONTAINER) == [LiveMigration]
    assert migration_types(None, GuestKind.VM) == [LiveMigration]
    assert migration_types(None, GuestKind.CONTAINER) == [ColdMigration]
    assert migration_types(Mobility.COLD, GuestKind.CONTAINER) == [ColdMigration]


def test_unknown_memory_stays_unknown_after_departure() -> None:
    # Nothing is known of the memory of `dark`, so no guest may join it.
    plain = cluster(
        {"a": 0.5, "b": 0.4}, {"x": ("a", 0.3), "y": ("b", 0.1), "dark": ("a", None)}
    )
    state = state_of(plain)

    state.apply(BestMove(group=0, target=1, imbalance=0.0))

    assert state.group(BestMove(1, 0, 0.0))[0].id == GuestId("y")
    assert feasible_nodes(state, 1) == set()


def test_a_guest_frees_no_more_than_was_measured_on_its_node() -> None:
    # 5 GiB are measured on a, of which x is said to use 20; y needs all of a.
    plain = cluster({"a": 0.05, "b": 0.0}, {"x": ("a", 0.2), "y": ("b", 0.0)})
    big = replace(
        plain.guests[GuestId("y")],
        usage=Usage(0.0, 101 * GIB),
        limit=Resources(1, 1 * GIB),
    )
    state = state_of(replace(plain, guests={**plain.guests, big.id: big}))

    state.apply(BestMove(group=0, target=1, imbalance=0.0))

    assert feasible_nodes(state, 1) == set()


def test_guests_that_need_a_processor_differ_from_those_that_do_not() -> None:
    plain = cluster({"a": 0.5, "b": 0.1}, {"x": ("a", 0.1), "y": ("a", 0.1)})
    picky = replace(plain.guests[GuestId("x")], cpu_model="EPYC")

    state = state_of(replace(plain, guests={**plain.guests, picky.id: picky}))

    assert feasible_nodes(state, 0) == set()
    assert feasible_nodes(state, 1) == {B}


def test_offline_nodes_are_not_in_arrays() -> None:
    plain = cluster({"a": 0.5, "b": 0.4}, {"x": ("a", 0.3), "y": ("b", 0.1)})
    down = {**plain.nodes, B: node("b", 0.4, state=NodeState.OFFLINE)}

    state = state_of(replace(plain, nodes=down))

    assert list(state.nodes) == [A]
    assert group_count(state) == 1
