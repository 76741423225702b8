"""What strict rules demand, the plain way: every placement is tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    NodeAffinity,
    NodeId,
    Snapshot,
)

Placement = Mapping[GuestId, frozenset[NodeId]]
Break = tuple[int, frozenset[GuestId]]


def placement(snapshot: Snapshot) -> Placement:
    """Return the nodes each guest counts on."""
    return {
        guest.id: frozenset(guest.locations)
        for guest in snapshot.guests.values()
        if guest.locations
    }


def breaks(snapshot: Snapshot, places: Placement) -> set[Break]:
    """Return which guests break which strict rule, by its position."""
    return {
        (position, guests)
        for position, rule in enumerate(snapshot.rules)
        if getattr(rule, "strict", False)
        for guests in _broken_by(rule, places)
    }


def _broken_by(rule: object, places: Placement) -> Iterator[frozenset[GuestId]]:
    if isinstance(rule, NodeAffinity):
        for guest in rule.guests & set(places):
            if not places[guest] <= set(rule.nodes):
                yield frozenset({guest})
    elif isinstance(rule, AntiAffinity):
        for one, other in combinations(sorted(rule.guests & set(places)), 2):
            if places[one] & places[other]:
                yield frozenset({one, other})
    elif isinstance(rule, Affinity):
        guests = rule.guests & set(places)
        if guests and not frozenset.intersection(*(places[g] for g in guests)):
            yield frozenset(guests)


def keepable(snapshot: Snapshot) -> bool:
    """Return whether some placement of all guests keeps every strict rule."""
    guests = sorted(
        {g for rule in snapshot.rules for g in getattr(rule, "guests", ())}
        & set(snapshot.guests)
    )
    nodes = [frozenset({name}) for name in snapshot.nodes]
    return any(
        not breaks(snapshot, dict(zip(guests, chosen, strict=True)))
        for chosen in product(nodes, repeat=len(guests))
    )
