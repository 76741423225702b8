"""A run interval by interval, kept only when somebody asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from opendrs.simulation.cloudsim.metrics import JOULES_PER_KWH
from opendrs.simulation.metrics import CumulativeMetrics
from opendrs.simulation.workload import Floats

Float32Array = npt.NDArray[np.float32]

MAX_FRAMES = 1000  # of a film; a picture shows no more


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeries:
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
        return {column.name: getattr(self, column.name) for column in fields(self)}

    @staticmethod
    def from_cumulative(sums: Mapping[str, Floats]) -> TimeSeries:
        """Return what came between one row of *sums* and the next."""
        increments = {
            name: np.diff(column, prepend=0.0) for name, column in sums.items()
        }
        nonempty = increments["seconds"] > 0
        increments = {name: column[nonempty] for name, column in increments.items()}
        seconds, capacity = increments["seconds"], increments["capacity"]
        load = np.full(len(seconds), np.nan)
        np.divide(increments["requested"], capacity, out=load, where=capacity > 0)
        return TimeSeries(
            time_s=sums["seconds"][nonempty] - seconds,
            seconds=seconds,
            hosts_on=_mean(increments["powered_on"], seconds),
            active_hosts=_mean(increments["active"], seconds),
            overloaded_hosts=_mean(increments["overloaded"], seconds),
            power_w=_mean(increments["joules"], seconds),
            energy_kwh=increments["joules"] / JOULES_PER_KWH,
            load=load,
            migrations=increments["migrations"].astype(np.int64),
        )


def _mean(sums: Floats, seconds: Floats) -> Floats:
    # Rounding leaves a little less than nothing where nothing came.
    return np.maximum(sums / seconds, 0.0)


@dataclass(slots=True)
class LoadFrames:
    """The load of each host over time, in not too many frames.

    When there are too many, two at a time are made one: the mean of a host over
    the time it was on.

    Attributes:
        max_frames: How many frames are kept at most; an even number.
        intervals_per_frame: How many intervals a frame covers; the last may cover fewer.
    """

    max_frames: int = MAX_FRAMES
    intervals_per_frame: int = 1
    _frames: list[Float32Array] = field(default_factory=list)
    _pending: list[Floats] = field(default_factory=list)

    def add(self, load: Floats) -> None:
        """Add the load of each host in a further interval; NaN where asleep."""
        self._pending.append(load)
        if len(self._pending) < self.intervals_per_frame:
            return
        self._frames.append(_mean_load(np.array(self._pending, np.float32)))
        self._pending.clear()
        if len(self._frames) == self.max_frames:
            pairs = zip(self._frames[::2], self._frames[1::2], strict=True)
            self._frames = [_mean_load(np.array(pair)) for pair in pairs]
            self.intervals_per_frame *= 2

    def loads(self) -> Float32Array:
        """Return the frames; shape (frames, hosts)."""
        rest = (
            [_mean_load(np.array(self._pending, np.float32))] if self._pending else []
        )
        return np.array([*self._frames, *rest])


def _mean_load(loads: Float32Array) -> Float32Array:
    """Return the mean of each column over what is not NaN; NaN without any."""
    known = ~np.isnan(loads)
    count = known.sum(axis=0)
    mean = np.full(loads.shape[1], np.nan, np.float32)
    total = np.where(known, loads, 0).sum(axis=0)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


class TimeSeriesRecorder:
    """A watcher who keeps what it is told.

    Args:
        with_frames: Whether to keep the load of each host too.
    """

    def __init__(self, *, with_frames: bool = False) -> None:
        self._rows: list[CumulativeMetrics] = []
        self._frames = LoadFrames() if with_frames else None

    def __call__(self, sums: CumulativeMetrics, load: Floats) -> None:
        """Keep what has come of an interval."""
        if not self._rows or sums.seconds > self._rows[-1].seconds:
            self._rows.append(sums)
            if self._frames is not None:
                self._frames.add(load)

    def time_series(self) -> TimeSeries:
        """Return what happened in each interval."""
        names = [column.name for column in fields(CumulativeMetrics)]
        rows = [[getattr(row, name) for name in names] for row in self._rows]
        table = np.array(rows, np.float64).reshape(-1, len(names))
        return TimeSeries.from_cumulative(dict(zip(names, table.T, strict=True)))

    def load_frames(self) -> LoadFrames:
        """Return the load of each host over time."""
        assert self._frames is not None  # noqa: S101 - it was asked for
        return self._frames
