"""Resampling of traces: means per guest and interval, gaps, order, range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opendrs.config import Diagnostic
from opendrs.errors import DiagnosticCode, InvalidFileError, InvalidSettingError
from opendrs.model import format_count
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

GUESTS_PER_CHUNK = 4096  # guests that are completed at a time
MAX_SAMPLES = 200_000_000  # samples of 12 bytes; as many again for memory


@dataclass(frozen=True, slots=True)
class ResampledLoad:
    """Load of the guests that exist during a whole window.

    Attributes:
        names: Names of the guests, sorted.
        cpu: CPU as in the trace; shape (guests, samples).
        memory: Memory as in the trace; None if it was not read.
        notes: Notes on skipped guests and filled gaps.
    """

    names: tuple[str, ...]
    cpu: Floats
    memory: Floats | None
    notes: tuple[str, ...]


class Resampler:
    """Mean of the samples per guest and interval.

    Memory is allocated only for guests with samples in the window.

    Args:
        window: The window.
        memory: True to read memory usage too.
        tolerance: Seconds by which a sample may precede its interval.
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
            names: Names of guests.
            guest_index: Index of the guest of each sample; shape (samples,).
            time: Time of each sample, in the time of the trace.
            columns: CPU, and memory if it is read; NaN where unknown.
            weight: Weight of each sample in the mean of its interval; None for equal
                weights.

        Raises:
            InvalidSettingError: There are too many guests for this number of samples.
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
                f"{self._window.trace}: at least {len(index):,} guests with "
                f"{samples:,} intervals each exceed {MAX_SAMPLES:,} samples; choose a "
                "shorter length or a longer interval, or check the times in the trace",
                code=DiagnosticCode.OUT_OF_RANGE,
            )
        return np.array(rows, np.int64)[inverse]

    def check_duplicates(self, path: object, max_weight: float) -> None:
        """Check that no guest has samples with more than *max_weight* in an interval.

        Raises:
            InvalidFileError: A guest has, so samples are duplicate.
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
                f"{path}: guest {name!r}: too many samples from {begin:.10g} to "
                f"{begin + self._window.interval:.10g} s; check for duplicates"
            )
        if diagnostics:
            raise InvalidFileError(*diagnostics, code=DiagnosticCode.INCONSISTENT)

    def complete_guests(
        self, path: object, settings: WindowSettings, sized_guests: Iterable[str] | None
    ) -> ResampledLoad:
        """Return the guests that exist during the whole window.

        Args:
            path: The trace, for messages.
            settings: Largest gap, and largest number of guests.
            sized_guests: Guests with known sizes; None for all.

        Raises:
            InvalidFileError: There is no such guest.
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
            raise InvalidFileError(
                f"{path}: {self._no_guest_message()}", code=DiagnosticCode.INCOMPLETE
            )
        exclusion = "without samples in the whole window"
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
            return "no samples found"
        return (
            f"no guest exists from {begin:.10g} to {end:.10g} s; samples are between "
            f"{self._first:.10g} and {self._last:.10g} s; "
            "choose another start or length"
        )


@dataclass(frozen=True, slots=True)
class _ResampledChunks:
    """Completed chunks: names, columns, and numbers of filled samples."""

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
            notes.append(f"guests skipped, {exclusion}: {excluded} of {total}")
        if filled_counts.any():
            notes.append(
                f"gaps of at most {settings.max_gap:g} s filled with the value before "
                f"them: {format_count(int(filled_counts.sum()), 'sample')} of "
                f"{format_count(int((filled_counts > 0).sum()), 'guest')}"
            )
        return ResampledLoad(
            tuple(self.names[:max_guests]),
            columns[0],
            columns[1] if len(columns) > 1 else None,
            tuple(notes),
        )


class _WeightedSums:
    """Weighted sums and weights; shape (guests, samples), growing with the guests."""

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
        """Return the means of *rows* with gaps filled, and the missing samples."""
        weight = self.weight[rows].astype(np.float64)
        missing = weight == 0
        means = self.total[rows] / np.where(missing, 1.0, weight)
        means[missing] = np.nan
        return fill_gaps(means, max_gap), missing


def fill_gaps(values: Floats, max_gap: int) -> Floats:
    """Return *values* with short gaps filled.

    A gap is filled with the value before it, or after it at the start, for at most
    *max_gap* samples.

    Args:
        values: NaN where unknown; shape (guests, samples).
        max_gap: Largest distance to the value used, in samples.
    """
    known = ~np.isnan(values)
    index = np.arange(values.shape[1])
    last = np.maximum.accumulate(np.where(known, index, -1), axis=1)
    first = known.argmax(axis=1)[:, None]
    nearest = np.where(last < 0, first, last)
    within_gap = np.abs(index - nearest) <= max_gap
    return np.where(within_gap, np.take_along_axis(values, nearest, axis=1), np.nan)


