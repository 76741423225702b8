from opendrs.ha.identifiers import ServiceId
from opendrs.ha.rules import (
    Group,
    checked,
    compiled,
    group_rules,
    read_groups,
    read_rules,
    transformed,
)
from opendrs.ha.rules.rule import RuleSet
from opendrs.model import NodeId

NODES = [NodeId(f"node{number}") for number in (1, 2, 3)]


def affinity(name: str, kind: str, *services: int) -> str:
    listed = ",".join(f"vm:{service}" for service in services)
    return f"resource-affinity: {name}\n\tresources {listed}\n\taffinity {kind}\n\n"


def place(name: str, nodes: str, *services: int) -> str:
    listed = ",".join(f"vm:{service}" for service in services)
    return f"node-affinity: {name}\n\tresources {listed}\n\tnodes {nodes}\n\n"


def dropped(text: str) -> list[str]:
    _, found = checked(read_rules(text), len(NODES))
    return [each.rule for each in found]


def explicit(text: str) -> RuleSet:
    kept, found = checked(read_rules(text), len(NODES))
    assert not found
    return transformed(kept)


def test_two_rules_about_the_nodes_of_one_service_are_both_dropped() -> None:
    assert dropped(place("a1", "node1", 1) + place("b1", "node2", 1)) == ["a1", "b1"]


def test_a_rule_about_one_service_alone_is_dropped() -> None:
    assert dropped(affinity("a1", "positive", 1)) == ["a1"]


def test_more_services_than_nodes_cannot_be_apart() -> None:
    assert dropped(affinity("a1", "negative", 1, 2, 3, 4)) == ["a1"]


def test_services_cannot_be_together_and_apart() -> None:
    text = affinity("a1", "positive", 1, 2) + affinity("b1", "negative", 1, 2)

    assert dropped(text) == ["a1", "b1"]


def test_a_rule_in_conflict_twice_is_told_twice() -> None:
    text = (
        affinity("a1", "positive", 1, 2, 3)
        + affinity("b1", "negative", 1, 2)
        + affinity("c1", "negative", 2, 3)
    )

    assert dropped(text) == ["a1", "a1", "b1", "c1"]


def test_priorities_do_not_go_with_other_services() -> None:
    text = affinity("a1", "positive", 1, 2) + place("b1", "node1:1,node2", 1)

    assert dropped(text) == ["a1", "b1"]


def test_what_must_be_together_cannot_have_different_nodes() -> None:
    text = (
        affinity("a1", "positive", 1, 2)
        + place("b1", "node1", 1)
        + place("c1", "node2", 2)
    )

    assert dropped(text) == ["a1", "b1", "c1"]


def test_what_must_be_apart_needs_nodes_enough() -> None:
    text = affinity("a1", "negative", 1, 2) + place("b1", "node1", 1, 2)

    assert dropped(text) == ["a1", "b1"]


def test_rules_with_services_in_common_become_one() -> None:
    text = affinity("b1", "positive", 2, 3) + affinity("a1", "positive", 1, 2)

    rules = explicit(text)

    assert list(rules.affinities()) == ["_merged-a1-b1"]
    assert rules.order == {"_merged-a1-b1": 2}


def test_a_rule_between_two_gatherings_joins_the_first_only() -> None:
    text = (
        affinity("a1", "positive", 1, 5)
        + affinity("b1", "positive", 2, 6)
        + affinity("c1", "positive", 5, 6)
    )

    rules = explicit(text)

    assert set(rules.affinities()) == {"_merged-a1-c1", "b1"}


def test_who_must_be_apart_from_one_is_apart_from_its_group() -> None:
    rules = explicit(
        affinity("a1", "positive", 1, 2) + affinity("b1", "negative", 1, 3)
    )
    meaning = compiled(rules, NODES)

    assert meaning.apart[ServiceId("vm:3")] == {"vm:1", "vm:2"}
    assert rules.order["_implicit-negative-a1-vm:2-vm:3"] == 2


def test_the_nodes_of_one_are_the_nodes_of_its_group() -> None:
    rules = explicit(affinity("a1", "positive", 1, 2) + place("b1", "node1", 1))

    assert compiled(rules, NODES).nodes[ServiceId("vm:2")] == {
        "node1": 0,
        "node2": -1,
        "node3": -1,
    }


def test_a_group_amounts_to_a_rule() -> None:
    groups = read_groups("group: g1\n\tnodes node1:2,node2\n\trestricted\n").groups
    rules = group_rules(RuleSet(), groups, {ServiceId("vm:1"): "g1"})

    assert groups == {
        "g1": Group({NodeId("node1"): 2, NodeId("node2"): 0}, restricted=True)
    }
    assert compiled(rules, NODES).nodes == {"vm:1": {"node1": 2, "node2": 0}}


def test_a_group_that_nobody_names_amounts_to_nothing() -> None:
    groups = read_groups("group: g1\n\tnodes node1\n").groups

    assert group_rules(RuleSet(), groups, {}) == RuleSet()
