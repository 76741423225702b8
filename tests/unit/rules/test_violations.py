"""Violations of rules in a snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.model import (
    DOMAIN_ORIGIN,
    Affinity,
    AntiAffinity,
    DomainAffinity,
    GuestId,
    GuestState,
    LiveMigration,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
    Snapshot,
    TagExclusion,
)
from opendrs.rules import (
    Violation,
    drain_rules,
    new_violations,
    violation_change,
    violations,
)
from support.builders import cluster, guest_ids
from support.oracles.placement import current_placement, violated_rules
from support.strategies import snapshots

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
X, Y, Z = GuestId("x"), GuestId("y"), GuestId("z")
APART = AntiAffinity(guests=guest_ids("x", "y", "z"))
TOGETHER = Affinity(guests=guest_ids("x", "y", "z"))
ON_A = NodeAffinity(guests=guest_ids("x"), nodes={A: 0})
NODES: dict[str, float | None] = {"a": 0.1, "b": 0.1, "c": 0.1}


def snapshot_of(
    rule: Rule, moving: dict[str, str] | None = None, **at: str
) -> Snapshot:
    guests: dict[str, tuple[str, float | None]] = {
        name: (where, 0.1) for name, where in at.items()
    }
    return cluster(NODES, guests, [rule], moving)


def with_stopped(snapshot: Snapshot, name: GuestId) -> Snapshot:
    still = replace(snapshot.guests[name], state=GuestState.STOPPED)
    return replace(snapshot, guests={**snapshot.guests, name: still})


def violations_of(snapshot: Snapshot) -> list[tuple[set[GuestId], set[NodeId]]]:
    return [(set(each.guests), set(each.nodes)) for each in violations(snapshot)]


@pytest.mark.parametrize(
    "snapshot",
    [
        snapshot_of(APART, x="a", y="b", z="c"),
        snapshot_of(TOGETHER, x="a", y="a", z="a"),
        snapshot_of(ON_A, x="a", y="b"),
    ],
    ids=["apart", "together", "on its node"],
)
def test_nothing_is_broken_where_every_rule_is_kept(snapshot: Snapshot) -> None:
    assert violations(snapshot) == ()


def test_each_pair_that_is_too_close_is_a_violation() -> None:
    together = snapshot_of(APART, x="a", y="a", z="a")

    assert violations_of(together) == [({X, Y}, {A}), ({X, Z}, {A}), ({Y, Z}, {A})]


def test_guests_that_are_apart_break_an_affinity_once() -> None:
    assert violations_of(snapshot_of(TOGETHER, x="a", y="a", z="c")) == [
        ({X, Y, Z}, {A, C})
    ]


def test_each_guest_on_a_wrong_node_is_a_violation() -> None:
    both = NodeAffinity(guests=guest_ids("x", "y", "z"), nodes={A: 0})

    assert violations_of(snapshot_of(both, x="b", y="a", z="c")) == [
        ({X}, {B}),
        ({Z}, {C}),
    ]


def test_a_guest_on_the_move_counts_on_both_nodes() -> None:
    migrating = snapshot_of(APART, {"x": "c"}, x="a", y="a", z="b")
    coming = snapshot_of(APART, {"x": "c"}, x="b", y="c", z="a")

    assert violations_of(migrating) == [({X, Y}, {A})]
    assert violations_of(coming) == [({X, Y}, {C})]


def test_a_guest_on_the_move_is_still_with_those_it_leaves_and_joins() -> None:
    one_after = snapshot_of(TOGETHER, {"z": "b"}, x="b", y="b", z="a")
    all_at_once = snapshot_of(
        TOGETHER, {"x": "b", "y": "b", "z": "b"}, x="a", y="a", z="a"
    )
    migrating = snapshot_of(TOGETHER, {"x": "b", "y": "c"}, x="a", y="a", z="a")
    too_late = snapshot_of(TOGETHER, {"z": "c"}, x="b", y="b", z="a")

    assert (
        violations_of(one_after)
        == violations_of(all_at_once)
        == violations_of(migrating)
        == []
    )
    assert violations_of(too_late) == [({X, Y, Z}, {A, B, C})]


def test_guest_migrating_to_forbidden_node_violates_node_affinity() -> None:
    assert violations_of(snapshot_of(ON_A, {"x": "b"}, x="a")) == [({X}, {B})]
    assert violations_of(snapshot_of(ON_A, {"x": "a"}, x="b")) == [({X}, {B})]


@pytest.mark.parametrize("rule", [APART, ON_A])
def test_a_stopped_guest_is_nowhere(rule: Rule) -> None:
    together = snapshot_of(rule, x="b", y="b")

    assert violations(together)
    assert violations(with_stopped(together, X)) == ()


def test_stopped_guest_violates_no_affinity() -> None:
    torn = snapshot_of(TOGETHER, x="a", y="b", z="b")

    assert violations(torn)
    assert violations(with_stopped(torn, X)) == ()


@pytest.mark.parametrize(
    "state", [GuestState.RUNNING, GuestState.PAUSED, GuestState.UNKNOWN]
)
def test_a_guest_that_may_run_takes_its_place(state: GuestState) -> None:
    together = snapshot_of(APART, x="a", y="a")
    guests = {**together.guests, X: replace(together.guests[X], state=state)}

    assert violations_of(replace(together, guests=guests)) == [({X, Y}, {A})]


@pytest.mark.parametrize("rule", [APART, TOGETHER, ON_A])
def test_guests_that_do_not_exist_are_passed_over(rule: Rule) -> None:
    assert violations(snapshot_of(rule, y="b")) == ()


@pytest.mark.parametrize(
    "rule", [Pin(guests=guest_ids("x")), TagExclusion(tags=frozenset({"t"}))]
)
def test_pins_and_exclusions_are_not_broken_by_a_place(rule: Rule) -> None:
    assert violations(snapshot_of(rule, x="a")) == ()


@pytest.mark.parametrize("rule", [APART, TOGETHER, ON_A])
@pytest.mark.parametrize("strict", [True, False])
def test_a_violation_says_whether_the_rule_had_to_be_kept(
    rule: AntiAffinity | Affinity | NodeAffinity, *, strict: bool
) -> None:
    broken = violations(snapshot_of(replace(rule, strict=strict), x="b", y="b", z="c"))

    assert broken
    assert all(each.strict is strict for each in broken)


def test_violation_as_text_names_rule_guests_and_node() -> None:
    named = AntiAffinity(guests=guest_ids("x", "y"), name="spread")

    (broken,) = violations(snapshot_of(named, x="a", y="a"))

    assert str(broken) == "spread: x, y on a"


def test_violations_come_in_the_order_of_the_rules() -> None:
    snapshot = snapshot_of(ON_A, x="b", y="b")
    both = replace(snapshot, rules=(ON_A, APART, ON_A))

    assert [each.rule for each in violations(both)] == [ON_A, APART, ON_A]


def test_a_move_breaks_newly_what_was_kept_before() -> None:
    before = snapshot_of(APART, x="a", y="b")
    after = before.apply(LiveMigration(X, A, B))

    assert new_violations(before, after) == (
        Violation(APART, frozenset({X, Y}), frozenset({B})),
    )


def test_what_was_broken_already_is_not_broken_newly() -> None:
    before = snapshot_of(ON_A, x="b", y="b")
    after = before.apply(LiveMigration(X, B, C))

    assert violations(after)
    assert new_violations(before, after) == ()


def test_another_pair_of_the_same_rule_is_broken_newly() -> None:
    before = snapshot_of(APART, x="a", y="a", z="b")
    after = before.apply(LiveMigration(X, A, B))

    assert [each.guests for each in new_violations(before, after)] == [{X, Z}]


def test_a_soft_rule_is_never_broken_newly() -> None:
    before = snapshot_of(replace(APART, strict=False), x="a", y="b")

    assert new_violations(before, before.apply(LiveMigration(X, A, B))) == ()


def test_rules_of_one_name_are_distinguished() -> None:
    on_a = NodeAffinity(guests=guest_ids("x"), nodes={A: 0}, name="home")
    on_b = NodeAffinity(guests=guest_ids("x"), nodes={B: 0}, name="home")
    before = replace(snapshot_of(on_a, x="b"), rules=(on_a, on_b))

    broken = new_violations(before, before.apply(LiveMigration(X, B, A)))

    assert [each.rule for each in broken] == [on_b]


def test_a_rule_given_twice_is_broken_twice() -> None:
    before = replace(snapshot_of(APART, x="a", y="b"), rules=(APART, APART))

    assert len(new_violations(before, before.apply(LiveMigration(X, A, B)))) == 2


@given(snapshots())
def test_finds_the_strict_rules_that_the_plain_form_finds_broken(
    snapshot: Snapshot,
) -> None:
    drained = drain_rules(snapshot)
    strict = [
        each
        for each in violations(snapshot)
        if each.strict and each.rule not in drained
    ]
    realized = [each for each in strict if each.rule.origin == DOMAIN_ORIGIN]

    expected = violated_rules(snapshot, current_placement(snapshot))

    event("broken" if expected else "kept")
    separated = {
        position
        for position, _ in expected
        if isinstance(snapshot.rules[position], DomainAffinity)
    }
    assert {
        (str(each.rule), guests)
        for each in strict
        if each not in realized
        for guests in _too_many(each)
    } == {
        (str(snapshot.rules[position]), guests)
        for position, guests in expected
        if position not in separated
    }
    assert {id(each.rule) for each in realized} == {
        id(snapshot.rules[position + 1]) for position in separated
    }


def _too_many(violation: Violation) -> Iterable[frozenset[GuestId]]:
    """Return the smallest sets of guests of *violation* that break its rule."""
    rule = violation.rule
    if not isinstance(rule, AntiAffinity):
        return [violation.guests]
    return map(frozenset, combinations(sorted(violation.guests), rule.max_guests + 1))


def test_a_plan_repairs_the_strict_rules_that_hold_after_it() -> None:
    soft = Affinity(guests=guest_ids("x", "z"), strict=False, name="soft")
    before = replace(snapshot_of(APART, x="a", y="a", z="b"), rules=(APART, ON_A, soft))

    change = violation_change(before, before.apply(LiveMigration(Y, A, C)))

    assert [each.rule for each in change.strict_before] == [APART]
    assert change.strict_after == ()
    assert [each.guests for each in change.repaired] == [{X, Y}]
    assert [each.rule for each in change.after] == [soft]


def test_a_violation_on_another_node_is_not_repaired() -> None:
    elsewhere = NodeAffinity(guests=guest_ids("x"), nodes={A: 0})
    before = snapshot_of(elsewhere, x="b")

    change = violation_change(before, before.apply(LiveMigration(X, B, C)))

    assert change.repaired == ()
    assert [each.nodes for each in change.strict_after] == [{C}]


@given(snapshots(), st.data())
def test_rules_of_unmoved_guests_are_not_broken_newly(
    before: Snapshot, data: st.DataObject
) -> None:
    nodes, guests = sorted(before.nodes), sorted(before.guests)
    moving = st.lists(st.sampled_from(guests), max_size=3) if guests else st.just([])
    after = before
    for name in data.draw(moving):
        source = after.guests[name].node
        targets = [each for each in nodes if each != source]
        if not targets or after.guests[name].migrating_to is not None:
            continue
        move = LiveMigration(name, source, data.draw(st.sampled_from(targets)))
        starts = data.draw(st.booleans())
        after = after.with_in_flight(move) if starts else after.apply(move)

    found = new_violations(before, after)

    # A copy of the rules is not known to be the same, so that all are evaluated.
    event("broken" if found else "kept")
    assert found == new_violations(before, replace(after, rules=(*after.rules,)))
