"""How many guests can each have a node of their own."""

from __future__ import annotations

from collections.abc import Mapping

from opendrs.model import GuestId, NodeId


def most_apart(choices: Mapping[GuestId, frozenset[NodeId]]) -> int:
    """Return how many guests can have a node of their own (Kuhn's matching)."""
    if len(choices) <= min(map(len, choices.values()), default=0):
        return len(choices)
    holder: dict[NodeId, GuestId] = {}
    return sum(_place(guest, choices, holder) for guest in choices)


def _place(
    guest: GuestId,
    choices: Mapping[GuestId, frozenset[NodeId]],
    holder: dict[NodeId, GuestId],
) -> bool:
    """Give *guest* a node of its own, moving others if need be; say whether."""
    reached: dict[NodeId, GuestId] = {}
    waiting = [guest]
    for asking in waiting:
        for node in sorted(choices[asking] - set(reached)):
            reached[node] = asking
            if node in holder:
                waiting.append(holder[node])
                continue
            _shift(node, guest, reached, holder)
            return True
    return False


def _shift(
    free: NodeId,
    guest: GuestId,
    reached: Mapping[NodeId, GuestId],
    holder: dict[NodeId, GuestId],
) -> None:
    """Move each guest on the way to *free* one node on, the last one *guest*."""
    mover = reached[free]
    while mover != guest:
        left = next(node for node, held in holder.items() if held == mover)
        holder[free] = mover
        free, mover = left, reached[left]
    holder[free] = guest
