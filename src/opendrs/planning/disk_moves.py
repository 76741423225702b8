"""Selection of the disks that leave full storages.

A storage of a group is full while more of it is in use than its threshold. The moves
minimize what is in use above the thresholds, then the cost of copying. They start from
each of the most efficient moves, add the one that relieves most per cost until none
relieves, and leave out those that turn out not to be needed; the best result counts.

All moves may run at the same time, in any order: no move uses the space that another
one frees, and each guest moves one disk at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from opendrs.model import (
    GIB,
    NORMAL_PRIORITY,
    DiskMove,
    Limits,
    Plan,
    Snapshot,
    Step,
    StepId,
    StorageGroup,
)
from opendrs.planning.movable_disks import (
    MovableDisk,
    StorageKey,
    movable_disks,
    storage_key,
)
from opendrs.rules import available_space, guest_priorities

COPY_OVERHEAD = 0.25  # GiB; constant cost of a copy in addition to its size
MAX_FIRST_MOVES = 16  # from which a selection starts


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse:
    """Use of a storage of a group.

    Attributes:
        key: Its name, with its node unless other nodes use it as well.
        group: Its group.
        capacity: Total bytes.
        used: Bytes in use.
        available: Bytes that may be moved to it, with the copies in progress deducted.
    """

    key: StorageKey
    group: StorageGroup
    capacity: int
    used: int
    available: float

    @property
    def excess(self) -> int:
        """Return the bytes in use above the threshold."""
        return max(0, self.used - int(self.group.threshold * self.capacity))

    @property
    def fill(self) -> float:
        """Return the fraction in use."""
        return self.used / self.capacity if self.capacity else 1.0

    @property
    def label(self) -> str:
        """Return its name, and its node unless it is shared."""
        node, name = self.key
        return name if node is None else f"{name} of {node}"


StorageUses = Mapping[StorageKey, StorageUse]


@dataclass(frozen=True, slots=True)
class StorageRelief:
    """Moves of disks away from full storages.

    Attributes:
        moves: The moves, each with why.
        before: Use of the storages of all groups.
        after: Their use after the moves.
        staying: Why disks on full storages stay, with the guests; by storage.
    """

    moves: tuple[tuple[DiskMove, str], ...]
    before: StorageUses
    after: StorageUses
    staying: Mapping[StorageKey, Mapping[str, Sequence[str]]]

    @property
    def plan(self) -> Plan:
        """Return the moves as steps without dependencies."""
        return Plan(
            tuple(
                Step(StepId(f"s{index}"), move, detail=detail)
                for index, (move, detail) in enumerate(self.moves, start=1)
            )
        )


def relieve_storages(snapshot: Snapshot, limits: Limits) -> StorageRelief:
    """Return the moves of disks for the full storages of *snapshot*.

    Args:
        snapshot: The cluster.
        limits: Contains the groups. There are at most as many moves as migrations may
            run in parallel.
    """
    before = storage_uses(snapshot, limits)
    full = {key for key, use in before.items() if use.excess}
    if not full:
        return StorageRelief((), before, before, {})
    found = movable_disks(snapshot, limits, full, before.keys())
    priorities = guest_priorities(snapshot)
    candidates = [
        _Candidate(
            disk, priorities.get(disk.move.guest, NORMAL_PRIORITY) * _cost(disk.size)
        )
        for disk in found.disks
    ]
    chosen = _best_selection(candidates, before, limits.max_parallel_migrations)
    moves = tuple((each.disk.move, _reason(each.disk, before)) for each in chosen)
    return StorageRelief(moves, before, _after(chosen, before), found.staying)


def storage_uses(snapshot: Snapshot, limits: Limits) -> dict[StorageKey, StorageUse]:
    """Return the use of the storages in the groups of *limits* whose use is known.

    Of a shared storage, the node that reports the least free space counts.
    """
    group_of = {name: g for g in limits.storage_groups for name in g.storages}
    space = available_space(snapshot) if group_of else {}
    uses: dict[StorageKey, StorageUse] = {}
    for node in sorted(snapshot.nodes.values(), key=lambda each: each.id):
        for each in node.storages or ():
            capacity, free = each.capacity, each.free
            group = group_of.get(each.id)
            if group is None or capacity is None or free is None:
                continue
            key = storage_key(each, node)
            if key is None:
                continue
            reserve = capacity - int(group.threshold * capacity)
            use = StorageUse(
                key=key,
                group=group,
                capacity=capacity,
                used=capacity - free,
                available=space[node.id][each.id] - reserve,
            )
            known = uses.get(key)
            if known is None or use.available < known.available:
                uses[key] = use
    return uses


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Disk that could be moved, with the cost of its copy in GiB."""

    disk: MovableDisk
    cost: float


