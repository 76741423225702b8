"""Contention: stalled guests are relieved, by measured pressure (PSI)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.metrics import LoadModel, node_loads
from opendrs.model import (
    EMPTY_PLAN,
    GIB,
    Guest,
    GuestId,
    GuestKind,
    GuestPriority,
    Limits,
    Mobility,
    NodeId,
    Pressure,
    Resources,
    Snapshot,
    Stall,
    Usage,
)
from opendrs.policies import DecisionReason
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.contention import contention_thresholds, unmet_demand
from opendrs.policies.optimize.objective import Goal
from support.builders import CAPACITY, NOON, cluster, fraction_of_node, guest, guest_ids
from support.oracles.interleavings import migration_of

ROOMY = Resources(4, 20 * GIB)  # limit of guests: more cores than they use


def waiting(
    name: str,
    where: str,
    load: float,
    pressure: Pressure,
    **changes: Any,  # noqa: ANN401
) -> Guest:
    return guest(name, where, load, limit=ROOMY, pressure=pressure, **changes)


def on_cpu(some: float | None) -> Pressure:
    return Pressure(cpu=Stall(some))


def on_memory(some: float | None) -> Pressure:
    return Pressure(memory=Stall(some))


def holding(nodes: Mapping[str, float], *guests: Guest) -> Snapshot:
    return replace(
        cluster(nodes=nodes, guests={}), guests={each.id: each for each in guests}
    )


# c has the highest load; a guest on a is stalled.
THREE = {"a": 0.6, "b": 0.1, "c": 0.8}
THERE = guest("y", "c", 0.2)


def test_optimize_cpu_contention_is_relieved_before_balance() -> None:
    uncontended = holding(THREE, waiting("x", "a", 0.2, on_cpu(0.05)), THERE)
    waits = holding(THREE, waiting("x", "a", 0.2, on_cpu(0.5)), THERE)
    policy = Optimize(budget="1 migrations")

    even, relieved = policy.decide(uncontended, None), policy.decide(waits, None)

    assert even.reason is DecisionReason.IMPROVES_BALANCE
    assert [migration_of(step).guest for step in even.plan.steps] == ["y"]
    assert relieved.reason is DecisionReason.RELIEVES_OVERLOAD
    assert [migration_of(step).guest for step in relieved.plan.steps] == ["x"]
    # It is stalled half of the time, for at least one core.
    assert relieved.before["waiting_cores"] == pytest.approx(0.5)
    assert relieved.after["waiting_cores"] == 0
    assert relieved.notes[0].startswith("stalled: x 50%")


def test_optimize_memory_contention_is_relieved_before_balance() -> None:
    # 20 GiB, and stalled 30 % of the time: 6 GiB are missing there.
    snapshot = holding(THREE, waiting("x", "a", 0.2, on_memory(0.3)), THERE)

    decision = Optimize(budget="1 migrations").decide(snapshot, None)

    assert decision.reason is DecisionReason.RELIEVES_OVERLOAD
    assert [migration_of(step).guest for step in decision.plan.steps] == ["x"]
    assert decision.before["waiting_gib"] == pytest.approx(6.0)
    assert decision.after["waiting_gib"] == 0


def test_optimize_contended_node_is_no_target() -> None:
    # Without the stall of z, b would be the better target: its load is lower.
    waits = waiting("z", "b", 0.05, on_cpu(0.9), mobility=Mobility.NONE)
    snapshot = holding({"a": 0.9, "b": 0.51, "c": 0.6}, guest("x", "a", 0.2), waits)

    decision = Optimize().decide(snapshot, None)

    assert [migration_of(step).target for step in decision.plan.steps] == ["c"]


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("not for long", {"pressure": on_cpu(0.2)}),
        ("not known", {"pressure": on_cpu(None)}),
        ("it uses all it may", {"limit": fraction_of_node(CAPACITY, 0.2)}),
        ("measured elsewhere", {"migrated_at": NOON - timedelta(seconds=299)}),
        ("its memory is its limit", {"pressure": on_memory(0.2)}),
    ],
)
def test_unmet_demand_without_contention_on_node_is_empty(
    what: str, changed: Mapping[str, Any]
) -> None:
    del what
    waits = waiting("x", "a", 0.2, on_cpu(0.5))
    snapshot = holding({"a": 0.6, "b": 0.6}, replace(waits, **changed))

    decision = Optimize().decide(snapshot, None)

    assert (decision.reason, decision.plan) == (DecisionReason.BALANCED, EMPTY_PLAN)
    assert unmet_demand(snapshot, 0.2).waits == {}


def test_unmet_demand_half_free_node_owes_nothing() -> None:
    idle = holding({"a": 0.5, "b": 0.5}, waiting("x", "a", 0.2, on_cpu(0.9)))
    free = holding({"a": 0.5, "b": 0.5}, waiting("x", "a", 0.2, on_memory(0.9)))

    for found in (unmet_demand(idle, 0.2), unmet_demand(free, 0.2)):
        assert (sum(found.cpu.values()), sum(found.memory.values())) == (0, 0)


def test_unmet_demand_is_at_most_usage_above_half() -> None:
    # Two miss 0.9 cores and 18 GiB each; 0.3 cores and 3 GiB are above half.
    waits = Pressure(cpu=Stall(0.9), memory=Stall(0.9))
    snapshot = holding(
        {"a": 0.53}, waiting("x", "a", 0.2, waits), waiting("y", "a", 0.2, waits)
    )

    found = unmet_demand(snapshot, 0.2)

    assert found.cpu == {"a": pytest.approx(0.3)}
    assert found.guest_cores == {"x": 0.9, "y": 0.9}
    assert found.memory == {"a": pytest.approx(3 * GIB)}


def test_node_with_stalled_guest_is_not_filled_above_half() -> None:
    # Balance alone would move 15 % of a node from a to b.
    loads = {"a": 0.8, "b": 0.5}
    others = [guest(f"g{i}", "a", 0.15) for i in range(4)]
    uncontended = holding(loads, waiting("x", "b", 0.2, on_cpu(0.1)), *others)
    held = holding(loads, waiting("x", "b", 0.2, on_cpu(0.9)), *others)
    short = holding(loads, waiting("x", "b", 0.2, on_memory(0.9)), *others)

    assert Optimize().decide(uncontended, None).plan.steps
    for snapshot in (held, short):
        plan = Optimize(budget="1 migrations").decide(snapshot, None).plan
        assert all(migration_of(step).target != "b" for step in plan.steps)


def test_container_at_its_limit_is_no_contention() -> None:
    full = Resources(4, 20 * GIB)
    changes: dict[str, Any] = {"kind": GuestKind.CONTAINER, "limit": full}
    snapshot = holding(
        {"a": 0.9}, replace(waiting("x", "a", 0.2, on_memory(0.9)), **changes)
    )
    vm = replace(
        snapshot,
        guests={
            GuestId("x"): replace(snapshot.guests[GuestId("x")], kind=GuestKind.VM)
        },
    )

    assert unmet_demand(snapshot, 0.2).memory == {}
    assert unmet_demand(vm, 0.2).memory == {"a": pytest.approx(18 * GIB)}


def test_unmet_demand_is_within_the_limit_of_guests() -> None:
    snapshot = holding(
        {"a": 0.6},
        replace(waiting("x", "a", 0.2, on_cpu(0.9)), limit=Resources(2.25, 64 * GIB)),
    )

    found = unmet_demand(snapshot, 0.2)

    assert found.guest_cores == {"x": 0.25}
    assert found.apply_to(snapshot).guests[GuestId("x")].usage.cpu == 2.25
    assert found.apply_to(snapshot).nodes[NodeId("a")].usage.cpu == 6.25


def test_unmet_demand_uses_node_pressure_without_guest_pressure() -> None:
    pressed = Pressure(cpu=Stall(0.5), memory=Stall(0.9, 0.25))

    def with_pressure(pressure: Pressure) -> Snapshot:
        snapshot = holding({"a": 0.8}, waiting("x", "a", 0.2, pressure))
        nodes = {
            name: replace(node, pressure=pressed)
            for name, node in snapshot.nodes.items()
        }
        return replace(snapshot, nodes=nodes)

    silent = unmet_demand(with_pressure(Pressure()), 0.2)
    speaking = unmet_demand(
        with_pressure(Pressure(cpu=Stall(0.0), memory=Stall(0.0))), 0.2
    )

    assert silent.cpu == {"a": 0.5}
    assert silent.memory == {"a": 20 * GIB}
    assert (silent.guest_cores, speaking.cpu, speaking.memory) == ({}, {}, {})


def test_static_load_model_relieves_contention() -> None:
    snapshot = holding(
        {"a": 0.6, "b": 0.1},
        waiting("x", "a", 0.1, on_cpu(0.5)),
        replace(guest("y", "a", 0.1), limit=ROOMY),
        replace(guest("z", "b", 0.1), limit=ROOMY),
    )

    decision = Optimize(load_model=LoadModel.STATIC, threshold=9.0).decide(
        snapshot, None
    )

    assert decision.reason is DecisionReason.RELIEVES_OVERLOAD
    assert decision.before["waiting_cores"] == pytest.approx(0.5)
    assert decision.after["waiting_cores"] == 0


def test_unmet_demand_of_unmeasured_guest_is_not_added() -> None:
    snapshot = holding(
        {"a": 0.6}, replace(waiting("x", "a", 0.2, on_cpu(0.5)), usage=Usage())
    )

    assert unmet_demand(snapshot, 0.2).apply_to(snapshot) == snapshot


DRAWN = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(1, 12),
        st.one_of(st.none(), st.integers(0, 10)),
    ),
    min_size=1,
    max_size=5,
)


@given(DRAWN)
@settings(max_examples=40, deadline=None)
def test_no_placement_has_less_unmet_demand(
    drawn: list[tuple[str, int, int | None]],
) -> None:
    snapshot = of(drawn)
    policy = Optimize(
        priorities=(Goal.CONTENTION,),
        budget="unlimited",
        migration_cost_weight=0.0,
        min_improvement=0.0,
    )

    decision = policy.decide(snapshot, None)

    least = min(
        left_to_wait_for(snapshot, dict(zip(snapshot.guests, where, strict=True)))
        for where in product("abc", repeat=len(drawn))
    )
    assert decision.after["waiting_cores"] == pytest.approx(least, abs=1e-9)


def left_to_wait_for(snapshot: Snapshot, where: Mapping[GuestId, str]) -> float:
    """Return the unmet cores with the guests at *where*, in plain loops."""
    cores = {name: each.usage.cpu or 0.0 for name, each in snapshot.nodes.items()}
    requested = {name: each.usage.cpu or 0.0 for name, each in snapshot.guests.items()}
    most = dict.fromkeys(cores, 8.5)
    for node, used in cores.items():
        waits = {
            name: min(each.pressure.cpu.some or 0.0, 4 - requested[name])
            for name, each in snapshot.guests.items()
            if each.node == node and (each.pressure.cpu.some or 0.0) > 0.2
        }
        if waits:  # half of a node are 5 cores
            missing = sum(waits.values())
            above = max(0.0, used - 5)
            for name, each in waits.items():
                requested[name] += each
            owed = min(missing, above)
            most[node] = min(8.5, max(5.0 + missing, used + missing - owed))
    loads = {
        name: cores[name]
        - sum(
            each.usage.cpu or 0.0
            for each in snapshot.guests.values()
            if each.node == name
        )
        + sum(requested[each] for each, there in where.items() if there == name)
        for name in cores
    }
    return sum(max(0.0, loads[name] - most[name]) for name in loads)


DRAWN_PRIORITIES = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(2, 6), st.sampled_from((0.5, 1.0, 2.0))
    ),
    min_size=2,
    max_size=5,
)


@given(DRAWN_PRIORITIES)
@settings(max_examples=25, deadline=None)
def test_no_placement_has_less_unmet_demand_weighted_by_priority(
    drawn: list[tuple[str, int, float]],
) -> None:
    names = [f"g{index}" for index in range(len(drawn))]
    home = dict(zip(names, (where for where, _, _ in drawn), strict=True))
    cores = dict(zip(names, (float(size) for _, size, _ in drawn), strict=True))
    priority = dict(zip(names, (value for _, _, value in drawn), strict=True))
    used = {
        node: sum(cores[name] for name in names if home[name] == node) for node in "abc"
    }
    rules = [
        GuestPriority(value=value, guests=guest_ids(name))
        for name, value in priority.items()
    ]
    snapshot = cluster(
        {node: amount / 10 for node, amount in used.items()},
        {name: (home[name], cores[name] / 10) for name in names},
        rules,
    )
    weight = {
        node: sum(cores[n] * priority[n] for n in names if home[n] == node) / amount
        if amount > 8.5
        else max(1.0, *priority.values())
        for node, amount in used.items()
    }

    def unmet(where: Mapping[str, str]) -> float:
        return sum(
            weight[node]
            * max(0.0, sum(cores[n] for n in names if where[n] == node) - 8.5)
            for node in "abc"
        )

    policy = Optimize(
        priorities=(Goal.CONTENTION,),
        budget="unlimited",
        migration_cost_weight=0.0,
        min_improvement=0.0,
        limits=Limits(memory_headroom=0.0, memory_overcommit=9.0),
    )

    plan = policy.decide(without_memory(snapshot), None).plan

    # A node that receives guests is filled to 10 cores, or 1.25 times the mean load.
    most = 10 * max(1.0, 1.25 * sum(used.values()) / 30)

    def is_allowed(where: Mapping[str, str]) -> bool:
        receiving = {where[name] for name in names if where[name] != home[name]}
        return all(
            sum(cores[name] for name in names if where[name] == node) <= most
            for node in receiving
        )

    after = snapshot.apply(*(step.action for step in plan.steps))
    found = unmet({name: each.node for name, each in after.guests.items()})
    placements = (
        dict(zip(names, where, strict=True))
        for where in product("abc", repeat=len(names))
    )
    least = min(unmet(each) for each in placements if is_allowed(each))
    assert found == pytest.approx(least, abs=1e-9)


def without_memory(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* in which memory limits no placement."""
    return replace(
        snapshot,
        nodes={
            name: replace(each, usage=Usage(each.usage.cpu, 0))
            for name, each in snapshot.nodes.items()
        },
        guests={
            name: replace(each, usage=Usage(each.usage.cpu, 0), limit=Resources(9.0, 0))
            for name, each in snapshot.guests.items()
        },
    )


