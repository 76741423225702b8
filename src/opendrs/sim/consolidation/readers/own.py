"""Our own form of a trace, in CSV or Parquet: a row for each guest and sample.

| column | |
|---|---|
| `guest` | its name |
| `cpu` | in percent of its own |
| `memory` | in percent of its own; need not be there |
| `time` | in seconds; need not be there |
| `sample` | instead of `time`: its number, one every 300 s; need not be there |
| `cores`, `mips`, `memory_mb` | how large the guest is; need not be there |

Rows may be in any order where there is a time; without one, those of a guest are in
order. Parquet may also be wide: `time` or `sample`, then a column of CPU per guest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.readers.delimited import csv_columns, read_csv
from opendrs.sim.consolidation.readers.finishing import part
from opendrs.sim.consolidation.readers.parquets import parquet_columns, read_parquet
from opendrs.sim.consolidation.readers.rows import in_order, in_time
from opendrs.sim.consolidation.readers.tables import LARGEST, Batch, Field, Form
from opendrs.sim.consolidation.readers.window import WHOLE, Window
from opendrs.sim.consolidation.sources import Source, single
from opendrs.sim.consolidation.workload import CpuUnit, Sizes, Workload

STEP = 300.0  # s, where there is no time
PERCENT = 100.0
NAME, CPU, MEMORY, TIME, SAMPLE = "guest", "cpu", "memory", "time", "sample"
CORES, MIPS, MB = "cores", "mips", "memory_mb"
WHEN = (
    Field(name=TIME, least=-LARGEST, needed=False),
    Field(name=SAMPLE, needed=False),
)
LOAD = (Field(name=CPU, most=PERCENT), Field(name=MEMORY, needed=False))
SIZES = (
    Field(name=CORES, least=1, needed=False),
    Field(name=MIPS, least=1e-3, needed=False),
    Field(name=MB, least=1e-3, needed=False),
)
Read = Callable[[tuple[Field, ...]], Iterator[Batch]]


def plain(path: Path, window: Window = WHOLE) -> Workload:
    """Return a workload from CSV, whose first line names the columns.

    Raises:
        InvalidFileError: It cannot be read, or does not hold that.
        InvalidSettingError: The window does not suit it.
    """
    source = single(path)
    fields = _present(csv_columns(source), source)

    def read(wanted: tuple[Field, ...]) -> Iterator[Batch]:
        return read_csv(source, Form(key=(NAME,), fields=wanted))

    return _workload(path, window, fields, read)


def parquet(path: Path, window: Window = WHOLE) -> Workload:
    """Return a workload from Parquet, a row per guest and sample, or wide.

    Raises:
        InvalidFileError: It cannot be read, or does not hold that.
        InvalidSettingError: The window does not suit it.
    """
    source = single(path)
    columns = parquet_columns(source)
    if NAME not in columns and columns[:1] in ((TIME,), (SAMPLE,)):
        return _wide(path, window, source, columns)
    fields = _present(columns, source)

    def read(wanted: tuple[Field, ...]) -> Iterator[Batch]:
        return read_parquet(source, Form(key=(NAME,), fields=wanted))

    return _workload(path, window, fields, read)


def _present(columns: tuple[str, ...], source: Source) -> tuple[Field, ...]:
    """Return those of our fields that are there."""
    form = Form(key=(NAME,), fields=(*LOAD, *WHEN, *SIZES))
    return form.within(columns, source.label).fields


def _wide(
    path: Path, window: Window, source: Source, columns: tuple[str, ...]
) -> Workload:
    when = next(each for each in WHEN if each.name == columns[0])
    guests = tuple(Field(name=name, most=PERCENT) for name in columns[1:])
    if not guests:
        raise InvalidFileError(f"{source.label}: no column besides {columns[0]!r}")

    def read(wanted: tuple[Field, ...]) -> Iterator[Batch]:
        load = wanted != (when,)
        form = Form(key=(), fields=(when, *guests) if load else (when,))
        for batch in read_parquet(source, form):
            yield _long(batch, when.name, columns[1:]) if load else batch

    return _workload(path, window, (LOAD[0], when), read)


def _long(batch: Batch, when: str, guests: tuple[str, ...]) -> Batch:
    """Return a row for each guest and sample."""
    time = batch.values[when]
    which = np.repeat(np.arange(len(guests)), len(time))
    cpu = np.concatenate([batch.values[name] for name in guests])
    return Batch(list(guests), which, {when: np.tile(time, len(guests)), CPU: cpu})


def _workload(
    path: Path, window: Window, fields: tuple[Field, ...], read: Read
) -> Workload:
    present = {each.name for each in fields}
    load = tuple(each for each in LOAD if each.name in present)
    sized = tuple(each for each in SIZES if each.name in present)
    when = next((each for each in WHEN if each.name in present), None)
    largest = _Largest()

    def rows() -> Iterator[Batch]:
        for batch in read((*load, *sized, *((when,) if when else ()))):
            largest.add(batch, sized)
            yield batch

    names = tuple(each.name for each in load)
    if when is None:
        kept, interval = in_order(path, window, rows(), names, STEP)
    else:
        unit = 1.0 if when.name == TIME else STEP
        times = (batch.values[when.name] * unit for batch in read((when,)))
        kept, interval = in_time(
            path,
            window,
            times,
            ((b, b.values[when.name] * unit) for b in rows()),
            names,
        )
    memory, above = (
        (None, ()) if kept.memory is None else part(kept.memory / PERCENT, MEMORY)
    )
    return Workload(
        names=kept.names,
        cpu=kept.cpu / PERCENT,
        memory=memory,
        sizes=largest.sizes(path, kept.names),
        interval=interval,
        notes=(*kept.notes, *above),
    )


@dataclass(frozen=True, slots=True)
class _Largest:
    """The largest size that was told of each guest, by field."""

    found: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, batch: Batch, fields: tuple[Field, ...]) -> None:
        """Take note of the sizes in *batch*."""
        for each in fields:
            most = np.zeros(len(batch.names))
            np.maximum.at(most, batch.which, batch.values[each.name])
            before = self.found.setdefault(each.name, {})
            for name, size in zip(batch.names, most.tolist(), strict=True):
                before[name] = max(before.get(name, 0.0), size)

    def sizes(self, path: Path, names: tuple[str, ...]) -> Sizes | None:
        """Return the sizes of guests; None where none are told."""
        cores, mips, memory = (self._column(each, names) for each in (CORES, MIPS, MB))
        cpu = cores if mips is None else mips
        if cpu is None and memory is None:
            return None
        if cpu is None:
            raise InvalidFileError(
                f"{path}: expected a column {CORES!r} or {MIPS!r} beside {MB!r}"
            )
        unit = CpuUnit.CORES if mips is None else CpuUnit.MIPS
        return Sizes(cpu=cpu, cpu_unit=unit, cores=cores, memory=memory)

    def _column(self, what: str, names: tuple[str, ...]) -> Floats | None:
        found = self.found.get(what)
        return None if found is None else np.array([found[each] for each in names])
