"""Meaning of strict rules, by enumeration of all placements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product

from opendrs.model import (
    Affinity,
    AntiAffinity,
    DomainAffinity,
    GuestId,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Snapshot,
)

Placement = Mapping[GuestId, frozenset[NodeId]]
RuleViolation = tuple[int, frozenset[GuestId]]


def current_placement(snapshot: Snapshot) -> Placement:
    """Return the nodes on which each guest counts."""
    return {
        guest.id: frozenset(guest.occupied_nodes)
        for guest in snapshot.guests.values()
        if guest.occupied_nodes
    }


def violated_rules(snapshot: Snapshot, placement: Placement) -> set[RuleViolation]:
    """Return the guests that violate a strict rule, with its position."""
    return {
        (position, guests)
        for position, rule in enumerate(snapshot.rules)
        if getattr(rule, "strict", False)
        for guests in _violations_of(rule, placement, snapshot)
    }


def _violations_of(
    rule: object, placement: Placement, snapshot: Snapshot
) -> Iterator[frozenset[GuestId]]:
    if isinstance(rule, DomainAffinity):
        yield from _separations(rule, placement, snapshot)
    elif isinstance(rule, NodeAffinity) and not rule.domain:
        for guest in rule.guests & set(placement):
            if not placement[guest] <= set(rule.nodes):
                yield frozenset({guest})
    elif isinstance(rule, AntiAffinity):
        yield from _above_limit(rule, placement, snapshot)
    elif isinstance(rule, MutualAntiAffinity):
        yield from _mixed_pairs(rule, placement)
    elif isinstance(rule, Affinity):
        guests = rule.guests & set(placement)
        if guests and not frozenset.intersection(*(placement[g] for g in guests)):
            yield frozenset(guests)


def _above_limit(
    rule: AntiAffinity, placement: Placement, snapshot: Snapshot
) -> Iterator[frozenset[GuestId]]:
    """Yield each set of one guest too many in a domain."""
    present = sorted(rule.guests & set(placement))
    for several in combinations(present, rule.max_guests + 1):
        racks = [
            {_domain(snapshot, node, rule.domain) for node in placement[guest]}
            for guest in several
        ]
        if set.intersection(*racks):
            yield frozenset(several)


def _mixed_pairs(
    rule: MutualAntiAffinity, placement: Placement
) -> Iterator[frozenset[GuestId]]:
    """Yield each pair of guests of both sides that share a node."""
    for one, other in product(rule.guests, rule.other_guests):
        if placement.get(one, frozenset()) & placement.get(other, frozenset()):
            yield frozenset({one, other})


def _separations(
    rule: DomainAffinity, placement: Placement, snapshot: Snapshot
) -> Iterator[frozenset[GuestId]]:
    """Yield the guests of *rule* if they are in several domains, or in none.

    The node affinity that realizes the rule is not judged.
    """
    guests = rule.guests & set(placement)
    nodes = frozenset[NodeId]().union(*(placement[guest] for guest in guests))
    found = {_domain(snapshot, node, rule.domain) for node in nodes}
    if len(guests) > 1 and (len(found) > 1 or "" in found):
        yield frozenset(guests)


def _domain(snapshot: Snapshot, node: NodeId, key: str) -> str:
    """Return the part after `KEY=` of a label of *node*; its name without a key."""
    if not key:
        return node
    texts = sorted(snapshot.nodes[node].labels)
    return next((text.removeprefix(f"{key}=") for text in texts if key in text), "")


def is_satisfiable(snapshot: Snapshot) -> bool:
    """Return True if a placement of all guests satisfies every strict rule."""
    guests = sorted(
        {
            g
            for rule in snapshot.rules
            for side in ("guests", "other_guests")
            for g in getattr(rule, side, ())
        }
        & set(snapshot.guests)
    )
    nodes = [frozenset({name}) for name in snapshot.nodes]
    return any(
        not violated_rules(snapshot, dict(zip(guests, chosen, strict=True)))
        for chosen in product(nodes, repeat=len(guests))
    )
