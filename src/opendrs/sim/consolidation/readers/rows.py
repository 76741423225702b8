"""Rows of guests and samples, put in order: as they come, or by their time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.hardware import Floats, Integers
from opendrs.sim.consolidation.readers.grid import Grid, Kept
from opendrs.sim.consolidation.readers.tables import Batch
from opendrs.sim.consolidation.readers.window import Window, cut, frame, limited
from opendrs.sim.consolidation.sources import first_few
from opendrs.sim.consolidation.workload import LEAST

EVEN = 1e-6  # of the step, by which times may be off
SHORTEST = 1e-3  # s, from one time to the next


def in_order(
    path: Path,
    window: Window,
    batches: Iterable[Batch],
    columns: tuple[str, ...],
    step: float,
) -> tuple[Kept, float]:
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
    found, loads = [], [[np.zeros(0)] for _ in columns]
    for batch in batches:
        rows = [index.setdefault(name, len(index)) for name in batch.names]
        found.append(np.array(rows, np.int64)[batch.which])
        for load, column in zip(loads, columns, strict=True):
            load.append(batch.values[column])
    if not index:
        raise InvalidFileError(f"{path}: no traces in there")
    row, guests = np.concatenate(found), sorted(index)
    place = [index[name] for name in guests]
    _require_even(path, guests, np.bincount(row)[place])
    order = np.argsort(row, kind="stable")
    tables = [
        np.concatenate(load)[order].reshape(len(guests), -1)[place] for load in loads
    ]
    parts = [cut(path, table, window, step) for table in tables]
    cpu, interval = parts[0]
    memory = parts[1][0] if len(parts) > 1 else None
    notes = limited(window, len(guests))
    return Kept(tuple(guests[: len(cpu)]), cpu, memory, notes), interval


def _require_even(path: Path, names: list[str], counts: Integers) -> None:
    """Check that there are as many samples of each guest, and enough."""
    length = int(counts[0])
    complaints = [
        f"{path}: {names[each]}: {counts[each]} samples instead of {length}"
        for each in np.flatnonzero(counts != length).tolist()
    ]
    if length < LEAST:
        complaints.append(f"{path}: {names[0]}: fewer than {LEAST} samples")
    if complaints:
        raise first_few(str(path), complaints)


def in_time(
    path: Path,
    window: Window,
    times: Iterable[Floats],
    batches: Iterator[tuple[Batch, Floats]],
    columns: tuple[str, ...],
) -> tuple[Kept, float]:
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
    found = np.zeros(0)
    for each in times:
        found = np.union1d(found, each)
    if len(found) < LEAST:
        raise InvalidFileError(f"{path}: fewer than {LEAST} samples")
    gaps = np.diff(found)
    step = float(gaps.min())
    if step < SHORTEST:
        place = int(gaps.argmin())
        raise InvalidFileError(
            f"{path}: time: expected samples at least {SHORTEST:g} s apart, found "
            f"{found[place]:.10g} and {found[place + 1]:.10g} s"
        )
    even = bool((np.abs(gaps / step - np.round(gaps / step)) < EVEN).all())
    if not even and window.interval is None:
        odd = float(gaps[np.abs(gaps / step - np.round(gaps / step)) >= EVEN][0])
        raise InvalidFileError(
            f"{path}: time: expected samples at a fixed distance, found {step:g} and "
            f"{odd:g} s; say how long an interval is"
        )
    first, last = float(found[0]), float(found[-1])
    begin = first + (window.start or 0.0)
    span = frame(path, window, step=step, begin=begin, length=last - begin + step)
    # Times that are off by rounding belong to the interval they are meant for.
    grid = Grid(span, memory=len(columns) > 1, early=EVEN * step)
    for batch, time in batches:
        grid.add(
            batch.names, batch.which, time, *(batch.values[each] for each in columns)
        )
    grid.require_once(path, np.ceil(span.interval / step - EVEN) + (not even))
    return grid.kept(path, window, None), span.interval
