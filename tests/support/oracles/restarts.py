"""Plain search for nodes of guests: every node is tried for one guest after the other.

The rules are evaluated as the operator wrote them, on clusters without migrations in
progress in which no strict rule is violated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from opendrs.model import (
    Affinity,
    AntiAffinity,
    DomainAffinity,
    Guest,
    GuestId,
    Limits,
    MutualAntiAffinity,
    Node,
    NodeAffinity,
    NodeId,
    Pin,
    Snapshot,
    TagExclusion,
)
from support.oracles.interleavings import allowed_amounts

Placement = Mapping[GuestId, NodeId]


def can_restart(
    snapshot: Snapshot, guests: Iterable[GuestId], failed: set[NodeId], limits: Limits
) -> bool:
    """Return whether all *guests* of *failed* nodes can start on the other nodes."""
    names = sorted(guests)
    running = {
        guest.id: guest.node
        for guest in snapshot.guests.values()
        if guest.is_active and guest.node not in failed
    }
    return _place(snapshot, names, running, failed, limits)


def _place(
    snapshot: Snapshot,
    names: list[GuestId],
    running: dict[GuestId, NodeId],
    failed: set[NodeId],
    limits: Limits,
) -> bool:
    if not names:
        return all(
            _shares_node(rule, running)
            for rule in snapshot.rules
            if isinstance(rule, Affinity) and rule.strict
        )
    name, rest = names[0], names[1:]
    for node in snapshot.nodes.values():
        if node.id in failed:
            continue
        if is_feasible(snapshot, snapshot.guests[name], node, running, limits) and (
            _place(snapshot, rest, {**running, name: node.id}, failed, limits)
        ):
            return True
    return False


def _shares_node(rule: Affinity, running: Placement) -> bool:
    return len({running[name] for name in rule.guests if name in running}) <= 1


def is_feasible(
    snapshot: Snapshot, guest: Guest, node: Node, running: Placement, limits: Limits
) -> bool:
    """Return whether *guest* can start on *node* beside the *running* guests."""
    return (
        node.online
        and _has_hardware(guest, node, snapshot.nodes.get(guest.node))
        and _has_memory(snapshot, guest, node, running, limits)
        and _keeps_rules(snapshot, guest, node, running)
    )


def _has_hardware(guest: Guest, node: Node, source: Node | None) -> bool:
    if node.capacity is None or node.usage.cpu is None or node.usage.memory is None:
        return False
    known = {None if source is None else source.architecture, node.architecture}
    if len(known - {None}) > 1 or guest.cpu_model not in (None, node.cpu_model):
        return False
    return guest.limit is None or guest.limit.cpu <= node.capacity.cpu


def _has_memory(
    snapshot: Snapshot, guest: Guest, node: Node, running: Placement, limits: Limits
) -> bool:
    assert node.capacity is not None
    assert node.usage.memory is not None
    used, committed, cores = node.usage.memory, 0, 0.0
    beside = [snapshot.guests[name] for name in running if running[name] == node.id]
    for each in (*beside, guest):
        limit = each.limit.memory if each.limit is not None else 0
        memory = limit or each.usage.memory
        if memory is None:
            return False
        committed += memory
        limit_cpu = each.limit.cpu if each.limit is not None else 0.0
        cpu = limit_cpu or each.usage.cpu
        cores += math.inf if cpu is None else cpu
        if each is guest or each.node != node.id:
            if each.usage.memory is None:
                return False
            used += each.usage.memory
    allowed, allowed_committed, allowed_cores = allowed_amounts(node, limits)
    return (
        used <= allowed
        and committed <= allowed_committed
        and (math.isinf(allowed_cores) or cores <= allowed_cores + 1e-6)
    )


def _keeps_rules(
    snapshot: Snapshot, guest: Guest, node: Node, running: Placement
) -> bool:
    for rule in snapshot.rules:
        if isinstance(rule, Pin | TagExclusion) or not rule.strict:
            continue
        if isinstance(rule, NodeAffinity) and rule.domain:
            continue  # realizes the rule of a domain, which is judged itself
        if isinstance(rule, NodeAffinity) and _excludes(rule, guest, node):
            return False
        if isinstance(rule, MutualAntiAffinity) and _mixes(rule, guest, node, running):
            return False
        if guest.id not in rule.guests:
            continue
        others = [running.get(name) for name in rule.guests - {guest.id}]
        if isinstance(rule, DomainAffinity):
            beside = {_label(snapshot.nodes[place], rule) for place in others if place}
            if beside and (beside != {_label(node, rule)} or "" in beside):
                return False
        if isinstance(rule, AntiAffinity) and _is_full(rule, node, others, snapshot):
            return False
    return True


def _is_full(
    rule: AntiAffinity,
    node: Node,
    others: Iterable[NodeId | None],
    snapshot: Snapshot,
) -> bool:
    """Return True if the domain of *node* has no place for a guest beside *others*."""
    racks = [
        place if not rule.domain else snapshot.nodes[place].labels
        for place in others
        if place is not None
    ]
    here = node.labels if rule.domain else node.id
    return racks.count(here) >= rule.max_guests


def _mixes(
    rule: MutualAntiAffinity, guest: Guest, node: Node, running: Placement
) -> bool:
    """Return True if *guest* would share *node* with a guest of the other side."""
    opposite: frozenset[GuestId] = frozenset()
    if guest.id in rule.guests | rule.other_guests:
        first = guest.id in rule.guests
        opposite = rule.other_guests if first else rule.guests
    return node.id in {running.get(name) for name in opposite}


def _label(node: Node, rule: DomainAffinity) -> str:
    """Return the domain of *node* for *rule*; empty without a label."""
    start = f"{rule.domain}="
    found = sorted(each for each in node.labels if each.startswith(start))
    return found[0].removeprefix(start) if found else ""


def _excludes(rule: NodeAffinity, guest: Guest, node: Node) -> bool:
    if guest.id in rule.guests:
        return node.id not in rule.nodes
    return rule.exclusive and node.id in rule.nodes
