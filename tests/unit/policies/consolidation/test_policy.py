"""The policy `consolidate`, behaviour by behaviour."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from builders import CAPACITY, NOON, cluster, guest, guest_ids
from opendrs.guard import objection
from opendrs.model import (
    EMPTY_PLAN,
    Action,
    AntiAffinity,
    GuestId,
    GuestState,
    Migration,
    NodeId,
    NodeState,
    Plan,
    PowerOff,
    PowerOn,
    Relocation,
    Resources,
    Snapshot,
    Step,
    StepId,
    Usage,
)
from opendrs.policies import Consolidate, Reason
from opendrs.policies.consolidation.memories import Memory
from opendrs.policies.consolidation.strategy import Detection, Leaving, Placement
from opendrs.rules import newly_broken
from oracles.passage import faults, move, units
from piles import piles
from strategies import snapshots

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
PLAIN = Consolidate()
POWERED = Consolidate(power=True)
LOADS = Consolidate(detector=Detection.LAST_N_AVERAGE)
DETECTING = st.builds(
    Consolidate,
    detector=st.sampled_from([d for d in Detection if d is not Detection.FORECAST]),
    selection=st.sampled_from(Leaving),
    placement=st.sampled_from(Placement),
    target=st.sampled_from([0.3, 0.7, 0.8, 1.0]),
    underload=st.sampled_from([0.0, 0.3, 0.9]),
    bound=st.sampled_from([0.0, 0.1, 1.0]),
    power=st.booleans(),
)
FORESEEING = st.builds(
    Consolidate,
    target=st.sampled_from([None, 0.3, 0.7]),
    relief=st.sampled_from([None, 0.8]),
    underload=st.sampled_from([None, 0.0, 0.3]),
    bound=st.sampled_from([None, 0.0, 1.0]),
    price=st.sampled_from([None, 0.0, 0.3]),
    full=st.sampled_from([0.5, 0.95]),
    power=st.booleans(),
)
POLICIES = DETECTING | FORESEEING
CLUSTERS = snapshots() | snapshots(settled=True) | piles() | piles()
LITTLE: Mapping[str, tuple[str, float | None]] = {
    "vm1": ("a", 0.3),
    "vm2": ("a", 0.2),
    "vm3": ("b", 0.1),
}


def decided(policy: Consolidate, snapshot: Snapshot) -> Plan:
    return policy.decide(snapshot, policy.initial_memory()).plan


def actions(policy: Consolidate, snapshot: Snapshot) -> list[Action]:
    return [step.action for step in decided(policy, snapshot).steps]


def asleep(snapshot: Snapshot, *names: NodeId) -> Snapshot:
    """Return *snapshot* with these nodes switched off."""
    off = {
        name: replace(snapshot.nodes[name], state=NodeState.OFFLINE, usage=Usage())
        for name in names
    }
    return replace(snapshot, nodes={**snapshot.nodes, **off})


def done(snapshot: Snapshot, plan: Plan) -> Snapshot:
    for step in plan.steps:
        snapshot = carried_out(snapshot, step.action)
    return snapshot


def carried_out(snapshot: Snapshot, action: Action) -> Snapshot:
    """Return the cluster after *action*; a node that woke uses nothing yet."""
    snapshot = snapshot.after(action)
    if isinstance(action, PowerOn):
        woken = replace(snapshot.nodes[action.node], usage=Usage(0.0, 0))
        return replace(snapshot, nodes={**snapshot.nodes, action.node: woken})
    return snapshot


def remembering(policy: Consolidate, *past: Snapshot) -> Memory:
    memory = policy.initial_memory()
    for snapshot in past:
        memory = policy.decide(snapshot, memory).memory
    return memory


def test_empties_a_host_that_has_little_to_do() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1}, LITTLE)

    decision = PLAIN.decide(snapshot, PLAIN.initial_memory())

    assert [step.action for step in decision.plan.steps] == [
        Migration(GuestId("vm3"), B, A)
    ]
    assert decision.reason is Reason.SAVES_POWER
    assert decision.before["active_hosts"] == 2
    assert decision.after["active_hosts"] == 1


def test_switches_nothing_unless_allowed_to() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1, "c": 0.0}, LITTLE)

    assert not [x for x in actions(PLAIN, snapshot) if isinstance(x, PowerOff)]
    assert {x for x in actions(POWERED, snapshot) if isinstance(x, PowerOff)} == {
        PowerOff(B),
        PowerOff(C),
    }


def test_a_host_is_put_to_sleep_after_all_its_guests_have_left() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.2}, {**LITTLE, "vm4": ("b", 0.1)})

    *moves, last = decided(POWERED, snapshot).steps

    assert last.action == PowerOff(B)
    assert set(last.after) == {step.id for step in moves}


def test_a_host_with_a_stopped_guest_is_not_put_to_sleep() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.0}, {"vm1": ("a", 0.5)})
    stopped = guest("vm9", "b", 0.1, state=GuestState.STOPPED, usage=Usage(0.0, 0))

    inhabited = replace(snapshot, guests={**snapshot.guests, stopped.id: stopped})

    assert actions(POWERED, snapshot) == [PowerOff(B)]
    assert PowerOff(B) not in actions(POWERED, inhabited)


def test_a_host_that_was_woken_just_now_stays_on() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.0}, {"vm1": ("a", 0.5)})
    woken = snapshot.nodes[B]

    for ago, sleeps in ((599, []), (600, [PowerOff(B)])):
        at = NOON - timedelta(seconds=ago)
        nodes = {**snapshot.nodes, B: replace(woken, woken_at=at)}
        decision = POWERED.decide(
            replace(snapshot, nodes=nodes), POWERED.initial_memory()
        )

        assert [step.action for step in decision.plan.steps] == sleeps
        told = "node b was woken less than 600 s ago and stays on" in decision.notes
        assert told is not bool(sleeps)


def test_the_last_host_stays_on() -> None:
    idle = cluster({"a": 0.0, "b": 0.0}, {})

    assert actions(POWERED, idle) == [PowerOff(B)]


def test_guests_leave_an_overloaded_host_until_it_is_so_no_more() -> None:
    busy = cluster(
        {"a": 0.95, "b": 0.3},
        {f"vm{number}": ("a", 0.19) for number in range(5)} | {"vm9": ("b", 0.3)},
    )

    decision = LOADS.decide(busy, LOADS.initial_memory())

    assert decision.reason is Reason.RELIEVES_OVERLOAD
    assert decision.plan.steps[0].action == Migration(GuestId("vm0"), A, B)
    assert decision.after["overload_time_fraction"] == 0
    assert "a is overloaded (95%)" in decision.plan.steps[0].why


def test_a_host_that_is_relieved_by_forecast_is_named() -> None:
    policy = Consolidate(last_n=1)
    busy = cluster(
        {"a": 0.9, "b": 0.6},
        {f"vm{number}": ("a", 0.18) for number in range(5)} | {"vm9": ("b", 0.6)},
    )

    decision = policy.decide(busy, policy.initial_memory())

    assert decision.reason is Reason.RELIEVES_OVERLOAD
    assert decision.detail == (
        "overloaded: no host; likely to lack CPU: a; active hosts 2 → 2"
    )


def test_a_sleeping_host_is_woken_before_it_receives() -> None:
    guests = {f"vm{number}": ("a", 0.2) for number in range(5)}
    busy = asleep(cluster({"a": 1.0, "b": None}, guests), B)

    wake, first, *_ = decided(POWERED, busy).steps

    assert wake.action == PowerOn(B)
    assert first.action == Migration(GuestId("vm0"), A, B)
    assert first.after == (wake.id,)


def test_nobody_is_woken_when_power_is_left_alone() -> None:
    guests = {f"vm{number}": ("a", 0.2) for number in range(5)}
    busy = asleep(cluster({"a": 1.0, "b": None}, guests), B)

    decision = PLAIN.decide(busy, PLAIN.initial_memory())

    assert decision.plan == EMPTY_PLAN
    assert decision.reason is Reason.NO_CANDIDATE


def test_a_host_of_unknown_state_is_not_woken() -> None:
    guests = {f"vm{number}": ("a", 0.2) for number in range(5)}
    busy = asleep(cluster({"a": 1.0, "b": None}, guests), B)
    silent = replace(busy.nodes[B], state=NodeState.UNKNOWN)

    found = actions(POWERED, replace(busy, nodes={**busy.nodes, B: silent}))

    assert found == []


@pytest.mark.parametrize("state", [NodeState.UNKNOWN, NodeState.MAINTENANCE])
def test_a_silent_host_is_neither_filled_nor_emptied_nor_put_to_sleep(
    state: NodeState,
) -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1, "c": 0.0}, LITTLE)
    silent = {n: replace(snapshot.nodes[n], state=state) for n in (B, C)}

    found = actions(POWERED, replace(snapshot, nodes={**snapshot.nodes, **silent}))

    assert found == []


def test_an_unmeasured_host_is_unknown_and_not_empty() -> None:
    snapshot = cluster({"a": 0.3, "b": None, "c": None}, {"vm1": ("a", 0.3)})

    decision = POWERED.decide(snapshot, POWERED.initial_memory())

    assert decision.plan == EMPTY_PLAN
    assert "node b is not measured and left as it is" in decision.notes


def test_a_host_is_not_emptied_where_a_rule_keeps_one_of_its_guests() -> None:
    apart = AntiAffinity(guests=guest_ids("vm1", "vm3"))

    assert actions(POWERED, cluster({"a": 0.5, "b": 0.1}, LITTLE, [apart])) == []


def test_a_host_is_not_filled_beyond_its_memory() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1}, LITTLE)
    full = Usage(CAPACITY.cpu * 0.5, int(CAPACITY.memory * 0.9))
    crowded = replace(snapshot.nodes[A], usage=full)

    found = actions(PLAIN, replace(snapshot, nodes={**snapshot.nodes, A: crowded}))

    assert Migration(GuestId("vm3"), B, A) in actions(PLAIN, snapshot)
    assert Migration(GuestId("vm3"), B, A) not in found


def test_a_host_that_was_often_overloaded_receives_nobody() -> None:
    high = cluster({"a": 1.0, "b": 0.1}, {"vm1": ("a", 1.0), "vm3": ("b", 0.1)})
    low = cluster({"a": 0.3, "b": 0.1}, {"vm1": ("a", 0.3), "vm3": ("b", 0.1)})
    policy = replace(LOADS, last_n=1, bound=0.1)

    fresh, used = remembering(policy), remembering(policy, high)

    assert policy.decide(low, fresh).plan != EMPTY_PLAN
    assert policy.decide(low, used).plan == EMPTY_PLAN


def test_no_more_hosts_are_emptied_than_allowed() -> None:
    nodes = {"a": 0.5, "b": 0.1, "c": 0.05}
    snapshot = cluster(nodes, {**LITTLE, "vm4": ("c", 0.05)})

    assert len(actions(PLAIN, snapshot)) == 2
    assert actions(Consolidate(emptied=1), snapshot) == [
        Migration(GuestId("vm4"), C, A)
    ]


def test_after_so_many_hosts_that_cannot_be_emptied_none_is_tried() -> None:
    # The guest of a is too large for any host, that of b is not; a goes first.
    large = replace(LOADS, attempts=1, target=0.5, underload=1.0)
    patient = replace(LOADS, attempts=2, target=0.5, underload=1.0)
    snapshot = cluster(
        {"a": 0.3, "b": 0.31, "c": 0.32},
        {"vm1": ("a", 0.3), "vm2": ("b", 0.11), "vm3": ("b", 0.2), "vm4": ("c", 0.15)},
    )

    assert actions(large, snapshot) == []
    assert actions(patient, snapshot) != []


def test_nothing_is_decided_while_a_guest_is_moving() -> None:
    snapshot = cluster({"a": 0.5, "b": 0.1}, LITTLE, moving={"vm1": "b"})

    decision = PLAIN.decide(snapshot, PLAIN.initial_memory())

    assert decision.reason is Reason.MIGRATION_UNDER_WAY
    assert decision.memory["guests"]["vm1"] == [3.0]


def test_a_gap_in_the_measurements_ends_a_history() -> None:
    seen = cluster({"a": 0.5, "b": 0.1}, LITTLE)
    gap = cluster({"a": 0.5, "b": None}, {**LITTLE, "vm1": ("a", None)})

    memory = remembering(PLAIN, seen, seen, gap, seen)

    assert len(memory["guests"]["vm1"]) == len(memory["nodes"]["b"]) == 1
    assert len(memory["guests"]["vm2"]) == len(memory["nodes"]["a"]) == 4


def test_only_so_many_samples_are_remembered() -> None:
    policy = Consolidate(history=3)
    seen = cluster({"a": 0.5, "b": 0.1}, LITTLE)

    memory = remembering(policy, *[seen] * 5)

    kept = (*memory["guests"].values(), *memory["nodes"].values())
    assert {len(each) for each in kept} == {3}


@pytest.mark.parametrize(
    "settings",
    [
        {"target": 1.1},
        {"bound": -0.1},
        {"last_n": 0},
        {"history": 0},
        {"interval": 0},
        {"server": "abacus"},
    ],
)
def test_refuses_settings_that_make_no_sense(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Consolidate(**settings)  # type: ignore[arg-type]


def travels(plan: Plan) -> Plan:
    """Return only the moves of *plan*."""
    steps = [s for s in plan.steps if isinstance(s.action, Migration | Relocation)]
    names = {step.id for step in steps}
    return Plan(
        tuple(
            Step(s.id, s.action, tuple(a for a in s.after if a in names), s.why)
            for s in steps
        )
    )


def awake(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return *snapshot* once all that *plan* wakes is awake."""
    for step in plan.steps:
        if isinstance(step.action, PowerOn):
            snapshot = carried_out(snapshot, step.action)
    return snapshot


