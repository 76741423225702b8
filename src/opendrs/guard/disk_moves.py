"""Checks of moves of disks to other storages, before they start.

A guest stays on its node, so that no rule about placement and no memory is concerned.
The node must have the target, and so must all nodes that the guest could use before:
no move of a disk takes a node away from its guest. During the copy the disk occupies
both storages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from opendrs.guard.rejection import Rejection, RejectionReason
from opendrs.guard.storage import incoming_bytes, storage_place
from opendrs.model import (
    Disk,
    DiskMove,
    Guest,
    GuestState,
    Limits,
    Node,
    NodeState,
    Snapshot,
    Storage,
    StorageGroup,
    TagExclusion,
    disk_named,
    format_memory,
)


@dataclass(frozen=True, slots=True)
class DiskMoveContext:
    """Move of a disk, with the input of the checks.

    Attributes:
        move: The move.
        snapshot: Current state of the cluster.
        limits: Limits of the operator.
    """

    move: DiskMove
    snapshot: Snapshot
    limits: Limits

    @property
    def node(self) -> Node:
        """Return the node of the guest."""
        return self.snapshot.nodes[self.move.node]

    @property
    def guest(self) -> Guest:
        """Return the guest, which must be in the cluster."""
        return self.snapshot.guests[self.move.guest]

    @property
    def disk(self) -> Disk:
        """Return the disk; `_stale` has checked that it is there."""
        disk = disk_named(self.guest, self.move.disk)
        assert disk is not None  # noqa: S101 - for the type checker
        return disk

    @property
    def group(self) -> StorageGroup | None:
        """Return the group of both storages; None if there is none."""
        both = {self.move.source_storage, self.move.target_storage}
        groups = self.limits.storage_groups
        return next((each for each in groups if both <= {*each.storages}), None)


def check_disk_move(
    move: DiskMove, snapshot: Snapshot, limits: Limits
) -> Rejection | None:
    """Return why *move* must not start, or None.

    Args:
        move: Move of a disk that would start now.
        snapshot: Current state of the cluster.
        limits: Limits of the operator.
    """
    context = DiskMoveContext(move, snapshot, limits)
    for reason, find_problem in _DISK_MOVE_CHECKS:
        if detail := find_problem(context):
            return Rejection(reason, detail)
    return None


def _stale(context: DiskMoveContext) -> str | None:
    """Return the change since the move was planned, if any."""
    move = context.move
    guest = context.snapshot.guests.get(move.guest)
    if guest is None or move.node not in context.snapshot.nodes:
        return f"{move.guest}: no longer in the cluster, or {move.node} is not"
    if guest.node != move.node:
        return f"{guest.id}: expected on {move.node}, is on {guest.node}"
    disk = disk_named(guest, move.disk)
    if disk is None:
        return f"{guest.id}: no disk {move.disk}"
    if disk.storage != move.source_storage:
        return (
            f"{guest.id}: disk {move.disk}: expected on {move.source_storage}, is on "
            f"{disk.storage}"
        )
    if move.target_storage == disk.storage:
        return f"{guest.id}: disk {move.disk}: already on {disk.storage}"
    return _busy(guest)


def _busy(guest: Guest) -> str | None:
    """Return why no disk of *guest* can be moved now, if so."""
    if guest.migrating_to is not None:
        return f"{guest.id}: already migrating to {guest.migrating_to}"
    if guest.moving_disk is not None:
        disk = guest.moving_disk
        return f"{guest.id}: disk {disk.name} is being moved to {disk.moving_to}"
    if guest.state not in (GuestState.RUNNING, GuestState.STOPPED):
        return f"{guest.id}: expected state running or stopped, got {guest.state}"
    return None


def _unreachable(context: DiskMoveContext) -> str | None:
    node = context.snapshot.nodes.get(context.move.node)
    if node is None or node.state is not NodeState.UNKNOWN:
        return None
    return f"{node.id}: unreachable, state of {context.move.guest} is unknown"


def _offline(context: DiskMoveContext) -> str | None:
    if not context.node.online:
        return f"{context.node.id}: expected state online, got {context.node.state}"
    return None


def _excluded(context: DiskMoveContext) -> str | None:
    """Return the rule by which nothing of the guest is moved, if any."""
    for rule in context.snapshot.rules:
        if isinstance(rule, TagExclusion) and context.guest.tags & rule.tags:
            return f'{context.guest.id}: excluded from migration by the rule "{rule}"'
    return None


def _no_group(context: DiskMoveContext) -> str | None:
    if context.group is not None:
        return None
    move = context.move
    return (
        f"{move.guest}: no group in limits.storage_groups contains "
        f"{move.source_storage} and {move.target_storage}"
    )


def _locked(context: DiskMoveContext) -> str | None:
    lock = context.guest.lock
    return None if lock is None else f"{context.guest.id}: locked: {lock}"


def _missing(context: DiskMoveContext) -> str | None:
    """Return the node that the guest could not use any more, if any."""
    move = context.move
    source = context.node.storage(move.source_storage)
    target = context.node.storage(move.target_storage)
    if target is None:
        return f"{move.node}: no storage {move.target_storage}"
    if source is None or source.shared is None or target.shared is None:
        return (
            f"{move.node}: unknown whether {move.source_storage} and "
            f"{move.target_storage} are shared"
        )
    if source.shared and not target.shared:
        return f"{target.id}: a storage of {move.node} alone, unlike {source.id}"
    for node in _usable_nodes(source, context):
        if node.storage(move.target_storage) is None:
            return f"{node.id}: no storage {move.target_storage}, unlike {source.id}"
    return None


def _usable_nodes(source: Storage, context: DiskMoveContext) -> Iterator[Node]:
    """Yield the other nodes that the guest can use with its disk on *source*."""
    if not (source.shared or context.limits.migrate_local_disks):
        return
    for node in context.snapshot.nodes.values():
        if node.storage(source.id) is not None:
            yield node


def _full(context: DiskMoveContext) -> str | None:
    """Return why the disk does not fit on the target below the threshold, if so.

    Copies in progress count in full. Unknown sizes and unknown free space do not
    suffice.
    """
    move, disk = context.move, context.disk
    target = context.node.storage(move.target_storage)
    if disk.size is None:
        return f"{move.guest}: size of disk {move.disk} is unknown"
    if target is None or target.free is None or target.capacity is None:
        return f"{move.node}: free space of {move.target_storage} is unknown"
    place = storage_place(move.target_storage, context.node)
    needed = incoming_bytes(context.snapshot).get(place, 0) + disk.size
    threshold = 1.0 if context.group is None else context.group.threshold
    free = int(threshold * target.capacity) - (target.capacity - target.free)
    if needed <= free:
        return None
    return (
        f"{move.node}: {format_memory(max(0, free))} free on {target.id} up to "
        f"{threshold:.0%} of it, copies need {format_memory(needed)}"
    )


# In order: the first failure is reported, and a check may assume that the checks
# before it have passed.
_DISK_MOVE_CHECKS: Sequence[
    tuple[RejectionReason, Callable[[DiskMoveContext], str | None]]
] = (
    (RejectionReason.NODE_UNREACHABLE, _unreachable),
    (RejectionReason.STALE_PLAN, _stale),
    (RejectionReason.MIGRATION_NOT_ALLOWED, _excluded),
    (RejectionReason.GUEST_LOCKED, _locked),
    (RejectionReason.TARGET_OFFLINE, _offline),
    (RejectionReason.DISK_MOVE_NOT_ALLOWED, _no_group),
    (RejectionReason.STORAGE_MISSING, _missing),
    (RejectionReason.INSUFFICIENT_STORAGE, _full),
)
