"""Which guests may be moved, and which move as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opendrs.model import (
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Limits,
    Migration,
    Mobility,
    Move,
    NodeId,
    Relocation,
    Snapshot,
    first_few,
)
from opendrs.rules import CompiledRules
from opendrs.scoring import UsageMode, demand

Unit = tuple[Guest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which guests a policy is willing to move.

    Attributes:
        mode: What counts as their usage; it must be known.
        relocate: Whether containers may be stopped, moved and started.
        only_ha_managed: Whether guests that no HA manager knows stay.
        unlimited: Whether guests without cpu limit may move in STATIC mode. They
            weigh a whole node before and after, and nothing on the way, so that
            what a move is expected to change does not come true.
    """

    mode: UsageMode
    relocate: bool
    only_ha_managed: bool = False
    unlimited: bool = False


@dataclass(frozen=True, slots=True)
class Units:
    """What may be moved, and who stays for what reason.

    Attributes:
        movable: Guests that move as one, by the smallest of their names.
        left_alone: Why each guest that stays does so; stopped ones are no
            subject.
    """

    movable: Mapping[GuestId, Unit]
    left_alone: Mapping[GuestId, str]


def units(
    snapshot: Snapshot, rules: CompiledRules, limits: Limits, selection: Selection
) -> Units:
    """Return what may be moved in *snapshot*.

    Guests that a strict affinity rule joins move as one, if all of them but the
    stopped are on one node and may be moved; as the bundles of Proxmox VE do.
    """
    left_alone = obstacles(snapshot, rules, limits, selection)
    movable: dict[GuestId, Unit] = {}
    for bundle in bundles(snapshot, rules):
        leader = bundle[0].id
        why = _why_not_together(bundle, left_alone)
        if why is None:
            movable[leader] = bundle
        else:
            left_alone.update(
                {guest.id: why for guest in bundle if guest.id not in left_alone}
            )
    return Units(movable, left_alone)


def obstacles(
    snapshot: Snapshot, rules: CompiledRules, limits: Limits, selection: Selection
) -> dict[GuestId, str]:
    """Return why guests may not be moved, each taken by itself; stopped ones apart."""
    return {
        name: why
        for name, guest in sorted(snapshot.guests.items())
        if guest.present
        and (why := _why_not(guest, snapshot, rules, limits, selection)) is not None
    }


def moves_of(unit: Unit, target: NodeId) -> tuple[Move, ...]:
    """Return the moves that take *unit* to *target*."""
    return tuple(
        Migration(guest.id, guest.node, target)
        if guest.mobility is Mobility.LIVE
        else Relocation(guest.id, guest.node, target)
        for guest in unit
    )


def summary(left_alone: Mapping[GuestId, str]) -> tuple[str, ...]:
    """Return a line for each reason to leave guests alone, and who they are."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for guest, why in sorted(left_alone.items()):
        by_reason[why].append(guest)
    return tuple(
        f"left alone: {first_few(guests)}: {why}" for why, guests in by_reason.items()
    )


def _why_not(
    guest: Guest,
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    selection: Selection,
) -> str | None:
    return (
        _unfit(guest, snapshot)
        or rules.fixed.get(guest.id)
        or _resting(guest, snapshot, limits)
        or _unwilling(guest, selection)
        or _immobility(guest, relocate=selection.relocate)
    )


def _unfit(guest: Guest, snapshot: Snapshot) -> str | None:
    node = snapshot.nodes[guest.node]
    if guest.state is not GuestState.RUNNING:
        return f"guest state {guest.state}"
    if guest.migrating_to is not None:
        for name in guest.locations:
            if not snapshot.nodes[name].reachable:
                return f"it may still be migrating, and {name} does not answer"
        return "it is on the move"
    return None if node.online else f"its node {node.id} is {node.state}"


def _resting(guest: Guest, snapshot: Snapshot, limits: Limits) -> str | None:
    if guest.uptime is not None and guest.uptime < limits.quiet_time:
        return f"it started less than {limits.quiet_time:g} s ago"
    if guest.moved_at is not None:
        # A time in the future is treated as now.
        since = max(0.0, (snapshot.taken_at - guest.moved_at).total_seconds())
        if since < limits.cooldown:
            return f"it was moved less than {limits.cooldown:g} s ago"
    return None


def _unwilling(guest: Guest, selection: Selection) -> str | None:
    if selection.only_ha_managed and guest.ha_managed is False:
        return "it is not managed by the HA manager"
    taken = demand(guest, selection.mode)
    if taken is None:
        return "its usage is not known"
    if selection.mode is UsageMode.STATIC and not (taken.cpu or selection.unlimited):
        return "it has no cpu limit to be weighed by"
    return None


def _immobility(guest: Guest, *, relocate: bool) -> str | None:
    because = f": {guest.obstacle}" if guest.obstacle else ""
    if guest.mobility is Mobility.NEVER:
        return f"it cannot move{because}"
    if guest.mobility is Mobility.STOPPED:
        if guest.kind is not GuestKind.CONTAINER:
            return f"it cannot move live{because}"
        if not relocate:
            return "it is a container, which would have to be stopped to move"
    return None


def bundles(snapshot: Snapshot, rules: CompiledRules) -> Iterable[Unit]:
    """Yield the guests that must move as one, in order of name; stopped ones apart."""
    seen: set[GuestId] = set()
    for name, guest in sorted(snapshot.guests.items()):
        if name in seen or not guest.present:
            continue
        if name not in rules.together:
            yield (guest,)
            continue
        members = (snapshot.guests[member] for member in sorted(rules.together[name]))
        bundle = tuple(member for member in members if member.present)
        seen.update(member.id for member in bundle)
        yield bundle


def _why_not_together(bundle: Unit, left_alone: Mapping[GuestId, str]) -> str | None:
    for guest in bundle:
        if guest.id in left_alone:
            if len(bundle) == 1:
                return left_alone[guest.id]
            return f"it moves only with {guest.id}, and {left_alone[guest.id]}"
    if len({guest.node for guest in bundle}) > 1:
        return "it must be together with guests that are on other nodes"
    return None
