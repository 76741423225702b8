"""Placement rules from the settings of a Proxmox VE cluster."""

from __future__ import annotations

import pytest

from opendrs.errors import InvalidSettingError
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    GuestKind,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
)
from opendrs.platforms.proxmox.setting_rules import setting_rules
from opendrs.platforms.proxmox.settings import PoolRule, ProxmoxSettings

NODES = [NodeId("n1"), NodeId("n2"), NodeId("n3")]


def rules(**changes: object) -> tuple[Rule, ...]:
    """Return the rules for a and b in the pool web on n1, and c on n2."""
    guests = {
        name: Guest(id=name, node=NodeId(node), kind=GuestKind.VM, tags=frozenset(tags))
        for name, node, tags in (
            (GuestId("a"), "n1", ["pool:web"]),
            (GuestId("b"), "n1", ["pool:web"]),
            (GuestId("c"), "n2", ["pool:web/sub"]),
        )
    }
    settings = ProxmoxSettings(hosts=("h",), token_env="T", **changes)  # type: ignore[arg-type]  # noqa: S106 - a name
    return setting_rules(guests, NODES, settings)


@pytest.mark.parametrize(
    ("kind", "expected", "strict"),
    [
        ("affinity", Affinity, True),
        ("anti-affinity", AntiAffinity, True),
        ("soft-anti-affinity", AntiAffinity, False),
    ],
)
def test_kind_of_a_pool_is_a_rule_of_its_guests(
    kind: str, expected: type[Rule], *, strict: bool
) -> None:
    (rule,) = rules(pools={"web": PoolRule(kind=kind)})  # type: ignore[arg-type]

    assert isinstance(rule, Affinity | AntiAffinity)
    assert (type(rule), rule.strict, set(rule.guests)) == (expected, strict, {"a", "b"})
    assert rule.origin == "setting pools.web"


def test_nodes_of_a_pool_are_allowed_for_its_guests() -> None:
    pool = PoolRule(nodes=("n2", "gone"), strict_nodes=False)

    (rule,) = rules(pools={"web": pool, "empty": PoolRule(nodes=("n1",))})

    assert isinstance(rule, NodeAffinity)
    assert (set(rule.nodes), rule.strict) == ({"n2"}, False)


def test_pool_without_kind_and_nodes_is_rejected() -> None:
    with pytest.raises(InvalidSettingError, match="kind or nodes"):
        PoolRule()


def test_guests_of_ignored_nodes_are_pinned() -> None:
    (rule,) = rules(ignored_nodes=("n2",))

    assert isinstance(rule, Pin)
    assert (set(rule.guests), rule.origin) == ({"c"}, "setting ignored_nodes")


def test_node_in_maintenance_and_ignored_is_rejected() -> None:
    with pytest.raises(InvalidSettingError, match="got both"):
        rules(maintenance_nodes=("n1",), ignored_nodes=("n1",))
