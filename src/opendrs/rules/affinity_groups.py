"""Groups of guests in affinity rules, and their maximum matching to nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opendrs.model import Affinity, AntiAffinity, GuestId, NodeId, Snapshot

GuestSet = frozenset[GuestId]
NO_GUESTS: GuestSet = frozenset()


def existing_guests(guests: GuestSet, snapshot: Snapshot) -> GuestSet:
    """Return those of *guests* that are in the snapshot."""
    return frozenset(guest for guest in guests if guest in snapshot.guests)


def guests_of_rules(
    snapshot: Snapshot, kind: type[Affinity | AntiAffinity], *, strict: bool
) -> list[GuestSet]:
    """Return the guests of each rule of *kind*, where at least two of them exist.

    Of the anti-affinity rules, these are those about pairs of guests on one node.
    """
    named = (
        existing_guests(rule.guests, snapshot)
        for rule in snapshot.rules
        if isinstance(rule, kind)
        and rule.strict is strict
        and (isinstance(rule, Affinity) or rule.is_pairwise)
    )
    return [guests for guests in named if len(guests) > 1]


def connected_components(groups: Sequence[GuestSet]) -> list[GuestSet]:
    """Return the connected components of *groups*."""
    component: dict[GuestId, set[GuestId]] = {}
    for group in groups:
        members = set(group)
        for guest in group:
            members |= component.get(guest, set())
        component.update(dict.fromkeys(members, members))
    return [frozenset(each) for each in {id(c): c for c in component.values()}.values()]


def other_members(groups: Iterable[GuestSet]) -> dict[GuestId, GuestSet]:
    """Return, for each guest, all others that share one of *groups* with it."""
    others: dict[GuestId, GuestSet] = {}
    for group in groups:
        for guest in group:
            others[guest] = others.get(guest, NO_GUESTS) | group - {guest}
    return others


def maximum_matching(allowed: Mapping[GuestId, frozenset[NodeId]]) -> int:
    """Return the most guests that can be placed on different nodes.

    Source:
        Kuhn, The Hungarian method for the assignment problem (1955): augmenting paths.
    """
    if len(allowed) <= min(map(len, allowed.values()), default=0):
        return len(allowed)
    guest_on: dict[NodeId, GuestId] = {}
    return sum(_assign(guest, allowed, guest_on) for guest in allowed)


def _assign(
    guest: GuestId,
    allowed: Mapping[GuestId, frozenset[NodeId]],
    guest_on: dict[NodeId, GuestId],
) -> bool:
    """Assign *guest* to a node of its own, moving others if necessary.

    Returns:
        Whether the guest was assigned.
    """
    reached_by: dict[NodeId, GuestId] = {}
    queue = [guest]
    for candidate in queue:
        for node in sorted(allowed[candidate] - set(reached_by)):
            reached_by[node] = candidate
            if node in guest_on:
                queue.append(guest_on[node])
                continue
            _shift_along_path(node, guest, reached_by, guest_on)
            return True
    return False


def _shift_along_path(
    free: NodeId,
    guest: GuestId,
    reached_by: Mapping[NodeId, GuestId],
    guest_on: dict[NodeId, GuestId],
) -> None:
    """Move each guest on the augmenting path one node on, to the *free* one."""
    guest_to_move = reached_by[free]
    while guest_to_move != guest:
        previous_node = next(
            node for node, held in guest_on.items() if held == guest_to_move
        )
        guest_on[free] = guest_to_move
        free, guest_to_move = previous_node, reached_by[previous_node]
    guest_on[free] = guest
