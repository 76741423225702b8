"""Guests that belong in one domain, with an independent check from the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from opendrs.config import snapshot_document
from opendrs.config.snapshot_reading import snapshot_from
from opendrs.errors import ModelError
from opendrs.guard import check
from opendrs.guard.rejection import RejectionReason
from opendrs.model import (
    DOMAIN_ORIGIN,
    GIB,
    Affinity,
    AntiAffinity,
    DomainAffinity,
    GuestId,
    Limits,
    LiveMigration,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Plan,
    Resources,
    Rule,
    Snapshot,
)
from opendrs.placement import (
    Scenario,
    StartRequest,
    apply_scenario,
    start_placement,
)
from opendrs.policies import Balance
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.optimize.repairs import unresolved_violations
from opendrs.rules import (
    FeasibilityChecker,
    compile_rules,
    count_strict,
    strict_rules,
    violations,
    with_chosen,
)
from support.builders import cluster, guest_ids
from support.oracles.interleavings import unsafe_states
from support.oracles.placement import is_satisfiable

LIMITS = Limits(cooldown=0)
ZONES = {"a": "1", "b": "1", "c": "2", "d": "2"}
MORE_ZONES = {**ZONES, "e": "3", "f": "3"}


def zoned(
    guests: dict[str, str],
    rules: Sequence[Rule],
    load: float = 0.1,
    zones: Mapping[str, str] = ZONES,
) -> Snapshot:
    """Return nodes a and b in zone 1, c and d in zone 2, with equal guests."""
    loads = {name: load * sum(w == name for w in guests.values()) for name in zones}
    found = cluster(loads, {name: (where, load) for name, where in guests.items()})
    nodes = {
        name: replace(node, labels=frozenset({f"zone={zones[name]}"}))
        for name, node in found.nodes.items()
    }
    return with_chosen(replace(found, nodes=nodes, rules=tuple(rules)))


def within(*guests: str) -> DomainAffinity:
    return DomainAffinity(domain="zone", guests=guest_ids(*guests))


def chosen_nodes(snapshot: Snapshot) -> list[set[str]]:
    return [
        set(rule.nodes)
        for rule in snapshot.rules
        if isinstance(rule, NodeAffinity) and rule.origin == DOMAIN_ORIGIN
    ]


def zones_of(snapshot: Snapshot, rule: DomainAffinity) -> set[str]:
    """Return the zones of the guests of *rule*, read from the table of zones."""
    return {MORE_ZONES[snapshot.guests[name].node] for name in rule.guests}


def states(snapshot: Snapshot, plan: Plan) -> list[Snapshot]:
    """Return the cluster after each step of *plan*, in order."""
    found = []
    for step in plan.steps:
        snapshot = snapshot.apply(step.action)
        found.append(snapshot)
    return found


def test_guests_gather_in_the_domain_with_most_of_them() -> None:
    rule = within("u", "v", "w")
    snapshot = zoned({"u": "a", "v": "b", "w": "c"}, [rule])

    plan = Repair(limits=LIMITS).decide(snapshot, None).plan

    assert len(violations(snapshot)) == 1
    assert [step.action.guest for step in plan.steps] == ["w"]  # type: ignore[union-attr]
    assert zones_of(states(snapshot, plan)[-1], rule) == {"1"}


def test_guests_gather_where_one_of_them_cannot_leave() -> None:
    rules: list[Rule] = [within("u", "v", "w"), Pin(guests=guest_ids("w"))]
    snapshot = zoned({"u": "a", "v": "b", "w": "c"}, rules)

    assert chosen_nodes(snapshot) == [{"c", "d"}]


def test_guests_gather_where_their_memory_fits() -> None:
    """Each guest uses 0.45 of a node: a and b hold two, c holds one, d is empty.

    In zone 1 are 2 x 0.1 free, and w needs 0.45. In zone 2 are 0.55 + 1 free, and u and
    v need 0.9.
    """
    guests = {"u": "a", "v": "b", "x": "a", "y": "b", "w": "c"}
    snapshot = zoned(guests, [within("u", "v", "w")], load=0.45)

    assert chosen_nodes(snapshot) == [{"c", "d"}]


def test_guests_gather_where_no_other_rule_separates_them() -> None:
    # One of vm1 and vm3 leaves a anyway: vm1 goes to the zone of vm2.
    apart = AntiAffinity(guests=guest_ids("vm1", "vm3"))
    snapshot = zoned(
        {"vm1": "a", "vm2": "c", "vm3": "a"}, [within("vm1", "vm2"), apart]
    )

    decision = Repair(limits=LIMITS).decide(snapshot, None)

    (step,) = decision.plan.steps
    assert isinstance(step.action, LiveMigration)
    assert step.action.guest == GuestId("vm1")
    after = snapshot.apply(step.action)
    assert count_strict(violations(after)).rules == 0


def test_domain_in_which_other_rules_cannot_hold_is_not_chosen() -> None:
    """Most of the guests are in zone 1, but v must not be there."""
    only = NodeAffinity(guests=guest_ids("v"), nodes={NodeId("c"): 0, NodeId("d"): 0})
    snapshot = zoned({"u": "a", "v": "c", "w": "b"}, [within("u", "v", "w"), only])

    assert chosen_nodes(snapshot) == [{"c", "d"}]
    assert compile_rules(snapshot).contradictions == ()


def test_rules_that_no_domain_can_keep_are_a_contradiction() -> None:
    """Three guests on different nodes of one zone, of two nodes each."""
    apart = AntiAffinity(guests=guest_ids("u", "v", "w"))
    snapshot = zoned({"u": "a", "v": "b", "w": "c"}, [within("u", "v", "w"), apart])

    (found,) = compile_rules(snapshot).contradictions

    assert found.guests == guest_ids("u", "v", "w")
    assert "suffice for 2" in found.detail


def test_balance_stays_within_the_domain() -> None:
    """Node a holds four guests, c and d are empty; only b is in the zone."""
    guests = dict.fromkeys("uvwx", "a")
    snapshot = zoned(guests, [within(*guests)], load=0.2)

    steps = Balance(limits=LIMITS).decide(snapshot, None).plan.steps

    targets = {step.action.target for step in steps}  # type: ignore[union-attr]
    assert targets == {"b"}


def test_guard_rejects_the_first_guest_in_another_domain() -> None:
    """The guard reads the labels itself: the rule that keeps them there is absent."""
    rule = within("v", "w")
    snapshot = replace(zoned({"v": "a", "w": "b"}, []), rules=(rule,))
    step = LiveMigration(GuestId("v"), NodeId("a"), NodeId("c"))
    both = [step, LiveMigration(GuestId("w"), NodeId("b"), NodeId("d"))]
    stay = LiveMigration(GuestId("v"), NodeId("a"), NodeId("b"))

    rejections = [check(each, snapshot, LIMITS) for each in ([step], both, [stay])]

    reasons = [each.reason if each else None for each in rejections]
    violated = RejectionReason.RULE_VIOLATED
    assert reasons == [violated, violated, None]


def test_guard_accepts_steps_of_scattered_guests_into_any_domain() -> None:
    """Zone 1 is chosen, where most of them are; but u may follow w as well."""
    snapshot = zoned({"u": "a", "v": "b", "w": "c"}, [within("u", "v", "w")])
    bare = replace(snapshot.nodes[NodeId("d")], labels=frozenset())
    partly = with_chosen(replace(snapshot, nodes={**snapshot.nodes, bare.id: bare}))
    step = LiveMigration(GuestId("u"), NodeId("a"), NodeId("d"))

    into_zone, into_none = (
        check([step], snapshot, LIMITS),
        check([step], partly, LIMITS),
    )

    assert chosen_nodes(snapshot) == [{"a", "b"}]
    assert into_zone is None
    assert into_none is not None
    assert into_none.reason is RejectionReason.RULE_VIOLATED
    assert "u would leave 1 for d, in no domain" in into_none.detail


@pytest.mark.parametrize(
    "policy",
    [Repair(limits=LIMITS), Optimize(limits=LIMITS)],
    ids=["repair", "optimize"],
)
def test_another_domain_is_chosen_if_fewer_rules_remain_violated(
    policy: Repair | Optimize,
) -> None:
    """Zone 1 comes first, but a is drained, and v must not share b with x."""
    apart = AntiAffinity(guests=guest_ids("v", "x"))
    rules: list[Rule] = [within("u", "v"), apart, Pin(guests=guest_ids("x"))]
    snapshot = zoned({"u": "a", "v": "c", "x": "b"}, rules)
    drained = replace(snapshot.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, drained.id: drained})

    plan = policy.decide(with_chosen(snapshot), None).plan

    assert chosen_nodes(snapshot) == [{"a", "b"}]
    after = states(snapshot, plan)[-1]
    assert not violations(after)
    assert zones_of(after, within("u", "v")) == {"2"}


def test_guests_of_a_drained_domain_stay_with_the_rule_as_the_reason() -> None:
    snapshot = zoned({"v": "a", "w": "b"}, [within("v", "w")])
    nodes = {
        name: replace(node, state=NodeState.MAINTENANCE) if name in "ab" else node
        for name, node in snapshot.nodes.items()
    }

    decision = Repair(limits=LIMITS).decide(replace(snapshot, nodes=nodes), None)

    assert decision.plan.steps == ()


def test_rule_without_two_active_guests_binds_nothing() -> None:
    assert chosen_nodes(zoned({"v": "a"}, [within("v", "w")])) == []


def test_domain_that_is_not_named_is_rejected() -> None:
    with pytest.raises(ModelError, match="affinity rule: domain"):
        DomainAffinity(domain="", guests=guest_ids("v", "w"))


def test_domains_of_rules_that_share_a_guest_are_chosen_jointly() -> None:
    """First alone, two of its three guests are in zone 1; but w belongs in zone 2.

    So v, which must be with w, has to be in zone 2, and u and x with it.
    """
    belong = NodeAffinity(guests=guest_ids("w"), nodes={NodeId("d"): 0})
    first, second = within("u", "v", "x"), within("v", "w")
    places = {"u": "a", "x": "b", "v": "c", "w": "a"}
    snapshot = zoned(places, [first, second, belong])

    assert chosen_nodes(snapshot) == [{"c", "d"}, {"c", "d"}]
    assert compile_rules(snapshot).contradictions == ()


def test_groups_apart_by_zone_get_different_zones() -> None:
    apart = AntiAffinity(guests=guest_ids("u", "x"), domain="zone")
    places = {"u": "a", "v": "c", "x": "b", "y": "d"}
    snapshot = zoned(places, [within("u", "v"), within("x", "y"), apart])

    assert chosen_nodes(snapshot) == [{"a", "b"}, {"c", "d"}]


def test_gathered_guests_with_rules_for_another_domain_are_no_contradiction() -> None:
    """Both could be in zone 2, but no safe step leads there: v would be alone."""
    only = NodeAffinity(guests=guest_ids("v"), nodes={NodeId("c"): 0})
    snapshot = zoned({"u": "a", "v": "b"}, [within("u", "v"), only])

    assert chosen_nodes(snapshot) == [{"a", "b"}]
    assert compile_rules(snapshot).contradictions == ()


def test_contradiction_names_the_rules_as_written() -> None:
    rules: list[Rule] = [within("u", "v", "w"), AntiAffinity(guests=guest_ids(*"uvw"))]
    snapshot = zoned({"u": "a", "v": "b", "w": "c"}, rules)

    (found,) = compile_rules(snapshot).contradictions

    assert {id(rule) for rule in found.rules} == {
        id(rule) for rule in snapshot.rules if rule.origin != DOMAIN_ORIGIN
    }


def test_one_rule_is_counted_once() -> None:
    snapshot = zoned({"u": "a", "v": "b", "w": "c"}, [within("u", "v", "w")])

    assert strict_rules(snapshot) == 1
    assert count_strict(violations(snapshot)).rules == 1


def test_scattered_guests_without_memory_are_not_called_impossible() -> None:
    """Each node but c holds two guests of 0.45, so that no domain receives another."""
    places = {"u": "a", "v": "c", "w": "a", "x": "b", "y": "b", "z": "d", "q": "d"}
    snapshot = zoned(places, [within("u", "v", "w")], load=0.45)

    found = unresolved_violations(violations(snapshot), snapshot, LIMITS)

    assert {each.repairable for each in found} == {True}


def test_pinned_guests_in_two_domains_cannot_be_repaired() -> None:
    rules: list[Rule] = [within("u", "v"), Pin(guests=guest_ids("u", "v"))]
    snapshot = zoned({"u": "a", "v": "c"}, rules)

    found = unresolved_violations(violations(snapshot), snapshot, LIMITS)

    assert [each.repairable for each in found] == [False]


def test_guests_of_a_failed_domain_restart_in_another_one() -> None:
    snapshot = zoned({"u": "a", "v": "b", "w": "c"}, [within("u", "v")])
    fail = (NodeId("a"), NodeId("b"))

    result = apply_scenario(snapshot, Scenario(fail=fail), LIMITS)

    assert len(result.placed) == 2
    assert {each.target for each in result.placed} <= {"c", "d"}
    assert result.fits


def test_guest_of_a_failed_node_restarts_with_those_that_stay() -> None:
    """Node b holds v and is full; c and d are empty, but in the other zone."""
    places = {"u": "a", "v": "b", "x": "b", "y": "b"}
    snapshot = zoned(places, [within("u", "v")], load=0.3)

    result = apply_scenario(snapshot, Scenario(fail=(NodeId("a"),)), LIMITS)

    assert [each.guest for each in result.unplaced] == ["u"]
    assert result.is_proven


def test_new_guest_like_others_starts_in_their_domain() -> None:
    """Zone 2 is empty and holds all of them, but u and v are in zone 1."""
    snapshot = zoned({"u": "a", "v": "b"}, [within("u", "v")], load=0.3)
    request = StartRequest(limit=Resources(1, GIB), like=GuestId("u"))

    found = start_placement(snapshot, request, LIMITS)

    assert {each.node for each in found.ranked} == {"a", "b"}


def test_rule_that_was_written_is_read_with_the_same_domain() -> None:
    snapshot = zoned({"u": "a", "v": "c", "w": "c"}, [within("u", "v", "w")])

    again = snapshot_from(snapshot_document(snapshot), "test")

    assert again == snapshot


def test_soft_rule_prefers_the_nodes_of_one_domain() -> None:
    soft = DomainAffinity(
        domain="zone", guests=guest_ids("u", "v", "w"), strict=False, weight=2.0
    )
    snapshot = zoned({"u": "a", "v": "b", "w": "c"}, [soft])

    rules = compile_rules(snapshot)
    preferred = FeasibilityChecker(snapshot, rules, LIMITS).preferred_nodes

    assert [(each.strict, each.weight) for each in violations(snapshot)] == [(False, 2)]
    assert preferred(GuestId("w")) == {"a", "b"}


@st.composite
def zoned_rules(draw: st.DrawFn) -> Snapshot:
    """Draw strict rules about five guests on four nodes, in two zones and in none."""
    guests = {name: draw(st.sampled_from("abcd")) for name in "vwxyz"}
    names = st.frozensets(st.sampled_from("vwxyz"), min_size=2, max_size=4)
    nodes = st.sets(st.sampled_from("abcd"), min_size=1, max_size=3)
    rules: list[Rule] = []
    for kind in draw(st.lists(st.sampled_from("ddatnz"), min_size=1, max_size=5)):
        some = guest_ids(*draw(names))
        if kind == "d":
            rules.append(DomainAffinity(domain="zone", guests=some))
        elif kind == "t":
            rules.append(Affinity(guests=some))
        elif kind == "n":
            allowed = dict.fromkeys(map(NodeId, sorted(draw(nodes))), 0)
            rules.append(NodeAffinity(guests=some, nodes=allowed))
        else:
            key = "zone" if kind == "z" else ""
            rules.append(AntiAffinity(guests=some, domain=key))
    snapshot = zoned(guests, rules, load=0.01)
    if draw(st.booleans()):
        bare = replace(snapshot.nodes[NodeId("b")], labels=frozenset())
        snapshot = replace(snapshot, nodes={**snapshot.nodes, bare.id: bare})
    return with_chosen(snapshot)


@settings(max_examples=100)
@given(zoned_rules())
def test_contradictory_rules_with_domains_hold_in_no_placement(
    snapshot: Snapshot,
) -> None:
    """All placements are tried by code that reads the labels."""
    assume(compile_rules(snapshot).contradictions)

    assert not is_satisfiable(snapshot)


@pytest.mark.parametrize("seed", range(30))
def test_plans_never_separate_a_group_in_one_domain(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    guests = {f"g{number}": random.choice("abcdef") for number in range(6)}
    rules = [within(*random.sample(sorted(guests), random.randint(2, 4)))]
    if random.random() < 0.5:
        rules.append(within(*random.sample(sorted(guests), 2)))
    others: list[Rule] = []
    if random.random() < 0.5:
        others.append(AntiAffinity(guests=guest_ids(*random.sample(sorted(guests), 2))))
    snapshot = zoned(guests, [*rules, *others], 0.15, MORE_ZONES)
    name = random.choice(sorted(guests))
    if random.random() < 0.3:
        fixed = replace(snapshot.guests[GuestId(name)], mobility=Mobility.NONE)
        snapshot = with_chosen(
            replace(snapshot, guests={**snapshot.guests, fixed.id: fixed})
        )
    policies = (Repair(limits=LIMITS), Balance(limits=LIMITS), Optimize(limits=LIMITS))

    for policy in policies:
        before = [zones_of(snapshot, rule) for rule in rules]
        plan = policy.decide(snapshot, None).plan
        assert not unsafe_states(snapshot, plan, LIMITS)
        for after in states(snapshot, plan):
            now = [zones_of(after, rule) for rule in rules]
            gathered = [b for a, b in zip(before, now, strict=True) if len(a) == 1]
            assert all(len(zones) == 1 for zones in gathered)
            before = now
