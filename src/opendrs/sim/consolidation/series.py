"""A run interval by interval, kept only when somebody asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.ledger import JOULES
from opendrs.sim.consolidation.watching import Sums

Singles = npt.NDArray[np.float32]

MOST_FRAMES = 1000  # of a film; a picture shows no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What happened in each interval; all columns of shape (intervals,).

    Attributes:
        time_s: Seconds from the beginning of the run to that of the interval.
        seconds: How long the interval is.
        hosts_on: How many hosts were not asleep, on average.
        active_hosts: How many had guests, on average.
        overloaded_hosts: Of how many more was asked than they have, on average.
        power_w: Watts that all hosts drew, on average.
        energy_kwh: Energy of all hosts.
        load: CPU that guests asked for, as part of that of the active hosts; NaN
            where none was active.
        migrations: How many were decided.
    """

    time_s: Floats
    seconds: Floats
    hosts_on: Floats
    active_hosts: Floats
    overloaded_hosts: Floats
    power_w: Floats
    energy_kwh: Floats
    load: Floats
    migrations: npt.NDArray[np.int64]

    def columns(self) -> Mapping[str, npt.NDArray[np.float64 | np.int64]]:
        """Return the columns by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @staticmethod
    def of(sums: Mapping[str, Floats]) -> Series:
        """Return what came between one row of *sums* and the next."""
        grown = {name: np.diff(column, prepend=0.0) for name, column in sums.items()}
        lasting = grown["seconds"] > 0
        grown = {name: column[lasting] for name, column in grown.items()}
        seconds, capacity = grown["seconds"], grown["capacity"]
        load = np.full(len(seconds), np.nan)
        np.divide(grown["asked"], capacity, out=load, where=capacity > 0)
        return Series(
            time_s=sums["seconds"][lasting] - seconds,
            seconds=seconds,
            hosts_on=_mean(grown["on"], seconds),
            active_hosts=_mean(grown["active"], seconds),
            overloaded_hosts=_mean(grown["overloaded"], seconds),
            power_w=_mean(grown["joules"], seconds),
            energy_kwh=grown["joules"] / JOULES,
            load=load,
            migrations=grown["migrations"].astype(np.int64),
        )


def _mean(sums: Floats, seconds: Floats) -> Floats:
    # Rounding leaves a little less than nothing where nothing came.
    return np.maximum(sums / seconds, 0.0)


@dataclass(slots=True)
class Film:
    """The load of each host over time, in not too many frames.

    When there are too many, two at a time are made one: the mean of a host over
    the time it was on.

    Attributes:
        most: How many frames are kept at most; an even number.
        each: How many intervals a frame covers; the last may cover fewer.
    """

    most: int = MOST_FRAMES
    each: int = 1
    _frames: list[Singles] = field(default_factory=list)
    _waiting: list[Floats] = field(default_factory=list)

    def add(self, load: Floats) -> None:
        """Add the load of each host in a further interval; NaN where asleep."""
        self._waiting.append(load)
        if len(self._waiting) < self.each:
            return
        self._frames.append(_averaged(np.array(self._waiting, np.float32)))
        self._waiting.clear()
        if len(self._frames) == self.most:
            pairs = zip(self._frames[::2], self._frames[1::2], strict=True)
            self._frames = [_averaged(np.array(pair)) for pair in pairs]
            self.each *= 2

    def loads(self) -> Singles:
        """Return the frames; shape (frames, hosts)."""
        rest = [_averaged(np.array(self._waiting, np.float32))] if self._waiting else []
        return np.array([*self._frames, *rest])


def _averaged(loads: Singles) -> Singles:
    """Return the mean of each column over what is not NaN; NaN without any."""
    known = ~np.isnan(loads)
    count = known.sum(axis=0)
    mean = np.full(loads.shape[1], np.nan, np.float32)
    total = np.where(known, loads, 0).sum(axis=0)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


class Recorder:
    """A watcher who keeps what it is told.

    Args:
        film: Whether to keep the load of each host too.
    """

    def __init__(self, *, film: bool = False) -> None:
        self._rows: list[Sums] = []
        self._film = Film() if film else None

    def __call__(self, sums: Sums, load: Floats) -> None:
        """Keep what has come of an interval."""
        if not self._rows or sums.seconds > self._rows[-1].seconds:
            self._rows.append(sums)
            if self._film is not None:
                self._film.add(load)

    def series(self) -> Series:
        """Return what happened in each interval."""
        names = [each.name for each in fields(Sums)]
        rows = [[getattr(row, name) for name in names] for row in self._rows]
        table = np.array(rows, np.float64).reshape(-1, len(names))
        return Series.of(dict(zip(names, table.T, strict=True)))

    def film(self) -> Film:
        """Return the load of each host over time."""
        assert self._film is not None  # noqa: S101 - it was asked for
        return self._film
