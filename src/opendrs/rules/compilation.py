"""Compilation of the rules of a snapshot, by guest.

Overlapping affinity rules are merged into one group, and implied constraints are made
explicit. A guest with anti-affinity to one member of a group has it to all of them. A
node that is forbidden for one member is forbidden for the whole group. Rules that
cannot hold together are reported, and their guests are not migrated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from opendrs.model import (
    DOMAIN_ORIGIN,
    Affinity,
    AntiAffinity,
    GuestId,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Pin,
    Snapshot,
    TagExclusion,
)
from opendrs.rules.affinity_groups import (
    NO_GUESTS,
    GuestSet,
    connected_components,
    existing_guests,
    guests_of_rules,
    other_members,
)
from opendrs.rules.contradictions import Contradiction, find_contradictions
from opendrs.rules.domain_contradictions import contradictions_in_all_domains
from opendrs.rules.domain_limits import DomainLimit, domain_limits, limits_of_guests
from opendrs.rules.failed_migrations import HOLD_ORIGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRules:
    """Rules of one snapshot, by guest. A guest without rules is absent.

    Attributes:
        together: Members of the strict affinity group of each guest, itself included.
        apart: Guests that may not share a node with it.
        nodes: Nodes that it may be on.
        rankings: Node-affinity rules that prefer some of its allowed nodes. The
            priorities of several rules add up; a node that a rule does not list has -1.
        soft_together: Guests that should share a node with it.
        soft_apart: Guests that should not share a node with it.
        domain_limits: Limits of the guests in each failure domain.
        limits_of: Indices of those that count it.
        immovable: Why it must not be migrated.
        contradictions: Rules that cannot hold together.
    """

    together: Mapping[GuestId, GuestSet]
    apart: Mapping[GuestId, GuestSet]
    nodes: Mapping[GuestId, frozenset[NodeId]]
    rankings: Mapping[GuestId, tuple[NodeAffinity, ...]]
    soft_together: Mapping[GuestId, GuestSet]
    soft_apart: Mapping[GuestId, GuestSet]
    domain_limits: tuple[DomainLimit, ...]
    limits_of: Mapping[GuestId, tuple[int, ...]]
    immovable: Mapping[GuestId, str]
    contradictions: tuple[Contradiction, ...]


def compile_rules(snapshot: Snapshot) -> CompiledRules:
    """Return the rules of *snapshot*, compiled by guest.

    Guests that are not in the snapshot are ignored. An anti-affinity rule with fewer
    than two existing guests has no effect.
    """
    together = _strict_groups(snapshot)
    apart = _apart(snapshot, strict=True)
    nodes = _common_nodes(together, _allowed_nodes(snapshot))
    immovable = immovable_guests(snapshot)
    if any(rule.origin == DOMAIN_ORIGIN for rule in snapshot.rules):
        contradictions = contradictions_in_all_domains(snapshot, stated_contradictions)
    else:
        stated = _stated_nodes(snapshot, together, nodes)
        contradictions = find_contradictions(snapshot, together, stated, immovable)
    limits = domain_limits(snapshot)
    return CompiledRules(
        together=together,
        apart=_implied_apart(together, apart),
        nodes=nodes,
        rankings=_rankings(snapshot, together),
        soft_together=other_members(guests_of_rules(snapshot, Affinity, strict=False)),
        soft_apart=_apart(snapshot, strict=False),
        domain_limits=limits,
        limits_of=limits_of_guests(limits),
        immovable={**_contradictory_guests(contradictions), **immovable},
        contradictions=contradictions,
    )


def stated_contradictions(snapshot: Snapshot) -> tuple[Contradiction, ...]:
    """Return the contradictions among the rules, with the domains that they state."""
    together = _strict_groups(snapshot)
    nodes = _common_nodes(together, _allowed_nodes(snapshot))
    stated = _stated_nodes(snapshot, together, nodes)
    immovable = immovable_guests(snapshot)
    return find_contradictions(snapshot, together, stated, immovable)


def _stated_nodes(
    snapshot: Snapshot,
    together: Mapping[GuestId, GuestSet],
    nodes: Mapping[GuestId, frozenset[NodeId]],
) -> Mapping[GuestId, frozenset[NodeId]]:
    """Return *nodes* with the targets of failed migrations, which are no rule."""
    rules = tuple(rule for rule in snapshot.rules if rule.origin != HOLD_ORIGIN)
    if len(rules) == len(snapshot.rules):
        return nodes
    return _common_nodes(together, _allowed_nodes(replace(snapshot, rules=rules)))


def _strict_groups(snapshot: Snapshot) -> dict[GuestId, GuestSet]:
    """Return the members of the strict affinity group of each guest."""
    groups = connected_components(guests_of_rules(snapshot, Affinity, strict=True))
    return {guest: group for group in groups for guest in group}


def _apart(snapshot: Snapshot, *, strict: bool) -> dict[GuestId, GuestSet]:
    """Return the guests with which each must not share a node, or should not.

    Guests of one side of a rule share the set of the other side, however large it is.
    """
    apart = other_members(guests_of_rules(snapshot, AntiAffinity, strict=strict))
    for rule in snapshot.rules:
        if not (isinstance(rule, MutualAntiAffinity) and rule.strict is strict):
            continue
        one = existing_guests(rule.guests, snapshot)
        other = existing_guests(rule.other_guests, snapshot)
        for side, opposite in ((one, other), (other, one)):
            for guest in side if opposite else ():
                known = apart.get(guest)
                apart[guest] = opposite if known is None else known | opposite
    return apart


def _implied_apart(
    together: Mapping[GuestId, GuestSet], apart: Mapping[GuestId, GuestSet]
) -> dict[GuestId, GuestSet]:
    """Return *apart* extended to the affinity groups of both sides.

    Within its own group a guest is apart only from those that a rule names with it.
    That is a contradiction, which is reported separately; a guest that a repair moves
    in spite of it must not join them.
    """
    result: dict[GuestId, GuestSet] = {}
    grouped = frozenset(together)
    for guest in set(apart) | grouped:
        if guest not in grouped and apart[guest].isdisjoint(grouped):
            result[guest] = apart[guest]
            continue
        group = together.get(guest, frozenset({guest}))
        direct = NO_GUESTS.union(*(apart.get(member, NO_GUESTS) for member in group))
        implied = direct.union(*(together.get(other, NO_GUESTS) for other in direct))
        own = apart.get(guest, NO_GUESTS) & group
        if others := implied - group | own:
            result[guest] = others
    return result


def _node_affinities(snapshot: Snapshot) -> Iterator[tuple[NodeAffinity, GuestSet]]:
    for rule in snapshot.rules:
        if isinstance(rule, NodeAffinity):
            yield rule, existing_guests(rule.guests, snapshot)


def _allowed_nodes(snapshot: Snapshot) -> dict[GuestId, frozenset[NodeId]]:
    allowed: dict[GuestId, frozenset[NodeId]] = {}
    shared: dict[int, frozenset[NodeId]] = {}  # rules may share their nodes
    for rule, guests in _node_affinities(snapshot):
        if rule.strict:
            if (key := id(rule.nodes)) not in shared:
                shared[key] = frozenset(rule.nodes)
            nodes = shared[key]
            for guest in guests:
                known = allowed.get(guest)
                allowed[guest] = nodes if known is None else known & nodes
    return allowed


def _common_nodes(
    together: Mapping[GuestId, GuestSet], nodes: Mapping[GuestId, frozenset[NodeId]]
) -> dict[GuestId, frozenset[NodeId]]:
    result = dict(nodes)
    for guest, group in together.items():
        sets = [nodes[member] for member in group if member in nodes]
        if sets:
            result[guest] = frozenset.intersection(*sets)
    return result


def _rankings(
    snapshot: Snapshot, together: Mapping[GuestId, GuestSet]
) -> dict[GuestId, tuple[NodeAffinity, ...]]:
    result: dict[GuestId, tuple[NodeAffinity, ...]] = {}
    for rule, guests in _node_affinities(snapshot):
        if rule.strict and len(set(rule.nodes.values())) <= 1:
            continue  # forbids the other nodes, prefers none of its own
        members = NO_GUESTS.union(*(together.get(g, frozenset({g})) for g in guests))
        for guest in members:
            result[guest] = (*result.get(guest, ()), rule)
    return result


def immovable_guests(snapshot: Snapshot) -> dict[GuestId, str]:
    """Return the guests that a rule excludes from migration, each with why."""
    immovable: dict[GuestId, str] = {}
    for rule in snapshot.rules:
        if isinstance(rule, Pin):
            is_held = rule.origin == HOLD_ORIGIN
            detail = str(rule) if is_held else f'pinned by the rule "{rule}"'
            guests = existing_guests(rule.guests, snapshot)
            immovable.update(dict.fromkeys(guests, detail))
        elif isinstance(rule, TagExclusion):
            for guest in snapshot.guests.values():
                if rule.applies_to(guest):
                    immovable[guest.id] = (
                        f'excluded from migration by the rule "{rule}"'
                    )
    return immovable


def _contradictory_guests(
    contradictions: Iterable[Contradiction],
) -> dict[GuestId, str]:
    details: dict[GuestId, str] = {}
    for contradiction in contradictions:
        for guest in contradiction.guests:
            detail = f"contradictory rules: {contradiction.detail}"
            details.setdefault(guest, detail)
    return details
