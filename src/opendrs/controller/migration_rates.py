"""Bandwidth and dirty rates of past live migrations, for the next estimates."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from opendrs.model import GuestId, LiveMigration, NodeId, Snapshot
from opendrs.ports import Outcome, StepRecord, Store

LOOKBACK = timedelta(days=7)  # age of the migrations that count
MIN_MIGRATIONS = 5  # fewer are not enough for a bandwidth
MIN_MEMORY = 256 << 20  # bytes; a smaller guest is slow because of constant costs
QUANTILE = 0.9  # of the bandwidths: most others were slowed down by writing guests
DIGITS = 2  # significant ones, so that similar migrations give the same bandwidth


def add_migration_rates(snapshot: Snapshot, store: Store) -> Snapshot:
    """Return *snapshot* with the rates of the live migrations in *store*.

    A guest has the dirty rate of its last migration, unless the platform measures it.

    Raises:
        StoreError: The store cannot be read.
    """
    records = [
        record
        for record in store.recent(snapshot.taken_at - LOOKBACK)
        if isinstance(record.action, LiveMigration) and record.outcome is Outcome.DONE
    ]
    if not records:
        return snapshot
    rates = last_dirty_rates(records)
    guests = {
        name: replace(guest, dirty_rate=rates[name])
        for name, guest in snapshot.guests.items()
        if guest.dirty_rate is None and name in rates
    }
    return replace(
        snapshot,
        guests={**snapshot.guests, **guests},
        bandwidth=snapshot.bandwidth or observed_bandwidth(records),
    )


def last_dirty_rates(records: Iterable[StepRecord]) -> dict[GuestId, float]:
    """Return the dirty rate of the last migration of each guest that has one."""
    rates: dict[GuestId, float] = {}
    for record in sorted(records, key=lambda each: each.intended_at):
        action, rate = record.action, record.rates.dirty_rate
        if isinstance(action, LiveMigration) and rate is not None:
            rates[action.guest] = rate
    return rates


def observed_bandwidth(records: Iterable[StepRecord]) -> float | None:
    """Return the bytes per second of finished live migrations over one link.

    The bandwidth of one migration is the one that the platform reported, or else the
    memory of the guest by the duration. Migrations that shared a node with another one
    do not count. The result is a high quantile; None if there are too few migrations.

    Args:
        records: Live migrations that are done.
    """
    on_node: defaultdict[NodeId, list[StepRecord]] = defaultdict(list)
    for record in records:
        if isinstance(record.action, LiveMigration):
            on_node[record.action.source].append(record)
            on_node[record.action.target].append(record)
    shared = {
        (each.run, each.step)
        for of_node in on_node.values()
        for each in _overlapping(of_node)
    }
    found = sorted(
        bandwidth
        for record in records
        if (record.run, record.step) not in shared
        and (bandwidth := _bandwidth(record)) is not None
    )
    if len(found) < MIN_MIGRATIONS:
        return None
    return _rounded(found[math.ceil(QUANTILE * len(found)) - 1])


def _overlapping(records: Sequence[StepRecord]) -> Iterable[StepRecord]:
    """Yield the records of one node that ran at the same time as another one."""
    ordered = sorted(records, key=lambda each: each.intended_at)
    longest: StepRecord | None = None
    for record in ordered:
        if (
            longest is not None
            and longest.ended_at is not None
            and record.intended_at < longest.ended_at
        ):
            yield longest
            yield record
        if longest is None or _end(record) > _end(longest):
            longest = record


def _end(record: StepRecord) -> float:
    return (record.ended_at or record.intended_at).timestamp()


def _bandwidth(record: StepRecord) -> float | None:
    """Return the bandwidth of a migration; None if unknown or of a small guest."""
    if record.rates.bandwidth is not None:
        return record.rates.bandwidth or None
    memory = None if record.load is None else record.load.guest.memory
    if record.ended_at is None or memory is None or memory < MIN_MEMORY:
        return None
    seconds = (record.ended_at - record.intended_at).total_seconds()
    return memory / seconds if seconds > 0 else None


def _rounded(value: float) -> float:
    return round(value, DIGITS - 1 - math.floor(math.log10(value)))
