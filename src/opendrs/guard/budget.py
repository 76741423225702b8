"""How many moves at once, and where: what has no room now may start later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from opendrs.guard.refusal import Objection, Refusal
from opendrs.model import (
    Action,
    Limits,
    Move,
    Network,
    NodeId,
    PowerOff,
    PowerOn,
    Snapshot,
)


def room_for(
    unit: Sequence[Action], fresh: Snapshot, limits: Limits
) -> Objection | None:
    """Return why *unit* has to wait, or None when there is room for it.

    A unit that is larger than a limit may run while nothing else does: on its
    nodes, over a network, or in the cluster. Waking and putting to sleep take no room.
    """
    moves = [action for action in unit if not isinstance(action, PowerOn | PowerOff)]
    asked = _per_node((move.source, move.target) for move in moves)
    taken = _per_node(
        guest.locations
        for guest in fresh.guests.values()
        if guest.migrating_to is not None
    )
    for node in sorted(asked):
        if taken[node] and taken[node] + asked[node] > limits.moves_per_node:
            return Objection(Refusal.NODE_BUSY, _busy(node, taken[node], limits))
    for network in limits.networks:
        if (why := _crowded(network, moves, fresh)) is not None:
            return Objection(Refusal.NETWORK_BUSY, why)
    under_way = sum(guest.migrating_to is not None for guest in fresh.guests.values())
    if moves and under_way and under_way + len(moves) > limits.moves_at_once:
        detail = f"{under_way} moves under way, of at most {limits.moves_at_once}"
        return Objection(Refusal.CLUSTER_BUSY, detail)
    return None


def _per_node(journeys: Iterable[tuple[NodeId, ...]]) -> Counter[NodeId]:
    return Counter(node for journey in journeys for node in journey)


def _crowded(network: Network, moves: Sequence[Move], fresh: Snapshot) -> str | None:
    """Return that *moves* have to wait for others that go over *network*."""
    asked = sum(network.joins(move.source, move.target) for move in moves)
    taken = sum(
        network.joins(guest.node, guest.migrating_to)
        for guest in fresh.guests.values()
        if guest.migrating_to is not None
    )
    if network.moves is None or not (asked and taken):
        return None
    if asked + taken <= network.moves:
        return None
    return f"{taken} moves over {network.name} under way, of at most {network.moves}"


def _busy(node: NodeId, taken: int, limits: Limits) -> str:
    return (
        f"{taken} moves from or to {node} under way, of at most {limits.moves_per_node}"
    )
