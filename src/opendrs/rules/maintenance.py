"""Nodes in maintenance as a rule: their guests belong on other nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from opendrs.model import NodeAffinity, NodeId, NodeState, Rule, Snapshot

ORIGIN = "node state"
NAME_START = "maintenance of "  # of the rule that drains nodes
_CLOSED = (NodeState.MAINTENANCE, NodeState.EXCLUDED)


def drain_rules(snapshot: Snapshot) -> tuple[NodeAffinity, ...]:
    """Return the strict rule that no guest is on a node in maintenance.

    It places all guests on nodes that are not in maintenance; whether those are online
    does not change the rule. Guests on excluded nodes may stay. There is no such rule
    if no guest occupies a node in maintenance, or if all others are excluded.
    """
    drained = _nodes_to_drain(snapshot)
    nodes = snapshot.nodes
    if not drained or all(node.state in _CLOSED for node in nodes.values()):
        return ()
    allowed = (n for n in nodes if nodes[n].state is not NodeState.MAINTENANCE)
    return (
        NodeAffinity(
            guests=frozenset(snapshot.guests),
            nodes=dict.fromkeys(sorted(allowed), 0),
            name=f"{NAME_START}{', '.join(drained)}",
            origin=ORIGIN,
        ),
    )


def is_drain(rule: Rule) -> TypeGuard[NodeAffinity]:
    """Return True if *rule* drains nodes in maintenance."""
    return isinstance(rule, NodeAffinity) and rule.origin == ORIGIN


def with_drain_rule(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* with the nodes to drain online, and the rule that drains them.

    A policy that repairs rules then moves their guests away like those on other nodes,
    and places none there. A snapshot without such nodes is returned unchanged.
    """
    rules = drain_rules(snapshot)
    if not rules:
        return snapshot
    opened = {
        name: replace(snapshot.nodes[name], state=NodeState.ONLINE)
        for name in _nodes_to_drain(snapshot)
    }
    return replace(
        snapshot,
        nodes={**snapshot.nodes, **opened},
        rules=(*snapshot.rules, *rules),
    )


def drained_nodes(snapshot: Snapshot) -> frozenset[NodeId]:
    """Return the nodes that `with_drain_rule` opened in *snapshot*."""
    return frozenset(
        name
        for rule in snapshot.rules
        if is_drain(rule)
        for name, node in snapshot.nodes.items()
        if node.online and name not in rule.nodes
    )


def _nodes_to_drain(snapshot: Snapshot) -> tuple[NodeId, ...]:
    """Return the nodes in maintenance that guests occupy, sorted.

    Nodes with unknown capacity or usage are omitted: nothing can be calculated for
    them.
    """
    candidates = sorted(
        name
        for name, node in snapshot.nodes.items()
        if node.state is NodeState.MAINTENANCE
        and node.capacity is not None
        and node.usage.resources is not None
    )
    if not candidates:
        return ()
    occupied = {
        node for guest in snapshot.guests.values() for node in guest.occupied_nodes
    }
    return tuple(name for name in candidates if name in occupied)