@given(POLICIES, CLUSTERS)
def test_no_strict_rule_is_broken_nor_memory_overfilled_on_the_way(
    policy: Consolidate, snapshot: Snapshot
) -> None:
    plan = decided(policy, snapshot)

    event(f"{len(plan.steps)} steps")
    assert newly_broken(snapshot, done(snapshot, plan)) == ()
    assert faults(awake(snapshot, plan), travels(plan), policy.limits) == []


@given(POLICIES, CLUSTERS)
def test_the_guard_has_nothing_against_a_fresh_plan(
    policy: Consolidate, snapshot: Snapshot
) -> None:
    plan = decided(policy, snapshot)

    now = awake(snapshot, plan)
    for unit in units(now, travels(plan)):
        if not unit.waits:
            moves = tuple(move(step) for step in unit.steps)
            assert objection(moves, now, policy.limits) is None
    for step in plan.steps:
        if isinstance(step.action, PowerOn):
            assert objection((step.action,), snapshot, policy.limits) is None


@given(POLICIES, CLUSTERS)
def test_who_is_put_to_sleep_is_empty_once_the_steps_before_are_done(
    policy: Consolidate, snapshot: Snapshot
) -> None:
    plan = decided(policy, snapshot)

    for step in plan.steps:
        if isinstance(step.action, PowerOff):
            event("a host is put to sleep")
            waited = {s.id: s for s in plan.steps if s.id in step.after}
            now = done(awake(snapshot, plan), Plan(_with_all_before(plan, waited)))
            assert objection((step.action,), now, policy.limits) is None


