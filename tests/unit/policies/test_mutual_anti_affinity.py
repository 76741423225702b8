"""Guests of one tag keep apart from those of another, in every policy: by hand.

`shared_nodes` reads tags and nodes itself; it is independent of the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from opendrs.errors import ModelError
from opendrs.guard import RejectionReason, check
from opendrs.guard.survivors import Survivors
from opendrs.model import (
    DEFAULT_LIMITS,
    Affinity,
    GuestId,
    Limits,
    LiveMigration,
    Migration,
    Mobility,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    NodeState,
    Plan,
    Rule,
    Snapshot,
)
from opendrs.placement import StartRequest, start_placement
from opendrs.policies import Balance, Policy
from opendrs.policies.auto_rebalance import AutoRebalance
from opendrs.policies.drain import Drain
from opendrs.policies.optimize import Optimize, Repair, divided_nodes, small_cluster
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from opendrs.rules import compile_rules, violations, with_chosen
from support.builders import cluster, guest_ids
from support.oracles.interleavings import unsafe_states

ROOMY = Limits(memory_headroom=0.0, memory_overcommit=9.0)
APART = MutualAntiAffinity(
    tags=frozenset({"production"}), other_tags=frozenset({"test"}), name="apart"
)


@pytest.fixture(params=["exhaustive", "large", "divided"])
def all_searches(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search all placements, then as in large clusters, with few or many pairs."""
    if request.param != "exhaustive":
        monkeypatch.setattr(small_cluster, "MAX_PLACEMENTS", 0)
    if request.param == "divided":
        monkeypatch.setattr(divided_nodes, "MAX_PAIRS", 0)


def tagged(
    guests: Mapping[str, tuple[str, float]], *rules: Rule, nodes: Iterable[str] = "abc"
) -> Snapshot:
    """Return a cluster; guests whose names start with p are production, t test."""
    loads = {
        name: sum(load for where, load in guests.values() if where == name)
        for name in nodes
    }
    found = cluster(loads, guests, rules)
    tag_of = {"p": "production", "t": "test"}
    members = {
        name: replace(
            each, tags=frozenset({tag_of[name[0]]} if name[0] in "pt" else ())
        )
        for name, each in found.guests.items()
    }
    return with_chosen(replace(found, guests=members))


def shared_nodes(snapshot: Snapshot) -> set[str]:
    """Return the nodes with guests of both tags."""
    nodes_of = {
        tag: {
            node
            for each in snapshot.guests.values()
            if tag in each.tags
            for node in each.occupied_nodes
        }
        for tag in ("production", "test")
    }
    return set(nodes_of["production"] & nodes_of["test"])


def migrations_of(plan: Plan) -> list[Migration]:
    """Return the migrations of *plan*."""
    actions = [step.action for step in plan.steps]
    return [each for each in actions if isinstance(each, Migration)]


def after(snapshot: Snapshot, policy: Policy[Any]) -> Snapshot:
    """Return the cluster after the plan of *policy*, each state of which is safe."""
    decision = policy.decide(snapshot, policy.initial_memory())
    assert unsafe_states(snapshot, decision.plan, policy.limits) == []
    return snapshot.apply(*(step.action for step in decision.plan.steps))


def test_each_pair_of_both_tags_on_a_node_is_a_violation() -> None:
    where = {"p1": ("a", 0.1), "p2": ("a", 0.1), "t1": ("a", 0.1), "t2": ("b", 0.1)}

    found = violations(tagged(where, APART))

    assert [each.guests for each in found] == [
        guest_ids("p1", "t1"),
        guest_ids("p2", "t1"),
    ]
    assert {node for each in found for node in each.nodes} == {"a"}


def test_guests_of_one_tag_may_share_a_node() -> None:
    where = {"p1": ("a", 0.1), "p2": ("a", 0.1), "t1": ("b", 0.1), "t2": ("b", 0.1)}

    assert violations(tagged(where, APART)) == ()


def test_guest_with_both_tags_counts_among_the_first() -> None:
    drawn = tagged({"p1": ("a", 0.1), "t1": ("a", 0.1)})
    both = replace(drawn.guests[GuestId("p1")], tags=frozenset({"production", "test"}))
    snapshot = replace(drawn, guests={**drawn.guests, both.id: both}, rules=(APART,))

    (rule,) = with_chosen(snapshot).rules

    assert isinstance(rule, MutualAntiAffinity)
    assert (rule.guests, rule.other_guests) == (guest_ids("p1"), guest_ids("t1"))