def drawn_cluster(seed: int, *, pressed: bool) -> Snapshot:
    """Return six full nodes, six where guests may be stalled, and six empty ones."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    loads = {f"n{i:02}": (0.8, 0.7, 0.1)[i % 3] for i in range(18)}
    guests = []
    for name, load in loads.items():
        for i in range(int(load * 20)):
            some = draw.uniform(0.3, 0.8) if pressed and load == 0.7 else 0.02
            part = draw.uniform(0.01, 0.04)
            each = guest(f"{name}-{i}", name, part, pressure=on_cpu(some))
            guests.append(replace(each, limit=Resources(4, 5 * GIB)))
    return holding(loads, *guests)


@pytest.mark.parametrize("seed", range(3))
def test_random_cluster_is_relieved_before_balance(seed: int) -> None:
    snapshot = drawn_cluster(seed, pressed=False)
    pressed = drawn_cluster(seed, pressed=True)
    few = Optimize(budget="40 migrations")

    even, relieved = few.decide(snapshot, None), few.decide(pressed, None)

    missing = unmet_demand(pressed, few.pressure_threshold)
    requested = missing.apply_to(pressed)
    thresholds = contention_thresholds(
        requested, few.load_model, few.contention_threshold, missing
    )
    later = requested.apply(*(step.action for step in even.plan.steps))
    left = thresholds.cores_above(node_loads(later, few.load_model))
    assert relieved.after["waiting_cores"] < left / 2
    assert relieved.reason is DecisionReason.RELIEVES_OVERLOAD
    unlimited = replace(few, budget="unlimited").decide(pressed, None)
    assert unlimited.after["waiting_cores"] == pytest.approx(0, abs=1e-9)


@given(DRAWN)
@settings(max_examples=25, deadline=None)
def test_repeated_cycles_reach_a_fixed_point(
    drawn: list[tuple[str, int, int | None]],
) -> None:
    snapshot = of(drawn)

    for _ in range(2 * len(drawn) + 1):
        plan = Optimize().decide(snapshot, None).plan
        if not plan.steps:
            return
        snapshot = snapshot.apply(*(step.action for step in plan.steps))
    pytest.fail("still moving")


def of(drawn: list[tuple[str, int, int | None]]) -> Snapshot:
    """Return three nodes with guests: node, percent of a node, tenths stalled."""
    loads = dict.fromkeys("abc", 0.4)
    for where, part, _ in drawn:
        loads[where] += part / 100
    guests = [
        waiting(f"g{i}", where, part / 100, on_cpu(None if some is None else some / 10))
        for i, (where, part, some) in enumerate(drawn)
    ]
    return holding(loads, *guests)
