"""Checks of further loads, such as network traffic, against their thresholds.

A target without a capacity of a load is not limited by it. A migrating guest counts on
its target in full, however much of it has arrived.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from opendrs.model import FurtherLoad, Guest, Limits, Migration, Node, Snapshot

ROUNDING = 1e-6  # of the capacity; plans are made with whole steps that are smaller


def find_unmeasured_load(
    migrations: Sequence[Migration], snapshot: Snapshot, limits: Limits
) -> str | None:
    """Return the target or the guest whose limited load was not measured, or None.

    Args:
        migrations: Migrations to start; their guests and nodes are in the snapshot.
        snapshot: Current state of the cluster.
        limits: Limits of the operator.
    """
    for load, _, target in _limited_targets(migrations, snapshot, limits):
        if load.name not in target.loads:
            return f"{target.id}: {load.name} load was not measured"
        for guest in _arriving(target, migrations, snapshot):
            if load.name not in guest.loads:
                return f"{guest.id}: {load.name} load was not measured"
    return None


def find_exceeded_load(
    migrations: Sequence[Migration], snapshot: Snapshot, limits: Limits
) -> str | None:
    """Return the target whose load would exceed its threshold, or None.

    `find_unmeasured_load` has found nothing.
    """
    for load, threshold, target in _limited_targets(migrations, snapshot, limits):
        capacity = target.load_capacities[load.name]
        present = target.loads[load.name]
        arriving = math.fsum(
            guest.loads[load.name] for guest in _arriving(target, migrations, snapshot)
        )
        if present + arriving > (threshold + ROUNDING) * capacity:
            return (
                f"{target.id}: {load.name} load {present / capacity:.1%} and "
                f"{arriving / capacity:.1%} arriving, allowed are {threshold:.1%}"
            )
    return None


def _limited_targets(
    migrations: Sequence[Migration], snapshot: Snapshot, limits: Limits
) -> Iterator[tuple[FurtherLoad, float, Node]]:
    """Yield each limited load, its threshold, and each target with a capacity of it."""
    targets = sorted({migration.target for migration in migrations})
    for load in limits.loads:
        if load.threshold is None:
            continue
        for node in map(snapshot.nodes.__getitem__, targets):
            if load.name in node.load_capacities:
                yield load, load.threshold, node


def _arriving(
    target: Node, migrations: Sequence[Migration], snapshot: Snapshot
) -> Iterator[Guest]:
    """Yield the guests that are migrating to *target*, or will be."""
    starting = {each.guest for each in migrations if each.target == target.id}
    for guest in snapshot.guests.values():
        is_running = guest.is_active and guest.migrating_to == target.id
        if guest.id in starting or is_running:
            yield guest
