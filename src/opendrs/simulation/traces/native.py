"""Native trace format, in CSV or Parquet: one row per guest and sample.

| column | meaning |
|---|---|
| `guest` | name |
| `cpu` | percent of its own |
| `memory` | percent of its own; optional |
| `time` | seconds; optional |
| `sample` | instead of `time`: number, one every 300 s; optional |
| `cores`, `mips`, `memory_mb` | size of the guest; optional |

With a time, rows may be in any order. Without one, those of each guest are in order of
time. Parquet may also be wide: `time` or `sample`, then one column of CPU per guest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces.columns import (
    MAX_NUMBER,
    NumberColumn,
    RowBatch,
    TableFormat,
)
from opendrs.simulation.traces.delimited import csv_columns, read_csv
from opendrs.simulation.traces.files import TraceSource, single_source
from opendrs.simulation.traces.parquet import parquet_columns, read_parquet
from opendrs.simulation.traces.resample import (
    clip_to_one,
    resample_ordered,
    resample_timed,
)
from opendrs.simulation.traces.window import WHOLE_TRACE, WindowSettings
from opendrs.simulation.workload import CpuUnit, Floats, GuestSizes, Workload

SAMPLE_INTERVAL = 300.0  # s, without a time column
FULL_PERCENT = 100.0
NAME, CPU, MEMORY, TIME, SAMPLE = "guest", "cpu", "memory", "time", "sample"
CORES, MIPS, MB = "cores", "mips", "memory_mb"
TIME_COLUMNS = (
    NumberColumn(name=TIME, minimum=-MAX_NUMBER, required=False),
    NumberColumn(name=SAMPLE, required=False),
)
LOAD_COLUMNS = (
    NumberColumn(name=CPU, maximum=FULL_PERCENT),
    NumberColumn(name=MEMORY, required=False),
)
SIZE_COLUMNS = (
    NumberColumn(name=CORES, minimum=1, required=False),
    NumberColumn(name=MIPS, minimum=1e-3, required=False),
    NumberColumn(name=MB, minimum=1e-3, required=False),
)
BatchReader = Callable[[tuple[NumberColumn, ...]], Iterator[RowBatch]]


def read_native_csv(path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
    """Return a workload from CSV with the column names in its first line.

    Raises:
        InvalidFileError: The file cannot be read, or its content is invalid.
        InvalidSettingError: The window does not fit the trace.
    """
    source = single_source(path)
    fields = _present_columns(csv_columns(source), source)

    def read(columns: tuple[NumberColumn, ...]) -> Iterator[RowBatch]:
        return read_csv(source, TableFormat(key=(NAME,), fields=columns))

    return _workload(path, window, fields, read)


def read_native_parquet(path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
    """Return a workload from Parquet, with a row per guest and sample, or wide.

    Raises:
        InvalidFileError: The file cannot be read, or its content is invalid.
        InvalidSettingError: The window does not fit the trace.
    """
    source = single_source(path)
    columns = parquet_columns(source)
    if NAME not in columns and columns[:1] in ((TIME,), (SAMPLE,)):
        return _wide_workload(path, window, source, columns)
    fields = _present_columns(columns, source)

    def read(columns: tuple[NumberColumn, ...]) -> Iterator[RowBatch]:
        return read_parquet(source, TableFormat(key=(NAME,), fields=columns))

    return _workload(path, window, fields, read)


def _present_columns(
    columns: tuple[str, ...], source: TraceSource
) -> tuple[NumberColumn, ...]:
    """Return the known columns that exist in the file."""
    table_format = TableFormat(
        key=(NAME,), fields=(*LOAD_COLUMNS, *TIME_COLUMNS, *SIZE_COLUMNS)
    )
    return table_format.select_columns(columns, source.label).fields


def _wide_workload(
    path: Path, window: WindowSettings, source: TraceSource, columns: tuple[str, ...]
) -> Workload:
    time_column = next(each for each in TIME_COLUMNS if each.name == columns[0])
    guests = tuple(
        NumberColumn(name=name, maximum=FULL_PERCENT) for name in columns[1:]
    )
    if not guests:
        raise InvalidFileError(
            f"{source.label}: no column besides {columns[0]!r}",
            code=DiagnosticCode.MISSING_KEY,
        )

    def read(wanted_columns: tuple[NumberColumn, ...]) -> Iterator[RowBatch]:
        with_load = wanted_columns != (time_column,)
        table_format = TableFormat(
            key=(), fields=(time_column, *guests) if with_load else (time_column,)
        )
        for batch in read_parquet(source, table_format):
            yield _to_long(batch, time_column.name, columns[1:]) if with_load else batch

    return _workload(path, window, (LOAD_COLUMNS[0], time_column), read)


def _to_long(batch: RowBatch, time_column: str, guests: tuple[str, ...]) -> RowBatch:
    """Return one row per guest and sample."""
    time = batch.values[time_column]
    guest_index = np.repeat(np.arange(len(guests)), len(time))
    cpu = np.concatenate([batch.values[name] for name in guests])
    return RowBatch(
        list(guests), guest_index, {time_column: np.tile(time, len(guests)), CPU: cpu}
    )


def _workload(
    path: Path,
    window: WindowSettings,
    fields: tuple[NumberColumn, ...],
    read: BatchReader,
) -> Workload:
    present = {each.name for each in fields}
    load = tuple(each for each in LOAD_COLUMNS if each.name in present)
    size_columns = tuple(each for each in SIZE_COLUMNS if each.name in present)
    time_column = next((each for each in TIME_COLUMNS if each.name in present), None)
    max_sizes = _MaxSizes()

    def rows() -> Iterator[RowBatch]:
        for batch in read(
            (*load, *size_columns, *((time_column,) if time_column else ()))
        ):
            max_sizes.add(batch, size_columns)
            yield batch

    names = tuple(each.name for each in load)
    if time_column is None:
        resampled, interval = resample_ordered(
            path, window, rows(), names, SAMPLE_INTERVAL
        )
    else:
        unit = 1.0 if time_column.name == TIME else SAMPLE_INTERVAL
        times = (
            batch.values[time_column.name] * unit for batch in read((time_column,))
        )
        resampled, interval = resample_timed(
            path,
            window,
            times,
            ((b, b.values[time_column.name] * unit) for b in rows()),
            names,
        )
    memory, memory_notes = (
        (None, ())
        if resampled.memory is None
        else clip_to_one(resampled.memory / FULL_PERCENT, MEMORY)
    )
    return Workload(
        names=resampled.names,
        cpu=resampled.cpu / FULL_PERCENT,
        memory=memory,
        sizes=max_sizes.sizes(path, resampled.names),
        interval=interval,
        notes=(*resampled.notes, *memory_notes),
    )


@dataclass(frozen=True, slots=True)
class _MaxSizes:
    """Largest recorded size of each guest, by column."""

    by_column: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, batch: RowBatch, fields: tuple[NumberColumn, ...]) -> None:
        """Record the sizes in *batch*."""
        for each in fields:
            maximum = np.zeros(len(batch.names))
            np.maximum.at(maximum, batch.guest_index, batch.values[each.name])
            before = self.by_column.setdefault(each.name, {})
            for name, size in zip(batch.names, maximum.tolist(), strict=True):
                before[name] = max(before.get(name, 0.0), size)

    def sizes(self, path: Path, names: tuple[str, ...]) -> GuestSizes | None:
        """Return the sizes of guests; None if none were recorded."""
        cores, mips, memory = (self._column(each, names) for each in (CORES, MIPS, MB))
        cpu = cores if mips is None else mips
        if cpu is None and memory is None:
            return None
        if cpu is None:
            raise InvalidFileError(
                f"{path}: expected a column {CORES!r} or {MIPS!r} beside {MB!r}",
                code=DiagnosticCode.MISSING_KEY,
            )
        unit = CpuUnit.CORES if mips is None else CpuUnit.MIPS
        return GuestSizes(cpu=cpu, cpu_unit=unit, cores=cores, memory=memory)

    def _column(self, name: str, names: tuple[str, ...]) -> Floats | None:
        sizes = self.by_column.get(name)
        return None if sizes is None else np.array([sizes[each] for each in names])
