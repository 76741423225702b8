"""Policy `consolidate`, one behavior per test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.guard import check
from opendrs.model import (
    EMPTY_PLAN,
    Action,
    AntiAffinity,
    ColdMigration,
    GuestId,
    GuestState,
    LiveMigration,
    NodeId,
    NodeState,
    Plan,
    PowerOff,
    PowerOn,
    Resources,
    Snapshot,
    Step,
    StepId,
    Usage,
)
from opendrs.policies import DecisionReason
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.memory import ConsolidationMemory
from opendrs.policies.consolidation.settings import (
    DetectorKind,
    EvictionRule,
    PlacementStrategy,
)
from opendrs.rules import new_violations
from support.builders import CAPACITY, NOON, cluster, guest, guest_ids
from support.imbalanced_clusters import imbalanced_clusters
from support.oracles.interleavings import migration_of, step_units, unsafe_states
from support.strategies import snapshots

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
DEFAULT = Consolidate()
WITH_POWER = Consolidate(manage_power=True)
LAST_N = Consolidate(detector=DetectorKind.LAST_N_AVERAGE)
DETECTOR_POLICIES = st.builds(
    Consolidate,
    detector=st.sampled_from(
        [d for d in DetectorKind if d is not DetectorKind.FORECAST]
    ),
    guest_selection=st.sampled_from(EvictionRule),
    placement=st.sampled_from(PlacementStrategy),
    fill_target=st.sampled_from([0.3, 0.7, 0.8, 1.0]),
    underload_threshold=st.sampled_from([0.0, 0.3, 0.9]),
    max_overload_fraction=st.sampled_from([0.0, 0.1, 1.0]),
    manage_power=st.booleans(),
)
FORECAST_POLICIES = st.builds(
    Consolidate,
    fill_target=st.sampled_from([None, 0.3, 0.7]),
    relief_target=st.sampled_from([None, 0.8]),
    underload_threshold=st.sampled_from([None, 0.0, 0.3]),
    max_overload_fraction=st.sampled_from([None, 0.0, 1.0]),
    min_risk_reduction=st.sampled_from([None, 0.0, 0.3]),
    overload_threshold=st.sampled_from([0.5, 0.95]),
    manage_power=st.booleans(),
)
POLICIES = DETECTOR_POLICIES | FORECAST_POLICIES
CLUSTERS = (
    snapshots()
    | snapshots(settled=True)
    | imbalanced_clusters()
    | imbalanced_clusters()
)
LIGHT_LOAD: Mapping[str, tuple[str, float | None]] = {
    "vm1": ("a", 0.3),
    "vm2": ("a", 0.2),
    "vm3": ("b", 0.1),
}


def plan_of(policy: Consolidate, snapshot: Snapshot) -> Plan:
    return policy.decide(snapshot, policy.initial_memory()).plan


def actions(policy: Consolidate, snapshot: Snapshot) -> list[Action]:
    return [step.action for step in plan_of(policy, snapshot).steps]


def with_powered_off(snapshot: Snapshot, *names: NodeId) -> Snapshot:
    """Return *snapshot* with these nodes powered off."""
    off = {
        name: replace(snapshot.nodes[name], state=NodeState.OFFLINE, usage=Usage())
        for name in names
    }
    return replace(snapshot, nodes={**snapshot.nodes, **off})


def after_plan(snapshot: Snapshot, plan: Plan) -> Snapshot:
    for step in plan.steps:
        snapshot = after_action(snapshot, step.action)
    return snapshot


def after_action(snapshot: Snapshot, action: Action) -> Snapshot:
    """Return the cluster after *action*; a node just powered on has no usage."""
    snapshot = snapshot.apply(action)
    if isinstance(action, PowerOn):
        powered_on = replace(snapshot.nodes[action.node], usage=Usage(0.0, 0))
        return replace(snapshot, nodes={**snapshot.nodes, action.node: powered_on})
    return snapshot


def memory_after(policy: Consolidate, *past: Snapshot) -> ConsolidationMemory:
    memory = policy.initial_memory()
    for snapshot in past:
        memory = policy.decide(snapshot, memory).memory
    return memory


def test_underloaded_node_is_drained() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1}, LIGHT_LOAD)

    decision = DEFAULT.decide(snapshot, DEFAULT.initial_memory())

    assert [step.action for step in decision.plan.steps] == [
        LiveMigration(GuestId("vm3"), B, A)
    ]
    assert decision.reason is DecisionReason.SAVES_POWER
    assert decision.before["active_hosts"] == 2
    assert decision.after["active_hosts"] == 1


def test_power_actions_need_manage_power() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1, "c": 0.0}, LIGHT_LOAD)

    assert not [x for x in actions(DEFAULT, snapshot) if isinstance(x, PowerOff)]
    assert {x for x in actions(WITH_POWER, snapshot) if isinstance(x, PowerOff)} == {
        PowerOff(B),
        PowerOff(C),
    }


def test_power_off_depends_on_all_migrations_away() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.2}, {**LIGHT_LOAD, "vm4": ("b", 0.1)})

    *moves, last = plan_of(WITH_POWER, snapshot).steps

    assert last.action == PowerOff(B)
    assert set(last.depends_on) == {step.id for step in moves}


def test_node_with_stopped_guest_is_not_powered_off() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.0}, {"vm1": ("a", 0.5)})
    stopped = guest("vm9", "b", 0.1, state=GuestState.STOPPED, usage=Usage(0.0, 0))

    inhabited = replace(snapshot, guests={**snapshot.guests, stopped.id: stopped})

    assert actions(WITH_POWER, snapshot) == [PowerOff(B)]
    assert PowerOff(B) not in actions(WITH_POWER, inhabited)


def test_node_within_cooldown_after_power_on_stays_on() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.0}, {"vm1": ("a", 0.5)})
    empty_node = snapshot.nodes[B]

    for ago, expected in ((599, []), (600, [PowerOff(B)])):
        at = NOON - timedelta(seconds=ago)
        nodes = {**snapshot.nodes, B: replace(empty_node, powered_on_at=at)}
        decision = WITH_POWER.decide(
            replace(snapshot, nodes=nodes), WITH_POWER.initial_memory()
        )

        assert [step.action for step in decision.plan.steps] == expected
        has_note = "node b: powered on less than 600 s ago; stays on" in decision.notes
        assert has_note is not bool(expected)


def test_last_node_stays_on() -> None:
    idle = cluster({"a": 0.0, "b": 0.0}, {})

    assert actions(WITH_POWER, idle) == [PowerOff(B)]


def test_overloaded_node_is_relieved_until_not_overloaded() -> None:
    busy = cluster(
        {"a": 0.95, "b": 0.3},
        {f"vm{number}": ("a", 0.19) for number in range(5)} | {"vm9": ("b", 0.3)},
    )

    decision = LAST_N.decide(busy, LAST_N.initial_memory())

    assert decision.reason is DecisionReason.RELIEVES_OVERLOAD
    assert decision.plan.steps[0].action == LiveMigration(GuestId("vm0"), A, B)
    assert decision.after["overload_time_fraction"] == 0
    assert "95%" in decision.plan.steps[0].detail


def test_detail_names_node_relieved_by_forecast() -> None:
    policy = Consolidate(averaging_window=1)
    busy = cluster(
        {"a": 0.9, "b": 0.6},
        {f"vm{number}": ("a", 0.18) for number in range(5)} | {"vm9": ("b", 0.6)},
    )

    decision = policy.decide(busy, policy.initial_memory())

    assert decision.reason is DecisionReason.RELIEVES_OVERLOAD
    assert "overloaded nodes: none; " in decision.detail
    assert ": a; " in decision.detail


def test_powered_off_node_is_powered_on_before_it_receives_guests() -> None:
    guests = {f"vm{number}": ("a", 0.2) for number in range(5)}
    busy = with_powered_off(cluster({"a": 1.0, "b": None}, guests), B)

    power_on, first, *_ = plan_of(WITH_POWER, busy).steps

    assert power_on.action == PowerOn(B)
    assert first.action == LiveMigration(GuestId("vm0"), A, B)
    assert first.depends_on == (power_on.id,)


def test_no_node_is_powered_on_without_manage_power() -> None:
    guests = {f"vm{number}": ("a", 0.2) for number in range(5)}
    busy = with_powered_off(cluster({"a": 1.0, "b": None}, guests), B)

    decision = DEFAULT.decide(busy, DEFAULT.initial_memory())

    assert decision.plan == EMPTY_PLAN
    assert decision.reason is DecisionReason.NO_CANDIDATE


def test_node_of_unknown_state_is_not_powered_on() -> None:
    guests = {f"vm{number}": ("a", 0.2) for number in range(5)}
    busy = with_powered_off(cluster({"a": 1.0, "b": None}, guests), B)
    silent = replace(busy.nodes[B], state=NodeState.UNKNOWN)

    planned = actions(WITH_POWER, replace(busy, nodes={**busy.nodes, B: silent}))

    assert planned == []


@pytest.mark.parametrize("state", [NodeState.UNKNOWN, NodeState.MAINTENANCE])
def test_node_not_online_is_not_changed(
    state: NodeState,
) -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1, "c": 0.0}, LIGHT_LOAD)
    silent = {n: replace(snapshot.nodes[n], state=state) for n in (B, C)}

    planned = actions(WITH_POWER, replace(snapshot, nodes={**snapshot.nodes, **silent}))

    assert planned == []


def test_node_without_metrics_is_not_treated_as_empty() -> None:
    snapshot = cluster({"a": 0.3, "b": None, "c": None}, {"vm1": ("a", 0.3)})

    decision = WITH_POWER.decide(snapshot, WITH_POWER.initial_memory())

    assert decision.plan == EMPTY_PLAN
    assert decision.unmeasured == ("b", "c")


def test_node_is_not_drained_when_rule_keeps_guest() -> None:
    apart = AntiAffinity(guests=guest_ids("vm1", "vm3"))

    assert actions(WITH_POWER, cluster({"a": 0.5, "b": 0.1}, LIGHT_LOAD, [apart])) == []


def test_target_is_not_filled_beyond_memory() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1}, LIGHT_LOAD)
    full = Usage(CAPACITY.cpu * 0.5, int(CAPACITY.memory * 0.9))
    full_node = replace(snapshot.nodes[A], usage=full)

    planned = actions(
        DEFAULT, replace(snapshot, nodes={**snapshot.nodes, A: full_node})
    )

    assert LiveMigration(GuestId("vm3"), B, A) in actions(DEFAULT, snapshot)
    assert LiveMigration(GuestId("vm3"), B, A) not in planned


def test_node_often_overloaded_receives_no_guest() -> None:
    high = cluster({"a": 1.0, "b": 0.1}, {"vm1": ("a", 1.0), "vm3": ("b", 0.1)})
    low = cluster({"a": 0.3, "b": 0.1}, {"vm1": ("a", 0.3), "vm3": ("b", 0.1)})
    policy = replace(LAST_N, averaging_window=1, max_overload_fraction=0.1)

    fresh, used = memory_after(policy), memory_after(policy, high)

    assert policy.decide(low, fresh).plan != EMPTY_PLAN
    assert policy.decide(low, used).plan == EMPTY_PLAN


def test_max_drained_nodes_limits_drains() -> None:
    nodes = {"a": 0.5, "b": 0.1, "c": 0.05}
    snapshot = cluster(nodes, {**LIGHT_LOAD, "vm4": ("c", 0.05)})

    assert len(actions(DEFAULT, snapshot)) == 2
    assert actions(Consolidate(max_drained_nodes=1), snapshot) == [
        LiveMigration(GuestId("vm4"), C, A)
    ]


def test_max_failed_drains_stops_draining() -> None:
    # The guest of a is too large for any host, that of b is not; a goes first.
    one_attempt = replace(
        LAST_N, max_failed_drains=1, fill_target=0.5, underload_threshold=1.0
    )
    two_attempts = replace(
        LAST_N, max_failed_drains=2, fill_target=0.5, underload_threshold=1.0
    )
    snapshot = cluster(
        {"a": 0.3, "b": 0.31, "c": 0.32},
        {"vm1": ("a", 0.3), "vm2": ("b", 0.11), "vm3": ("b", 0.2), "vm4": ("c", 0.15)},
    )

    assert actions(one_attempt, snapshot) == []
    assert actions(two_attempts, snapshot) != []


def test_no_decision_during_migration() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1}, LIGHT_LOAD, moving={"vm1": "b"})

    decision = DEFAULT.decide(snapshot, DEFAULT.initial_memory())

    assert decision.reason is DecisionReason.MIGRATION_IN_PROGRESS
    assert decision.memory["guests"]["vm1"] == [3.0]


def test_missing_metrics_reset_history() -> None:
    measured = cluster({"a": 0.5, "b": 0.1}, LIGHT_LOAD)
    gap = cluster({"a": 0.5, "b": None}, {**LIGHT_LOAD, "vm1": ("a", None)})

    memory = memory_after(DEFAULT, measured, measured, gap, measured)

    assert len(memory["guests"]["vm1"]) == len(memory["nodes"]["b"]) == 1
    assert len(memory["guests"]["vm2"]) == len(memory["nodes"]["a"]) == 4


def test_history_length_limits_samples() -> None:
    policy = Consolidate(history_length=3)
    snapshot = cluster({"a": 0.5, "b": 0.1}, LIGHT_LOAD)

    memory = memory_after(policy, *[snapshot] * 5)

    kept = (*memory["guests"].values(), *memory["nodes"].values())
    assert {len(each) for each in kept} == {3}


@pytest.mark.parametrize(
    "settings",
    [
        {"fill_target": 1.1},
        {"max_overload_fraction": -0.1},
        {"averaging_window": 0},
        {"history_length": 0},
        {"interval": 0},
        {"power_model": "abacus"},
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Consolidate(**settings)  # type: ignore[arg-type]


def migrations_of(plan: Plan) -> Plan:
    """Return only the migrations of *plan*."""
    steps = [
        s for s in plan.steps if isinstance(s.action, LiveMigration | ColdMigration)
    ]
    names = {step.id for step in steps}
    return Plan(
        tuple(
            Step(s.id, s.action, tuple(a for a in s.depends_on if a in names), s.detail)
            for s in steps
        )
    )


def with_powered_on(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return *snapshot* after all power-on actions of *plan*."""
    for step in plan.steps:
        if isinstance(step.action, PowerOn):
            snapshot = after_action(snapshot, step.action)
    return snapshot


