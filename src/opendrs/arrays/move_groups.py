"""Guests that migrate as one, and those that a policy skips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opendrs.arrays.skipped_guests import SkippedGuest, SkipReason
from opendrs.metrics import LoadModel, demand, has_known_load
from opendrs.model import (
    ColdMigration,
    FurtherLoad,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Limits,
    LiveMigration,
    Migration,
    Mobility,
    Node,
    NodeId,
    Pin,
    Snapshot,
    TagExclusion,
    local_disks,
)
from opendrs.rules import HOLD_ORIGIN, CompiledRules, compared_loads

MoveGroup = tuple[Guest, ...]


_REQUIRED_METRIC = {LoadModel.STATIC: "limit", LoadModel.DYNAMIC: "usage"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MobilityFilter:
    """Restrictions of a policy on the guests that it migrates.

    Attributes:
        load_model: Load model; the usage of a guest in this model must be known.
        allow_cold_migration: Whether containers may be stopped, moved and started.
        only_ha_managed: Whether guests that are not managed by the HA manager are
            skipped.
        include_unlimited: Whether guests without CPU limit may migrate in the STATIC
            model. They count as a whole node on source and target, but as nothing in
            the demand of a move. The expected change of the load is then not reached.
    """

    load_model: LoadModel
    allow_cold_migration: bool
    only_ha_managed: bool = False
    include_unlimited: bool = False


@dataclass(frozen=True, slots=True)
class MoveGroups:
    """Move groups that may be migrated, and skipped guests.

    Attributes:
        movable: Guests that migrate as one, by the smallest of their names.
        skipped: Why each skipped guest is not migrated; stopped guests are absent.
    """

    movable: Mapping[GuestId, MoveGroup]
    skipped: Mapping[GuestId, SkippedGuest]


def compile_move_groups(
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    mobility_filter: MobilityFilter,
) -> MoveGroups:
    """Return the move groups of *snapshot* and the skipped guests.

    Guests of a strict affinity rule migrate as one, like the bundles of Proxmox VE. All
    of them except stopped ones must be on one node and migratable.
    """
    skipped = skip_reasons(snapshot, rules, limits, mobility_filter)
    movable: dict[GuestId, MoveGroup] = {}
    for group in move_groups(snapshot, rules):
        leader = group[0].id
        reason = _group_reason(group, skipped)
        if reason is None:
            movable[leader] = group
        else:
            skipped.update(
                {guest.id: reason for guest in group if guest.id not in skipped}
            )
    return MoveGroups(movable, skipped)


def skip_reasons(
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    mobility_filter: MobilityFilter,
) -> dict[GuestId, SkippedGuest]:
    """Return why guests must not migrate, apart from their groups.

    Stopped guests are absent.
    """
    loads = compared_loads(snapshot, limits)
    of_node = {
        name: _node_reason(node, mobility_filter.load_model)
        for name, node in snapshot.nodes.items()
    }
    return {
        name: reason
        for name, guest in sorted(snapshot.guests.items())
        if guest.is_active
        and (
            reason := _state_reason(guest, snapshot)
            or of_node[guest.node]
            or _skip_reason(guest, snapshot, rules, limits, mobility_filter)
            or _load_reason(guest, loads)
        )
        is not None
    }


def migrations_of(group: MoveGroup, target: NodeId) -> tuple[Migration, ...]:
    """Return the migrations that take *group* to *target*."""
    return tuple(
        LiveMigration(guest.id, guest.node, target)
        if guest.effective_mobility is Mobility.LIVE
        else ColdMigration(guest.id, guest.node, target)
        for guest in group
    )


def _skip_reason(
    guest: Guest,
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    mobility_filter: MobilityFilter,
) -> SkippedGuest | None:
    # A contradiction comes last: a repair may move a guest in spite of it.
    return (
        _exclusion_reason(guest, snapshot, rules)
        or _cooldown_reason(guest, snapshot, limits)
        or _filter_reason(guest, mobility_filter)
        or _mobility_reason(
            guest, allow_cold_migration=mobility_filter.allow_cold_migration
        )
        or local_disk_reason(guest, snapshot, limits)
        or _contradiction_reason(guest, rules)
    )


def _state_reason(guest: Guest, snapshot: Snapshot) -> SkippedGuest | None:
    if guest.state is not GuestState.RUNNING:
        return SkippedGuest(SkipReason.NOT_RUNNING, f"guest state {guest.state}")
    if guest.migrating_to is not None:
        detail = "migration in progress"
        for name in guest.occupied_nodes:
            if not snapshot.nodes[name].reachable:
                detail = f"migration in progress, node {name} unreachable"
                break
        return SkippedGuest(SkipReason.MIGRATION_IN_PROGRESS, detail)
    if guest.managed_by is not None:
        detail = f"placement managed by {guest.managed_by}"
        return SkippedGuest(SkipReason.MANAGED_ELSEWHERE, detail)
    if (lock := lock_of(guest)) is not None:
        return SkippedGuest(SkipReason.GUEST_LOCKED, lock)
    return None


def _node_reason(node: Node, load_model: LoadModel) -> SkippedGuest | None:
    if not node.online:
        detail = f"state of {node.id}: {node.state}"
        return SkippedGuest(SkipReason.NODE_NOT_ONLINE, detail)
    if not has_known_load(node, load_model):
        return SkippedGuest(SkipReason.NODE_NOT_MEASURED, f"{node.id} is not measured")
    return None


def _exclusion_reason(
    guest: Guest, snapshot: Snapshot, rules: CompiledRules
) -> SkippedGuest | None:
    detail = rules.immovable.get(guest.id)
    if detail is None:
        return None
    # The last matching rule determines the detail as well.
    for rule in reversed(snapshot.rules):
        if isinstance(rule, Pin) and guest.id in rule.guests:
            is_held = rule.origin == HOLD_ORIGIN
            reason = SkipReason.MIGRATION_FAILED if is_held else SkipReason.PINNED
            return SkippedGuest(reason, detail)
        if isinstance(rule, TagExclusion) and rule.applies_to(guest):
            return SkippedGuest(SkipReason.TAG_EXCLUDED, detail)
    return None


def _contradiction_reason(guest: Guest, rules: CompiledRules) -> SkippedGuest | None:
    detail = rules.immovable.get(guest.id)
    if detail is None:
        return None
    return SkippedGuest(SkipReason.CONTRADICTORY_RULES, detail)


def _cooldown_reason(
    guest: Guest, snapshot: Snapshot, limits: Limits
) -> SkippedGuest | None:
    if guest.uptime is not None and guest.uptime < limits.min_uptime:
        detail = f"started less than {limits.min_uptime:g} s ago"
        return SkippedGuest(SkipReason.RECENTLY_STARTED, detail)
    if guest.migrated_at is not None:
        # A time in the future is treated as now.
        elapsed = max(0.0, (snapshot.taken_at - guest.migrated_at).total_seconds())
        if elapsed < limits.cooldown:
            detail = f"migrated less than {limits.cooldown:g} s ago"
            return SkippedGuest(SkipReason.COOLDOWN, detail)
    return None


def _filter_reason(
    guest: Guest, mobility_filter: MobilityFilter
) -> SkippedGuest | None:
    if mobility_filter.only_ha_managed and guest.ha_managed is False:
        detail = "not managed by the HA manager"
        return SkippedGuest(SkipReason.NOT_HA_MANAGED, detail)
    guest_demand = demand(guest, mobility_filter.load_model)
    if guest_demand is None:
        detail = f"{_REQUIRED_METRIC[mobility_filter.load_model]} unknown"
        return SkippedGuest(SkipReason.METRICS_MISSING, detail)
    if mobility_filter.load_model is LoadModel.STATIC and not (
        guest_demand.cpu or mobility_filter.include_unlimited
    ):
        return SkippedGuest(SkipReason.NO_CPU_LIMIT, "no CPU limit")
    return None


def _load_reason(guest: Guest, loads: Sequence[FurtherLoad]) -> SkippedGuest | None:
    for load in loads:
        if load.name not in guest.loads:
            return SkippedGuest(SkipReason.METRICS_MISSING, f"{load.name} load unknown")
    return None


def lock_of(guest: Guest) -> str | None:
    """Return the operation during which *guest* must not be moved, or None."""
    if guest.lock is not None:
        return f"locked: {guest.lock}"
    if (disk := guest.moving_disk) is not None:
        return f"disk {disk.name} is being moved to {disk.moving_to}"
    return None


def local_disk_reason(
    guest: Guest, snapshot: Snapshot, limits: Limits
) -> SkippedGuest | None:
    """Return the local disk for which *guest* must not migrate, or None."""
    if limits.migrate_local_disks or not guest.disks:
        return None
    disks = local_disks(guest.disks, snapshot.nodes[guest.node].storages)
    if not disks:
        return None
    detail = (
        f"disk on {disks[0].storage}, a local storage of {guest.node}, and "
        "migrate_local_disks is off"
    )
    return SkippedGuest(SkipReason.LOCAL_DISKS, detail)


def _mobility_reason(
    guest: Guest, *, allow_cold_migration: bool
) -> SkippedGuest | None:
    suffix = f": {guest.mobility_detail}" if guest.mobility_detail else ""
    if guest.effective_mobility is Mobility.NONE:
        return SkippedGuest(SkipReason.MOBILITY_NONE, f"not migratable{suffix}")
    if guest.effective_mobility is Mobility.COLD:
        if guest.kind is not GuestKind.CONTAINER:
            detail = f"not live-migratable{suffix}"
            return SkippedGuest(SkipReason.MOBILITY_COLD, detail)
        if not allow_cold_migration:
            detail = "container, and cold migration is not allowed"
            return SkippedGuest(SkipReason.MOBILITY_COLD, detail)
    return None


def move_groups(snapshot: Snapshot, rules: CompiledRules) -> Iterable[MoveGroup]:
    """Yield the guests that migrate as one, in order of name, without stopped ones."""
    seen: set[GuestId] = set()
    for name, guest in sorted(snapshot.guests.items()):
        if name in seen or not guest.is_active:
            continue
        if name not in rules.together:
            yield (guest,)
            continue
        members = (snapshot.guests[member] for member in sorted(rules.together[name]))
        group = tuple(member for member in members if member.is_active)
        seen.update(member.id for member in group)
        yield group


def _group_reason(
    group: MoveGroup, skipped: Mapping[GuestId, SkippedGuest]
) -> SkippedGuest | None:
    for guest in group:
        if guest.id in skipped:
            if len(group) == 1:
                return skipped[guest.id]
            detail = f"same move group as {guest.id}: {skipped[guest.id].detail}"
            return SkippedGuest(SkipReason.GROUP_MEMBER_SKIPPED, detail)
    if len({guest.node for guest in group}) > 1:
        detail = "affinity to guests on other nodes"
        return SkippedGuest(SkipReason.GROUP_ON_SEVERAL_NODES, detail)
    return None
