"""Google's cluster data of 2019 (cluster-usage traces v3): the table InstanceUsage.

As published (`instance_usage-*.json.gz`, an object a line, whole numbers as strings),
or as exported from BigQuery: JSON lines, Parquet, or CSV with `average_usage.cpus` and
`average_usage.memory` in columns of their own. A guest is an instance of a job; alloc
instances are reservations in which such run, and are left out. CPU and memory are told
as part of the largest machine. What an instance asked for is in another table: here it
is as large as the most it used, on average of an interval, in the window.

Source:
    Wilkes, Google cluster-usage traces v3 (2020); clusterdata_trace_format_v3.proto of
    github.com/google/cluster-data. Tirmazi et al., Borg: the Next Generation
    (EuroSys 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.readers.delimited import read_csv
from opendrs.sim.consolidation.readers.grid import Grid
from opendrs.sim.consolidation.readers.jsonlines import read_json
from opendrs.sim.consolidation.readers.parquets import read_parquet
from opendrs.sim.consolidation.readers.tables import Batch, Field, Form
from opendrs.sim.consolidation.readers.window import WHOLE, Window, frame
from opendrs.sim.consolidation.sources import Source, sources
from opendrs.sim.consolidation.workload import CpuUnit, MemoryUnit, Sizes, Workload

STEP = 300.0  # s
DAY = 86_400.0
BEGIN = 600.0  # s, in the time of the trace
MICROSECONDS = 1e6
JOB = 0  # as collection_type; 1 is an alloc set
SMALLEST = 1e-4  # part of the largest machine; a guest that used less has that
TABLE = "instance_usage"
START, END, KIND = "start_time", "end_time", "collection_type"
CPU, MEMORY = "average_usage.cpus", "average_usage.memory"
FORM = Form(
    key=("collection_id", "instance_index"),
    fields=(
        Field(name=START),
        Field(name=END),
        Field(name=KIND, optional=True, needed=False),
        Field(name=CPU, optional=True),
        Field(name=MEMORY, optional=True),
    ),
)


def google2019(path: Path, window: Window = WHOLE) -> Workload:
    """Return instances of jobs as guests.

    Args:
        path: A file, or a directory with files whose names have "instance_usage".
        window: Which part of it; the first day if nothing else is asked for. The
            trace begins at 600 s.

    Raises:
        InvalidFileError: There is nothing, or not what there should be.
        InvalidSettingError: The window does not suit it.
    """
    begin = BEGIN if window.start is None else window.start
    span = frame(path, window, step=STEP, begin=begin, length=DAY)
    grid = Grid(span, memory=True)
    allocs, count = 0, 0
    for source in sources(path, deep=True):
        if path.is_dir() and TABLE not in source.name:
            continue
        count += 1
        for batch in _read(source):
            allocs += _add(grid, batch, source)
    if not count:
        raise InvalidFileError(f"{path}: no {TABLE}-*.json.gz in there")
    grid.require_once(path, 1.5 * span.interval)  # they need not be aligned
    kept = grid.kept(path, window, None)
    assert kept.memory is not None  # noqa: S101 - for the type checker
    most, least = kept.cpu.max(axis=1), kept.memory.max(axis=1)
    cpu, memory = np.maximum(most, SMALLEST), np.maximum(least, SMALLEST)
    notes = ["guests are as large as the most they used in an interval"]
    if allocs:
        notes.append(f"samples of alloc instances are left out: {allocs}")
    return Workload(
        names=kept.names,
        cpu=kept.cpu / cpu[:, None],
        memory=kept.memory / memory[:, None],
        sizes=Sizes(
            cpu=cpu,
            cpu_unit=CpuUnit.LARGEST_HOST,
            memory=memory,
            memory_unit=MemoryUnit.LARGEST_HOST,
        ),
        interval=span.interval,
        notes=(*kept.notes, *notes),
    )


def _read(source: Source) -> Iterator[Batch]:
    name = source.name.removesuffix(".gz")
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return read_json(source, FORM)
    if name.endswith(".csv"):
        return read_csv(source, FORM)
    if name.endswith(".parquet"):
        return read_parquet(source, FORM)
    raise InvalidFileError(
        f"{source.label}: expected .json, .jsonl, .csv (.gz or not), or .parquet"
    )


def _add(grid: Grid, batch: Batch, source: Source) -> int:
    """Add samples of jobs; return how many were of others."""
    values = batch.values
    start, end = values[START] / MICROSECONDS, values[END] / MICROSECONDS
    for row in np.flatnonzero(end <= start)[:1].tolist():
        who = batch.names[int(batch.which[row])]
        raise InvalidFileError(
            f"{source.label}: {END} of a sample of {who!r}: expected more than "
            f"{START}, which is {values[START][row]:.0f}, found {values[END][row]:.0f}"
        )
    kind: Floats = values.get(KIND, np.full(len(start), np.nan))
    job = np.isnan(kind) | (kind == JOB)
    middle = (start + end) / 2  # samples may be shorter than an interval
    grid.add(
        batch.names,
        batch.which[job],
        middle[job],
        values[CPU][job],
        values[MEMORY][job],
        weight=(end - start)[job],
    )
    return int((~job).sum())
