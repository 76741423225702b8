"""Compiled rules: groups, implied rules, contradictions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    Mobility,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
    Snapshot,
    TagExclusion,
)
from opendrs.rules import CompiledRules, Contradiction, compile_rules
from support.builders import cluster, guest_ids
from support.oracles.placement import is_satisfiable
from support.strategies import snapshots

NODES = [NodeId(name) for name in ("a", "b", "c")]
A, B, C = NODES
V, W, X, Y, Z = (GuestId(name) for name in "vwxyz")


def together(*names: str, strict: bool = True) -> Affinity:
    return Affinity(guests=guest_ids(*names), strict=strict)


def apart(*names: str, strict: bool = True) -> AntiAffinity:
    return AntiAffinity(guests=guest_ids(*names), strict=strict)


def belong(*names: str, strict: bool = True, **nodes: int) -> NodeAffinity:
    priorities = {NodeId(name): priority for name, priority in nodes.items()}
    return NodeAffinity(guests=guest_ids(*names), nodes=priorities, strict=strict)


def five_guests(*rules: Rule, nodes: int = 3) -> Snapshot:
    """Return guests v to z, all on node a."""
    places: dict[str, float | None] = dict.fromkeys(NODES[:nodes], 0.1)
    return cluster(places, dict.fromkeys("vwxyz", ("a", 0.01)), rules)


def compiled(*rules: Rule) -> CompiledRules:
    return compile_rules(five_guests(*rules))


def contradictions(*rules: Rule, nodes: int = 3) -> list[Contradiction]:
    return list(compile_rules(five_guests(*rules, nodes=nodes)).contradictions)


def test_a_guest_that_no_rule_binds_is_absent() -> None:
    rules = compiled(together("v", "w"), apart("v", "x"), belong("v", a=1))

    for binding in (rules.together, rules.apart, rules.nodes, rules.rankings):
        assert Z not in binding
    assert Z not in rules.immovable


def test_groups_that_share_a_guest_become_one() -> None:
    rules = compiled(together("v", "w"), together("w", "x"))

    assert rules.together == dict.fromkeys((V, W, X), frozenset({V, W, X}))


def test_a_rule_that_bridges_two_groups_joins_them() -> None:
    # Proxmox's single pass would leave them apart in some orders.
    rules = compiled(together("v", "w"), together("x", "y"), together("w", "x"))

    assert rules.together == dict.fromkeys((V, W, X, Y), frozenset({V, W, X, Y}))


def test_disjoint_groups_stay_separate() -> None:
    rules = compiled(together("v", "w"), together("x", "y"))

    assert rules.together == {V: {V, W}, W: {V, W}, X: {X, Y}, Y: {X, Y}}


def test_anti_affinity_is_symmetric() -> None:
    rules = compiled(apart("v", "w", "x"), apart("x", "y"))

    assert rules.apart == {V: {W, X}, W: {V, X}, X: {V, W, Y}, Y: {X}}


def test_anti_affinity_extends_to_affinity_group() -> None:
    # Proxmox: _implicit-negative rules, in both directions.
    rules = compiled(together("v", "w"), apart("w", "x"))

    assert rules.apart == {V: {X}, W: {X}, X: {V, W}}


def test_a_group_is_apart_from_all_of_another_group() -> None:
    rules = compiled(together("v", "w"), together("x", "y"), apart("w", "x"))

    assert rules.apart == {V: {X, Y}, W: {X, Y}, X: {V, W}, Y: {V, W}}


def test_what_keeps_one_of_a_group_from_a_node_keeps_all_of_it() -> None:
    rules = compiled(together("v", "w"), belong("v", a=1, b=1))

    assert rules.nodes == {V: {A, B}, W: {A, B}}


def test_of_several_node_affinities_all_must_hold() -> None:
    rules = compiled(together("v", "w"), belong("v", a=1, b=1), belong("w", b=1, c=1))

    assert rules.nodes == {V: {B}, W: {B}}


def test_guests_of_one_node_affinity_share_the_set_of_its_nodes() -> None:
    nodes = compiled(belong("v", "w", a=0, b=0)).nodes

    # A rule that drains nodes lists all others, and all guests: 20,000 times 1,000.
    assert nodes[V] is nodes[W]


def test_a_soft_node_affinity_forbids_no_node_and_ranks_them() -> None:
    soft = belong("v", strict=False, a=1)

    rules = compiled(soft)

    assert rules.nodes == {}
    assert rules.rankings == {V: (soft,)}


def test_a_strict_node_affinity_ranks_only_with_unequal_priorities() -> None:
    unequal = belong("v", a=1, b=2)

    assert compiled(belong("v", a=1, b=1)).rankings == {}
    assert compiled(unequal).rankings == {V: (unequal,)}


def test_what_ranks_nodes_for_one_of_a_group_does_so_for_all_of_it() -> None:
    first, second = belong("v", strict=False, a=1), belong("w", strict=False, b=1)

    rules = compiled(first, together("v", "w"), second)

    assert rules.rankings == dict.fromkeys((V, W), (first, second))


def test_soft_rules_bind_only_named_guests() -> None:
    rules = compiled(
        together("v", "w", strict=False),
        together("w", "x", strict=False),
        apart("x", "y", strict=False),
    )

    assert rules.soft_together == {V: {W}, W: {V, X}, X: {W}}
    assert rules.soft_apart == {X: {Y}, Y: {X}}
    assert rules.together == rules.apart == {}
    assert rules.immovable == {}


def test_guests_that_do_not_exist_are_passed_over() -> None:
    rules = compiled(
        together("v", "gone"),
        apart("w", "gone"),
        belong("gone", a=1),
        Pin(guests=guest_ids("gone")),
        apart("x", "y", "gone"),
        apart("z", "gone", strict=False),
    )

    assert rules == compiled(apart("x", "y"))


def test_pinned_and_excluded_guests_are_fixed_by_their_rule() -> None:
    snapshot = five_guests(
        Pin(guests=guest_ids("v"), name="license"),
        TagExclusion(tags=frozenset({"lab", "db"}), name="not these"),
    )
    tagged = replace(snapshot.guests[W], tags=frozenset({"db", "web"}))

    rules = compile_rules(replace(snapshot, guests={**snapshot.guests, W: tagged}))

    assert rules.immovable == {
        V: 'pinned by the rule "license"',
        W: 'excluded from migration by the rule "not these"',
    }


def test_affinity_and_anti_affinity_of_same_guests_is_a_contradiction() -> None:
    chain = (together("v", "w"), together("w", "x"))
    far = apart("x", "v", "z")

    (found,) = contradictions(*chain, far)

    assert found.rules == (*chain, far)
    assert found.guests == {V, W, X}
    assert found.detail == "both affinity and anti-affinity between v and x"


def test_contradictory_anti_affinity_keeps_guests_apart() -> None:
    rules = compiled(together("x", "y", "z"), apart("x", "y"))

    assert rules.apart == {X: {Y}, Y: {X}}


def test_disjoint_node_affinities_are_a_contradiction() -> None:
    rules = (belong("v", a=1), belong("v", b=1))

    (found,) = contradictions(*rules, belong("w", a=1))

    assert found.rules == rules
    assert found.guests == {V}
    assert found.detail == "no allowed node in the cluster for v"


def test_node_affinity_to_missing_node_is_a_contradiction() -> None:
    rule = belong("v", nowhere=1)

    (found,) = contradictions(rule)

    assert found.rules == (rule,)
    assert found.guests == {V}


def test_contradiction_of_affinity_group_is_reported_once() -> None:
    rules = (belong("v", a=1), belong("w", b=1), together("v", "w", "x"))

    (found,) = contradictions(*rules)

    assert found.rules == rules
    assert found.guests == {V, W, X}
    assert found.detail == "no allowed node in the cluster for v and w and x"


def test_anti_affinity_of_more_guests_than_nodes_is_a_contradiction() -> None:
    contradiction = apart("v", "w", "x", "y")

    (found,) = contradictions(contradiction)

    assert found.rules == (contradiction,)
    assert found.guests == {V, W, X, Y}
    assert (
        found.detail
        == "anti-affinity among 4 guests, but their allowed nodes suffice for 3"
    )


def test_anti_affinity_of_as_many_guests_as_nodes_is_no_contradiction() -> None:
    assert contradictions(apart("v", "w", "x")) == []


def test_anti_affinity_with_too_few_allowed_nodes_is_a_contradiction() -> None:
    pair = belong("v", "w", "x", a=1, b=1)
    contradiction = apart("v", "w", "x")

    (found,) = contradictions(pair, contradiction)

    assert found.rules == (contradiction, pair)
    assert found.guests == {V, W, X}
    assert (
        found.detail
        == "anti-affinity among 3 guests, but their allowed nodes suffice for 2"
    )


def test_allowed_nodes_of_groups_can_make_a_contradiction() -> None:
    rules = (
        together("v", "z"),
        belong("z", a=1),
        belong("w", a=1),
        apart("v", "w"),
    )

    (found,) = contradictions(*rules)

    assert found.guests == {V, W}
    assert found.rules == (rules[3], rules[1], rules[2])


def test_matching_reassigns_reassigned_guest() -> None:
    # v makes room on a for w, and cannot make any more of it for x.
    (found,) = contradictions(apart("v", "w", "x"), belong("w", "x", a=1))

    assert (
        found.detail
        == "anti-affinity among 3 guests, but their allowed nodes suffice for 2"
    )


def test_matching_reassigns_guests() -> None:
    # v may go anywhere, w to a or b, x only to a: c, b and a.
    assert (
        contradictions(apart("v", "w", "x"), belong("w", a=1, b=1), belong("x", a=1))
        == []
    )


@pytest.mark.parametrize("strict", [True, False])
def test_soft_rules_make_no_contradiction(*, strict: bool) -> None:
    others = (belong("v", strict=strict, a=1), belong("v", strict=False, b=1))
    soft = (apart("v", "w", strict=False), apart("v", "w", "x", "y", strict=False))

    assert contradictions(together("v", "w"), *others, *soft) == []


def test_affinity_group_with_immovable_members_on_two_nodes_is_a_contradiction() -> (
    None
):
    rule = together("v", "w", "x")
    snapshot = five_guests(rule, Pin(guests=guest_ids("v")))
    stuck = replace(snapshot.guests[W], node=B, mobility=Mobility.NONE)

    (found,) = compile_rules(
        replace(snapshot, guests={**snapshot.guests, W: stuck})
    ).contradictions

    assert found.rules == (rule,)
    assert found.guests == {V, W, X}
    assert found.detail == (
        "affinity of v and w and x, but some of them cannot leave a and b"
    )


def test_affinity_group_immovable_on_one_node_is_no_contradiction() -> None:
    assert (
        contradictions(together("v", "w", "x"), Pin(guests=guest_ids("v", "w"))) == []
    )


def test_a_contradiction_names_its_rules() -> None:
    (found,) = contradictions(belong("v", nowhere=1))

    assert (
        str(found)
        == 'no allowed node in the cluster for v ("node affinity of v to nowhere")'
    )


def test_guests_of_a_contradiction_are_immovable() -> None:
    rules = compiled(together("v", "w"), apart("v", "w"), belong("x", a=1))

    detail = "contradictory rules: both affinity and anti-affinity between v and w"
    assert rules.immovable == {V: detail, W: detail}


def test_a_pin_says_more_than_a_contradiction() -> None:
    pin = Pin(guests=guest_ids("v"), name="license")

    fixed = compiled(together("v", "w"), apart("v", "w"), pin).immovable

    assert fixed[V] == 'pinned by the rule "license"'
    assert "contradict" in fixed[W]


NAMES = st.frozensets(st.sampled_from("vwxyz"), min_size=1, max_size=4)
PLACES = st.frozensets(st.sampled_from("abc"), min_size=1, max_size=2)


@st.composite
def rule_sets(draw: st.DrawFn) -> Snapshot:
    """Draw strict rules about five guests and two or three nodes."""
    rules: list[Rule] = []
    for _ in range(draw(st.integers(1, 5))):
        names = draw(NAMES)
        kind = draw(st.sampled_from("tahh"))
        if kind == "h":
            nodes = dict.fromkeys(map(NodeId, draw(PLACES)), 0)
            rules.append(NodeAffinity(guests=guest_ids(*names), nodes=nodes))
        elif len(names) > 1:
            rules.append(together(*names) if kind == "t" else apart(*names))
    return five_guests(*rules, nodes=draw(st.integers(2, 3)))


@settings(max_examples=200)
@given(rule_sets())
def test_satisfiable_rules_make_no_contradiction(snapshot: Snapshot) -> None:
    assume(is_satisfiable(snapshot))
    event(f"{len(snapshot.rules)} rules")

    assert compile_rules(snapshot).contradictions == ()


@settings(max_examples=200)
@given(rule_sets())
def test_unsatisfiable_rule_is_a_contradiction(
    snapshot: Snapshot,
) -> None:
    """Each anti-affinity is judged by itself, beside groups and nodes.

    Several of them together may leave too few nodes as well, as when the graph
    of anti-affinity has no coloring; the compilation does not detect that.
    """
    rest = [rule for rule in snapshot.rules if not isinstance(rule, AntiAffinity)]
    spreads = [rule for rule in snapshot.rules if isinstance(rule, AntiAffinity)]
    alone = [replace(snapshot, rules=(*rest, rule)) for rule in spreads]
    assume(not all(map(is_satisfiable, [*alone, replace(snapshot, rules=tuple(rest))])))

    found = compile_rules(snapshot).contradictions

    event(found[0].detail.split(" must ")[-1].split(" may ")[0] if found else "none")
    assert found


@given(snapshots())
def test_what_binds_one_guest_to_another_binds_both(snapshot: Snapshot) -> None:
    rules = compile_rules(snapshot)

    for bond in (rules.together, rules.apart, rules.soft_together, rules.soft_apart):
        for guest, others in bond.items():
            assert others
            assert all(guest in bond[other] for other in others)


@given(snapshots())
def test_only_guests_of_a_contradiction_are_apart_from_their_own_group(
    snapshot: Snapshot,
) -> None:
    rules = compile_rules(snapshot)

    contradictory = {guest for each in rules.contradictions for guest in each.guests}
    for guest, others in rules.apart.items():
        assert guest not in others
        own = others & rules.together.get(guest, frozenset())
        assert own <= contradictory


@given(snapshots())
def test_every_guest_of_a_contradiction_is_fixed(snapshot: Snapshot) -> None:
    rules = compile_rules(snapshot)

    for found in rules.contradictions:
        assert found.rules
        assert found.guests <= set(rules.immovable)


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_guests_and_nodes_does_not_matter(
    snapshot: Snapshot, random: Random
) -> None:
    guests, nodes = list(snapshot.guests.items()), list(snapshot.nodes.items())
    random.shuffle(guests)
    random.shuffle(nodes)

    shuffled = replace(snapshot, guests=dict(guests), nodes=dict(nodes))

    assert compile_rules(shuffled) == compile_rules(snapshot)
