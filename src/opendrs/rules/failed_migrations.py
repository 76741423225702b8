"""Rules that guests whose migrations failed are not migrated again for a time.

A guest that writes memory faster than it is copied would fail again, on any target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from opendrs.model import (
    DiskMove,
    FailedMigration,
    NodeAffinity,
    Pin,
    Protection,
    Snapshot,
    format_count,
    format_list,
)

HOLD_ORIGIN = "failed migration"


def hold_rules(
    snapshot: Snapshot, failed: Iterable[FailedMigration], protection: Protection
) -> Iterator[Pin | NodeAffinity]:
    """Yield the rules that hold guests back after failed migrations.

    For each guest there is a pin, and a strict rule that excludes the targets of the
    failed migrations. Repairs and drains ignore the pin, so that they use another
    target. A guest that has left the source of its failed migration is free. Its disks
    are not moved while it has the pin.

    Args:
        snapshot: The cluster.
        failed: The last migration of guests, if it failed.
        protection: Time in which a guest is held back.
    """
    for each in failed:
        guest = snapshot.guests.get(each.migration.guest)
        delay = timedelta(seconds=protection.retry_delay_after(each.failures))
        until = each.at + delay
        if guest is None or until <= snapshot.taken_at:
            continue
        if guest.node != each.migration.source or guest.node in each.targets:
            continue
        guests = frozenset({guest.id})
        yield Pin(guests=guests, name=_hold_name(each, until), origin=HOLD_ORIGIN)
        if not each.targets:
            continue
        nodes = sorted(set(snapshot.nodes) - each.targets)
        yield NodeAffinity(
            guests=guests,
            nodes=dict.fromkeys(nodes, 0),
            name=f"{guest.id} not to {format_list(sorted(each.targets))} until "
            f"{_time_text(until)}: its migration there failed",
            origin=HOLD_ORIGIN,
        )


def _hold_name(failed: FailedMigration, until: datetime) -> str:
    action = failed.migration
    noun, tried = "migration", f"migration to {action.target}"
    if isinstance(action, DiskMove):
        noun, tried = "move", f"move of disk {action.disk} to {action.target_storage}"
    count = format_count(failed.failures, noun)
    times = "" if failed.failures == 1 else f", after {count} that failed in a row"
    detail = f": {failed.detail}" if failed.detail else ""
    return (
        f"held back until {_time_text(until)}{times}: {tried} failed at "
        f"{_time_text(failed.at)}{detail}"
    )


def _time_text(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
