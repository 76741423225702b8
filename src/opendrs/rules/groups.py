"""Which guests a rule names together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opendrs.model import Affinity, AntiAffinity, GuestId, Snapshot

Guests = frozenset[GuestId]
NOBODY: Guests = frozenset()


def known(guests: Guests, snapshot: Snapshot) -> Guests:
    """Return those of *guests* that the snapshot has."""
    return frozenset(guest for guest in guests if guest in snapshot.guests)


def named_by(
    snapshot: Snapshot, kind: type[Affinity | AntiAffinity], *, strict: bool
) -> list[Guests]:
    """Return the guests of each rule of that kind that names at least two."""
    named = (
        known(rule.guests, snapshot)
        for rule in snapshot.rules
        if isinstance(rule, kind) and rule.strict is strict
    )
    return [guests for guests in named if len(guests) > 1]


def merged(groups: Sequence[Guests]) -> list[Guests]:
    """Return the connected components of *groups*."""
    component: dict[GuestId, set[GuestId]] = {}
    for group in groups:
        merged = set(group)
        for guest in group:
            merged |= component.get(guest, set())
        component.update(dict.fromkeys(merged, merged))
    return [frozenset(each) for each in {id(c): c for c in component.values()}.values()]


def pairs(groups: Iterable[Guests]) -> dict[GuestId, Guests]:
    """Return for each guest all others that share one of *groups* with it."""
    others: dict[GuestId, Guests] = {}
    for group in groups:
        for guest in group:
            others[guest] = others.get(guest, NOBODY) | group - {guest}
    return others
