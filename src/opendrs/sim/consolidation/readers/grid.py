"""Samples of guests, added up into the intervals of a window as they are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from opendrs.errors import InvalidFileError, InvalidSettingError
from opendrs.sim.consolidation.hardware import Floats, Integers, Truths
from opendrs.sim.consolidation.readers.tables import MOST
from opendrs.sim.consolidation.readers.window import Frame, Window, limited

CHUNK = 4096  # guests that are finished at a time
LARGEST = 200_000_000  # samples in all, of 12 bytes; as many again for memory


@dataclass(frozen=True, slots=True)
class Kept:
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


class Grid:
    """The mean of what was sampled, by guest and interval.

    Memory is taken for guests that have samples in the window, and for nothing else
    of the trace.

    Args:
        frame: The window.
        memory: Whether memory is read too.
        early: How many seconds before its interval begins a sample may be taken.
    """

    def __init__(self, frame: Frame, *, memory: bool, early: float = 0.0) -> None:
        self._frame, self._early = frame, early
        self._index: dict[str, int] = {}
        self._cpu = _Sums(frame.samples)
        self._memory = _Sums(frame.samples) if memory else None
        self._first, self._last = np.inf, -np.inf

    def add(
        self,
        names: list[str],
        which: Integers,
        time: Floats,
        *columns: Floats,
        weight: Floats | None = None,
    ) -> None:
        """Add samples.

        Args:
            names: Guests.
            which: Which of them each sample is of; shape (samples,).
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
        place = (time + self._early - self._frame.begin) / self._frame.interval
        inside = (place >= 0) & (place < self._frame.samples)
        if not inside.any():
            return
        rows = self._rows(names, which[inside])
        flat = rows * self._frame.samples + place[inside].astype(np.int64)
        counts = np.ones(len(flat)) if weight is None else weight[inside]
        sums = [self._cpu] if self._memory is None else [self._cpu, self._memory]
        for total, column in zip(sums, columns, strict=True):
            total.add(flat, column[inside], counts, len(self._index))

    def _rows(self, names: list[str], which: Integers) -> Integers:
        """Return the row of the guest of each sample."""
        seen, back = np.unique(which, return_inverse=True)
        index = self._index
        rows = [index.setdefault(names[each], len(index)) for each in seen.tolist()]
        samples = self._frame.samples
        if len(index) * samples > LARGEST:
            raise InvalidSettingError(
                f"{self._frame.trace}: {len(index):,} guests or more, with {samples:,} "
                f"intervals each, are more than {LARGEST:,} samples: choose a shorter "
                "length or a longer interval, or look for a wrong time in the trace"
            )
        return np.array(rows, np.int64)[back]

    def require_once(self, path: object, most: float) -> None:
        """Check that no guest has samples of more weight in an interval than *most*.

        Raises:
            InvalidFileError: One has, so samples are there twice.
        """
        names = list(self._index)
        rows, cells = np.nonzero(self._cpu.weight[: len(names)] > most + 1e-9)
        found = sorted(zip((names[row] for row in rows), cells.tolist(), strict=True))
        complaints = []
        for name, cell in found[:MOST]:
            when = self._frame.begin + cell * self._frame.interval
            complaints.append(
                f"{path}: guest {name!r} has more samples from {when:.10g} to "
                f"{when + self._frame.interval:.10g} s than belong there: "
                "is something there twice?"
            )
        if complaints:
            raise InvalidFileError(*complaints)

    def kept(self, path: object, window: Window, known: Iterable[str] | None) -> Kept:
        """Return the guests that are there all through the window.

        Args:
            path: What was read, for messages.
            window: How long a gap may be, and how many guests are wanted.
            known: Guests whose size is known; None for all.

        Raises:
            InvalidFileError: There is none.
        """
        names = sorted(self._index)
        if known is not None:
            wanted = frozenset(known)
            names = [name for name in names if name in wanted]
        most = len(names) if window.most is None else window.most
        result = _Finished([], [], [])
        reach = int(window.carried // self._frame.interval)
        for start in range(0, len(names), CHUNK):
            if len(result.names) > most:
                break
            self._finish(names[start : start + CHUNK], reach, result)
        if not result.names:
            raise InvalidFileError(f"{path}: {self._nobody()}")
        lost = "they are not there all through the window"
        if known is not None:
            lost += ", or of unknown size"
        return result.kept(most, len(self._index), window, lost)

    def _finish(self, names: list[str], reach: int, result: _Finished) -> None:
        rows = np.array([self._index[name] for name in names], np.int64)
        values, lost = self._cpu.filled(rows, reach)
        columns = [values]
        if self._memory is not None:
            values, gaps = self._memory.filled(rows, reach)
            columns.append(values)
            lost |= gaps
        whole = ~np.isnan(columns[0]).any(axis=1)
        for values in columns[1:]:
            whole &= ~np.isnan(values).any(axis=1)
        result.names.extend(names[each] for each in np.flatnonzero(whole).tolist())
        result.columns.append([values[whole] for values in columns])
        result.carried.append(lost[whole].sum(axis=1))

    def _nobody(self) -> str:
        begin, end = self._frame.begin, self._frame.end
        if self._first > self._last:
            return "no samples in there"
        return (
            f"no guest is there from {begin:.10g} to {end:.10g} s; samples lie between "
            f"{self._first:.10g} and {self._last:.10g} s: "
            "choose another start or length"
        )


@dataclass(frozen=True, slots=True)
class _Finished:
    """What is finished so far, in parts: names, columns, and samples carried."""

    names: list[str]
    columns: list[list[Floats]]
    carried: list[Integers]

    def kept(self, most: int, total: int, window: Window, lost: str) -> Kept:
        columns = [
            np.concatenate(parts)[:most] for parts in zip(*self.columns, strict=True)
        ]
        carried = np.concatenate(self.carried)[:most]
        notes = list(limited(window, len(self.names)))
        left = total - len(self.names)
        if left and not notes:
            notes.append(f"guests left out, as {lost}: {left} of {total}")
        if carried.any():
            notes.append(
                f"gaps of at most {window.carried:g} s take the value before them: "
                f"{carried.sum()} samples of {int((carried > 0).sum())} guests"
            )
        return Kept(
            tuple(self.names[:most]),
            columns[0],
            columns[1] if len(columns) > 1 else None,
            tuple(notes),
        )


class _Sums:
    """Sums and their weights; shape (guests, samples), growing as guests come."""

    def __init__(self, samples: int) -> None:
        self.total = np.zeros((0, samples))
        self.weight = np.zeros((0, samples), np.float32)

    def add(self, flat: Integers, values: Floats, counts: Floats, guests: int) -> None:
        if guests > len(self.total):
            most = LARGEST // self.total.shape[1]
            self._grow(max(guests, min(2 * len(self.total), most)))
        known = ~np.isnan(values)
        where = flat[known]
        np.add.at(self.total.reshape(-1), where, values[known] * counts[known])
        np.add.at(self.weight.reshape(-1), where, counts[known].astype(np.float32))

    def _grow(self, rows: int) -> None:
        for name in ("total", "weight"):
            old = getattr(self, name)
            new = np.zeros((rows, old.shape[1]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def filled(self, rows: Integers, reach: int) -> tuple[Floats, Truths]:
        """Return the means of *rows*, gaps filled, and which were missing."""
        weight = self.weight[rows].astype(np.float64)
        lost = weight == 0
        means = self.total[rows] / np.where(lost, 1.0, weight)
        means[lost] = np.nan
        return filled(means, reach), lost


def filled(values: Floats, reach: int) -> Floats:
    """Return *values* with gaps filled that are short enough.

    A gap takes the value before it, at the beginning the one after it, for at most
    *reach* samples.

    Args:
        values: NaN where unknown; shape (guests, samples).
        reach: How far a value counts.
    """
    known = ~np.isnan(values)
    place = np.arange(values.shape[1])
    last = np.maximum.accumulate(np.where(known, place, -1), axis=1)
    first = known.argmax(axis=1)[:, None]
    nearest = np.where(last < 0, first, last)
    near = np.abs(place - nearest) <= reach
    return np.where(near, np.take_along_axis(values, nearest, axis=1), np.nan)
