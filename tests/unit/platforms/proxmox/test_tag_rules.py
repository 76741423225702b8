"""Placement rules from tags of guests on Proxmox VE."""

from __future__ import annotations

from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    GuestKind,
    GuestPriority,
    NodeAffinity,
    NodeId,
    Pin,
)
from opendrs.platforms.proxmox.tag_rules import proxlb_tag_rules, tag_rules

NODES = [NodeId("pve1"), NodeId("pve2"), NodeId("pve3")]


def guest(name: str, *tags: str) -> Guest:
    return Guest(
        id=GuestId(name), node=NODES[0], kind=GuestKind.VM, tags=frozenset(tags)
    )


def test_groups_of_tags_are_rules_with_an_origin() -> None:
    rules = tag_rules(
        [
            guest("a", "opendrs.anti-affinity.web", "opendrs.soft-affinity.x", "prod"),
            guest("b", "opendrs.anti-affinity.web", "opendrs.soft-affinity.x", "prod"),
            guest("c", "opendrs.affinity.alone"),
        ],
        NODES,
    )

    kinds = {(type(rule), getattr(rule, "strict", None)) for rule in rules}
    assert kinds == {(AntiAffinity, True), (Affinity, False)}
    assert {rule.origin for rule in rules} == {
        "tag opendrs.anti-affinity.web",
        "tag opendrs.soft-affinity.x",
    }


def test_node_tags_of_a_guest_allow_several_nodes() -> None:
    (rule,) = tag_rules(
        [guest("a", "opendrs.node.pve1", "opendrs.node.pve3", "opendrs.node.gone")],
        NODES,
    )

    assert isinstance(rule, NodeAffinity)
    assert set(rule.nodes) == {"pve1", "pve3"}


def test_node_tag_of_an_unknown_node_has_no_effect() -> None:
    assert tag_rules([guest("a", "opendrs.node.gone")], NODES) == ()


def test_pin_tag_pins_the_guest() -> None:
    (rule,) = tag_rules([guest("a", "opendrs.pin"), guest("b")], NODES)

    assert isinstance(rule, Pin)
    assert set(rule.guests) == {"a"}


def test_tags_of_proxlb_are_rules_with_an_origin() -> None:
    rules = proxlb_tag_rules(
        [
            guest("a", "plb_affinity_app", "plb_anti_affinity_dns"),
            guest("b", "plb_affinity_app", "plb_anti_affinity_dns"),
            guest("c", "plb_affinity_alone", "plb_ignore_dev"),
            guest("d", "plb_ignore"),
        ],
        NODES,
    )

    assert {(type(rule), rule.origin) for rule in rules} == {
        (Affinity, "tag plb_affinity_app"),
        (AntiAffinity, "tag plb_anti_affinity_dns"),
        (Pin, "tag plb_ignore_dev"),
        (Pin, "tag plb_ignore"),
    }
    assert all(getattr(rule, "strict", True) for rule in rules)


def test_anti_affinity_of_proxlb_with_more_guests_than_nodes_is_soft() -> None:
    guests = [guest(name, "plb_anti_affinity_dns") for name in "abcd"]

    (rule,) = proxlb_tag_rules(guests, NODES)

    assert isinstance(rule, AntiAffinity)
    assert not rule.strict


def test_priority_tag_is_a_priority() -> None:
    guests = [guest("a", "opendrs.priority.high"), guest("b", "opendrs.priority.0.5")]

    rules = tag_rules(guests, NODES)

    assert {
        (rule.value, *rule.guests) for rule in rules if isinstance(rule, GuestPriority)
    } == {(2.0, "a"), (0.5, "b")}
    assert {rule.origin for rule in rules} == {"tags opendrs.priority.*"}


def test_pin_tags_of_proxlb_allow_nodes_in_any_case() -> None:
    (rule,) = proxlb_tag_rules(
        [guest("a", "plb_pin_pve1", "plb_pin_rack2", "plb_pin_gone")],
        [*NODES, NodeId("Rack2")],
    )

    assert isinstance(rule, NodeAffinity)
    assert (set(rule.nodes), rule.strict) == ({"pve1", "Rack2"}, True)
    assert rule.origin == "tags plb_pin_*"


def test_tags_of_proxlb_without_setting_are_no_rules() -> None:
    assert tag_rules([guest("a", "plb_ignore"), guest("b", "plb_ignore")], NODES) == ()
