"""Disks on full storages that may be moved, their targets, and why others stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opendrs.arrays import lock_of
from opendrs.model import (
    Disk,
    DiskMove,
    Guest,
    GuestState,
    Limits,
    Node,
    NodeId,
    Pin,
    Snapshot,
    Storage,
    TagExclusion,
    format_memory,
)
from opendrs.planning.migration_duration import estimate_duration
from opendrs.planning.schedule import link_bandwidth
from opendrs.rules import HOLD_ORIGIN

# Node and name of a storage; no node if other nodes use it as well.
StorageKey = tuple[NodeId | None, str]
_STATES = (GuestState.RUNNING, GuestState.STOPPED)
_NO_TARGET = "no storage of its group is known on all nodes that it can use now"


@dataclass(frozen=True, slots=True)
class MovableDisk:
    """Disk that may be moved to a storage.

    Attributes:
        move: The move.
        size: Bytes of the disk, positive.
        source: Storage that it is on.
        target: Storage that it is moved to.
    """

    move: DiskMove
    size: int
    source: StorageKey
    target: StorageKey


@dataclass(frozen=True, slots=True)
class MovableDisks:
    """Disks on full storages.

    Attributes:
        disks: Those that may be moved, once for each target.
        staying: Why the others stay, with their guests; by storage.
    """

    disks: tuple[MovableDisk, ...]
    staying: Mapping[StorageKey, Mapping[str, Sequence[str]]]


def movable_disks(
    snapshot: Snapshot,
    limits: Limits,
    full: Collection[StorageKey],
    known: Collection[StorageKey],
) -> MovableDisks:
    """Return the disks on the *full* storages.

    Args:
        snapshot: The cluster.
        limits: Contains the groups of storages.
        full: Storages that disks are to leave.
        known: Storages of the groups whose use is known: possible targets.
    """
    open_targets = _open_targets(snapshot, limits)
    excluding = [each for each in snapshot.rules if isinstance(each, TagExclusion)]
    held = {
        name: rule.name
        for rule in reversed(snapshot.rules)  # the first one counts
        if isinstance(rule, Pin) and rule.origin == HOLD_ORIGIN
        for name in rule.guests
    }
    found: list[MovableDisk] = []
    staying: defaultdict[StorageKey, defaultdict[str, list[str]]]
    staying = defaultdict(lambda: defaultdict(list))
    for guest in sorted(snapshot.guests.values(), key=lambda each: each.id):
        node = snapshot.nodes[guest.node]
        for disk in guest.disks or ():
            source = node.storage(disk.storage)
            key = None if source is None else storage_key(source, node)
            if source is None or key is None or key not in full:
                continue
            blocker = _blocker(guest, disk, node, excluding, held.get(guest.id))
            moves = [
                MovableDisk(_move(guest, disk, name), disk.size or 0, key, target)
                for name, target in _targets(source, node, limits, open_targets)
                if target in known
            ]
            if blocker is None and not moves:
                blocker = _NO_TARGET
            if blocker is None:
                blocker = _too_slow(moves[0].move, snapshot, limits)
            if blocker is None:
                found += moves
            else:
                staying[key][blocker].append(guest.id)
    return MovableDisks(tuple(found), staying)


def storage_key(storage: Storage, node: Node) -> StorageKey | None:
    """Return the key of *storage* of *node*; None if it is unknown who uses it."""
    if storage.shared is None:
        return None
    return (None if storage.shared else node.id, storage.id)


def _move(guest: Guest, disk: Disk, target: str) -> DiskMove:
    return DiskMove(guest.id, guest.node, disk.name or "", disk.storage, target)


def _blocker(
    guest: Guest,
    disk: Disk,
    node: Node,
    rules: Sequence[TagExclusion],
    held: str | None,
) -> str | None:
    """Return why *disk* of *guest* may not be moved now, or None.

    Args:
        guest: The guest.
        disk: Its disk.
        node: Its node.
        rules: Rules by which nothing of some guests is moved.
        held: Why the guest is held back after a failure; None if it is not.
    """
    causes = (
        (not node.online, f"{node.id} is not online"),
        (guest.state not in _STATES, f"state {guest.state}"),
        (guest.migrating_to is not None, f"migrating to {guest.migrating_to}"),
        (lock_of(guest) is not None, lock_of(guest)),
        *((each.applies_to(guest), f'the rule "{each}" excludes it') for each in rules),
        (held is not None, held),
        (disk.name is None, "the platform does not move this disk"),
        (not disk.size, "size of the disk unknown"),
    )
    return next((cause for applies, cause in causes if applies), None)


def _too_slow(move: DiskMove, snapshot: Snapshot, limits: Limits) -> str | None:
    """Return why *move* would not end before it is aborted, if so."""
    bandwidth, _ = link_bandwidth(snapshot, limits)
    seconds = estimate_duration(move, snapshot, bandwidth).seconds or 0.0
    if seconds <= limits.migration_timeout:
        return None
    size = format_memory(snapshot.transferred(move))
    return (
        f"{size} take at least {seconds:.0f} s, migration_timeout is "
        f"{limits.migration_timeout:.0f} s"
    )


def _open_targets(snapshot: Snapshot, limits: Limits) -> set[tuple[str, str]]:
    """Return the pairs of storages of a group of which all nodes have both.

    That is, each node with the first one has the second one as well. A disk that is
    moved from the first to the second takes no node away from its guest.
    """
    nodes: dict[str, set[NodeId]] = {}
    for node in snapshot.nodes.values():
        for each in node.storages or ():
            nodes.setdefault(each.id, set()).add(node.id)
    return {
        (source, target)
        for group in limits.storage_groups
        for source in group.storages
        for target in group.storages
        if nodes.get(source, set()) <= nodes.get(target, set())
    }


def _targets(
    source: Storage,
    node: Node,
    limits: Limits,
    open_targets: Collection[tuple[str, str]],
) -> Iterator[tuple[str, StorageKey]]:
    """Yield the storages that a disk on *source* may be moved to.

    A shared disk stays shared. A local one that is never copied to another node needs
    its target on its own node alone.
    """
    is_bound = not (source.shared or limits.migrate_local_disks)
    (group,) = (g for g in limits.storage_groups if source.id in g.storages)
    for name in group.storages:
        target = node.storage(name)
        if target is None or name == source.id:
            continue
        if (source.shared and not target.shared) or not (
            is_bound or (source.id, name) in open_targets
        ):
            continue
        key = storage_key(target, node)
        if key is not None:
            yield name, key