TIME_TOLERANCE = 1e-6  # tolerated error of times, as a fraction of the step
MIN_SAMPLE_INTERVAL = 1e-3  # s


def resample_ordered(
    path: Path,
    window: WindowSettings,
    batches: Iterable[RowBatch],
    columns: tuple[str, ...],
    step: float,
) -> tuple[ResampledLoad, float]:
    """Return guests whose rows are in order of time, and the interval.

    Args:
        path: The trace, for messages.
        window: Part of the trace.
        batches: The rows.
        columns: Columns of CPU, and of memory if it exists.
        step: Seconds between consecutive rows of a guest.

    Raises:
        InvalidFileError: There are no rows, or their number differs between guests.
        InvalidSettingError: The window does not fit the trace.
    """
    index: dict[str, int] = {}
    row_chunks, loads = [], [[np.zeros(0)] for _ in columns]
    for batch in batches:
        rows = [index.setdefault(name, len(index)) for name in batch.names]
        row_chunks.append(np.array(rows, np.int64)[batch.guest_index])
        for load, column in zip(loads, columns, strict=True):
            load.append(batch.values[column])
    if not index:
        raise InvalidFileError(f"{path}: no traces found")
    row, guests = np.concatenate(row_chunks), sorted(index)
    guest_rows = [index[name] for name in guests]
    check_equal_counts(path, guests, np.bincount(row)[guest_rows])
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


def check_equal_counts(path: Path, names: Sequence[str], counts: Integers) -> None:
    """Check that all guests have the same, sufficient number of samples.

    Args:
        path: The trace, for messages.
        names: The guests.
        counts: Number of samples of each guest.

    Raises:
        InvalidFileError: The numbers differ, or are too small.
    """
    length = int(counts[0])
    diagnostics = [
        Diagnostic(
            (),
            f"{path}: {names[each]}: {format_count(int(counts[each]), 'sample')} "
            f"instead of {length}",
            code=DiagnosticCode.INCONSISTENT,
        )
        for each in np.flatnonzero(counts != length).tolist()
    ]
    if length < MIN_SAMPLES:
        message = f"{path}: {names[0]}: fewer than {MIN_SAMPLES} samples"
        diagnostics.append(Diagnostic((), message, code=DiagnosticCode.OUT_OF_RANGE))
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
        path: The trace, for messages.
        window: Part of the trace.
        times: All times of the rows.
        batches: The rows, and the time of each.
        columns: Columns of CPU, and of memory if it exists.

    Raises:
        InvalidFileError: There are no rows, their times are too close or duplicate,
            or they are not evenly spaced and the window has no interval.
        InvalidSettingError: The window does not fit the trace.
    """
    timestamps = np.zeros(0)
    for each in times:
        timestamps = np.union1d(timestamps, each)
    if len(timestamps) < MIN_SAMPLES:
        raise InvalidFileError(
            f"{path}: fewer than {MIN_SAMPLES} samples",
            code=DiagnosticCode.OUT_OF_RANGE,
        )
    gaps = np.diff(timestamps)
    step = float(gaps.min())
    if step < MIN_SAMPLE_INTERVAL:
        index = int(gaps.argmin())
        raise InvalidFileError(
            f"{path}: time: expected samples at least {MIN_SAMPLE_INTERVAL:g} s apart, "
            f"got {timestamps[index]:.10g} and {timestamps[index + 1]:.10g} s",
            code=DiagnosticCode.INCONSISTENT,
        )
    is_regular = bool(
        (np.abs(gaps / step - np.round(gaps / step)) < TIME_TOLERANCE).all()
    )
    if not is_regular and window.interval is None:
        irregular_gap = float(
            gaps[np.abs(gaps / step - np.round(gaps / step)) >= TIME_TOLERANCE][0]
        )
        raise InvalidFileError(
            f"{path}: time: expected samples at a fixed distance, got {step:g} and "
            f"{irregular_gap:g} s; set the interval",
            code=DiagnosticCode.INCONSISTENT,
        )
    first, last = float(timestamps[0]), float(timestamps[-1])
    begin = first + (window.start or 0.0)
    trace_window = resolve_window(
        path, window, step=step, begin=begin, length=last - begin + step
    )
    # A time with a small rounding error belongs to its nominal interval.
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


ROUNDING = 1e-9  # tolerated rounding error


def clip_to_one(values: Floats, quantity: str) -> tuple[Floats, tuple[str, ...]]:
    """Return *values* limited to 1, and a note if some were larger.

    Args:
        values: Fractions; shape (guests, samples).
        quantity: Name of the quantity, for the note.
    """
    guests_above = int((values > 1 + ROUNDING).any(axis=1).sum())
    count = format_count(guests_above, "guest")
    note = f"{quantity} above 100 % counts as 100 %: {count}"
    return np.minimum(values, 1.0), (note,) if guests_above else ()