def _with_all_before(plan: Plan, some: Mapping[StepId, Step]) -> tuple[Step, ...]:
    wanted = set(some)
    for step in reversed(plan.steps):
        if step.id in wanted:
            wanted.update(step.after)
    travel = Migration | Relocation
    chosen = [s for s in plan.steps if s.id in wanted and isinstance(s.action, travel)]
    names = {step.id for step in chosen}
    return tuple(
        Step(s.id, s.action, tuple(a for a in s.after if a in names), s.why)
        for s in chosen
    )


@given(POLICIES, CLUSTERS)
def test_a_plan_is_there_exactly_when_the_reason_says_so(
    policy: Consolidate, snapshot: Snapshot
) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    event(decision.reason.value)
    acting = decision.reason in (Reason.RELIEVES_OVERLOAD, Reason.SAVES_POWER)
    assert acting is (decision.plan != EMPTY_PLAN)
    assert decision.detail
    assert all(step.why for step in decision.plan.steps)


@given(POLICIES, CLUSTERS, st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_guests_does_not_matter(
    policy: Consolidate, snapshot: Snapshot, random: Random
) -> None:
    guests, nodes = list(snapshot.guests.items()), list(snapshot.nodes.items())
    random.shuffle(guests)
    random.shuffle(nodes)

    shuffled = replace(snapshot, guests=dict(guests), nodes=dict(nodes))

    memory = policy.initial_memory()
    assert policy.decide(shuffled, memory) == policy.decide(snapshot, memory)


@given(POLICIES, CLUSTERS)
def test_what_is_remembered_can_be_written_as_json(
    policy: Consolidate, snapshot: Snapshot
) -> None:
    memory = remembering(policy, snapshot, snapshot)

    assert json.loads(json.dumps(memory)) == memory


@given(piles())
def test_repeated_cycles_come_to_rest(snapshot: Snapshot) -> None:
    policy = Consolidate(power=True)
    memory = policy.initial_memory()
    for cycle in range(100):
        decision = policy.decide(snapshot, memory)
        if decision.plan == EMPTY_PLAN:
            event(f"at rest after {cycle} cycles")
            return
        snapshot, memory = done(snapshot, decision.plan), decision.memory
    pytest.fail("still moving after 100 cycles")


def test_guests_larger_than_a_host_leave_it_be() -> None:
    small = replace(cluster({"a": 0.9, "b": 0.0}, {"vm1": ("a", 0.9)}))
    narrow = {
        name: replace(each, capacity=Resources(9.0, CAPACITY.memory))
        for name, each in small.nodes.items()
    }

    assert actions(PLAIN, replace(small, nodes=narrow)) == []
