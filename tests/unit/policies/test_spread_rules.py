"""Rules about failure domains, in every policy: a check by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from opendrs.guard import RejectionReason, check
from opendrs.model import (
    DEFAULT_LIMITS,
    Affinity,
    AntiAffinity,
    GuestId,
    Limits,
    LiveMigration,
    NodeId,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.policies import Balance, Policy
from opendrs.policies.optimize import Optimize, Repair, small_cluster
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from opendrs.rules import compile_rules, violations
from support.builders import cluster, guest_ids
from support.oracles.interleavings import unsafe_states

ROOMY = Limits(memory_headroom=0.0, memory_overcommit=9.0)
RACKS = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c"}
WEB = guest_ids("w1", "w2", "w3")


@pytest.fixture(params=["exhaustive", "large"])
def both_searches(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search all placements, and then as in large clusters."""
    if request.param == "large":
        monkeypatch.setattr(small_cluster, "MAX_PLACEMENTS", 0)


def racks(guests: Mapping[str, tuple[str, float | None]], *rules: Rule) -> Snapshot:
    """Return a cluster of five nodes in three racks."""
    loads = {
        name: sum(load or 0 for where, load in guests.values() if where == name)
        for name in RACKS
    }
    snapshot = cluster(loads, guests, rules)
    nodes = {
        name: replace(node, labels=frozenset({f"rack={RACKS[name]}"}))
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes)


def rack_counts(snapshot: Snapshot, names: frozenset[GuestId]) -> dict[str, int]:
    """Return how many of the guests are in each rack."""
    where = [RACKS[snapshot.guests[name].node] for name in names]
    return {rack: where.count(rack) for rack in sorted(set(where))}


def after(snapshot: Snapshot, policy: Policy[Any]) -> Snapshot:
    """Return the cluster after the plan of *policy*, each state of which is safe."""
    decision = policy.decide(snapshot, policy.initial_memory())
    assert unsafe_states(snapshot, decision.plan, policy.limits) == []
    return snapshot.apply(*(step.action for step in decision.plan.steps))


def test_guests_of_one_rack_violate_the_limit_once_per_rack() -> None:
    rule = AntiAffinity(guests=WEB, domain="rack")
    where = {"w1": ("a1", 0.1), "w2": ("a2", 0.1), "w3": ("b1", 0.1)}

    (found,) = violations(racks(where, rule))

    assert found.guests == guest_ids("w1", "w2")
    assert found.nodes == {"a1", "a2"}


def test_two_guests_may_share_a_rack_if_the_limit_is_two() -> None:
    rule = AntiAffinity(guests=WEB, domain="rack", max_guests=2)
    where = {"w1": ("a1", 0.1), "w2": ("a1", 0.1), "w3": ("b1", 0.1)}

    assert violations(racks(where, rule)) == ()


@pytest.mark.usefixtures("both_searches")
@pytest.mark.parametrize("policy", [Repair(limits=ROOMY), Optimize(limits=ROOMY)])
def test_guests_in_one_rack_are_spread(
    policy: Policy[Any],
) -> None:
    rule = AntiAffinity(guests=WEB, domain="rack")
    where = {"w1": ("a1", 0.1), "w2": ("a2", 0.1), "w3": ("a1", 0.1)}

    result = after(racks(where, rule), policy)

    assert rack_counts(result, WEB) == {"a": 1, "b": 1, "c": 1}


@pytest.mark.usefixtures("both_searches")
def test_at_most_two_of_a_kind_stay_on_a_node() -> None:
    names = guest_ids("v1", "v2", "v3", "v4", "v5")
    rule = AntiAffinity(guests=names, max_guests=2)
    where = {str(name): ("a1", 0.1) for name in names}

    decision = Repair(limits=ROOMY).decide(racks(where, rule), None)

    assert len(decision.plan.steps) == 3  # five guests, of which two may stay


