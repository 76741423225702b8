"""Rules that choose guests by tag, and nodes by label or group.

`expected_broken` reads tags, labels and groups itself; it is independent of the rules
with names that are compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from opendrs.guard import check
from opendrs.guard.rejection import RejectionReason
from opendrs.model import (
    EXCLUSIVE_ORIGIN,
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Limits,
    LiveMigration,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
)
from opendrs.policies.optimize import Repair
from opendrs.rules import compile_rules, violations, with_chosen, with_rules
from support.builders import cluster, guest_ids

LICENSE = NodeAffinity(
    tags=frozenset({"oracle"}), labels=frozenset({"license=oracle"}), exclusive=True
)
NO_COOLDOWN = Limits(cooldown=0)


def tagged(
    guests: dict[str, tuple[str, str]], rules: Sequence[Rule], licensed: str = "a"
) -> Snapshot:
    """Return nodes a, b and c with guests of 0.1 node: their node and tag."""
    loads = {name: 0.1 * sum(w == name for w, _ in guests.values()) for name in "abc"}
    found = cluster(loads, {name: (where, 0.1) for name, (where, _) in guests.items()})
    nodes = {
        name: replace(
            node,
            labels=frozenset({"license=oracle"} if name in licensed else ()),
            groups=frozenset({f"group-{name}"}),
        )
        for name, node in found.nodes.items()
    }
    members = {
        name: replace(each, tags=frozenset(guests[name][1].split()))
        for name, each in found.guests.items()
    }
    return replace(found, nodes=nodes, guests=members, rules=tuple(rules))


def expected_broken(snapshot: Snapshot, rules: Sequence[Rule]) -> set[tuple[int, str]]:
    """Return the position of each violated rule with the guests, read from tags."""
    broken = set()
    for position, rule in enumerate(rules):
        assert isinstance(rule, Affinity | AntiAffinity | NodeAffinity)
        bound: list[Guest] = [
            each
            for name, each in sorted(snapshot.guests.items())
            if name in rule.guests or each.tags & rule.tags
        ]
        if isinstance(rule, AntiAffinity):
            for one, other in combinations(bound, 2):
                if one.node == other.node:
                    broken.add((position, f"{one.id} {other.id}"))
        elif isinstance(rule, Affinity):
            if len({each.node for each in bound}) > 1:
                broken.add((position, " ".join(each.id for each in bound)))
        else:
            for each in snapshot.guests.values():
                node = snapshot.nodes[each.node]
                named = (
                    node.id in rule.nodes
                    or bool(node.labels & rule.labels)
                    or bool(node.groups & rule.groups)
                )
                if each in bound and not named:
                    broken.add((position, each.id))
                if rule.exclusive and named and each not in bound:
                    broken.add((position, f"other {each.id}"))
    return broken


def found_broken(snapshot: Snapshot) -> set[tuple[int, str]]:
    own = [each for each in snapshot.rules if each.origin != EXCLUSIVE_ORIGIN]
    place, broken = {id(rule): index for index, rule in enumerate(own)}, set()
    following = {
        id(rule): place[id(snapshot.rules[index - 1])]
        for index, rule in enumerate(snapshot.rules)
        if rule.origin == EXCLUSIVE_ORIGIN
    }
    for each in violations(snapshot):
        names = " ".join(sorted(each.guests))
        if id(each.rule) in following:
            broken.add((following[id(each.rule)], f"other {names}"))
        else:
            broken.add((place[id(each.rule)], names))
    return broken


def drawn(seed: int) -> tuple[Snapshot, list[Rule]]:
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    guests = {
        f"g{number}": (
            random.choice("abc"),
            " ".join(random.sample(("x", "y"), random.randint(0, 2))),
        )
        for number in range(random.randint(2, 6))
    }
    rules: list[Rule] = []
    for _ in range(random.randint(1, 3)):
        tags = frozenset(random.sample(("x", "y"), random.randint(1, 2)))
        names = guest_ids(*random.sample(sorted(guests), random.randint(0, 1)))
        kind = random.choice(("apart", "together", "nodes"))
        if kind == "apart":
            rules.append(AntiAffinity(guests=names, tags=tags))
        elif kind == "together":
            rules.append(Affinity(guests=names, tags=tags))
        else:
            rules.append(
                NodeAffinity(
                    guests=names,
                    tags=tags,
                    labels=frozenset(random.sample(("license=oracle", "none"), 1)),
                    groups=frozenset(random.sample(("group-b", "group-z"), 1)),
                    exclusive=random.random() < 0.5,
                )
            )
    licensed = "".join(random.sample("abc", random.randint(1, 2)))
    return tagged(guests, rules, licensed), rules


@pytest.mark.parametrize("seed", range(200))
def test_violations_of_chosen_guests_are_those_read_from_tags_and_labels(
    seed: int,
) -> None:
    snapshot, rules = drawn(seed)

    assert found_broken(with_chosen(snapshot)) == expected_broken(snapshot, rules)


@pytest.mark.parametrize("seed", range(60))
def test_repair_breaks_no_rule_about_tags(seed: int) -> None:
    snapshot, rules = drawn(seed)
    before = with_chosen(snapshot)

    plan = Repair(limits=NO_COOLDOWN).decide(before, None).plan
    after = before.apply(*(step.action for step in plan.steps))

    former, later = (expected_broken(each, rules) for each in (before, after))
    assert later <= former
    assert bool(plan.steps) == (len(later) < len(former))


@pytest.mark.parametrize("seed", range(50))
def test_rules_that_chose_before_choose_the_same(seed: int) -> None:
    once = with_chosen(drawn(seed)[0])

    assert with_chosen(once) == once


def test_rules_with_names_only_leave_the_snapshot_unchanged() -> None:
    snapshot = tagged({"v": ("a", "")}, [AntiAffinity(guests=guest_ids("v", "w"))])

    assert with_chosen(snapshot) is snapshot


def test_new_guest_with_the_tag_joins_and_one_without_leaves() -> None:
    rule = AntiAffinity(tags=frozenset({"web"}), name="web")
    first = tagged({"v": ("a", "web"), "w": ("b", "web"), "x": ("c", "")}, [])
    later = tagged({"v": ("a", "web"), "w": ("b", ""), "y": ("c", "web")}, [])

    chosen = [with_rules(each, [rule]).rules[0] for each in (first, later)]

    assert [getattr(each, "guests", None) for each in chosen] == [
        guest_ids("v", "w"),
        guest_ids("v", "y"),
    ]


def test_rule_of_the_configuration_that_the_file_has_is_not_repeated() -> None:
    snapshot = with_chosen(tagged({"v": ("a", "oracle"), "w": ("b", "")}, [LICENSE]))

    assert with_rules(snapshot, [LICENSE]).rules == snapshot.rules


def test_exclusive_rule_keeps_other_guests_off_the_nodes() -> None:
    """License for a: v must go there, and w must leave it.

    The guard rejects w on a as well.
    """
    snapshot = with_chosen(
        tagged({"v": ("b", "oracle"), "w": ("a", ""), "x": ("b", "")}, [LICENSE])
    )

    plan = Repair(limits=NO_COOLDOWN).decide(snapshot, None).plan
    rejection = check(
        [LiveMigration(GuestId("x"), NodeId("b"), NodeId("a"))], snapshot, NO_COOLDOWN
    )

    targets = {step.action.guest: step.action.target for step in plan.steps}  # type: ignore[union-attr]
    assert targets == {"v": "a", "w": "c"}  # c is empty, b has two guests
    assert rejection is not None
    assert rejection.reason is RejectionReason.RULE_VIOLATED


def test_guests_of_rules_with_the_same_labels_share_their_nodes() -> None:
    rules = [
        NodeAffinity(guests=guest_ids(name), labels=LICENSE.labels)
        for name in ("v", "w")
    ]
    snapshot = with_chosen(tagged({"v": ("a", ""), "w": ("b", "")}, rules))

    nodes = compile_rules(snapshot).nodes

    assert nodes[GuestId("v")] == {"a"}
    assert nodes[GuestId("v")] is nodes[GuestId("w")]


def test_strict_label_of_no_node_is_a_contradiction() -> None:
    rule = NodeAffinity(tags=frozenset({"web"}), labels=frozenset({"ssd"}))
    snapshot = with_chosen(tagged({"v": ("a", "web"), "w": ("b", "")}, [rule]))

    (found,) = compile_rules(snapshot).contradictions

    assert found.guests == guest_ids("v")
    assert "no allowed node" in found.detail


def test_all_nodes_exclusive_is_a_contradiction_for_the_others() -> None:
    snapshot = with_chosen(
        tagged({"v": ("a", "oracle"), "w": ("b", "")}, [LICENSE], licensed="abc")
    )

    (found,) = compile_rules(snapshot).contradictions

    assert found.guests == guest_ids("w")


def test_description_names_tags_and_labels() -> None:
    named = replace(LICENSE, name="license")
    rules = [LICENSE, named]
    snapshot = with_chosen(tagged({"v": ("a", "oracle"), "w": ("b", "")}, rules))

    chosen, _, _, derived = map(str, snapshot.rules)

    assert chosen == (
        "exclusive node affinity of v (tag oracle) to a (label license=oracle)"
    )
    assert derived == "other guests keep off the nodes of license"
    assert str(LICENSE) == (
        "exclusive node affinity of tag oracle to label license=oracle"
    )
