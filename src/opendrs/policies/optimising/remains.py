"""What stays broken whatever is planned, and why, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from opendrs.model import GIB, Guest, GuestId, NodeId, Snapshot, first_few
from opendrs.policies.optimising.case import Case
from opendrs.policies.optimising.homes import transfer
from opendrs.rules import need, room_when_empty, violations
from opendrs.rules.room import Room, room

MOST_TOLD = 5  # broken rules, or nodes, of which it is told why they stay so
MOST_ASKED = 3  # guests of such a node, the largest, of which it is told
MOST_LOOKED_AT = 50  # broken rules; several may be told as one
LITTLE = 0.05  # GiB; less is shown as none


def remains(case: Case, after: Snapshot) -> Iterator[str]:
    """Yield why the first of the rules and nodes that are broken in *after* stay so."""
    yield from _rules(case, after)
    yield from _memory(case, after)


def _rules(case: Case, after: Snapshot) -> Iterator[str]:
    strict = [found for found in violations(after) if found.strict]
    told: set[str] = set()
    for found in strict[:MOST_LOOKED_AT]:
        why = case.repairs.explain(found)
        if why in told:
            continue
        told.add(why)
        yield why
        if len(told) == MOST_TOLD:
            return


def _memory(case: Case, after: Snapshot) -> Iterator[str]:
    """Yield why nodes hold more memory than they may."""
    left = room(after, case.limits)
    over = {name: _over(left[name]) for name in case.scene.nodes}
    full = [name for name, gib in over.items() if gib > LITTLE]
    if not full:
        return
    yield from _all_together(case)
    for name in full[:MOST_TOLD]:
        why = _too_full(name, case, after)
        yield f"stays too full: {name}, by {over[name]:.1f} GiB of memory: {why}"
    if len(full) > MOST_TOLD:
        yield f"stays too full: {len(full) - MOST_TOLD} more nodes"


def _over(left: Room) -> float:
    return max(0.0, -(left.used or 0.0), -(left.promised or 0.0)) / GIB


def _all_together(case: Case) -> Iterator[str]:
    """Yield by how much all nodes together are too small."""
    rooms = [case.scene.room(name) for name in case.scene.nodes]
    for what, free in (
        ("in use", [each.used for each in rooms]),
        ("promised", [each.promised for each in rooms]),
    ):
        known = [each for each in free if each is not None]
        if len(known) == len(free) and sum(known) < 0:
            gib = -sum(known) / GIB
            yield (
                f"no placement suffices: all nodes together have {gib:.1f} GiB more "
                f"memory {what} than the limits allow"
            )


def _too_full(name: NodeId, case: Case, after: Snapshot) -> str:
    there = [
        each for each in after.guests.values() if each.present and each.node == name
    ]
    empty = {
        room_when_empty(case.snapshot.nodes[each], case.limits)
        for each in case.scene.nodes
    }
    large = [each.id for each in there if _fits_nowhere(each, empty)]
    if large:
        return f"{first_few(sorted(large))} would fit on no node, even an empty one"
    largest = sorted(there, key=lambda each: (-transfer([each]), each.id))
    reasons: defaultdict[str, list[GuestId]] = defaultdict(list)
    for guest in largest[:MOST_ASKED]:
        reasons[case.repairs.obstacle(guest.id)].append(guest.id)
    if not reasons:
        return "it is not guests that take it"
    return "; ".join(f"{first_few(who)}: {why}" for why, who in reasons.items())


def _fits_nowhere(guest: Guest, empty: Iterable[Room]) -> bool:
    asked = need([guest])
    return all(_over(each.minus(asked)) > 0 for each in empty)
