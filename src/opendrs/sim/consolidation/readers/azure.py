"""Microsoft Azure's public data sets of virtual machines, 2017 (V1) and 2019 (V2).

`vmtable.csv` tells the size and the life of each, `vm_cpu_readings-file-*-of-*.csv`
their load, a slice of time each; both may be gzipped, and lie anywhere in the
directory. No file names its columns. V1 tells cores and GB exactly; V2 in buckets,
told by their upper end, of which the last are ">24" and ">64": they count as 30
cores and 70 GB, as in the notebook that is published with the data. Memory in use
was not recorded: a guest uses all of its own.

Source:
    Cortez et al., Resource Central (SOSP 2017); columns as in AzurePublicDatasetV1.md,
    AzurePublicDatasetV2.md and the notebook "Azure 2019 Public Dataset V2 - Trace
    Analysis" of github.com/Azure/AzurePublicDataset.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.hardware import Floats, Integers
from opendrs.sim.consolidation.readers.delimited import read_csv
from opendrs.sim.consolidation.readers.grid import Grid, Kept
from opendrs.sim.consolidation.readers.tables import Batch, Field, Form
from opendrs.sim.consolidation.readers.window import WHOLE, Frame, Window, frame
from opendrs.sim.consolidation.sources import Source, sources
from opendrs.sim.consolidation.workload import CpuUnit, Sizes, Workload

STEP = 300.0  # s
DAY = 86_400.0
PERCENT = 100.0
GB = 1024  # MB
CREATED, DELETED, CORES, MEMORY = "vmcreated", "vmdeleted", "cores", "memory"
TABLE = Form(
    columns=(
        *("vmid", "subscriptionid", "deploymentid", CREATED, DELETED),
        *("maxcpu", "avgcpu", "p95maxcpu", "vmcategory", CORES, MEMORY),
    ),
    key=("vmid",),
    fields=(
        Field(name=CREATED),
        Field(name=DELETED),
        Field(name=CORES, least=1, words={">24": 30.0}),
        Field(name=MEMORY, least=0.01, words={">64": 70.0}),
    ),
)
READINGS = Form(
    columns=("timestamp", "vmid", "mincpu", "maxcpu", "avgcpu"),
    key=("vmid",),
    fields=(Field(name="timestamp"), Field(name="avgcpu", most=PERCENT)),
)


@dataclass(frozen=True, slots=True)
class _Table:
    """Those that live all through a window, of how many: cores and GB of each."""

    alive: dict[str, tuple[float, float]]
    total: int


def azure(path: Path, window: Window = WHOLE) -> Workload:
    """Return guests of Azure, with their cores and memory.

    All files are read, whatever the window: leave out those that lie beyond it.

    Args:
        path: A directory with the readings, and vmtable.csv; without that, guests
            are of the usual kinds.
        window: Which part of it; the first day if nothing else is asked for.

    Raises:
        InvalidFileError: There is nothing, or not what there should be.
        InvalidSettingError: The window does not suit it.
    """
    begin = window.start or 0.0
    span = frame(path, window, step=STEP, begin=begin, length=DAY)
    if path.exists() and not path.is_dir():
        raise InvalidFileError(f"{path}: expected a directory, found a file")
    tables, readings = [], []
    for source in sources(path, deep=True):
        name = source.name.removesuffix(".gz")
        if name.endswith("vmtable.csv"):
            tables.append(source)
        elif name.endswith(".csv") and "vm_cpu_readings" in name:
            readings.append(source)
    if not readings:
        raise InvalidFileError(f"{path}: no vm_cpu_readings-file-*.csv in there")
    table = _table(tables, span, window) if tables else None
    grid = _filled(readings, span, table)
    grid.require_once(path, np.ceil(span.interval / STEP))
    try:
        kept = grid.kept(path, window, None)
    except InvalidFileError as error:
        if table is None:
            raise
        why = f"vmtable has {len(table.alive)} of {table.total} guests that live then"
        raise InvalidFileError(*error.complaints, f"{path}: {why}") from error
    return _workload(kept, span, table)


def _table(found: list[Source], span: Frame, window: Window) -> _Table:
    """Return the guests that live all through *span*, as far as gaps may be filled."""
    alive, total = {}, 0
    for source in found:
        for batch in read_csv(source, TABLE):
            values = batch.values
            total += len(batch.which)
            there = values[CREATED] <= span.begin + window.carried
            # The last reading begins when the guest is deleted.
            there &= values[DELETED] + STEP + window.carried >= span.end
            for row in np.flatnonzero(there).tolist():
                size = (float(values[CORES][row]), float(values[MEMORY][row]))
                alive[batch.names[int(batch.which[row])]] = size
    return _Table(alive, total)


def _filled(readings: list[Source], span: Frame, table: _Table | None) -> Grid:
    grid = Grid(span, memory=False)
    for source in readings:
        for batch in read_csv(source, READINGS):
            rows = _wanted(batch, table)
            grid.add(
                batch.names,
                batch.which[rows],
                batch.values["timestamp"][rows],
                batch.values["avgcpu"][rows] / PERCENT,
            )
    return grid


def _wanted(batch: Batch, table: _Table | None) -> Integers:
    """Return which rows are of guests that count."""
    if table is None:
        return np.arange(len(batch.which))
    alive = np.array([name in table.alive for name in batch.names], np.bool_)
    return np.flatnonzero(alive[batch.which])


def _workload(kept: Kept, span: Frame, table: _Table | None) -> Workload:
    notes = ["memory in use was not recorded: guests use all of theirs"]
    sizes = None
    if table is None:
        notes.append("there is no vmtable.csv: guests are of the usual kinds")
    else:
        told: Floats = np.array([table.alive[name] for name in kept.names])
        sizes = Sizes(
            cpu=told[:, 0],
            cpu_unit=CpuUnit.CORES,
            cores=told[:, 0],
            memory=told[:, 1] * GB,
        )
        lost = table.total - len(table.alive)
        why = "guests left out, as vmtable has them created later or deleted earlier"
        if lost:
            notes.append(f"{why}: {lost} of {table.total}")
    return Workload(
        names=kept.names,
        cpu=kept.cpu,
        sizes=sizes,
        interval=span.interval,
        notes=(*kept.notes, *notes),
    )
