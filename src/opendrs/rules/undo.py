"""Rules against migrations that undo recent ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Literal, TypeVar

from opendrs.model import (
    GuestId,
    MigrationLoad,
    Node,
    NodeAffinity,
    NodeId,
    PastMigration,
    Pin,
    Protection,
    Snapshot,
    Usage,
)
from opendrs.rules.failed_migrations import HOLD_ORIGIN
from opendrs.rules.failure_sets import TOLERANCE_ORIGIN

ORIGIN = "undo horizon"
T = TypeVar("T", int, float)


def undo_rules(
    snapshot: Snapshot, past: Iterable[PastMigration], protection: Protection
) -> tuple[NodeAffinity, ...]:
    """Return the strict rules that guests do not return to nodes they left.

    A guest may return once the target of its migration is busier, compared with the
    source, than just after the migration, by more than the noise.

    Args:
        snapshot: The cluster.
        past: Migrations that were done.
        protection: Horizon and noise.

    Returns:
        One rule for each node, in the order of their names.
    """
    left: defaultdict[NodeId, set[GuestId]] = defaultdict(set)
    for each in _recent(snapshot, past, protection):
        if not _load_changed(each, snapshot, protection.noise):
            left[each.migration.source].add(each.migration.guest)
    return tuple(
        NodeAffinity(
            guests=frozenset(guests),
            nodes=dict.fromkeys(sorted(set(snapshot.nodes) - {node}), 0),
            name=f"no return to {node}: migrated from it less than "
            f"{_period(protection.undo_horizon)} ago",
            origin=ORIGIN,
        )
        for node, guests in sorted(left.items())
        if set(snapshot.nodes) - {node}
    )


def _period(seconds: float) -> str:
    """Return a number of seconds in the largest unit of which it is a multiple."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:g} s"


def without_undo_rules(snapshot: Snapshot, *, keeps_held: bool = False) -> Snapshot:
    """Return *snapshot* without these rules, for repairs, and for what operators drain.

    Guests whose migrations failed are not held back then, but do not go to the same
    targets.

    Args:
        snapshot: The cluster.
        keeps_held: Guests whose migrations failed are held back nevertheless.
    """
    rules = tuple(
        rule
        for rule in snapshot.rules
        if not (
            (isinstance(rule, NodeAffinity) and rule.origin == ORIGIN)
            or (isinstance(rule, Pin) and rule.origin == HOLD_ORIGIN and not keeps_held)
        )
    )
    return replace(snapshot, rules=rules)


def without_migration_rules(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* without rules that concern migrations only, for restarts.

    These are the rules against migrations that undo recent ones, after failed
    migrations, and against plans after which fewer failures would be tolerated.
    """
    origins = (ORIGIN, HOLD_ORIGIN, TOLERANCE_ORIGIN)
    rules = tuple(rule for rule in snapshot.rules if rule.origin not in origins)
    return replace(snapshot, rules=rules)


def _recent(
    snapshot: Snapshot, past: Iterable[PastMigration], protection: Protection
) -> Iterator[PastMigration]:
    """Yield the migrations within the horizon whose guests are still elsewhere."""
    oldest = snapshot.taken_at - timedelta(seconds=protection.undo_horizon)
    for each in past:
        guest = snapshot.guests.get(each.migration.guest)
        if guest is None or each.migration.source not in snapshot.nodes:
            continue
        if each.at > oldest and each.migration.source not in guest.occupied_nodes:
            yield each


def _load_changed(past: PastMigration, snapshot: Snapshot, noise: float) -> bool:
    """Return True if the load of a resource changed more than *noise* since.

    Compared is the excess of the target over the source. It is unknown, and has not
    changed, if any of the measurements is missing.
    """
    if past.load is None:
        return False
    source = snapshot.nodes[past.migration.source]
    target = snapshot.nodes.get(past.migration.target)
    if target is None:
        return True
    before = _excess(*_after(past.load), source, target)
    now = _excess(source.usage, target.usage, source, target)
    return any(
        later - earlier > noise
        for earlier, later in zip(before, now, strict=True)
        if earlier is not None and later is not None
    )


def _after(load: MigrationLoad) -> tuple[Usage, Usage]:
    """Return the expected use of source and target just after a migration.

    The guest may have been measured busier than its node, at another time.
    """
    guest = load.guest
    source = Usage(
        _sum(load.source.cpu, guest.cpu, -1), _sum(load.source.memory, guest.memory, -1)
    )
    target = Usage(
        _sum(load.target.cpu, guest.cpu, 1), _sum(load.target.memory, guest.memory, 1)
    )
    return source, target


def _sum(one: T | None, other: T | None, sign: Literal[1, -1]) -> T | None:
    if one is None or other is None:
        return None
    return max(one + sign * other, type(one)(0))


def _excess(
    source_usage: Usage, target_usage: Usage, source: Node, target: Node
) -> tuple[float | None, float | None]:
    """Return how much busier the target is, in CPU and memory, as fractions."""
    if source.capacity is None or target.capacity is None:
        return None, None
    cpu = _difference(
        (target_usage.cpu, target.capacity.cpu), (source_usage.cpu, source.capacity.cpu)
    )
    memory = _difference(
        (target_usage.memory, target.capacity.memory),
        (source_usage.memory, source.capacity.memory),
    )
    return cpu, memory


def _difference(
    one: tuple[float | None, float], other: tuple[float | None, float]
) -> float | None:
    if one[0] is None or other[0] is None or not (one[1] and other[1]):
        return None
    return one[0] / one[1] - other[0] / other[1]
