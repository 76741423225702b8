"""Properties of all policies."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.guard import check
from opendrs.metrics import ImbalanceMetric, LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    EMPTY_PLAN,
    Limits,
    NodeId,
    NodeLimits,
    Snapshot,
)
from opendrs.policies import (
    BUILT_IN_POLICIES,
    AutoRebalance,
    Balance,
    Decision,
    DecisionReason,
    Policy,
)
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.load_metrics import SelectionMethod
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.pressure import PressureRelief
from opendrs.policies.threshold_rebalance import IncusVersion, ThresholdRebalance
from opendrs.rules import new_violations
from support.imbalanced_clusters import imbalanced_clusters
from support.oracles.gates import gated_loads, steps_below_gates
from support.oracles.interleavings import migration_of, step_units, unsafe_states
from support.strategies import snapshots

METRICS = st.sampled_from(ImbalanceMetric)
METHODS = st.sampled_from(SelectionMethod)
LOAD_MODELS = st.sampled_from(LoadModel)
# Margins of 0 are for those who want to see guests go to and fro.
MIN_IMPROVEMENTS = st.sampled_from([0.01, 0.01, 0.1, 0.5])
THRESHOLDS = st.sampled_from([0.0, 0.05, 0.1, 0.3])
LIMITS = st.sampled_from(
    [
        DEFAULT_LIMITS,
        Limits(memory_overcommit=4.0),
        Limits(balance_above_cpu_load=0.3, balance_above_memory_load=0.5),
        Limits(
            memory_overcommit=4.0,
            cpu_overcommit=0.8,
            reserved_memory="10 %",
            overrides=(
                NodeLimits(nodes=(NodeId("b"), NodeId("n1")), cpu_overcommit=0.4),
                NodeLimits(
                    nodes=(NodeId("c"),), reserved_cpu=3, reserved_memory="40 GiB"
                ),
            ),
        ),
    ]
)
AUTO = st.builds(
    AutoRebalance,
    hold=st.integers(0, 3),
    method=METHODS,
    imbalance_metric=METRICS,
    load_model=LOAD_MODELS,
    margin=MIN_IMPROVEMENTS,
    threshold=THRESHOLDS,
    limits=LIMITS,
)
BALANCE = st.builds(
    Balance,
    method=METHODS,
    imbalance_metric=METRICS,
    load_model=LOAD_MODELS,
    min_improvement=MIN_IMPROVEMENTS,
    threshold=THRESHOLDS,
    allow_cold_migration=st.booleans(),
    max_migrations=st.integers(0, 8),
    limits=LIMITS,
)
THRESHOLD = st.builds(
    ThresholdRebalance,
    compatibility=st.sampled_from(IncusVersion),
    load_model=LOAD_MODELS,
    threshold=THRESHOLDS,
    max_migrations=st.integers(0, 8),
    limits=LIMITS,
)
PRESSURE = st.builds(
    PressureRelief,
    interval=st.just(0.0),
    settle_time=st.just(0.0),
    min_uptime=st.just(0.0),
    cpu_pressure_threshold=st.sampled_from([0.3, 0.75]),
    memory_threshold=st.sampled_from([0.2, 0.5, 0.85]),
    limits=LIMITS,
)
OPTIMIZE = st.builds(
    Optimize,
    budget=st.sampled_from(["knee", "unlimited", "3 migrations", "10 GiB", "0 GiB"]),
    priorities=st.sampled_from(
        [
            (Goal.REPAIR, Goal.CONTENTION, Goal.BALANCE),
            (Goal.REPAIR, Goal.BALANCE),
            (Goal.BALANCE,),
            (Goal.REPAIR, Goal.CONSOLIDATION),
        ]
    ),
    load_model=LOAD_MODELS,
    min_improvement=MIN_IMPROVEMENTS,
    threshold=THRESHOLDS,
    allow_cold_migration=st.booleans(),
    tolerated_node_failures=st.sampled_from([0, 0, 1]),
    iterations_per_group=st.just(10),
    limits=LIMITS,
)
BALANCING_POLICIES: st.SearchStrategy[Policy[Any]] = AUTO | BALANCE
POLICIES: st.SearchStrategy[Policy[Any]] = (
    AUTO | BALANCE | THRESHOLD | PRESSURE | OPTIMIZE
)
CLUSTERS = (
    snapshots()
    | snapshots(settled=True)
    | imbalanced_clusters()
    | imbalanced_clusters()
)
IMPROVING = {
    DecisionReason.IMPROVES_BALANCE,
    DecisionReason.RELIEVES_PRESSURE,
    DecisionReason.RELIEVES_OVERLOAD,
    DecisionReason.REPAIRS_RULES,
    DecisionReason.REPAIRS_SOFT_RULES,
    DecisionReason.VACATES_NODES,
}


def decide(policy: Policy[Any], snapshot: Snapshot) -> Decision[Any]:
    """Return what *policy* decides when the imbalance has lasted for long."""
    lasting = isinstance(policy, AutoRebalance)
    return policy.decide(snapshot, 9 if lasting else policy.initial_memory())


def apply_plan(snapshot: Snapshot, decision: Decision[Any]) -> Snapshot:
    for step in decision.plan.steps:
        snapshot = snapshot.apply(step.action)
    return snapshot


@given(POLICIES, CLUSTERS)
def test_the_same_input_gives_the_same_decision(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    assert decide(policy, snapshot) == decide(policy, snapshot)


@given(POLICIES, CLUSTERS, st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_guests_does_not_matter(
    policy: Policy[Any], snapshot: Snapshot, random: Random
) -> None:
    guests, nodes = list(snapshot.guests.items()), list(snapshot.nodes.items())
    random.shuffle(guests)
    random.shuffle(nodes)

    shuffled = replace(snapshot, guests=dict(guests), nodes=dict(nodes))

    assert decide(policy, shuffled) == decide(policy, snapshot)


@given(POLICIES, CLUSTERS)
def test_no_intermediate_state_violates_rules_or_memory(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    decision = decide(policy, snapshot)

    event(f"{len(decision.plan.steps)} steps")
    assert new_violations(snapshot, apply_plan(snapshot, decision)) == ()
    assert unsafe_states(snapshot, decision.plan, policy.limits) == []


@given(POLICIES, CLUSTERS)
def test_the_guard_has_nothing_against_a_fresh_plan(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    decision = decide(policy, snapshot)

    ready = [
        unit for unit in step_units(snapshot, decision.plan) if not unit.depends_on
    ]
    event(f"{len(ready)} units may start")
    for unit in ready:
        moves = tuple(migration_of(step) for step in unit.steps)
        assert check(moves, snapshot, policy.limits) is None


@given(BALANCING_POLICIES, CLUSTERS)
def test_the_imbalance_never_gets_worse(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    decision = decide(policy, snapshot)

    if decision.plan == EMPTY_PLAN:
        assert decision.after == decision.before
    else:
        assert decision.after["imbalance"] < decision.before["imbalance"]


@given(POLICIES, CLUSTERS)
def test_what_is_foretold_of_the_cluster_comes_true(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    decision = decide(policy, snapshot)

    next_time = decide(policy, apply_plan(snapshot, decision))

    if next_time.before:
        assert next_time.before == pytest.approx(decision.after, abs=1e-12)


@given(BALANCING_POLICIES, imbalanced_clusters())
def test_repeated_cycles_come_to_rest(policy: Policy[Any], snapshot: Snapshot) -> None:
    for cycle in range(200):
        decision = decide(policy, snapshot)
        if decision.plan == EMPTY_PLAN:
            event(f"at rest after {cycle} cycles")
            return
        snapshot = apply_plan(snapshot, decision)
    pytest.fail("still moving after 200 cycles")


@given(POLICIES, CLUSTERS)
def test_what_is_remembered_can_be_written_as_json(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    memory = policy.decide(snapshot, policy.initial_memory()).memory

    assert json.loads(json.dumps(memory)) == memory


@given(POLICIES, CLUSTERS)
def test_a_plan_is_there_exactly_when_it_improves_something(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    decision = decide(policy, snapshot)

    assert (decision.reason in IMPROVING) is (decision.plan != EMPTY_PLAN)
    assert decision.detail
    assert all(step.detail for step in decision.plan.steps)


@given(POLICIES, CLUSTERS)
def test_nothing_is_balanced_below_the_gates(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    limits = policy.limits
    ungated = replace(limits, balance_above_cpu_load=None)
    ungated = replace(ungated, balance_above_memory_load=None)
    free = decide(replace(policy, limits=ungated), snapshot)  # type: ignore[type-var]

    decision = decide(policy, snapshot)

    event(str(decision.reason))
    loads = gated_loads(snapshot, limits, static=_is_static(policy))
    if any(load > gate for load, gate in loads):
        assert decision == free
    elif limits.balance_above_cpu_load is not None:
        assert decision.reason is not DecisionReason.IMPROVES_BALANCE


@given(AUTO | BALANCE | THRESHOLD | OPTIMIZE, CLUSTERS)
def test_no_step_below_the_gates_is_for_balance(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    limits, static = policy.limits, _is_static(policy)
    gated = replace(limits, balance_above_cpu_load=0.9, balance_above_memory_load=0.9)
    if {Goal.CONTENTION, Goal.CONSOLIDATION} & {*getattr(policy, "priorities", ())}:
        return

    found = steps_below_gates(
        snapshot, decide(policy, snapshot).plan, gated, static=static
    )
    decision = decide(replace(policy, limits=gated), snapshot)  # type: ignore[type-var]

    event(f"{len(found)} steps without the gates")
    if decision.reason is not DecisionReason.REPAIRS_SOFT_RULES:
        plan = decision.plan
        assert steps_below_gates(snapshot, plan, gated, static=static) == []


def _is_static(policy: Policy[Any]) -> bool:
    """Return True if the gates of *policy* compare the limits of the guests."""
    load_model = getattr(policy, "load_model", LoadModel.DYNAMIC)
    return load_model is LoadModel.STATIC and policy.name != "threshold-rebalance"


@given(AUTO, CLUSTERS)
def test_auto_rebalance_moves_one_unit_per_decision(
    policy: AutoRebalance, snapshot: Snapshot
) -> None:
    plan = decide(policy, snapshot).plan

    assert (
        len({(migration_of(s).source, migration_of(s).target) for s in plan.steps}) <= 1
    )
    assert len(step_units(snapshot, plan)) <= 1


@given(BALANCE, CLUSTERS)
def test_balance_keeps_to_its_limit_of_moves(
    policy: Balance, snapshot: Snapshot
) -> None:
    assert len(decide(policy, snapshot).plan.steps) <= policy.max_migrations


def test_policies_are_found_by_name() -> None:
    assert dict(BUILT_IN_POLICIES) == {
        "auto-rebalance": AutoRebalance,
        "balance": Balance,
        "consolidate": Consolidate,
        "optimize": Optimize,
        "pressure": PressureRelief,
        "repair": Repair,
        "threshold-rebalance": ThresholdRebalance,
    }


def test_the_drawn_clusters_meet_every_outcome() -> None:
    """Count, once, that the properties above look at all that may happen."""
    others = {
        *(
            DecisionReason.ALREADY_CONSOLIDATED,
            DecisionReason.DRAINS_NODES,
            DecisionReason.FORECAST_DELAYS,
            DecisionReason.NODES_EMPTY,
            DecisionReason.RELIEVES_OVERLOAD,
            DecisionReason.REPAIRS_SOFT_RULES,  # seldom with the drawn rules
            DecisionReason.RELIEVES_STORAGE,  # by `decide` of the package
            DecisionReason.RESTORES_TOLERANCE,  # not with the drawn limits
            DecisionReason.RETURNS_GUESTS,
            DecisionReason.RULES_HOLD,
            DecisionReason.SAVES_POWER,
        ),
        *(DecisionReason.INTERVAL_NOT_ELAPSED, DecisionReason.CLUSTER_SETTLING),
        *(DecisionReason.NO_PRESSURE, DecisionReason.RELIEVES_PRESSURE),
        *(DecisionReason.REPAIRS_RULES, DecisionReason.VACATES_NODES),
    }
    reasons = set(DecisionReason) - others
    wanted = {
        *reasons,
        "several units",
        "a bundle",
        "a contradiction",
        "an infeasible node",
    }
    seen: dict[str, int] = {}

    @settings(max_examples=2000, derandomize=True, database=None)
    @given(BALANCING_POLICIES, CLUSTERS)
    def look(policy: Policy[Any], snapshot: Snapshot) -> None:
        if wanted <= seen.keys():
            return
        decision = policy.decide(snapshot, policy.initial_memory())
        plan = decision.plan
        for name in (
            decision.reason,
            *(["several units"] if len(step_units(snapshot, plan)) > 1 else []),
            *(
                ["a bundle"]
                if len(plan.steps) > len(step_units(snapshot, plan))
                else []
            ),
            *(["a contradiction"] if "contradict" in str(decision.notes) else []),
            *(["an infeasible node"] if " infeasible: " in str(plan) else []),
        ):
            seen[name] = seen.get(name, 0) + 1

    look()

    assert set(seen) >= wanted, seen
