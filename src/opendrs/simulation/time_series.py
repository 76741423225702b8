"""Time series of a run, recorded on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from opendrs.simulation.cloudsim.metrics import JOULES_PER_KWH
from opendrs.simulation.metrics import CumulativeMetrics
from opendrs.simulation.workload import Floats

Float32Array = npt.NDArray[np.float32]

MAX_FRAMES = 1000  # frames of a recording; a plot cannot show more


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeries:
    """Metrics of each interval; all columns of shape (intervals,).

    Attributes:
        time_s: Seconds from the start of the run to the start of the interval.
        seconds: Duration of the interval.
        hosts_on: Mean number of hosts that were not powered off.
        active_hosts: Mean number of hosts with guests.
        overloaded_hosts: Mean number of hosts with more CPU requested than they have.
        power_w: Mean power of all hosts in watts.
        energy_kwh: Energy of all hosts.
        load: CPU requested by guests, as a fraction of that of the active hosts; NaN
            if none was active.
        migrations: Number of selected migrations.
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
        """Return the differences between consecutive rows of *sums*."""
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
    # Rounding errors can leave a small negative value in an interval without events.
    return np.maximum(sums / seconds, 0.0)


@dataclass(slots=True)
class LoadFrames:
    """Load of each host over time, in a limited number of frames.

    At the limit, pairs of frames are merged: the mean over the time a host was on.

    Attributes:
        max_frames: Largest number of frames; even.
        intervals_per_frame: Number of intervals per frame; the last may have fewer.
    """

    max_frames: int = MAX_FRAMES
    intervals_per_frame: int = 1
    _frames: list[Float32Array] = field(default_factory=list)
    _pending: list[Floats] = field(default_factory=list)

    def add(self, load: Floats) -> None:
        """Add the load of each host in the next interval; NaN while powered off."""
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
    """Return the mean of each column without NaN; NaN if all are."""
    known = ~np.isnan(loads)
    count = known.sum(axis=0)
    mean = np.full(loads.shape[1], np.nan, np.float32)
    total = np.where(known, loads, 0).sum(axis=0)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


class TimeSeriesRecorder:
    """Interval observer that records a time series.

    Args:
        with_frames: True to also record the load of each host.
    """

    def __init__(self, *, with_frames: bool = False) -> None:
        self._rows: list[CumulativeMetrics] = []
        self._frames = LoadFrames() if with_frames else None

    def __call__(self, sums: CumulativeMetrics, load: Floats) -> None:
        """Record the result of an interval."""
        if not self._rows or sums.seconds > self._rows[-1].seconds:
            self._rows.append(sums)
            if self._frames is not None:
                self._frames.add(load)

    def time_series(self) -> TimeSeries:
        """Return the metrics of each interval."""
        names = [column.name for column in fields(CumulativeMetrics)]
        rows = [[getattr(row, name) for name in names] for row in self._rows]
        table = np.array(rows, np.float64).reshape(-1, len(names))
        return TimeSeries.from_cumulative(dict(zip(names, table.T, strict=True)))

    def load_frames(self) -> LoadFrames:
        """Return the load of each host over time."""
        assert self._frames is not None  # noqa: S101 - recorded with frames
        return self._frames
