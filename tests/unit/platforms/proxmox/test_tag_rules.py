"""Placement rules from tags of guests on Proxmox VE."""

from __future__ import annotations

from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    GuestKind,
    NodeAffinity,
    NodeId,
    Pin,
)
from opendrs.platforms.proxmox.tag_rules import tag_rules

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
