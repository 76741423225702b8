from opendrs.model import NodeId
from opendrs.pve_ha.config.rules import (
    Group,
    RuleSet,
    add_group_rules,
    add_implied_rules,
    compile_rules,
    drop_conflicting_rules,
    read_groups,
    read_rules,
)
from opendrs.pve_ha.states import ServiceId

NODES = [NodeId(f"node{number}") for number in (1, 2, 3)]


def affinity(name: str, kind: str, *services: int) -> str:
    listed = ",".join(f"vm:{service}" for service in services)
    return f"resource-affinity: {name}\n\tresources {listed}\n\taffinity {kind}\n\n"


def node_affinity(name: str, nodes: str, *services: int) -> str:
    listed = ",".join(f"vm:{service}" for service in services)
    return f"node-affinity: {name}\n\tresources {listed}\n\tnodes {nodes}\n\n"


def dropped(text: str) -> list[str]:
    _, found = drop_conflicting_rules(read_rules(text), len(NODES))
    return [each.rule for each in found]


def compile_text(text: str) -> RuleSet:
    kept, found = drop_conflicting_rules(read_rules(text), len(NODES))
    assert not found
    return add_implied_rules(kept)


def test_two_node_rules_of_one_service_are_dropped() -> None:
    assert dropped(
        node_affinity("a1", "node1", 1) + node_affinity("b1", "node2", 1)
    ) == ["a1", "b1"]


def test_affinity_of_one_service_is_dropped() -> None:
    assert dropped(affinity("a1", "positive", 1)) == ["a1"]


def test_anti_affinity_of_more_services_than_nodes_is_dropped() -> None:
    assert dropped(affinity("a1", "negative", 1, 2, 3, 4)) == ["a1"]


def test_affinity_and_anti_affinity_of_same_services_are_dropped() -> None:
    text = affinity("a1", "positive", 1, 2) + affinity("b1", "negative", 1, 2)

    assert dropped(text) == ["a1", "b1"]


def test_rule_with_two_conflicts_is_reported_twice() -> None:
    text = (
        affinity("a1", "positive", 1, 2, 3)
        + affinity("b1", "negative", 1, 2)
        + affinity("c1", "negative", 2, 3)
    )

    assert dropped(text) == ["a1", "a1", "b1", "c1"]


def test_node_priorities_conflict_with_affinity() -> None:
    text = affinity("a1", "positive", 1, 2) + node_affinity("b1", "node1:1,node2", 1)

    assert dropped(text) == ["a1", "b1"]


def test_affinity_with_several_node_rules_is_dropped() -> None:
    text = (
        affinity("a1", "positive", 1, 2)
        + node_affinity("b1", "node1", 1)
        + node_affinity("c1", "node2", 2)
    )

    assert dropped(text) == ["a1", "b1", "c1"]


def test_anti_affinity_needs_enough_nodes() -> None:
    text = affinity("a1", "negative", 1, 2) + node_affinity("b1", "node1", 1, 2)

    assert dropped(text) == ["a1", "b1"]


def test_overlapping_affinity_rules_are_merged() -> None:
    text = affinity("b1", "positive", 2, 3) + affinity("a1", "positive", 1, 2)

    rules = compile_text(text)

    assert list(rules.affinities()) == ["_merged-a1-b1"]
    assert rules.order == {"_merged-a1-b1": 2}


def test_rule_between_two_components_joins_the_first_only() -> None:
    text = (
        affinity("a1", "positive", 1, 5)
        + affinity("b1", "positive", 2, 6)
        + affinity("c1", "positive", 5, 6)
    )

    rules = compile_text(text)

    assert set(rules.affinities()) == {"_merged-a1-c1", "b1"}


def test_anti_affinity_extends_to_affine_services() -> None:
    rules = compile_text(
        affinity("a1", "positive", 1, 2) + affinity("b1", "negative", 1, 3)
    )
    meaning = compile_rules(rules, NODES)

    assert meaning.apart[ServiceId("vm:3")] == {"vm:1", "vm:2"}
    assert rules.order["_implicit-negative-a1-vm:2-vm:3"] == 2


def test_node_affinity_extends_to_affine_services() -> None:
    rules = compile_text(
        affinity("a1", "positive", 1, 2) + node_affinity("b1", "node1", 1)
    )

    assert compile_rules(rules, NODES).nodes[ServiceId("vm:2")] == {
        "node1": 0,
        "node2": -1,
        "node3": -1,
    }


def test_group_becomes_node_affinity_rule() -> None:
    groups = read_groups("group: g1\n\tnodes node1:2,node2\n\trestricted\n").groups
    rules = add_group_rules(RuleSet(), groups, {ServiceId("vm:1"): "g1"})

    assert groups == {
        "g1": Group({NodeId("node1"): 2, NodeId("node2"): 0}, restricted=True)
    }
    assert compile_rules(rules, NODES).nodes == {"vm:1": {"node1": 2, "node2": 0}}


def test_unused_group_becomes_no_rule() -> None:
    groups = read_groups("group: g1\n\tnodes node1\n").groups

    assert add_group_rules(RuleSet(), groups, {}) == RuleSet()
