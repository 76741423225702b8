"""Bandwidth and dirty rates of past migrations in the next estimates."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller.migration_rates import (
    LOOKBACK,
    MIN_MIGRATIONS,
    add_migration_rates,
    observed_bandwidth,
)
from opendrs.model import (
    GIB,
    ColdMigration,
    GuestId,
    MigrationLoad,
    NodeId,
    Plan,
    StepId,
    Usage,
)
from opendrs.planning import estimate_schedule
from opendrs.ports import MigrationRates, Outcome, StepRecord
from opendrs.store import MemoryStore
from support.builders import NOON, cluster
from support.simulated_cluster import (
    SHORT_LIMITS,
    SimulatedCluster,
    migration,
    step,
)

UNUSED = Usage(cpu=0.0, memory=0)


def record(  # noqa: PLR0913 - values of one record
    number: int,
    seconds: float = 10.0,
    *,
    gib: float | None = 1.0,
    rates: MigrationRates = MigrationRates(),  # noqa: B008 - immutable
    guest: str = "vm1",
    ends: tuple[str, str] = ("a", "b"),
    start: float | None = None,
) -> StepRecord:
    """Return a migration that ended before noon, apart from others unless *start*."""
    minutes = number * 10.0 if start is None else start
    intended_at = NOON - timedelta(minutes=minutes)
    used = None if gib is None else Usage(cpu=1.0, memory=int(gib * GIB))
    return StepRecord(
        run="run",
        step=StepId(f"{number}"),
        action=migration(guest, *ends),
        intended_at=intended_at,
        ended_at=intended_at + timedelta(seconds=seconds),
        outcome=Outcome.DONE,
        load=None if used is None else MigrationLoad(used, UNUSED, UNUSED),
        rates=rates,
    )


def test_bandwidth_is_memory_by_duration_of_the_fast_migrations() -> None:
    durations = [8, 8, 40, 10, 20]  # seconds; a guest that writes takes longer

    found = observed_bandwidth([record(i, s) for i, s in enumerate(durations, 1)])

    assert found == pytest.approx(GIB / 8, rel=0.05)


def test_reported_bandwidth_has_precedence() -> None:
    rates = MigrationRates(bandwidth=1.25e9)

    found = observed_bandwidth([record(i, 60, rates=rates) for i in range(1, 6)])

    assert found == 1.2e9  # two significant digits


@pytest.mark.parametrize(
    "records",
    [
        [record(i) for i in range(1, MIN_MIGRATIONS)],
        [record(i, gib=0.1) for i in range(1, 9)],  # constant costs dominate
        [record(i, gib=None) for i in range(1, 9)],
        [record(i, 0.0) for i in range(1, 9)],
        [record(i, 100, start=10 + i) for i in range(1, 9)],  # share both links
        [
            record(i, 100, start=10 + i, ends=("a", f"target {i}")) for i in range(1, 9)
        ],  # share the link of the source
    ],
    ids=["few", "small", "unknown", "instant", "shared", "shared source"],
)
def test_bandwidth_is_unknown(records: list[StepRecord]) -> None:
    assert observed_bandwidth(records) is None


def test_migrations_between_other_nodes_do_not_count_as_shared() -> None:
    records = [
        record(i, 100, start=10.0, ends=(f"source {i}", f"target {i}"))
        for i in range(1, 9)
    ]

    assert observed_bandwidth(records) == pytest.approx(GIB / 100, rel=0.05)


CLUSTER = replace(
    cluster({"a": 0.5, "b": 0.5}, {"vm1": ("a", 0.2), "vm2": ("b", 0.2)}),
    taken_at=NOON,
)


def stored(*records: StepRecord) -> MemoryStore:
    store = MemoryStore()
    for each in records:
        store.write(each)
    return store


def test_guest_has_the_dirty_rate_of_its_last_migration() -> None:
    older = record(2, rates=MigrationRates(dirty_rate=1e6))
    newer = record(1, rates=MigrationRates(dirty_rate=2e6))

    found = add_migration_rates(CLUSTER, stored(newer, older))

    rates = {name: guest.dirty_rate for name, guest in found.guests.items()}
    assert rates == {"vm1": 2e6, "vm2": None}
    assert found.bandwidth is None


def test_measured_rates_have_precedence() -> None:
    vm1 = replace(CLUSTER.guests[GuestId("vm1")], dirty_rate=5.0)
    measured = replace(CLUSTER, guests={**CLUSTER.guests, vm1.id: vm1}, bandwidth=7.0)
    rates = MigrationRates(bandwidth=1e9, dirty_rate=1e6)

    found = add_migration_rates(
        measured, stored(*(record(i, rates=rates) for i in range(1, 9)))
    )

    assert found == measured


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": Outcome.FAILED},
        {"action": ColdMigration(GuestId("vm1"), NodeId("a"), NodeId("b"))},
        {"intended_at": NOON - 2 * LOOKBACK, "ended_at": NOON - 2 * LOOKBACK},
    ],
    ids=["failed", "cold", "old"],
)
def test_other_steps_do_not_count(changes: dict[str, object]) -> None:
    rates = MigrationRates(bandwidth=1e9, dirty_rate=1e6)
    records = [record(i, rates=rates) for i in range(1, 9)]
    others = [replace(each, **changes) for each in records]  # type: ignore[arg-type]

    assert add_migration_rates(CLUSTER, stored(*others)) == CLUSTER
    assert add_migration_rates(CLUSTER, stored(*records)).bandwidth == 1e9


def test_next_estimate_is_that_of_the_cluster() -> None:
    bandwidth = GIB / 4
    simulated = SimulatedCluster(CLUSTER, bandwidth=bandwidth)
    ends = [("a", "b"), ("b", "a")] * 3
    for number, (source, target) in enumerate(ends):
        move = migration("vm1", source, target)
        simulated.execute(step(str(number), move), run=f"run {number}")
    move = migration("vm1", "a", "b")

    snapshot = simulated.platform.observe()
    rated = add_migration_rates(snapshot, simulated.store)

    assert rated.bandwidth == pytest.approx(bandwidth, rel=0.1)
    estimates = [
        estimate_schedule(Plan((step("next", move),)), each, SHORT_LIMITS).seconds
        for each in (snapshot, rated)
    ]
    (done,) = simulated.execute(step("next", move)).records
    assert done.ended_at is not None
    seconds = (done.ended_at - done.intended_at).total_seconds()
    assert estimates[0] > 1.5 * seconds
    assert estimates[1] == pytest.approx(seconds, rel=0.1)
