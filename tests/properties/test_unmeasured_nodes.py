"""Policies on clusters in which some online nodes are not measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, event, given
from hypothesis import strategies as st

from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    UNKNOWN_USAGE,
    Action,
    Limits,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Usage,
)
from opendrs.policies import AutoRebalance, Balance, DecisionReason, Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.drain import Drain
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.pressure import PressureRelief
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from opendrs.rules import new_violations
from support.imbalanced_clusters import imbalanced_clusters
from support.oracles.interleavings import unsafe_states
from support.strategies import snapshots

LIMITS = st.sampled_from([DEFAULT_LIMITS, Limits(memory_overcommit=4.0)])
BY_USE = st.just(LoadModel.DYNAMIC)
POLICIES: st.SearchStrategy[Policy[Any]] = st.one_of(
    st.builds(Balance, threshold=st.just(0.05), limits=LIMITS),
    st.builds(AutoRebalance, threshold=st.just(0.05), hold=st.just(0), limits=LIMITS),
    st.builds(ThresholdRebalance, load_model=BY_USE, limits=LIMITS),
    st.builds(Optimize, iterations_per_group=st.just(10), limits=LIMITS),
    st.builds(Repair, limits=LIMITS),
    st.builds(
        PressureRelief,
        interval=st.just(0.0),
        settle_time=st.just(0.0),
        min_uptime=st.just(0.0),
        memory_threshold=st.sampled_from([0.2, 0.5]),
        limits=LIMITS,
    ),
    st.builds(Consolidate, manage_power=st.booleans(), limits=LIMITS),
)


def without_usage(node: Node) -> Node:
    return replace(node, usage=UNKNOWN_USAGE)


def without_cpu(node: Node) -> Node:
    return replace(node, usage=Usage(None, node.usage.memory))


def without_memory(node: Node) -> Node:
    return replace(node, usage=Usage(node.usage.cpu, None))


def without_capacity(node: Node) -> Node:
    return replace(node, capacity=None)


LOSSES = st.sampled_from([without_usage, without_cpu, without_memory, without_capacity])


@st.composite
def partly_measured(draw: st.DrawFn) -> tuple[Snapshot, frozenset[NodeId]]:
    """Draw a cluster, and its unmeasured nodes: at least two others are measured."""
    snapshot = draw(imbalanced_clusters() | snapshots(measured=True, settled=True))
    names = sorted(name for name, node in snapshot.nodes.items() if node.online)
    assume(len(names) > 2)
    names = draw(st.permutations(names))[: draw(st.integers(1, len(names) - 2))]
    lost = {name: draw(LOSSES)(snapshot.nodes[name]) for name in names}
    unmeasured = replace(snapshot, nodes={**snapshot.nodes, **lost})
    return unmeasured, frozenset(names)


def nodes_of(action: Action) -> set[NodeId]:
    if isinstance(action, PowerOn | PowerOff):
        return {action.node}
    return {action.source, action.target}


def migrations(plan: Plan) -> Plan:
    """Return *plan* without its power-offs, which no step waits for."""
    return Plan(
        tuple(each for each in plan.steps if not isinstance(each.action, PowerOff))
    )


@given(POLICIES, partly_measured())
def test_no_step_concerns_an_unmeasured_node_and_no_rule_breaks(
    policy: Policy[Any], drawn: tuple[Snapshot, frozenset[NodeId]]
) -> None:
    snapshot, unmeasured = drawn

    decision = policy.decide(snapshot, policy.initial_memory())

    actions = [step.action for step in decision.plan.steps]
    event(f"{policy.name}: {'steps' if actions else 'nothing'}")
    assert not any(nodes_of(action) & unmeasured for action in actions)
    assert decision.reason is not DecisionReason.METRICS_MISSING
    if decision.reason is not DecisionReason.MIGRATION_IN_PROGRESS:
        assert set(decision.unmeasured) == unmeasured
    assert new_violations(snapshot, snapshot.apply(*actions)) == ()
    assert unsafe_states(snapshot, migrations(decision.plan), policy.limits) == []


@given(POLICIES, partly_measured())
def test_the_plan_is_that_of_a_cluster_in_which_these_nodes_are_closed(
    policy: Policy[Any], drawn: tuple[Snapshot, frozenset[NodeId]]
) -> None:
    """Rules that prefer such a node are left out: a guest waits for a measured one."""
    snapshot, unmeasured = drawn
    others = [
        rule
        for rule in snapshot.rules
        if not (isinstance(rule, NodeAffinity) and unmeasured & set(rule.nodes))
    ]
    snapshot = replace(snapshot, rules=tuple(others))
    closed = {
        name: replace(snapshot.nodes[name], state=NodeState.EXCLUDED)
        for name in unmeasured
    }
    memory = policy.initial_memory()

    decision = policy.decide(snapshot, memory)
    other = policy.decide(replace(snapshot, nodes={**snapshot.nodes, **closed}), memory)

    assert decision.plan == other.plan
    assert (decision.before, decision.after) == (other.before, other.after)


@given(LIMITS, partly_measured(), st.data())
def test_a_drain_uses_measured_nodes_only(
    limits: Limits, drawn: tuple[Snapshot, frozenset[NodeId]], data: st.DataObject
) -> None:
    snapshot, unmeasured = drawn
    measured = sorted(snapshot.nodes.keys() - unmeasured)
    drained = data.draw(st.sampled_from(measured))
    node = replace(snapshot.nodes[drained], state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, drained: node})

    decision = Drain(limits=limits).decide(snapshot, None)

    actions = [step.action for step in decision.plan.steps]
    event("steps" if actions else "nothing")
    assert not any(nodes_of(action) & unmeasured for action in actions)
    assert new_violations(snapshot, snapshot.apply(*actions)) == ()
