"""Microsoft Azure's public data sets of virtual machines, 2017 (V1) and 2019 (V2).

`vmtable.csv` contains the size and lifetime of each guest,
`vm_cpu_readings-file-*-of-*.csv` the load, one slice of time per file. All may be
gzipped, and in any subdirectory. The files have no header. V1 has exact cores and GB.
V2 has buckets, given by their upper end; the last are ">24" and ">64". They count as 30
cores and 70 GB, as in the notebook that is published with the data. Memory usage was
not recorded: a guest uses all of its own.

Source:
    Cortez et al., Resource Central (SOSP 2017); columns as in AzurePublicDatasetV1.md,
    AzurePublicDatasetV2.md and the notebook "Azure 2019 Public Dataset V2 - Trace
    Analysis" of github.com/Azure/AzurePublicDataset.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces.columns import NumberColumn, RowBatch, TableFormat
from opendrs.simulation.traces.delimited import read_csv
from opendrs.simulation.traces.files import TraceSource, trace_sources
from opendrs.simulation.traces.resample import ResampledLoad, Resampler
from opendrs.simulation.traces.window import (
    WHOLE_TRACE,
    TraceWindow,
    WindowSettings,
    resolve_window,
)
from opendrs.simulation.workload import CpuUnit, Floats, GuestSizes, Integers, Workload

SAMPLE_INTERVAL = 300.0  # s
DAY = 86_400.0
PERCENT = 100.0
GB = 1024  # MB
CREATED, DELETED, CORES, MEMORY = "vmcreated", "vmdeleted", "cores", "memory"
VM_TABLE = TableFormat(
    columns=(
        *("vmid", "subscriptionid", "deploymentid", CREATED, DELETED),
        *("maxcpu", "avgcpu", "p95maxcpu", "vmcategory", CORES, MEMORY),
    ),
    key=("vmid",),
    fields=(
        NumberColumn(name=CREATED),
        NumberColumn(name=DELETED),
        NumberColumn(name=CORES, minimum=1, symbols={">24": 30.0}),
        NumberColumn(name=MEMORY, minimum=0.01, symbols={">64": 70.0}),
    ),
)
READINGS = TableFormat(
    columns=("timestamp", "vmid", "mincpu", "maxcpu", "avgcpu"),
    key=("vmid",),
    fields=(
        NumberColumn(name="timestamp"),
        NumberColumn(name="avgcpu", maximum=PERCENT),
    ),
)


@dataclass(frozen=True, slots=True)
class _VmTable:
    """Cores and GB of the guests that exist during a whole window; count of all."""

    alive: dict[str, tuple[float, float]]
    total: int


def read_azure(path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
    """Return guests of Azure, with their cores and memory.

    All files are read, regardless of the window; remove files that lie beyond it.

    Args:
        path: A directory with the readings, and vmtable.csv; without that, guests
            have the default sizes.
        window: Part of the trace; by default the first day.

    Raises:
        InvalidFileError: There are no such files, or their content is invalid.
        InvalidSettingError: The window does not fit the trace.
    """
    begin = window.start or 0.0
    trace_window = resolve_window(
        path, window, step=SAMPLE_INTERVAL, begin=begin, length=DAY
    )
    if path.exists() and not path.is_dir():
        raise InvalidFileError(f"{path}: expected a directory, got a file")
    tables, readings = [], []
    for source in trace_sources(path, recursive=True):
        name = source.name.removesuffix(".gz")
        if name.endswith("vmtable.csv"):
            tables.append(source)
        elif name.endswith(".csv") and "vm_cpu_readings" in name:
            readings.append(source)
    if not readings:
        raise InvalidFileError(f"{path}: no vm_cpu_readings-file-*.csv found")
    table = _read_vm_table(tables, trace_window, window) if tables else None
    resampler = _resample_readings(readings, trace_window, table)
    resampler.check_duplicates(path, np.ceil(trace_window.interval / SAMPLE_INTERVAL))
    try:
        resampled = resampler.complete_guests(path, window, None)
    except InvalidFileError as error:
        if table is None:
            raise
        detail = (
            f"{len(table.alive)} of {table.total} guests in vmtable exist in the window"
        )
        raise InvalidFileError(
            *error.messages, f"{path}: {detail}", code=DiagnosticCode.INCOMPLETE
        ) from error
    return _workload(resampled, trace_window, table)


def _read_vm_table(
    sources: list[TraceSource], trace_window: TraceWindow, window: WindowSettings
) -> _VmTable:
    """Return the guests that exist during the window, apart from fillable gaps."""
    alive, total = {}, 0
    for source in sources:
        for batch in read_csv(source, VM_TABLE):
            values = batch.values
            total += len(batch.guest_index)
            present = values[CREATED] <= trace_window.begin + window.max_gap
            # The last reading starts when the guest is deleted.
            present &= (
                values[DELETED] + SAMPLE_INTERVAL + window.max_gap >= trace_window.end
            )
            for row in np.flatnonzero(present).tolist():
                size = (float(values[CORES][row]), float(values[MEMORY][row]))
                alive[batch.names[int(batch.guest_index[row])]] = size
    return _VmTable(alive, total)


def _resample_readings(
    readings: list[TraceSource], trace_window: TraceWindow, table: _VmTable | None
) -> Resampler:
    resampler = Resampler(trace_window, memory=False)
    for source in readings:
        for batch in read_csv(source, READINGS):
            rows = _wanted_rows(batch, table)
            resampler.add(
                batch.names,
                batch.guest_index[rows],
                batch.values["timestamp"][rows],
                batch.values["avgcpu"][rows] / PERCENT,
            )
    return resampler


def _wanted_rows(batch: RowBatch, table: _VmTable | None) -> Integers:
    """Return the rows of guests in *table*."""
    if table is None:
        return np.arange(len(batch.guest_index))
    alive = np.array([name in table.alive for name in batch.names], np.bool_)
    return np.flatnonzero(alive[batch.guest_index])


def _workload(
    resampled: ResampledLoad, trace_window: TraceWindow, table: _VmTable | None
) -> Workload:
    notes = ["memory usage was not recorded: guests use all of their memory"]
    sizes = None
    if table is None:
        notes.append("no vmtable.csv: guests have the default sizes")
    else:
        guest_sizes: Floats = np.array([table.alive[name] for name in resampled.names])
        sizes = GuestSizes(
            cpu=guest_sizes[:, 0],
            cpu_unit=CpuUnit.CORES,
            cores=guest_sizes[:, 0],
            memory=guest_sizes[:, 1] * GB,
        )
        excluded = table.total - len(table.alive)
        detail = "guests skipped, created later or deleted earlier by vmtable"
        if excluded:
            notes.append(f"{detail}: {excluded} of {table.total}")
    return Workload(
        names=resampled.names,
        cpu=resampled.cpu,
        sizes=sizes,
        interval=trace_window.interval,
        notes=(*resampled.notes, *notes),
    )
