"""Clusters with groups of storages, and what moves of their disks do, by the fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

from opendrs.model import (
    GIB,
    Disk,
    DiskMove,
    Guest,
    GuestState,
    Limits,
    NodeId,
    Plan,
    Snapshot,
    Storage,
    StorageGroup,
)
from support.builders import cluster

GROUP = StorageGroup(name="fast", storages=("nvme1", "nvme2", "nvme3"), threshold=0.8)
CAPACITY = 100  # GiB of each storage
Place = tuple[NodeId | None, str]


def drawn_storages(seed: int, guests: int = 14, nodes: int = 3) -> Snapshot:
    """Return a cluster with storages of one group, some full, some shared, some absent.

    Disks have whole GiB, and few of them no name, an unknown size or a busy guest.
    """
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    names = [f"n{number}" for number in range(nodes)]
    plain = cluster(
        dict.fromkeys(names, 0.2),
        {f"g{number}": (random.choice(names), 0.01) for number in range(guests)},
    )
    kinds = {name: random.random() < 0.3 for name in GROUP.storages}
    free = {name: random.choice((2, 8, 15, 60, 80)) for name in GROUP.storages}
    found = {
        name: replace(
            node,
            storages=tuple(
                Storage(
                    id=each,
                    shared=shared,
                    capacity=CAPACITY * GIB,
                    free=(free[each] if shared else random.choice((2, 8, 15, 60, 80)))
                    * GIB,
                )
                for each, shared in kinds.items()
                if random.random() < 0.95
            ),
        )
        for name, node in plain.nodes.items()
    }
    changed = {
        name: _with_disks(guest, found[guest.node].storages or (), random)
        for name, guest in plain.guests.items()
    }
    return replace(plain, nodes=found, guests=changed)


def _with_disks(guest: Guest, storages: Sequence[Storage], random: Random) -> Guest:
    disks = tuple(
        Disk(
            storage=random.choice(storages).id,
            size=None if random.random() < 0.05 else random.randint(1, 30) * GIB,
            name=None if random.random() < 0.05 else f"scsi{number}",
        )
        for number in range(random.randint(0, 2) if storages else 0)
    )
    state = GuestState.STOPPED if random.random() < 0.2 else GuestState.RUNNING
    lock = "backup" if random.random() < 0.1 else None
    return replace(guest, disks=disks, state=state, lock=lock)


@dataclass
class Ledger:
    """Bytes in use and capacity of each storage, counted once if it is shared."""

    used: dict[Place, int]
    capacity: dict[Place, int]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Ledger:
        ledger = cls({}, {})
        for name, node in snapshot.nodes.items():
            for each in node.storages or ():
                place = (None if each.shared else name, each.id)
                assert each.capacity is not None
                assert each.free is not None
                ledger.capacity[place] = each.capacity
                ledger.used[place] = each.capacity - each.free
        return ledger

    def excess(self) -> int:
        """Return the bytes in use above the threshold of `GROUP`."""
        return sum(
            max(0, used - int(GROUP.threshold * self.capacity[place]))
            for place, used in self.used.items()
        )


def place_of(snapshot: Snapshot, node: NodeId, storage: str) -> Place | None:
    for each in snapshot.nodes[node].storages or ():
        if each.id == storage:
            return (None if each.shared else node, storage)
    return None


def possible_moves(snapshot: Snapshot, limits: Limits) -> list[tuple[DiskMove, int]]:
    """Return each allowed move of a disk with its size, without regard to space."""
    return [
        (DiskMove(guest.id, guest.node, disk.name, disk.storage, target), disk.size)
        for guest in snapshot.guests.values()
        for disk in guest.disks or ()
        for target in GROUP.storages
        if disk.name is not None
        and disk.size
        and guest.lock is None
        and _keeps_nodes(snapshot, guest.node, disk.storage, target, limits)
    ]


def _keeps_nodes(
    snapshot: Snapshot, node: NodeId, source: str, target: str, limits: Limits
) -> bool:
    """Return True if no node that has *source*, where that matters, lacks *target*."""
    listed = {
        name: {each.id: each.shared for each in found.storages or ()}
        for name, found in snapshot.nodes.items()
    }
    here = listed[node]
    if source == target or source not in here or target not in here:
        return False
    if here[source] and not here[target]:
        return False
    if not here[source] and not limits.migrate_local_disks:
        return True
    return all(target in names for names in listed.values() if source in names)


def disk_move_defects(snapshot: Snapshot, plan: Plan, limits: Limits) -> list[str]:
    """Return what is wrong in any state that *plan* can pass through.

    A disk occupies both storages while it is moved. No storage that receives one may be
    above its threshold then.
    """
    allowed = dict(possible_moves(snapshot, limits))
    moves = [each.action for each in plan.steps]
    defects = [f"{move} is not allowed" for move in moves if move not in allowed]
    if defects or any(step.depends_on for step in plan.steps):
        return [*defects, *(s.id for s in plan.steps if s.depends_on)]
    for state in product(range(3), repeat=len(moves)):
        ledger, targets = Ledger.of(snapshot), set()
        for move, stage in zip(moves, state, strict=True):
            assert isinstance(move, DiskMove)
            source = place_of(snapshot, move.node, move.source_storage)
            target = place_of(snapshot, move.node, move.target_storage)
            assert source is not None
            assert target is not None
            if stage:
                ledger.used[target] += allowed[move]
                targets.add(target)
            if stage == 2:
                ledger.used[source] -= allowed[move]
        defects += [
            f"{place} is above the threshold in {state}"
            for place in targets
            if ledger.used[place] > int(GROUP.threshold * ledger.capacity[place])
        ]
    return defects


def least_excess(snapshot: Snapshot, limits: Limits, most: int) -> tuple[int, float]:
    """Return the least excess that at most *most* moves can leave, and their cost.

    All sets of moves are tried, with one disk for each guest. The cost is in GiB.
    """
    moves = possible_moves(snapshot, limits)
    full = Ledger.of(snapshot)
    best = (full.excess(), 0.0)
    for chosen in _sets(snapshot, full, moves, most):
        ledger = Ledger(dict(full.used), full.capacity)
        for move, size in chosen:
            source = place_of(snapshot, move.node, move.source_storage)
            target = place_of(snapshot, move.node, move.target_storage)
            assert source is not None
            assert target is not None
            ledger.used[source] -= size
            ledger.used[target] += size
        cost = sum(size / GIB + 0.25 for _, size in chosen)
        best = min(best, (ledger.excess(), cost))
    return best


def _sets(
    snapshot: Snapshot,
    ledger: Ledger,
    moves: Sequence[tuple[DiskMove, int]],
    most: int,
    chosen: tuple[tuple[DiskMove, int], ...] = (),
) -> Iterator[tuple[tuple[DiskMove, int], ...]]:
    """Yield the sets of moves whose targets stay below the threshold all the time."""
    for position, (move, size) in enumerate(moves):
        target = place_of(snapshot, move.node, move.target_storage)
        assert target is not None
        arrived = sum(
            other_size
            for other, other_size in chosen
            if place_of(snapshot, other.node, other.target_storage) == target
        )
        limit = int(GROUP.threshold * ledger.capacity[target])
        if ledger.used[target] + arrived + size > limit:
            continue
        if any(other.guest == move.guest for other, _ in chosen):
            continue
        found = (*chosen, (move, size))
        yield found
        if len(found) < most:
            yield from _sets(snapshot, ledger, moves[position + 1 :], most, found)