@given(POLICIES, CLUSTERS)
def test_plan_is_safe_in_every_state(policy: Consolidate, snapshot: Snapshot) -> None:
    plan = plan_of(policy, snapshot)

    event(f"{len(plan.steps)} steps")
    assert new_violations(snapshot, after_plan(snapshot, plan)) == ()
    assert (
        unsafe_states(
            with_powered_on(snapshot, plan), migrations_of(plan), policy.limits
        )
        == []
    )


@given(POLICIES, CLUSTERS)
def test_guard_accepts_first_steps_of_plan(
    policy: Consolidate, snapshot: Snapshot
) -> None:
    plan = plan_of(policy, snapshot)

    now = with_powered_on(snapshot, plan)
    for unit in step_units(now, migrations_of(plan)):
        if not unit.depends_on:
            moves = tuple(migration_of(step) for step in unit.steps)
            assert check(moves, now, policy.limits) is None
    for step in plan.steps:
        if isinstance(step.action, PowerOn):
            assert check((step.action,), snapshot, policy.limits) is None


@given(POLICIES, CLUSTERS)
def test_power_off_is_accepted_after_its_dependencies(
    policy: Consolidate, snapshot: Snapshot
) -> None:
    plan = plan_of(policy, snapshot)

    for step in plan.steps:
        if isinstance(step.action, PowerOff):
            event("a host is put to sleep")
            waited = {s.id: s for s in plan.steps if s.id in step.depends_on}
            now = after_plan(
                with_powered_on(snapshot, plan), Plan(_with_dependencies(plan, waited))
            )
            assert check((step.action,), now, policy.limits) is None


