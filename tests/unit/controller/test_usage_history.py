"""Hourly usage of guests in the store, and forecasts from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller import enrich_snapshot
from opendrs.controller.usage_history import (
    DAYS,
    STORE_PREFIX,
    HourlyUsage,
    record_usage,
)
from opendrs.errors import StoreError
from opendrs.model import GIB, GuestId, GuestState, Snapshot, Usage
from opendrs.policies import Balance
from opendrs.store import MemoryStore
from support.builders import NOON, cluster

V, W = GuestId("v"), GuestId("w")
HOUR_1 = Balance(forecast_horizon=3600.0)
EMPTY = cluster({"a": 0.5, "b": 0.5}, {"v": ("a", None), "w": ("b", None)})


def observed(hours: float, cores: float | None, gib: float = 2.0) -> Snapshot:
    """Return the cluster some *hours* after noon; w uses twice as much as v."""
    guests = dict(EMPTY.guests)
    if cores is not None:
        for name, factor in ((V, 1), (W, 2)):
            usage = Usage(cores * factor, int(gib * GIB) * factor)
            guests[name] = replace(guests[name], usage=usage)
    taken_at = NOON + timedelta(hours=hours)
    return replace(EMPTY, taken_at=taken_at, guests=guests)


def test_forecast_is_that_of_the_hourly_means() -> None:
    # Means of 1 and 3 cores in each hour: 2, four times; the last sample is 3. The last
    # sample was always 1 off, the means never: their weight is all but 1.
    store = MemoryStore()
    for hour in range(4):
        record_usage(observed(hour, 1.0), store)
        if hour < 3:
            record_usage(observed(hour + 0.5, 3.0), store)

    found = enrich_snapshot(observed(3.5, 3.0), HOUR_1, store)

    forecasts = [found.guests[name].forecast for name in (V, W)]
    assert [each and each.expected for each in forecasts] == [
        Usage(2.0, 2 * GIB),
        Usage(4.0, 4 * GIB),
    ]
    assert [each and each.upper.cpu for each in forecasts] == pytest.approx([2.0, 4.0])


def test_forecast_is_at_most_the_limit_of_the_guest() -> None:
    history = HourlyUsage()
    limited = observed(5, 3.0)
    limit = limited.nodes[limited.guests[V].node].capacity
    assert limit is not None
    guest = replace(limited.guests[V], limit=replace(limit, cpu=2.5, memory=GIB))
    limited = replace(limited, guests={**limited.guests, V: guest})
    for hour in range(5):
        history.add(observed(hour, 3.0))
    history.add(limited)

    found = history.add_forecasts(limited, 3600.0).guests[V].forecast

    assert found is not None
    assert found.expected == found.upper == Usage(2.5, GIB)


def test_without_a_horizon_there_is_no_forecast() -> None:
    store = MemoryStore()
    for hour in range(9):
        record_usage(observed(hour, 1.0), store)

    found = enrich_snapshot(observed(9, 1.0), Balance(), store)

    assert found == observed(9, 1.0)


def test_guests_without_measurements_or_history_have_no_forecast() -> None:
    store = MemoryStore()
    for hour in range(9):
        record_usage(observed(hour, None), store)

    found = enrich_snapshot(observed(9, 1.0), HOUR_1, store)

    assert found.guests[V].forecast is None


def test_stopped_guests_have_no_forecast() -> None:
    store = MemoryStore()
    for hour in range(9):
        record_usage(observed(hour, 1.0), store)
    now = observed(9, 1.0)
    stopped = replace(now.guests[V], state=GuestState.STOPPED)

    found = enrich_snapshot(
        replace(now, guests={**now.guests, V: stopped}), HOUR_1, store
    )

    assert found.guests[V].forecast is None
    assert found.guests[W].forecast is not None


def test_history_has_a_fixed_number_of_days() -> None:
    store = MemoryStore()

    for day in range(2 * DAYS):
        record_usage(observed(24 * day, 1.0), store)

    assert len(store.load_all(STORE_PREFIX)) == DAYS


def test_days_before_a_long_stop_do_not_count() -> None:
    store = MemoryStore()
    for hour in range(9):
        record_usage(observed(hour, 1.0), store)

    found = enrich_snapshot(observed(24 * DAYS + 9, 5.0), HOUR_1, store)

    assert found.guests[V].forecast is None


@pytest.mark.parametrize(
    "entry",
    [{}, {"day": 1, "samples": [0] * 24, "guests": "?", "values": ""}],
)
def test_damaged_history_is_an_error_of_the_store(entry: dict[str, object]) -> None:
    store = MemoryStore()
    store.save(f"{STORE_PREFIX}00", entry)

    with pytest.raises(StoreError, match='entry "usage/00" cannot be decoded'):
        enrich_snapshot(observed(1, 1.0), HOUR_1, store)
