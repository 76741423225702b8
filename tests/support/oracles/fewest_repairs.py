"""Fewest migrations that repair strict rules, by enumeration of all placements.

A state is a placement of all guests. A move brings one guest, or all guests of a strict
affinity, to one node that has the memory for it. It violates no rule newly. Dijkstra's
algorithm finds the states that can be reached, and the migrations to each.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

from opendrs.model import (
    DEFAULT_LIMITS,
    Affinity,
    GuestId,
    LiveMigration,
    NodeId,
    NodeState,
    Snapshot,
)
from opendrs.rules import new_violations, violations


def fewest_repairs(snapshot: Snapshot) -> tuple[int, int]:
    """Return the fewest violations that can be reached, and the migrations to them.

    Args:
        snapshot: Cluster of some nodes and guests, in which all guests run, may migrate
            live, and have a known use and limit.
    """
    best = (_violated(snapshot), 0)
    order = count()
    queue: list[tuple[int, int, Snapshot]] = [(0, next(order), snapshot)]
    done: set[tuple[NodeId, ...]] = set()
    while queue:
        cost, _, state = heapq.heappop(queue)
        if _placement(state) in done:
            continue
        done.add(_placement(state))
        best = min(best, (_violated(state), cost))
        for size, following in _moves(state, snapshot):
            if _placement(following) not in done:
                heapq.heappush(queue, (cost + size, next(order), following))
    return best


def _violated(snapshot: Snapshot) -> int:
    return sum(each.strict for each in violations(snapshot))


def _placement(snapshot: Snapshot) -> tuple[NodeId, ...]:
    return tuple(guest.node for guest in snapshot.guests.values())


def _moves(state: Snapshot, start: Snapshot) -> Iterator[tuple[int, Snapshot]]:
    """Yield the migrations of each possible move, and the state after it."""
    for movers in _units(state):
        for target, node in state.nodes.items():
            going = [name for name in movers if state.guests[name].node != target]
            if not going or node.state is not NodeState.ONLINE:
                continue
            actions = [
                LiveMigration(name, state.guests[name].node, target) for name in going
            ]
            following = state.apply(*actions)
            if _fits(following, target) and not _violates(following, start, going):
                yield len(going), following


def _units(state: Snapshot) -> Iterator[frozenset[GuestId]]:
    """Yield each guest, and the guests of each strict affinity."""
    for name in state.guests:
        yield frozenset({name})
    for rule in state.rules:
        if isinstance(rule, Affinity) and rule.strict:
            yield rule.guests


def _fits(state: Snapshot, node: NodeId) -> bool:
    used = state.nodes[node].usage.memory
    capacity = state.nodes[node].capacity
    assert used is not None
    assert capacity is not None
    limits = [
        guest.limit.memory
        for guest in state.guests.values()
        if guest.node == node and guest.limit is not None
    ]
    return (
        used <= capacity.memory * (1 - DEFAULT_LIMITS.memory_headroom)
        and sum(limits) <= capacity.memory * DEFAULT_LIMITS.memory_overcommit
    )


def _violates(state: Snapshot, start: Snapshot, going: list[GuestId]) -> bool:
    """Return True if a rule is violated newly, or by the guests that moved."""
    if new_violations(start, state):
        return True
    return any(
        each.strict and not isinstance(each.rule, Affinity) and each.guests & {*going}
        for each in violations(state)
    )