def test_guest_on_both_sides_by_name_is_rejected() -> None:
    with pytest.raises(ModelError, match="expected none of guests, got t1"):
        MutualAntiAffinity(
            guests=guest_ids("p1", "t1"), other_guests=guest_ids("t1", "t2")
        )


def test_guard_rejects_a_test_guest_beside_production() -> None:
    snapshot = tagged({"p1": ("a", 0.1), "p2": ("b", 0.1), "t1": ("c", 0.1)}, APART)
    beside = LiveMigration(GuestId("t1"), NodeId("c"), NodeId("a"))
    alike = LiveMigration(GuestId("p1"), NodeId("a"), NodeId("b"))

    found = check([beside], snapshot, DEFAULT_LIMITS)

    assert found is not None
    assert found.reason is RejectionReason.RULE_VIOLATED
    assert check([alike], snapshot, DEFAULT_LIMITS) is None


@pytest.mark.usefixtures("all_searches")
@pytest.mark.parametrize("policy", [Repair(limits=ROOMY), Optimize(limits=ROOMY)])
def test_mixed_nodes_are_repaired_with_the_fewest_moves(policy: Policy[Any]) -> None:
    # Both a and b are mixed. One of p3 and t1 leaves for c, then the other can follow
    # its tag: two moves suffice.
    where = {
        "p1": ("a", 0.1),
        "p2": ("a", 0.1),
        "t1": ("a", 0.1),
        "p3": ("b", 0.1),
        "t2": ("b", 0.1),
        "t3": ("b", 0.1),
    }
    result = after(tagged(where, APART), policy)

    assert shared_nodes(result) == set()
    moved = [n for n in result.guests if result.guests[n].node != where[n][0]]
    assert moved == ["t1", "p3"]


def test_mixed_nodes_without_a_free_one_cannot_be_repaired_safely() -> None:
    # Each move would first put a guest beside others of the other tag.
    where = {"p1": ("a", 0.1), "t1": ("a", 0.1), "p2": ("b", 0.1), "t2": ("b", 0.1)}

    decision = Repair(limits=ROOMY).decide(tagged(where, APART, nodes="ab"), None)

    assert decision.plan.steps == ()
    assert all(note.startswith("cannot be repaired: apart") for note in decision.notes)