@pytest.mark.usefixtures("both_searches")
@pytest.mark.parametrize(
    "policy",
    [
        Balance(limits=ROOMY, threshold=0.0, min_improvement=0.01),
        ThresholdRebalance(limits=ROOMY, threshold=0.05, max_migrations=4),
        Optimize(limits=ROOMY, threshold=0.0, migration_cost_weight=0.0),
    ],
)
def test_balance_joins_no_rack_that_is_full(
    policy: Policy[Any],
) -> None:
    # Rack a is the most loaded; w1 may leave for c1 alone, as w2 and w3 are in b.
    rule = AntiAffinity(guests=WEB, domain="rack", max_guests=2)
    where = {
        "w1": ("a1", 0.2),
        "x": ("a1", 0.2),
        "z": ("a1", 0.2),
        "w2": ("b1", 0.05),
        "w3": ("b2", 0.05),
        "y": ("c1", 0.4),
    }

    result = after(racks(where, rule), policy)

    assert violations(result) == ()
    assert any(result.guests[GuestId(name)].node != "a1" for name in ("w1", "x", "z"))


def test_guard_rejects_a_third_guest_in_a_rack_of_two() -> None:
    rule = AntiAffinity(guests=WEB, domain="rack", max_guests=2)
    where = {"w1": ("c1", 0.1), "w2": ("b1", 0.1), "w3": ("b2", 0.1)}
    move = LiveMigration(GuestId("w1"), NodeId("c1"), NodeId("b2"))

    found = check([move], racks(where, rule), DEFAULT_LIMITS)

    assert found is not None
    assert found.reason is RejectionReason.RULE_VIOLATED


def test_guard_lets_a_guest_move_within_a_rack_and_leave_a_full_one() -> None:
    rule = AntiAffinity(guests=WEB, domain="rack")
    where = {"w1": ("a1", 0.1), "w2": ("b1", 0.1), "w3": ("b2", 0.1)}
    snapshot = racks(where, rule)
    within = LiveMigration(GuestId("w1"), NodeId("a1"), NodeId("a2"))
    departing = LiveMigration(GuestId("w2"), NodeId("b1"), NodeId("c1"))

    assert check([within], snapshot, DEFAULT_LIMITS) is None
    assert check([departing], snapshot, DEFAULT_LIMITS) is None


def test_soft_limit_decides_among_targets_of_equal_balance() -> None:
    rule = AntiAffinity(guests=WEB, domain="rack", strict=False)
    where = {"w1": ("a1", 0.1), "w2": ("a1", 0.1), "w3": ("b1", 0.1)}
    policy = Optimize(limits=ROOMY, threshold=0.0, soft_rule_penalty=10.0)

    result = after(racks(where, rule), policy)

    # a2, b2 and c1 are empty alike; only c1 is in a rack without one of the guests.
    assert rack_counts(result, WEB) == {"a": 1, "b": 1, "c": 1}


def test_too_few_racks_are_a_contradiction() -> None:
    names = guest_ids("w1", "w2", "w3", "w4")
    rule = AntiAffinity(guests=names, domain="rack", name="spread")
    where = {str(name): ("a1", 0.1) for name in names}

    decision = Repair(limits=ROOMY).decide(racks(where, rule), None)

    assert any("cannot be repaired" in note for note in decision.notes)
    assert any("suffice for 3" in note for note in decision.notes)


def test_an_affinity_of_more_guests_than_a_rack_may_hold_is_a_contradiction() -> None:
    rule = AntiAffinity(guests=WEB, domain="rack")
    together = Affinity(guests=guest_ids("w1", "w2", "v"))
    where = {
        "v": ("a1", 0.1),
        "w1": ("a1", 0.1),
        "w2": ("a1", 0.1),
        "w3": ("b1", 0.1),
    }

    (found,) = compile_rules(racks(where, rule, together)).contradictions

    assert found.rules == (together, rule)
    assert found.guests == together.guests


@pytest.mark.usefixtures("both_searches")
def test_guest_in_a_domain_without_measured_nodes_counts_nowhere_else() -> None:
    rule = AntiAffinity(guests=WEB, domain="rack")
    drawn = racks({"w1": ("a1", 0.1), "w2": ("a2", 0.1), "w3": ("c1", 0.1)}, rule)
    c1 = replace(drawn.nodes[NodeId("c1")], usage=Usage())
    snapshot = replace(drawn, nodes={**drawn.nodes, c1.id: c1})

    plan = Optimize(limits=ROOMY).decide(snapshot, None).plan

    after = snapshot.apply(*(step.action for step in plan.steps))
    assert rack_counts(after, WEB) == {"a": 1, "b": 1, "c": 1}
