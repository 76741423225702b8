"""Hourly usage of all guests, kept in the store, and forecasts from it.

The history has one entry for each of the last days, so it does not grow. An entry has
the mean and the last sample of each hour in half precision, compressed: 2 to 6 KiB for
a guest in three weeks. Hours are those of UTC.
"""

from __future__ import annotations

import binascii
import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from opendrs.errors import StoreError
from opendrs.metrics import forecast_loads
from opendrs.model import GIB, Forecast, Guest, GuestId, Snapshot, Usage
from opendrs.ports import Store

STORE_PREFIX = "usage/"
DAYS = 22  # three whole weeks before the current hour
HOURS, SECONDS = 24, 3600
COLUMNS = 4  # mean and last sample of cores, then of GiB
MEBIBYTE = 1 << 20
MAX_VALUE = 65_504.0  # largest number of half precision
CPU_DIGITS = 3  # of forecast cores; more are not known

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DayOfUsage:
    """Usage of guests in the hours of one day.

    Attributes:
        day: Number of the day since 1970.
        guests: The guests, sorted.
        samples: Number of samples in each hour; shape (24,).
        values: Mean and last cores, mean and last GiB, of each hour; NaN if unknown;
            shape (24, 4, G).
    """

    day: int
    guests: tuple[str, ...]
    samples: npt.NDArray[np.int64]
    values: Floats

    @staticmethod
    def empty(day: int) -> DayOfUsage:
        """Return a day without samples."""
        return DayOfUsage(
            day, (), np.zeros(HOURS, np.int64), np.zeros((HOURS, COLUMNS, 0))
        )

    def values_of(self, guests: tuple[str, ...]) -> Floats:
        """Return the values of *guests*, NaN for others; shape (24, 4, guests)."""
        if guests == self.guests:
            return self.values
        index = {name: position for position, name in enumerate(self.guests)}
        values: Floats = np.full((HOURS, COLUMNS, len(guests)), np.nan)
        known = [i for i, name in enumerate(guests) if name in index]
        rows = [index[guests[i]] for i in known]
        values[:, :, known] = self.values[:, :, rows]
        return values

    def with_sample(self, hour: int, usage: Mapping[str, Usage]) -> DayOfUsage:
        """Return the day with a sample of the *usage* of guests in *hour*."""
        guests = tuple(sorted({*self.guests, *usage}))
        values, samples = self.values_of(guests).copy(), self.samples.copy()
        samples[hour] += 1
        unknown = Usage()
        measured = np.array(
            [_numbers(usage.get(name, unknown)) for name in guests], np.float64
        ).reshape(-1, 2)
        for column in range(2):
            mean, last = values[hour, 2 * column], values[hour, 2 * column + 1]
            sample = measured[:, column]
            known = ~np.isnan(sample)
            former = np.where(np.isnan(mean), sample, mean)
            mean[known] = (former + (sample - former) / samples[hour])[known]
            last[known] = sample[known]
        return DayOfUsage(self.day, guests, samples, values)


class HourlyUsage:
    """Hourly usage of the last days.

    Args:
        days: Days with samples, in any order.
    """

    def __init__(self, days: Mapping[int, DayOfUsage] | None = None) -> None:
        self._days = dict(days or {})

    @staticmethod
    def load(store: Store) -> HourlyUsage:
        """Return the history in *store*.

        Raises:
            StoreError: The store cannot be read, or an entry cannot be decoded.
        """
        entries = store.load_all(STORE_PREFIX)
        days = [_decode(key, entry) for key, entry in entries.items()]
        return HourlyUsage({each.day: each for each in days})

    def add(self, snapshot: Snapshot) -> DayOfUsage:
        """Add the usage in *snapshot*; return the day that it belongs to."""
        day, hour = divmod(_hour(snapshot.taken_at), HOURS)
        usage = {
            str(guest.id): guest.usage
            for guest in snapshot.guests.values()
            if guest.is_active and guest.usage != Usage()
        }
        former = self._days.get(day) or DayOfUsage.empty(day)
        current = former.with_sample(hour, usage)
        self._days[day] = current
        for old in [each for each in self._days if each <= day - DAYS]:
            del self._days[old]
        return current

    def add_forecasts(self, snapshot: Snapshot, horizon: float) -> Snapshot:
        """Return *snapshot* with the forecasts of its guests.

        A guest has none while its history is too short. The horizon is rounded up to
        hours. The usage in *snapshot* must have been added.
        """
        active = [guest for guest in snapshot.guests.values() if guest.is_active]
        names = tuple(sorted(str(guest.id) for guest in active))
        rows = self._rows(_hour(snapshot.taken_at), names)
        hours = math.ceil(horizon / SECONDS)
        cpu = forecast_loads(rows[:, 0], rows[:, 1], hours)
        memory = forecast_loads(rows[:, 2], rows[:, 3], hours)
        columns = zip(
            names,
            cpu.expected.tolist(),
            cpu.upper.tolist(),
            memory.expected.tolist(),
            memory.upper.tolist(),
            strict=True,
        )
        guests = dict(snapshot.guests)
        for name, cores, most_cores, gib, most_gib in columns:
            guest = guests[GuestId(name)]
            expected = _usage(cores, gib, guest)
            if expected != Usage():
                forecast = Forecast(
                    expected=expected, upper=_usage(most_cores, most_gib, guest)
                )
                guests[guest.id] = replace(guest, forecast=forecast)
        return replace(snapshot, guests=guests)

    def _rows(self, hour: int, names: tuple[str, ...]) -> Floats:
        """Return the values of the hours up to *hour*; shape (T, 4, guests).

        The first row is the first hour of the oldest day.
        """
        last = hour // HOURS
        first = min((day for day in self._days if day > last - DAYS), default=last)
        days = (
            self._days.get(day) or DayOfUsage.empty(day)
            for day in range(first, last + 1)
        )
        known = [*days]
        rows = np.concatenate([each.values_of(names) for each in known])
        samples = np.concatenate([each.samples for each in known])
        end = hour + 1 - first * HOURS
        return _with_whole_hour(rows[:end], samples[:end])