class _Selection:
    """Moves that are selected so far, with what they leave above the thresholds."""

    def __init__(self, uses: StorageUses) -> None:
        self._uses = uses
        self._excess = {key: use.excess for key, use in uses.items() if use.excess}
        self._available = {key: use.available for key, use in uses.items()}
        self.chosen: list[_Candidate] = []

    @property
    def left(self) -> int:
        """Return the bytes in use above the thresholds."""
        return sum(max(0, each) for each in self._excess.values())

    @property
    def cost(self) -> float:
        """Return the cost of the moves, in GiB."""
        return sum(each.cost for each in self.chosen)

    def add(self, candidate: _Candidate) -> None:
        """Add a move."""
        disk = candidate.disk
        self._excess[disk.source] -= disk.size
        self._available[disk.target] -= disk.size
        self.chosen.append(candidate)

    def best(self, candidates: Sequence[_Candidate]) -> _Candidate | None:
        """Return the move that relieves most per cost; None if none relieves."""
        taken = {each.disk.move.guest for each in self.chosen}
        fitting = [
            each
            for each in candidates
            if self._excess[each.disk.source] > 0
            and each.disk.size <= self._available[each.disk.target]
            and each.disk.move.guest not in taken
        ]
        return max(fitting, key=self.rank, default=None)

    def rank(self, candidate: _Candidate) -> tuple[float, float, float, DiskMove]:
        """Return the order of *candidate*: larger is better, the last part is a tie."""
        disk = candidate.disk
        relief = min(disk.size, self._excess[disk.source])
        share = self._available[disk.target] / self._uses[disk.target].capacity
        return relief / candidate.cost, -candidate.cost, share, disk.move

    def prune(self) -> None:
        """Leave out the most expensive moves without which nothing is left either."""
        for each in sorted(self.chosen, key=lambda one: -one.cost):
            if self._excess[each.disk.source] + each.disk.size <= 0:
                self._excess[each.disk.source] += each.disk.size
                self._available[each.disk.target] += each.disk.size
                self.chosen.remove(each)


def _best_selection(
    candidates: Sequence[_Candidate], uses: StorageUses, most: int
) -> list[_Candidate]:
    """Return at most *most* moves: the least excess left, then the least cost."""
    empty = _Selection(uses)
    feasible = [c for c in candidates if c.disk.size <= uses[c.disk.target].available]
    first = sorted(feasible, key=empty.rank, reverse=True)[:MAX_FIRST_MOVES]
    selections = [empty, *(_complete(each, feasible, uses, most) for each in first)]
    best = min(
        selections,
        key=lambda each: (each.left, each.cost, [c.disk.move for c in each.chosen]),
    )
    return best.chosen


def _complete(
    first: _Candidate, candidates: Sequence[_Candidate], uses: StorageUses, most: int
) -> _Selection:
    selection = _Selection(uses)
    following: _Candidate | None = first
    while following is not None:
        selection.add(following)
        if len(selection.chosen) >= most:
            break
        following = selection.best(candidates)
    selection.prune()
    return selection


def _cost(size: int) -> float:
    return size / GIB + COPY_OVERHEAD


def _after(chosen: Sequence[_Candidate], before: StorageUses) -> StorageUses:
    """Return the use of the storages after the moves."""
    after = dict(before)
    for disk in (each.disk for each in chosen):
        for key, sign in ((disk.source, -1), (disk.target, 1)):
            use = after[key]
            after[key] = replace(use, used=max(0, use.used + sign * disk.size))
    return after


def _reason(disk: MovableDisk, uses: StorageUses) -> str:
    source, target = uses[disk.source], uses[disk.target]
    return (
        f"moves {disk.size / GIB:.1f} GiB from {source.label} ({source.fill:.0%} in "
        f"use, above {source.group.threshold:.0%}) to {target.label} "
        f"({target.fill:.0%})"
    )


def full_storages(uses: StorageUses) -> Iterator[StorageUse]:
    """Yield the storages in use above their thresholds, the fullest first."""
    full = [use for use in uses.values() if use.excess]
    yield from sorted(full, key=lambda use: (-use.fill, use.label))


def excess_of(uses: StorageUses) -> int:
    """Return the bytes in use above the thresholds of all storages."""
    return sum(use.excess for use in uses.values())
