"""Validation of model values."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from opendrs.errors import ModelError
from opendrs.model import (
    EMPTY_PLAN,
    MAX_AMOUNT,
    Affinity,
    Allocation,
    AntiAffinity,
    Disk,
    GuestId,
    GuestKind,
    GuestState,
    Limits,
    LiveMigration,
    Mobility,
    Network,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Plan,
    Resources,
    Stall,
    Step,
    StepId,
    Storage,
    TagExclusion,
    Usage,
)
from support.builders import guest, guest_ids, node

INVALID_AMOUNTS = [-1.0, -1e-9, math.nan, math.inf, 2.0 * MAX_AMOUNT]
A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
MOVE = LiveMigration(GuestId("vm"), A, B)


@pytest.mark.parametrize("bad", INVALID_AMOUNTS)
def test_an_amount_is_a_finite_number_of_0_or_more(bad: float) -> None:
    for build in (
        lambda: Resources(bad, 1),
        lambda: Resources(1, bad),  # type: ignore[arg-type]
        lambda: Usage(bad, None),
        lambda: Usage(None, bad),  # type: ignore[arg-type]
        lambda: guest("vm", "a", 0.1, uptime=bad),
        lambda: guest("vm", "a", 0.1, dirty_rate=bad),
        lambda: node("a", 0.1, load_average=bad),
        lambda: node("a", 0.1, ksm_shared=bad),
        lambda: Allocation(cpu_ratio=bad),
        lambda: Storage(id="nfs", free=bad),  # type: ignore[arg-type]
        lambda: Disk(storage="nfs", size=bad),  # type: ignore[arg-type]
        lambda: Limits(memory_overcommit=bad),
        lambda: Limits(cooldown=bad),
        lambda: Limits(min_uptime=bad),
        lambda: Limits(migration_timeout=bad),
    ):
        with pytest.raises(ModelError, match="expected"):
            build()


def test_storage_with_more_free_than_its_capacity_raises_error() -> None:
    with pytest.raises(ModelError, match="storage nfs: free: expected at most"):
        Storage(id="nfs", capacity=1, free=2)


@pytest.mark.parametrize(
    "limits",
    [
        {"memory_headroom": -0.1},
        {"memory_headroom": 1.0},
        {"memory_headroom": math.nan},
        {"max_migrations_per_node": 0},
        {"max_parallel_migrations": 0},
        {"cooldown": 1e9},
        {"min_uptime": 1e9},
        {"migration_timeout": 1e15},
        {"bandwidth": 0.0},
        {"bandwidth": math.inf},
        {"bandwidth": math.nan},
    ],
)
def test_limits_out_of_range_raise_error(limits: dict[str, Any]) -> None:
    (name,) = limits

    with pytest.raises(ModelError, match=f"{name}: expected"):
        Limits(**limits)


def test_a_network_joins_its_nodes_to_all_others() -> None:
    uplink = Network(name="uplink", nodes=(A, B), max_parallel_migrations=1)
    limits = Limits(networks=(uplink,))

    assert limits.networks_between(A, C) == limits.networks_between(C, B) == (uplink,)
    assert (
        limits.networks_between(A, B) == limits.networks_between(C, NodeId("d")) == ()
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"max_parallel_migrations": 0},
            "x: max_parallel_migrations: expected at least 1, got 0",
        ),
        ({"bandwidth": 0.5}, "bandwidth: expected at least 1 byte per second, got 0.5"),
        (
            {"bandwidth": math.nan},
            "bandwidth: expected at least 1 byte per second, got nan",
        ),
        (
            {"nodes": (), "max_parallel_migrations": 1},
            "x: nodes: expected at least 1, got 0",
        ),
        ({}, "x: nothing is limited; set max_parallel_migrations, bandwidth, or both"),
    ],
)
def test_network_without_limit_raises_error(
    wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        Network(**{"name": "x", "nodes": (A,), **wrong})


def test_duplicate_network_names_raise_error() -> None:
    uplink = Network(name="uplink", nodes=(A,), max_parallel_migrations=1)

    with pytest.raises(ModelError, match="networks: duplicate name: uplink"):
        Limits(networks=(uplink, replace(uplink, nodes=(B,))))


@pytest.mark.parametrize(
    "capacity", [Resources(0, 1), Resources(1e-9, 1), Resources(1, 0)]
)
def test_node_with_zero_capacity_raises_error(capacity: Resources) -> None:
    with pytest.raises(ModelError, match="a: capacity: expected at least"):
        node("a", 0.1, capacity=capacity)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan])
def test_a_stall_is_a_fraction_of_time(fraction: float) -> None:
    with pytest.raises(ModelError, match="some: expected a fraction in"):
        Stall(some=fraction)
    with pytest.raises(ModelError, match="full: expected a fraction in"):
        Stall(full=fraction)


@pytest.mark.parametrize("kind", [Affinity, AntiAffinity])
def test_one_guest_cannot_be_together_or_apart(
    kind: type[Affinity | AntiAffinity],
) -> None:
    with pytest.raises(ModelError, match="expected at least 2, got 1"):
        kind(guests=guest_ids("x"))


def test_rule_without_guests_raises_error() -> None:
    with pytest.raises(ModelError, match="node-affinity rule: guests"):
        NodeAffinity(guests=frozenset(), nodes={A: 0})
    with pytest.raises(ModelError, match="node-affinity rule: nodes"):
        NodeAffinity(guests=guest_ids("x"), nodes={})
    with pytest.raises(ModelError, match="pin rule: guests"):
        Pin(guests=frozenset())
    with pytest.raises(ModelError, match="tag-exclusion rule: tags"):
        TagExclusion(tags=frozenset())


def test_a_rule_keeps_its_own_priorities() -> None:
    priorities = {A: 1}
    rule = NodeAffinity(guests=guest_ids("x"), nodes=priorities)

    priorities[A] = 2

    assert rule.nodes == {A: 1}


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Affinity(guests=guest_ids("y", "x")), "affinity of x, y"),
        (AntiAffinity(guests=guest_ids("y", "x")), "anti-affinity of x, y"),
        (Pin(guests=guest_ids("x")), "pin of x"),
        (Pin(guests=guest_ids("x", "y")), "pin of x, y"),
        (TagExclusion(tags=frozenset({"t"})), "exclusion of tag t"),
        (
            NodeAffinity(guests=guest_ids("x"), nodes={NodeId("b"): 1, A: 0}),
            "node affinity of x to a, b",
        ),
        (Affinity(guests=guest_ids("y", "x"), name="pair"), "pair"),
    ],
)
def test_a_rule_reads_as_its_name_or_what_it_says(rule: object, text: str) -> None:
    assert str(rule) == text


def test_what_is_left_of_an_amount_is_never_less_than_nothing() -> None:
    assert Resources(1, 5).minus(Resources(2, 3)) == Resources(0, 2)
    assert Resources(1, 5).plus(Resources(2, 3)) == Resources(3, 8)


def test_a_sum_is_never_more_than_there_can_be() -> None:
    most = Resources(MAX_AMOUNT, MAX_AMOUNT)

    assert most.plus(Resources(1, 1)) == most


def test_usage_is_known_when_all_of_it_is() -> None:
    assert Usage(1.0, 2).resources == Resources(1.0, 2)
    assert Usage(1.0, None).resources is None
    assert Usage(None, 2).resources is None
    assert Usage.of(Resources(0, 0)).resources == Resources(0, 0)


@pytest.mark.parametrize(
    ("kind", "mobility", "expected"),
    [
        (GuestKind.VM, None, Mobility.LIVE),
        (GuestKind.CONTAINER, None, Mobility.COLD),
        (GuestKind.VM, Mobility.NONE, Mobility.NONE),
        (GuestKind.CONTAINER, Mobility.LIVE, Mobility.LIVE),
    ],
)
def test_effective_mobility_defaults_to_guest_kind(
    kind: GuestKind, mobility: Mobility | None, expected: Mobility
) -> None:
    assert (
        guest("vm", "a", 0.1, kind=kind, mobility=mobility).effective_mobility
        is expected
    )


@pytest.mark.parametrize("state", GuestState)
def test_all_but_stopped_guests_are_present(state: GuestState) -> None:
    there = guest("vm", "a", 0.1, state=state)

    assert there.is_active is (state is not GuestState.STOPPED)
    assert there.occupied_nodes == ((A,) if there.is_active else ())


@pytest.mark.parametrize("state", NodeState)
def test_only_an_online_node_takes_part(state: NodeState) -> None:
    assert node("a", 0.1, state=state).online is (state is NodeState.ONLINE)


def step(name: str, *depends_on: str) -> Step:
    return Step(StepId(name), MOVE, tuple(StepId(each) for each in depends_on))


def test_a_plan_has_its_steps_in_an_order_that_is_safe() -> None:
    plan = Plan((step("1"), step("2", "1"), step("3", "1", "2")))

    assert [each.id for each in plan.steps] == ["1", "2", "3"]
    assert Plan(()) == EMPTY_PLAN


def test_plan_with_duplicate_step_ids_raises_error() -> None:
    with pytest.raises(ModelError, match="step 1: duplicate id"):
        Plan((step("1"), step("1")))


@pytest.mark.parametrize(
    "steps", [(step("1", "1"),), (step("1", "2"), step("2")), (step("1", "gone"),)]
)
def test_a_step_waits_only_for_those_before_it(steps: tuple[Step, ...]) -> None:
    with pytest.raises(ModelError, match="which does not precede it"):
        Plan(steps)
