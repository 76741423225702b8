"""Pools and nodes out of service in the settings of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from opendrs.model import (
    Guest,
    GuestId,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Rule,
)
from opendrs.platforms.proxmox.settings import PoolRule, ProxmoxSettings
from opendrs.rules import GROUP_RULES, pin_rules

POOL_TAG = "pool:"


def setting_rules(
    guests: Mapping[GuestId, Guest], nodes: Iterable[NodeId], settings: ProxmoxSettings
) -> tuple[Rule, ...]:
    """Return the rules that *settings* define, each with its origin.

    Args:
        guests: The guests; the tag `pool:NAME` names their pool.
        nodes: The nodes of the cluster; others have no effect.
        settings: The settings of the cluster.
    """
    known = frozenset(nodes)
    members: dict[str, set[GuestId]] = {}
    for name, guest in guests.items():
        for tag in guest.tags:
            if tag.startswith(POOL_TAG):
                members.setdefault(tag.removeprefix(POOL_TAG), set()).add(name)
    pools = (
        rule
        for pool, each in sorted(settings.pools.items())
        for rule in _pool_rules(pool, each, frozenset(members.get(pool, ())), known)
    )
    return (*pools, *_ignored_rules(guests, settings))


def _pool_rules(
    pool: str,
    setting: PoolRule,
    members: frozenset[GuestId],
    nodes: frozenset[NodeId],
) -> Iterator[Rule]:
    origin = f"setting pools.{pool}"
    if setting.kind is not None and len(members) > 1:
        rule = GROUP_RULES[setting.kind]
        yield rule(guests=members, name=f"pool {pool}", origin=origin)
    allowed = sorted(nodes & {NodeId(name) for name in setting.nodes})
    if members and allowed:
        yield NodeAffinity(
            guests=members,
            nodes=dict.fromkeys(allowed, 0),
            strict=setting.strict_nodes,
            name=f"nodes of pool {pool}",
            origin=origin,
        )


def _ignored_rules(
    guests: Mapping[GuestId, Guest], settings: ProxmoxSettings
) -> Iterator[Rule]:
    members = (
        name for name, guest in guests.items() if guest.node in settings.ignored_nodes
    )
    return pin_rules(members, "setting ignored_nodes")


def with_node_states(
    nodes: Mapping[NodeId, Node], settings: ProxmoxSettings
) -> dict[NodeId, Node]:
    """Return *nodes* with the states that *settings* give to nodes out of service.

    One that is off is unknown: it must not be powered on.
    """
    states = {
        **dict.fromkeys(settings.maintenance_nodes, NodeState.MAINTENANCE),
        **dict.fromkeys(settings.ignored_nodes, NodeState.EXCLUDED),
    }
    return {
        name: replace(node, state=states[name] if node.reachable else NodeState.UNKNOWN)
        if name in states
        else node
        for name, node in nodes.items()
    }
