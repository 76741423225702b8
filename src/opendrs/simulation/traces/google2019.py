"""Google's cluster data of 2019 (cluster-usage traces v3): the table InstanceUsage.

Either as published (`instance_usage-*.json.gz`, one object per line, integers as
strings), or as exported from BigQuery: JSON lines, Parquet, or CSV with the columns
`average_usage.cpus` and `average_usage.memory`. A guest is an instance of a job. Alloc
instances are reservations in which instances run, and are skipped. CPU and memory are
relative to the largest machine. The requests of instances are in another table. Here
the size of an instance is its largest usage, averaged over an interval, in the window.

Source:
    Wilkes, Google cluster-usage traces v3 (2020); clusterdata_trace_format_v3.proto of
    github.com/google/cluster-data. Tirmazi et al., Borg: the Next Generation
    (EuroSys 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces.columns import NumberColumn, RowBatch, TableFormat
from opendrs.simulation.traces.delimited import read_csv
from opendrs.simulation.traces.files import TraceSource, trace_sources
from opendrs.simulation.traces.json_lines import read_json
from opendrs.simulation.traces.parquet import read_parquet
from opendrs.simulation.traces.resample import Resampler
from opendrs.simulation.traces.window import WHOLE_TRACE, WindowSettings, resolve_window
from opendrs.simulation.workload import (
    CpuUnit,
    Floats,
    GuestSizes,
    MemoryUnit,
    Workload,
)

SAMPLE_INTERVAL = 300.0  # s
DAY = 86_400.0
BEGIN = 600.0  # s, in the time of the trace
MICROSECONDS = 1e6
JOB = 0  # collection_type of jobs; 1 is an alloc set
MIN_SIZE = 1e-4  # least size of a guest, relative to the largest machine
TABLE = "instance_usage"
START, END, KIND = "start_time", "end_time", "collection_type"
CPU, MEMORY = "average_usage.cpus", "average_usage.memory"
TABLE_FORMAT = TableFormat(
    key=("collection_id", "instance_index"),
    fields=(
        NumberColumn(name=START),
        NumberColumn(name=END),
        NumberColumn(name=KIND, optional=True, required=False),
        NumberColumn(name=CPU, optional=True),
        NumberColumn(name=MEMORY, optional=True),
    ),
)


def read_google2019(path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
    """Return instances of jobs as guests.

    Args:
        path: A file, or a directory with files whose names contain "instance_usage".
        window: Part of the trace; by default the first day. The trace starts at
            600 s.

    Raises:
        InvalidFileError: There are no such files, or their content is invalid.
        InvalidSettingError: The window does not fit the trace.
    """
    begin = BEGIN if window.start is None else window.start
    trace_window = resolve_window(
        path, window, step=SAMPLE_INTERVAL, begin=begin, length=DAY
    )
    resampler = Resampler(trace_window, memory=True)
    allocs, count = 0, 0
    for source in trace_sources(path, recursive=True):
        if path.is_dir() and TABLE not in source.name:
            continue
        count += 1
        for batch in _read(source):
            allocs += _add_job_samples(resampler, batch, source)
    if not count:
        raise InvalidFileError(f"{path}: no {TABLE}-*.json.gz found")
    # Samples need not be aligned with the intervals.
    resampler.check_duplicates(path, 1.5 * trace_window.interval)
    resampled = resampler.complete_guests(path, window, None)
    assert resampled.memory is not None  # noqa: S101 - for the type checker
    max_cpu, max_memory = resampled.cpu.max(axis=1), resampled.memory.max(axis=1)
    cpu, memory = np.maximum(max_cpu, MIN_SIZE), np.maximum(max_memory, MIN_SIZE)
    notes = ["guest sizes are the largest usage in an interval"]
    if allocs:
        notes.append(f"samples of alloc instances skipped: {allocs}")
    return Workload(
        names=resampled.names,
        cpu=resampled.cpu / cpu[:, None],
        memory=resampled.memory / memory[:, None],
        sizes=GuestSizes(
            cpu=cpu,
            cpu_unit=CpuUnit.LARGEST_HOST,
            memory=memory,
            memory_unit=MemoryUnit.LARGEST_HOST,
        ),
        interval=trace_window.interval,
        notes=(*resampled.notes, *notes),
    )


def _read(source: TraceSource) -> Iterator[RowBatch]:
    name = source.name.removesuffix(".gz")
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return read_json(source, TABLE_FORMAT)
    if name.endswith(".csv"):
        return read_csv(source, TABLE_FORMAT)
    if name.endswith(".parquet"):
        return read_parquet(source, TABLE_FORMAT)
    raise InvalidFileError(
        f"{source.label}: expected .json, .jsonl, .csv (.gz or not), or .parquet"
    )


def _add_job_samples(resampler: Resampler, batch: RowBatch, source: TraceSource) -> int:
    """Add the samples of jobs; return the number of other samples."""
    values = batch.values
    start, end = values[START] / MICROSECONDS, values[END] / MICROSECONDS
    for row in np.flatnonzero(end <= start)[:1].tolist():
        guest = batch.names[int(batch.guest_index[row])]
        raise InvalidFileError(
            f"{source.label}: {END} of a sample of {guest!r}: expected more than "
            f"{START}, which is {values[START][row]:.0f}, got {values[END][row]:.0f}",
            code=DiagnosticCode.INCONSISTENT,
        )
    kind: Floats = values.get(KIND, np.full(len(start), np.nan))
    is_job = np.isnan(kind) | (kind == JOB)
    middle = (start + end) / 2  # samples may be shorter than an interval
    resampler.add(
        batch.names,
        batch.guest_index[is_job],
        middle[is_job],
        values[CPU][is_job],
        values[MEMORY][is_job],
        weight=(end - start)[is_job],
    )
    return int((~is_job).sum())