def _with_dependencies(plan: Plan, some: Mapping[StepId, Step]) -> tuple[Step, ...]:
    needed = set(some)
    for step in reversed(plan.steps):
        if step.id in needed:
            needed.update(step.depends_on)
    migration = LiveMigration | ColdMigration
    chosen = [
        s for s in plan.steps if s.id in needed and isinstance(s.action, migration)
    ]
    names = {step.id for step in chosen}
    return tuple(
        Step(s.id, s.action, tuple(a for a in s.depends_on if a in names), s.detail)
        for s in chosen
    )


@given(POLICIES, CLUSTERS)
def test_reason_matches_plan(policy: Consolidate, snapshot: Snapshot) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    event(decision.reason.value)
    acting = decision.reason in (
        DecisionReason.RELIEVES_OVERLOAD,
        DecisionReason.SAVES_POWER,
    )
    assert acting is (decision.plan != EMPTY_PLAN)
    assert decision.detail
    assert all(step.detail for step in decision.plan.steps)


@given(POLICIES, CLUSTERS, st.randoms(use_true_random=False))
def test_order_of_nodes_and_guests_is_irrelevant(
    policy: Consolidate, snapshot: Snapshot, random: Random
) -> None:
    guests, nodes = list(snapshot.guests.items()), list(snapshot.nodes.items())
    random.shuffle(guests)
    random.shuffle(nodes)

    shuffled = replace(snapshot, guests=dict(guests), nodes=dict(nodes))

    memory = policy.initial_memory()
    assert policy.decide(shuffled, memory) == policy.decide(snapshot, memory)


@given(POLICIES, CLUSTERS)
def test_memory_is_json_serializable(policy: Consolidate, snapshot: Snapshot) -> None:
    memory = memory_after(policy, snapshot, snapshot)

    assert json.loads(json.dumps(memory)) == memory


@given(imbalanced_clusters())
def test_repeated_cycles_reach_a_fixed_point(snapshot: Snapshot) -> None:
    policy = Consolidate(manage_power=True)
    memory = policy.initial_memory()
    for cycle in range(100):
        decision = policy.decide(snapshot, memory)
        if decision.plan == EMPTY_PLAN:
            event(f"at rest after {cycle} cycles")
            return
        snapshot, memory = after_plan(snapshot, decision.plan), decision.memory
    pytest.fail("still moving after 100 cycles")


def test_guest_larger_than_any_node_stays() -> None:
    small = replace(cluster({"a": 0.9, "b": 0.0}, {"vm1": ("a", 0.9)}))
    narrow = {
        name: replace(each, capacity=Resources(9.0, CAPACITY.memory))
        for name, each in small.nodes.items()
    }

    assert actions(DEFAULT, replace(small, nodes=narrow)) == []