def _with_whole_hour(rows: Floats, samples: npt.NDArray[np.int64]) -> Floats:
    """Return *rows* with means of the last hour over as many samples as before.

    The mean of the first samples of an hour would count as much as that of an hour.
    """
    if len(rows) < 2 or samples[-1] >= samples[-2]:
        return rows
    part = samples[-1] / samples[-2]
    for column in (0, 2):
        mean, former = rows[-1, column], rows[-2, column]
        both = ~np.isnan(mean) & ~np.isnan(former)
        rows[-1, column, both] = (part * mean + (1 - part) * former)[both]
    return rows


def record_usage(snapshot: Snapshot, store: Store) -> None:
    """Add the usage in *snapshot* to the history in *store*.

    Raises:
        StoreError: The store cannot be read or written.
    """
    number = _hour(snapshot.taken_at) // HOURS
    key = f"{STORE_PREFIX}{number % DAYS:02d}"
    entry = store.load(key)
    former = {} if entry is None else {number: _decode(key, entry)}
    same_day = {day: each for day, each in former.items() if each.day == day}
    store.save(key, _encode(HourlyUsage(same_day).add(snapshot)))


def add_forecasts(snapshot: Snapshot, store: Store, horizon: float) -> Snapshot:
    """Return *snapshot* with forecasts from the history in *store* and itself.

    Raises:
        StoreError: The store cannot be read.
    """
    history = HourlyUsage.load(store)
    history.add(snapshot)
    return history.add_forecasts(snapshot, horizon)


def _hour(time: datetime) -> int:
    """Return the number of the hour since 1970."""
    return int(time.timestamp()) // SECONDS


def _numbers(usage: Usage) -> tuple[float, float]:
    cpu = math.nan if usage.cpu is None else min(usage.cpu, MAX_VALUE)
    memory = math.nan if usage.memory is None else min(usage.memory / GIB, MAX_VALUE)
    return cpu, memory


def _usage(cores: float, gib: float, guest: Guest) -> Usage:
    """Return forecast amounts, at most the limit of *guest*; None for NaN."""
    limit = guest.limit
    memory = None if math.isnan(gib) else round(gib * GIB / MEBIBYTE) * MEBIBYTE
    cpu = None if math.isnan(cores) else round(cores, CPU_DIGITS)
    if limit is not None and cpu is not None and limit.cpu:
        cpu = min(cpu, limit.cpu)
    if limit is not None and memory is not None:
        memory = min(memory, limit.memory)
    return Usage(cpu, memory)


def _encode(day: DayOfUsage) -> dict[str, object]:
    return {
        "day": day.day,
        "samples": day.samples.tolist(),
        "guests": _packed("\n".join(day.guests).encode()),
        "values": _packed(day.values.astype("<f2").tobytes()),
    }


def _decode(key: str, entry: Mapping[str, Any]) -> DayOfUsage:
    try:
        text = _unpacked(entry["guests"]).decode()
        guests = tuple(text.split("\n")) if text else ()
        values = np.frombuffer(_unpacked(entry["values"]), "<f2").astype(np.float64)
        samples = np.array(entry["samples"], np.int64)
        shape = (HOURS, COLUMNS, len(guests))
        return DayOfUsage(
            int(entry["day"]), guests, samples.reshape(HOURS), values.reshape(shape)
        )
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise StoreError(
            f'store: entry "{key}" cannot be decoded: {error!r}'
        ) from error


def _packed(content: bytes) -> str:
    return b64encode(zlib.compress(content)).decode()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(b64decode(text, validate=True))
