"""Resampling of traces: means per guest and interval, gaps, order, range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opendrs.errors import InvalidFileError, InvalidSettingError
from opendrs.simulation.traces.columns import MAX_REPORTED, RowBatch
from opendrs.simulation.traces.files import limited_error
from opendrs.simulation.traces.window import (
    TraceWindow,
    WindowSettings,
    cut_window,
    guest_limit_note,
    resolve_window,
)
from opendrs.simulation.workload import MIN_SAMPLES, Floats, Integers, Mask

GUESTS_PER_CHUNK = 4096  # guests that are finished at a time
MAX_SAMPLES = 200_000_000  # samples in all, of 12 bytes; as many again for memory


@dataclass(frozen=True, slots=True)
class ResampledLoad:
    """The guests that are there all through a window.

    Attributes:
        names: Who, in order.
        cpu: What was read of their CPU; shape (guests, samples).
        memory: The same of memory; None where it was not read.
        notes: What was left out, and what stands for what was missing.
    """

    names: tuple[str, ...]
    cpu: Floats
    memory: Floats | None
    notes: tuple[str, ...]


class Resampler:
    """The mean of what was sampled, by guest and interval.

    Memory is taken for guests that have samples in the window, and for nothing else
    of the trace.

    Args:
        window: The window.
        memory: Whether memory is read too.
        tolerance: How many seconds before its interval begins a sample may be taken.
    """

    def __init__(
        self, window: TraceWindow, *, memory: bool, tolerance: float = 0.0
    ) -> None:
        self._window, self._tolerance = window, tolerance
        self._index: dict[str, int] = {}
        self._cpu = _WeightedSums(window.samples)
        self._memory = _WeightedSums(window.samples) if memory else None
        self._first, self._last = np.inf, -np.inf

    def add(
        self,
        names: list[str],
        guest_index: Integers,
        time: Floats,
        *columns: Floats,
        weight: Floats | None = None,
    ) -> None:
        """Add samples.

        Args:
            names: Guests.
            guest_index: Which of them each sample is of; shape (samples,).
            time: When each was taken, in the time of the trace.
            columns: CPU, and memory where it is read; NaN where unknown.
            weight: How much each counts in the mean of its interval; None: alike.

        Raises:
            InvalidSettingError: There are more guests than fit, for so many samples.
        """
        if not len(time):
            return
        self._first = min(self._first, float(time.min()))
        self._last = max(self._last, float(time.max()))
        position = (time + self._tolerance - self._window.begin) / self._window.interval
        inside = (position >= 0) & (position < self._window.samples)
        if not inside.any():
            return
        rows = self._rows(names, guest_index[inside])
        flat = rows * self._window.samples + position[inside].astype(np.int64)
        counts = np.ones(len(flat)) if weight is None else weight[inside]
        sums = [self._cpu] if self._memory is None else [self._cpu, self._memory]
        for total, column in zip(sums, columns, strict=True):
            total.add(flat, column[inside], counts, len(self._index))

    def _rows(self, names: list[str], guest_index: Integers) -> Integers:
        """Return the row of the guest of each sample."""
        unique, inverse = np.unique(guest_index, return_inverse=True)
        index = self._index
        rows = [index.setdefault(names[each], len(index)) for each in unique.tolist()]
        samples = self._window.samples
        if len(index) * samples > MAX_SAMPLES:
            raise InvalidSettingError(
                f"{self._window.trace}: {len(index):,} guests or more, with {samples:,} "
                f"intervals each, are more than {MAX_SAMPLES:,} samples: choose a shorter "
                "length or a longer interval, or look for a wrong time in the trace"
            )
        return np.array(rows, np.int64)[inverse]

    def check_duplicates(self, path: object, max_weight: float) -> None:
        """Check that no guest has samples of more weight in an interval than *max_weight*.

        Raises:
            InvalidFileError: One has, so samples are there twice.
        """
        names = list(self._index)
        rows, cells = np.nonzero(self._cpu.weight[: len(names)] > max_weight + 1e-9)
        duplicates = sorted(
            zip((names[row] for row in rows), cells.tolist(), strict=True)
        )
        diagnostics = []
        for name, cell in duplicates[:MAX_REPORTED]:
            begin = self._window.begin + cell * self._window.interval
            diagnostics.append(
                f"{path}: guest {name!r} has more samples from {begin:.10g} to "
                f"{begin + self._window.interval:.10g} s than belong there: "
                "is something there twice?"
            )
        if diagnostics:
            raise InvalidFileError(*diagnostics)

    def complete_guests(
        self, path: object, settings: WindowSettings, sized_guests: Iterable[str] | None
    ) -> ResampledLoad:
        """Return the guests that are there all through the window.

        Args:
            path: What was read, for messages.
            settings: How long a gap may be, and how many guests are wanted.
            sized_guests: Guests whose size is known; None for all.

        Raises:
            InvalidFileError: There is none.
        """
        names = sorted(self._index)
        if sized_guests is not None:
            wanted = frozenset(sized_guests)
            names = [name for name in names if name in wanted]
        max_guests = len(names) if settings.max_guests is None else settings.max_guests
        result = _ResampledChunks([], [], [])
        max_gap = int(settings.max_gap // self._window.interval)
        for start in range(0, len(names), GUESTS_PER_CHUNK):
            if len(result.names) > max_guests:
                break
            self._finish_chunk(names[start : start + GUESTS_PER_CHUNK], max_gap, result)
        if not result.names:
            raise InvalidFileError(f"{path}: {self._no_guest_message()}")
        exclusion = "they are not there all through the window"
        if sized_guests is not None:
            exclusion += ", or of unknown size"
        return result.merge(max_guests, len(self._index), settings, exclusion)

    def _finish_chunk(
        self, names: list[str], max_gap: int, result: _ResampledChunks
    ) -> None:
        rows = np.array([self._index[name] for name in names], np.int64)
        values, filled_samples = self._cpu.means(rows, max_gap)
        columns = [values]
        if self._memory is not None:
            values, gaps = self._memory.means(rows, max_gap)
            columns.append(values)
            filled_samples |= gaps
        complete = ~np.isnan(columns[0]).any(axis=1)
        for values in columns[1:]:
            complete &= ~np.isnan(values).any(axis=1)
        result.names.extend(names[each] for each in np.flatnonzero(complete).tolist())
        result.columns.append([values[complete] for values in columns])
        result.filled_counts.append(filled_samples[complete].sum(axis=1))

    def _no_guest_message(self) -> str:
        begin, end = self._window.begin, self._window.end
        if self._first > self._last:
            return "no samples in there"
        return (
            f"no guest is there from {begin:.10g} to {end:.10g} s; samples lie between "
            f"{self._first:.10g} and {self._last:.10g} s: "
            "choose another start or length"
        )


@dataclass(frozen=True, slots=True)
class _ResampledChunks:
    """What is finished so far, in parts: names, columns, and samples carried."""

    names: list[str]
    columns: list[list[Floats]]
    filled_counts: list[Integers]

    def merge(
        self, max_guests: int, total: int, settings: WindowSettings, exclusion: str
    ) -> ResampledLoad:
        columns = [
            np.concatenate(parts)[:max_guests]
            for parts in zip(*self.columns, strict=True)
        ]
        filled_counts = np.concatenate(self.filled_counts)[:max_guests]
        notes = list(guest_limit_note(settings, len(self.names)))
        excluded = total - len(self.names)
        if excluded and not notes:
            notes.append(f"guests left out, as {exclusion}: {excluded} of {total}")
        if filled_counts.any():
            notes.append(
                f"gaps of at most {settings.max_gap:g} s take the value before them: "
                f"{filled_counts.sum()} samples of {int((filled_counts > 0).sum())} guests"
            )
        return ResampledLoad(
            tuple(self.names[:max_guests]),
            columns[0],
            columns[1] if len(columns) > 1 else None,
            tuple(notes),
        )


class _WeightedSums:
    """Sums and their weights; shape (guests, samples), growing as guests come."""

    def __init__(self, samples: int) -> None:
        self.total = np.zeros((0, samples))
        self.weight = np.zeros((0, samples), np.float32)

    def add(self, flat: Integers, values: Floats, counts: Floats, guests: int) -> None:
        if guests > len(self.total):
            max_rows = MAX_SAMPLES // self.total.shape[1]
            self._grow(max(guests, min(2 * len(self.total), max_rows)))
        known = ~np.isnan(values)
        cells = flat[known]
        np.add.at(self.total.reshape(-1), cells, values[known] * counts[known])
        np.add.at(self.weight.reshape(-1), cells, counts[known].astype(np.float32))

    def _grow(self, rows: int) -> None:
        for name in ("total", "weight"):
            old = getattr(self, name)
            new = np.zeros((rows, old.shape[1]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def means(self, rows: Integers, max_gap: int) -> tuple[Floats, Mask]:
        """Return the means of *rows*, gaps filled, and which were missing."""
        weight = self.weight[rows].astype(np.float64)
        missing = weight == 0
        means = self.total[rows] / np.where(missing, 1.0, weight)
        means[missing] = np.nan
        return fill_gaps(means, max_gap), missing


def fill_gaps(values: Floats, max_gap: int) -> Floats:
    """Return *values* with gaps filled that are short enough.

    A gap takes the value before it, at the beginning the one after it, for at most
    *max_gap* samples.

    Args:
        values: NaN where unknown; shape (guests, samples).
        max_gap: How far a value counts.
    """
    known = ~np.isnan(values)
    index = np.arange(values.shape[1])
    last = np.maximum.accumulate(np.where(known, index, -1), axis=1)
    first = known.argmax(axis=1)[:, None]
    nearest = np.where(last < 0, first, last)
    within_gap = np.abs(index - nearest) <= max_gap
    return np.where(within_gap, np.take_along_axis(values, nearest, axis=1), np.nan)


TIME_TOLERANCE = 1e-6  # of the step, by which times may be off
MIN_SAMPLE_INTERVAL = 1e-3  # s, from one time to the next


def resample_ordered(
    path: Path,
    window: WindowSettings,
    batches: Iterable[RowBatch],
    columns: tuple[str, ...],
    step: float,
) -> tuple[ResampledLoad, float]:
    """Return guests whose rows are in order, and the interval.

    Args:
        path: What is read, for messages.
        window: Which part of it.
        batches: The rows.
        columns: What CPU is called, and memory if it is there.
        step: Seconds from one row of a guest to its next.

    Raises:
        InvalidFileError: There are no rows, or not as many of each guest.
        InvalidSettingError: The window does not suit them.
    """
    index: dict[str, int] = {}
    row_chunks, loads = [], [[np.zeros(0)] for _ in columns]
    for batch in batches:
        rows = [index.setdefault(name, len(index)) for name in batch.names]
        row_chunks.append(np.array(rows, np.int64)[batch.guest_index])
        for load, column in zip(loads, columns, strict=True):
            load.append(batch.values[column])
    if not index:
        raise InvalidFileError(f"{path}: no traces in there")
    row, guests = np.concatenate(row_chunks), sorted(index)
    guest_rows = [index[name] for name in guests]
    _check_equal_counts(path, guests, np.bincount(row)[guest_rows])
    order = np.argsort(row, kind="stable")
    tables = [
        np.concatenate(load)[order].reshape(len(guests), -1)[guest_rows]
        for load in loads
    ]
    parts = [cut_window(path, table, window, step) for table in tables]
    cpu, interval = parts[0]
    memory = parts[1][0] if len(parts) > 1 else None
    notes = guest_limit_note(window, len(guests))
    return ResampledLoad(tuple(guests[: len(cpu)]), cpu, memory, notes), interval


def _check_equal_counts(path: Path, names: list[str], counts: Integers) -> None:
    """Check that there are as many samples of each guest, and enough."""
    length = int(counts[0])
    diagnostics = [
        f"{path}: {names[each]}: {counts[each]} samples instead of {length}"
        for each in np.flatnonzero(counts != length).tolist()
    ]
    if length < MIN_SAMPLES:
        diagnostics.append(f"{path}: {names[0]}: fewer than {MIN_SAMPLES} samples")
    if diagnostics:
        raise limited_error(str(path), diagnostics)


def resample_timed(
    path: Path,
    window: WindowSettings,
    times: Iterable[Floats],
    batches: Iterator[tuple[RowBatch, Floats]],
    columns: tuple[str, ...],
) -> tuple[ResampledLoad, float]:
    """Return guests whose rows have a time, and the interval.

    Args:
        path: What is read, for messages.
        window: Which part of it.
        times: All times of the rows.
        batches: The rows, and the time of each.
        columns: What CPU is called, and memory if it is there.

    Raises:
        InvalidFileError: There are no rows, they are too near one another, or not
            evenly spaced and nobody says how long an interval is, or there are two
            of a guest for one time.
        InvalidSettingError: The window does not suit them.
    """
    timestamps = np.zeros(0)
    for each in times:
        timestamps = np.union1d(timestamps, each)
    if len(timestamps) < MIN_SAMPLES:
        raise InvalidFileError(f"{path}: fewer than {MIN_SAMPLES} samples")
    gaps = np.diff(timestamps)
    step = float(gaps.min())
    if step < MIN_SAMPLE_INTERVAL:
        index = int(gaps.argmin())
        raise InvalidFileError(
            f"{path}: time: expected samples at least {MIN_SAMPLE_INTERVAL:g} s apart, found "
            f"{timestamps[index]:.10g} and {timestamps[index + 1]:.10g} s"
        )
    is_regular = bool(
        (np.abs(gaps / step - np.round(gaps / step)) < TIME_TOLERANCE).all()
    )
    if not is_regular and window.interval is None:
        irregular_gap = float(
            gaps[np.abs(gaps / step - np.round(gaps / step)) >= TIME_TOLERANCE][0]
        )
        raise InvalidFileError(
            f"{path}: time: expected samples at a fixed distance, found {step:g} and "
            f"{irregular_gap:g} s; say how long an interval is"
        )
    first, last = float(timestamps[0]), float(timestamps[-1])
    begin = first + (window.start or 0.0)
    trace_window = resolve_window(
        path, window, step=step, begin=begin, length=last - begin + step
    )
    # Times that are off by rounding belong to the interval they are meant for.
    resampler = Resampler(
        trace_window, memory=len(columns) > 1, tolerance=TIME_TOLERANCE * step
    )
    for batch, time in batches:
        resampler.add(
            batch.names,
            batch.guest_index,
            time,
            *(batch.values[each] for each in columns),
        )
    resampler.check_duplicates(
        path, np.ceil(trace_window.interval / step - TIME_TOLERANCE) + (not is_regular)
    )
    return resampler.complete_guests(path, window, None), trace_window.interval


ROUNDING = 1e-9  # of rounding


def clip_to_one(values: Floats, quantity: str) -> tuple[Floats, tuple[str, ...]]:
    """Return *values* as parts of a whole, and a note if some were more than it.

    Args:
        values: Parts; more than 1 counts as 1; shape (guests, samples).
        quantity: Of what.
    """
    guests_above = int((values > 1 + ROUNDING).any(axis=1).sum())
    note = f"{quantity} above 100 % counts as 100 %: {guests_above} guests"
    return np.minimum(values, 1.0), (note,) if guests_above else ()