@pytest.mark.usefixtures("all_searches")
@pytest.mark.parametrize(
    "policy",
    [
        Balance(limits=ROOMY, threshold=0.0, min_improvement=0.01),
        ThresholdRebalance(limits=ROOMY, threshold=0.05, max_migrations=4),
        Optimize(limits=ROOMY, threshold=0.0, migration_cost_weight=0.0),
        AutoRebalance(limits=ROOMY, threshold=0.01, margin=0.01, hold=0),
        Drain(limits=ROOMY),
    ],
    ids=lambda policy: policy.name,
)
def test_policy_moves_no_guest_beside_the_other_tag(policy: Policy[Any]) -> None:
    # Guests leave a. Production may go to b alone, test to c alone, x to both.
    where = {
        "p1": ("a", 0.2),
        "p2": ("a", 0.2),
        "x1": ("a", 0.2),
        "p3": ("b", 0.1),
        "t1": ("c", 0.05),
    }
    snapshot = tagged(where, APART)
    if policy.name == "drain":
        a = replace(snapshot.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
        snapshot = replace(snapshot, nodes={**snapshot.nodes, a.id: a})

    result = after(snapshot, policy)

    assert shared_nodes(result) == set()
    assert result.guests != snapshot.guests
    assert all(result.guests[GuestId(name)].node != "c" for name in ("p1", "p2"))


def test_soft_rule_decides_among_targets_of_equal_balance() -> None:
    soft = replace(APART, strict=False)
    where = {"p1": ("a", 0.2), "p2": ("a", 0.2), "t1": ("b", 0.1), "x1": ("c", 0.1)}
    policy = Optimize(limits=ROOMY, threshold=0.0, soft_rule_penalty=10.0)

    result = after(tagged(where, soft), policy)

    # b and c are loaded alike; only c holds no test guest.
    assert shared_nodes(result) == set()
    assert "c" in {result.guests[GuestId(name)].node for name in ("p1", "p2")}


def test_new_guest_starts_beside_none_of_the_other_tag() -> None:
    snapshot = tagged({"p1": ("a", 0.1), "t1": ("b", 0.1), "x1": ("c", 0.5)}, APART)
    limit = snapshot.guests[GuestId("p1")].limit
    assert limit is not None
    request = StartRequest(limit=limit, tags=frozenset({"test"}))

    placed = start_placement(snapshot, request, ROOMY)

    assert [each.node for each in placed.ranked] == ["b", "c"]
    assert [each.node for each in placed.infeasible] == ["a"]


def test_guest_restarts_beside_none_of_the_other_tag_after_a_failure() -> None:
    # If a fails, p1 may restart on c alone, which is full.
    where = {"p1": ("a", 0.1), "t1": ("b", 0.1), "x1": ("c", 0.95)}
    limits = replace(ROOMY, memory_overcommit=1.0)

    ruled = Survivors(tagged(where, APART), limits)
    free = Survivors(tagged(where), limits)

    assert ruled.without_node((NodeId("a"),)) == (GuestId("p1"),)
    assert free.without_node((NodeId("a"),)) == ()


def test_affinity_between_both_sides_is_a_contradiction() -> None:
    together = Affinity(guests=guest_ids("p1", "t1"))
    snapshot = tagged({"p1": ("a", 0.1), "t1": ("b", 0.1)}, together, APART)

    (found,) = compile_rules(snapshot).contradictions

    assert found.guests == guest_ids("p1", "t1")
    assert found.rules == (together, snapshot.rules[1])


def test_guest_without_a_node_beside_the_other_side_is_a_contradiction() -> None:
    def only(guest: str, *nodes: str) -> NodeAffinity:
        allowed = dict.fromkeys(map(NodeId, nodes), 0)
        return NodeAffinity(guests=guest_ids(guest), nodes=allowed)

    # p1 needs a and p2 needs b, so that nothing is left for t1.
    rules = only("p1", "a"), only("p2", "b"), only("t1", "a", "b")
    where = {"p1": ("a", 0.1), "p2": ("b", 0.1), "p3": ("c", 0.1), "t1": ("c", 0.1)}

    (found,) = compile_rules(tagged(where, APART, *rules)).contradictions

    assert found.guests == guest_ids("p1", "p2", "t1")


def test_no_contradiction_where_one_node_is_left() -> None:
    allowed = {NodeId("a"): 0}
    rule = NodeAffinity(guests=guest_ids("p1"), nodes=allowed)
    where = {"p1": ("a", 0.1), "t1": ("b", 0.1)}

    assert compile_rules(tagged(where, APART, rule)).contradictions == ()


def test_pair_that_cannot_be_parted_is_reported_with_the_cause() -> None:
    drawn = tagged({"p1": ("a", 0.1), "t1": ("a", 0.1)}, APART)
    fixed = {
        name: replace(each, mobility=Mobility.NONE)
        for name, each in drawn.guests.items()
    }

    decision = Repair(limits=ROOMY).decide(replace(drawn, guests=fixed), None)

    assert decision.plan.steps == ()
    assert any("cannot be repaired: apart" in note for note in decision.notes)


@pytest.mark.usefixtures("all_searches")
def test_affinity_group_keeps_apart_as_a_whole() -> None:
    together = Affinity(guests=guest_ids("p1", "x1"))
    where = {"p1": ("a", 0.1), "x1": ("a", 0.1), "t1": ("a", 0.1), "t2": ("b", 0.1)}

    result = after(tagged(where, APART, together, nodes="ab"), Repair(limits=ROOMY))

    assert shared_nodes(result) == set()
    assert result.guests[GuestId("x1")].node == result.guests[GuestId("p1")].node


def test_many_pairs_are_kept_apart_by_a_division_of_the_nodes() -> None:
    # 120 x 120 pairs on ten nodes, of which one is mixed. It holds 24 production guests
    # and one test guest. Test guests are on n5 to n9, production on n0 to n4.
    where = {f"p{i:03}": (f"n{i % 5}", 0.02) for i in range(120)}
    where |= {f"t{i:03}": (f"n{5 + i % 5}", 0.01) for i in range(1, 120)}
    where["t000"] = ("n0", 0.01)
    nodes = [f"n{number}" for number in range(10)]

    decision = Optimize(limits=ROOMY).decide(tagged(where, APART, nodes=nodes), None)

    moved = {action.guest: action.target for action in migrations_of(decision.plan)}
    assert moved[GuestId("t000")] in nodes[5:]
    assert all(target in nodes[:5] for name, target in moved.items() if name[0] == "p")
    assert all(target in nodes[5:] for name, target in moved.items() if name[0] == "t")
    (note,) = (each for each in decision.notes if "distance from the opt" in each)
    assert "with this plan; at least" in note
