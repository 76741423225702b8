"""Guests whose last migrations failed, from the store.

Without a pause, a policy would select the same guest in each cycle, and the migration
would load both nodes until its timeout each time.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from opendrs.controller.protection import has_failed
from opendrs.model import (
    MAX_RETRY_DELAY,
    DiskMove,
    FailedMigration,
    GuestId,
    Limits,
    Protection,
    Snapshot,
    Transfer,
)
from opendrs.ports import Outcome, StepRecord, Store
from opendrs.rules import hold_rules

MAX_DETAIL = 160  # characters of the reason in a rule
_LOOKBACK = 6 * MAX_RETRY_DELAY  # seconds; enough failures for the longest delay


def hold_failed_guests(
    snapshot: Snapshot, store: Store, protection: Protection, limits: Limits
) -> Snapshot:
    """Return *snapshot* with rules that hold back guests whose migrations failed.

    Args:
        snapshot: The cluster.
        store: Contains the past migrations.
        protection: Time in which a guest is held back.
        limits: Contains the timeout of migrations.

    Raises:
        StoreError: The store cannot be read.
    """
    if not protection.retry_delay:
        return snapshot
    lookback = timedelta(seconds=max(_LOOKBACK, protection.retry_delay))
    records = store.recent(snapshot.taken_at - lookback)
    failed = failed_migrations(records, limits, snapshot.taken_at)
    rules = tuple(hold_rules(snapshot, failed, protection))
    return replace(snapshot, rules=(*snapshot.rules, *rules)) if rules else snapshot


def failed_migrations(
    records: Iterable[StepRecord], limits: Limits, now: datetime
) -> tuple[FailedMigration, ...]:
    """Return the last migration of each guest that failed, without a success since.

    Migrations that did not start, or that an operator aborted, do not count. A process
    that is killed before its request leaves the record of a failed migration without a
    task; so does a refused request. The first of these in a row therefore does not
    count either: it is retried at once. Moves of disks count by themselves.

    Args:
        records: Records of steps, the oldest first.
        limits: Contains the timeout of migrations.
        now: The time; a later end counts as now.
    """
    found: dict[tuple[GuestId, bool], FailedMigration] = {}
    retried: set[tuple[GuestId, bool]] = set()
    for record in records:
        action = record.action
        if not isinstance(action, Transfer):
            continue
        moves_disk = isinstance(action, DiskMove)
        key = action.guest, moves_disk
        if record.outcome is Outcome.DONE:
            found.pop(key, None)
            retried.discard(key)
        if not has_failed(record, limits):
            continue
        if record.task is None and key not in retried:
            retried.add(key)
            continue
        before = found.pop(key, None)
        targets = frozenset() if moves_disk else frozenset({action.target})
        found[key] = FailedMigration(
            migration=action,
            at=min(record.ended_at or record.intended_at, now),
            # The rest of the detail is where the guest was then.
            detail=textwrap.shorten(record.detail.partition("; ")[0], MAX_DETAIL),
            targets=targets if before is None else targets | before.targets,
            failures=1 if before is None else before.failures + 1,
        )
    return tuple(found.values())
