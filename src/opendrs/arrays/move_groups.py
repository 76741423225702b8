"""Guests that migrate as one, and guests that are skipped, with the reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opendrs.metrics import LoadModel, demand
from opendrs.model import (
    ColdMigration,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Limits,
    LiveMigration,
    Migration,
    Mobility,
    NodeId,
    Snapshot,
    format_list,
)
from opendrs.rules import CompiledRules

MoveGroup = tuple[Guest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MobilityFilter:
    """Which guests a policy is willing to move.

    Attributes:
        load_model: What counts as their usage; it must be known.
        allow_cold_migration: Whether containers may be stopped, moved and started.
        only_ha_managed: Whether guests that no HA manager knows stay.
        include_unlimited: Whether guests without cpu limit may move in STATIC mode. They
            weigh a whole node before and after, and nothing on the way, so that
            what a move is expected to change does not come true.
    """

    load_model: LoadModel
    allow_cold_migration: bool
    only_ha_managed: bool = False
    include_unlimited: bool = False


@dataclass(frozen=True, slots=True)
class MoveGroups:
    """What may be moved, and who stays for what reason.

    Attributes:
        movable: Guests that move as one, by the smallest of their names.
        skipped: Why each guest that stays does so; stopped ones are no
            subject.
    """

    movable: Mapping[GuestId, MoveGroup]
    skipped: Mapping[GuestId, str]


def compile_move_groups(
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    mobility_filter: MobilityFilter,
) -> MoveGroups:
    """Return what may be moved in *snapshot*.

    Guests that a strict affinity rule joins move as one, if all of them but the
    stopped are on one node and may be moved; as the bundles of Proxmox VE do.
    """
    skipped = skip_reasons(snapshot, rules, limits, mobility_filter)
    movable: dict[GuestId, MoveGroup] = {}
    for group in move_groups(snapshot, rules):
        leader = group[0].id
        detail = _group_reason(group, skipped)
        if detail is None:
            movable[leader] = group
        else:
            skipped.update(
                {guest.id: detail for guest in group if guest.id not in skipped}
            )
    return MoveGroups(movable, skipped)


def skip_reasons(
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    mobility_filter: MobilityFilter,
) -> dict[GuestId, str]:
    """Return why guests may not be moved, each taken by itself; stopped ones apart."""
    return {
        name: detail
        for name, guest in sorted(snapshot.guests.items())
        if guest.is_active
        and (detail := _skip_reason(guest, snapshot, rules, limits, mobility_filter))
        is not None
    }


def migrations_of(group: MoveGroup, target: NodeId) -> tuple[Migration, ...]:
    """Return the moves that take *group* to *target*."""
    return tuple(
        LiveMigration(guest.id, guest.node, target)
        if guest.effective_mobility is Mobility.LIVE
        else ColdMigration(guest.id, guest.node, target)
        for guest in group
    )


def describe_skipped(skipped: Mapping[GuestId, str]) -> tuple[str, ...]:
    """Return a line for each reason to leave guests alone, and who they are."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for guest, detail in sorted(skipped.items()):
        by_reason[detail].append(guest)
    return tuple(
        f"left alone: {format_list(guests)}: {detail}"
        for detail, guests in by_reason.items()
    )


def _skip_reason(
    guest: Guest,
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    mobility_filter: MobilityFilter,
) -> str | None:
    return (
        _state_reason(guest, snapshot)
        or rules.immovable.get(guest.id)
        or _cooldown_reason(guest, snapshot, limits)
        or _filter_reason(guest, mobility_filter)
        or _mobility_reason(
            guest, allow_cold_migration=mobility_filter.allow_cold_migration
        )
    )


def _state_reason(guest: Guest, snapshot: Snapshot) -> str | None:
    node = snapshot.nodes[guest.node]
    if guest.state is not GuestState.RUNNING:
        return f"guest state {guest.state}"
    if guest.migrating_to is not None:
        for name in guest.occupied_nodes:
            if not snapshot.nodes[name].reachable:
                return f"it may still be migrating, and {name} does not answer"
        return "it is on the move"
    return None if node.online else f"its node {node.id} is {node.state}"


def _cooldown_reason(guest: Guest, snapshot: Snapshot, limits: Limits) -> str | None:
    if guest.uptime is not None and guest.uptime < limits.min_uptime:
        return f"it started less than {limits.min_uptime:g} s ago"
    if guest.migrated_at is not None:
        # A time in the future is treated as now.
        elapsed = max(0.0, (snapshot.taken_at - guest.migrated_at).total_seconds())
        if elapsed < limits.cooldown:
            return f"it was moved less than {limits.cooldown:g} s ago"
    return None


def _filter_reason(guest: Guest, mobility_filter: MobilityFilter) -> str | None:
    if mobility_filter.only_ha_managed and guest.ha_managed is False:
        return "it is not managed by the HA manager"
    guest_demand = demand(guest, mobility_filter.load_model)
    if guest_demand is None:
        return "its usage is not known"
    if mobility_filter.load_model is LoadModel.STATIC and not (
        guest_demand.cpu or mobility_filter.include_unlimited
    ):
        return "it has no cpu limit to be weighed by"
    return None


def _mobility_reason(guest: Guest, *, allow_cold_migration: bool) -> str | None:
    suffix = f": {guest.mobility_detail}" if guest.mobility_detail else ""
    if guest.effective_mobility is Mobility.NONE:
        return f"it cannot move{suffix}"
    if guest.effective_mobility is Mobility.COLD:
        if guest.kind is not GuestKind.CONTAINER:
            return f"it cannot move live{suffix}"
        if not allow_cold_migration:
            return "it is a container, which would have to be stopped to move"
    return None


def move_groups(snapshot: Snapshot, rules: CompiledRules) -> Iterable[MoveGroup]:
    """Yield the guests that must move as one, in order of name; stopped ones apart."""
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


def _group_reason(group: MoveGroup, skipped: Mapping[GuestId, str]) -> str | None:
    for guest in group:
        if guest.id in skipped:
            if len(group) == 1:
                return skipped[guest.id]
            return f"it moves only with {guest.id}, and {skipped[guest.id]}"
    if len({guest.node for guest in group}) > 1:
        return "it must be together with guests that are on other nodes"
    return None
