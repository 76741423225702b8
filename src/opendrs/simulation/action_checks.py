"""Checks of actions in a simulated data center."""

from __future__ import annotations

from collections.abc import Mapping

from opendrs.errors import PlatformError, UnsupportedError
from opendrs.model import (
    Action,
    DiskMove,
    Guest,
    GuestId,
    GuestState,
    LiveMigration,
    Migration,
    Mobility,
    Node,
    NodeId,
    PowerOff,
    PowerOn,
    Relocation,
    copied_space,
    disk_named,
    missing_storages,
    needed_storages,
)


def check_action(
    action: Action, nodes: Mapping[NodeId, Node], guests: Mapping[GuestId, Guest]
) -> None:
    """Check that *action* can start, as a hypervisor would.

    Raises:
        PlatformError: The action is not possible in the current state.
        UnsupportedError: The guest cannot be migrated in this way.
    """
    if isinstance(action, PowerOn | PowerOff):
        _check_power_action(action, nodes, guests)
        return
    if isinstance(action, DiskMove):
        _check_disk_move(action, nodes, guests)
        return
    _check_migration(action, guests.get(action.guest))
    target = nodes.get(action.target)
    if target is None or not target.online or target.id == action.source:
        raise PlatformError(f"{action.guest} cannot be moved to {action.target}")
    _check_storages(guests[action.guest], target, nodes, guests)


def _check_disk_move(
    move: DiskMove, nodes: Mapping[NodeId, Node], guests: Mapping[GuestId, Guest]
) -> None:
    """Check that the disk is there, and fits on its target with other moving disks.

    Raises:
        PlatformError: It is not, or does not.
    """
    guest = guests.get(move.guest)
    if guest is None or guest.node != move.node:
        raise PlatformError(f"{move.guest} is not on {move.node}")
    disk = disk_named(guest, move.disk)
    if disk is None or disk.storage != move.source_storage:
        raise PlatformError(f"{guest.id} has no disk {move.disk} there")
    if guest.migrating_to is not None or guest.moving_disk is not None:
        raise PlatformError(f"{guest.id} or a disk of it is already being moved")
    listed = {each.id: each for each in nodes[move.node].storages or ()}
    target = listed.get(move.target_storage)
    if target is None or target.id == disk.storage:
        raise PlatformError(f"{move.disk} cannot be moved to {move.target_storage}")
    arriving = sum(
        other.size or 0
        for each in guests.values()
        for other in each.disks or ()
        if other.moving_to == target.id and (target.shared or each.node == move.node)
    )
    if target.free is not None and (disk.size or 0) + arriving > target.free:
        raise PlatformError(f"{move.node}: storage {target.id} is full")


def _check_storages(
    guest: Guest,
    target: Node,
    nodes: Mapping[NodeId, Node],
    guests: Mapping[GuestId, Guest],
) -> None:
    """Check that *target* has the storages of *guest*, and space for its local disks.

    Raises:
        PlatformError: A storage is missing, or full with the copies in progress.
    """
    source = nodes[guest.node]
    needed = needed_storages(guest.disks, source.storages)
    if missing := missing_storages(needed, target.storages):
        raise PlatformError(f"{target.id} has no storage {min(missing)}")
    arriving = [
        copied_space(each, nodes[each.node])
        for each in guests.values()
        if each.migrating_to == target.id
    ]
    free = {each.id: each.free for each in target.storages or ()}
    for name, size in copied_space(guest, source).items():
        reserved = sum(each.get(name) or 0 for each in arriving)
        left = free.get(name)
        if left is not None and (size or 0) + reserved > left:
            raise PlatformError(f"{target.id}: storage {name} is full")


def _check_migration(migration: Migration, guest: Guest | None) -> None:
    if guest is None or guest.node != migration.source:
        raise PlatformError(f"{migration.guest} is not on {migration.source}")
    if guest.migrating_to is not None or guest.moving_disk is not None:
        raise PlatformError(f"{guest.id} is already being migrated, or a disk of it")
    is_relocation = isinstance(migration, Relocation)
    expected = GuestState.STOPPED if is_relocation else GuestState.RUNNING
    if guest.state is not expected:
        raise PlatformError(f"{guest.id} is not {expected}: its state is {guest.state}")
    requires_cold = (
        isinstance(migration, LiveMigration)
        and guest.effective_mobility is Mobility.COLD
    )
    if requires_cold or guest.effective_mobility is Mobility.NONE:
        detail = guest.mobility_detail or "the platform gives no reason"
        raise UnsupportedError(f"{guest.id} cannot be moved: {detail}")


def _check_power_action(
    action: PowerOn | PowerOff,
    nodes: Mapping[NodeId, Node],
    guests: Mapping[GuestId, Guest],
) -> None:
    if action.node not in nodes:
        raise PlatformError(f"{action.node} is unknown")
    occupied = any(action.node in guest.occupied_nodes for guest in guests.values())
    if isinstance(action, PowerOff) and occupied:
        raise PlatformError(f"{action.node} is not empty")
