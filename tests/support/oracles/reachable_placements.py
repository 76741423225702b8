"""All placements of a tiny cluster that safe migrations reach, one after another.

Each migration is checked by the guard on the snapshot before it, so that nothing is
shared with the optimizer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from opendrs.guard import check
from opendrs.model import (
    GIB,
    Affinity,
    GuestId,
    Limits,
    LiveMigration,
    Mobility,
    NodeId,
    Snapshot,
)
from opendrs.rules import ViolationCount, count_strict, violations

Placement = tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """A placement that is reached.

    Attributes:
        snapshot: The cluster in it.
        gib: Least memory to transfer to it.
        migrations: Least number of migrations to it, perhaps by another path.
    """

    snapshot: Snapshot
    gib: float
    migrations: int

    @property
    def violated(self) -> ViolationCount:
        """Return the number of violated strict rules, and of their violations."""
        return count_strict(violations(self.snapshot))


def reached_placements(
    snapshot: Snapshot, limits: Limits, gib: float = float("inf")
) -> Mapping[Placement, Reached]:
    """Return the placements that safe migrations reach, with the least effort.

    Args:
        snapshot: A cluster whose guests all run; cooldowns are not considered.
        limits: Limits of the operator.
        gib: Most memory to transfer.
    """
    names = sorted(snapshot.guests)
    start = _placement(snapshot, names)
    found: dict[Placement, float] = {}
    moves_from: dict[Placement, list[tuple[int, Placement]]] = {}
    queue = [(0.0, start)]
    snapshots = {start: snapshot}
    while queue:
        cost, placement = heapq.heappop(queue)
        if placement in found:
            continue
        found[placement], here = cost, snapshots[placement]
        moves_from[placement] = []
        for moves in _joint_moves(here):
            size = sum(here.guests[m.guest].usage.memory or 0 for m in moves)
            total = cost + size / GIB
            if total > gib or check(moves, here, limits) is not None:
                continue
            after = here.apply(*moves)
            key = _placement(after, names)
            moves_from[placement].append((len(moves), key))
            if key not in found:
                snapshots.setdefault(key, after)
                heapq.heappush(queue, (total, key))
    fewest = _fewest_migrations(start, moves_from)
    return {
        key: Reached(snapshots[key], cost, fewest[key]) for key, cost in found.items()
    }


def _fewest_migrations(
    start: Placement, moves_from: Mapping[Placement, list[tuple[int, Placement]]]
) -> dict[Placement, int]:
    """Return the least number of migrations to each placement."""
    fewest: dict[Placement, int] = {}
    queue = [(0, start)]
    while queue:
        count, placement = heapq.heappop(queue)
        if placement not in fewest:
            fewest[placement] = count
            for size, after in moves_from[placement]:
                heapq.heappush(queue, (count + size, after))
    return fewest


def _placement(snapshot: Snapshot, names: list[GuestId]) -> Placement:
    return tuple(snapshot.guests[name].node for name in names)


def _joint_moves(snapshot: Snapshot) -> Iterator[tuple[LiveMigration, ...]]:
    """Yield the moves of each guest, with all that kept affinity rules bind to it."""
    seen: set[frozenset[GuestId]] = set()
    for name in sorted(snapshot.guests):
        bound = _bound_to(snapshot, name)
        if bound in seen:
            continue
        seen.add(bound)
        guests = [snapshot.guests[each] for each in sorted(bound)]
        if any(each.mobility is not Mobility.LIVE for each in guests):
            continue
        source = guests[0].node
        for target in sorted(snapshot.nodes):
            if target != source:
                yield tuple(LiveMigration(e.id, source, target) for e in guests)


def _bound_to(snapshot: Snapshot, name: GuestId) -> frozenset[GuestId]:
    bound = {name}
    node = snapshot.guests[name].node
    size = 0
    while size != len(bound):
        size = len(bound)
        for rule in snapshot.rules:
            if not (isinstance(rule, Affinity) and rule.strict and rule.guests & bound):
                continue
            if all(snapshot.guests[each].node == node for each in rule.guests):
                bound |= rule.guests
    return frozenset(bound)
