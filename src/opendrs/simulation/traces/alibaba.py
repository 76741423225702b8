"""Alibaba's cluster trace of 2018 (cluster-trace-v2018).

`container_usage.csv` contains the load of containers, `container_meta.csv` their
requests. `machine_usage.csv` and `machine_meta.csv` are the same for whole machines,
each treated as a guest. All may be gzipped, or each in a tar archive, as they are
published. The files have no header. CPU is in percent of the cores that a container
requested (issue 62 of the repository), memory in percent of its own. -1 and 101 mark
invalid values; these and empty values are unknown. Memory sizes are relative to the
largest machine.

Source:
    github.com/alibaba/clusterdata, cluster-trace-v2018: schema.txt, trace_2018.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.simulation.traces.columns import NumberColumn, TableFormat
from opendrs.simulation.traces.delimited import read_csv
from opendrs.simulation.traces.files import TraceSource, trace_sources
from opendrs.simulation.traces.resample import ResampledLoad, Resampler
from opendrs.simulation.traces.window import (
    WHOLE_TRACE,
    TraceWindow,
    WindowSettings,
    resolve_window,
)
from opendrs.simulation.workload import CpuUnit, GuestSizes, MemoryUnit, Workload

SAMPLE_INTERVAL = 10.0  # s, of the trace
INTERVAL = 300.0  # s, default of the simulation
DAY = 86_400.0
PERCENT = 100.0
INVALID = (-1.0, 101.0)
TIME, CPU, MEMORY = "time_stamp", "cpu_util_percent", "mem_util_percent"
SIZE = "mem_size"
SUFFIX = r"\.(csv|csv\.gz|tar\.gz|tgz|tar)$"


def _percent_column(name: str) -> NumberColumn:
    return NumberColumn(name=name, maximum=PERCENT, unknown=INVALID, optional=True)


@dataclass(frozen=True, slots=True)
class _TraceKind:
    """Objects that are treated as guests: their files, and their unit of CPU.

    Attributes:
        prefix: Prefix of the file names.
        usage: Columns of the load.
        meta: Columns of the sizes.
        cores: Column of the CPU size.
        units_per_core: Units of that column per core.
    """

    prefix: str
    usage: TableFormat
    meta: TableFormat
    cores: str
    units_per_core: float


CONTAINERS = _TraceKind(
    prefix="container",
    usage=TableFormat(
        columns=(
            *("container_id", "machine_id", TIME, CPU, MEMORY, "cpi", "mem_gps"),
            *("mpki", "net_in", "net_out", "disk_io_percent"),
        ),
        key=("container_id",),
        fields=(NumberColumn(name=TIME), _percent_column(CPU), _percent_column(MEMORY)),
    ),
    meta=TableFormat(
        columns=(
            *("container_id", "machine_id", TIME, "app_du", "status"),
            *("cpu_request", "cpu_limit", SIZE),
        ),
        key=("container_id",),
        fields=(NumberColumn(name="cpu_request", optional=True), _percent_column(SIZE)),
    ),
    cores="cpu_request",
    units_per_core=100.0,
)
MACHINES = _TraceKind(
    prefix="machine",
    usage=TableFormat(
        columns=(
            *("machine_id", TIME, CPU, MEMORY, "mem_gps", "mkpi"),
            *("net_in", "net_out", "disk_io_percent"),
        ),
        key=("machine_id",),
        fields=(NumberColumn(name=TIME), _percent_column(CPU), _percent_column(MEMORY)),
    ),
    meta=TableFormat(
        columns=(
            *("machine_id", TIME, "failure_domain_1", "failure_domain_2"),
            *("cpu_num", SIZE, "status"),
        ),
        key=("machine_id",),
        fields=(NumberColumn(name="cpu_num", optional=True), _percent_column(SIZE)),
    ),
    cores="cpu_num",
    units_per_core=1.0,
)


def read_alibaba(path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
    """Return containers, or machines, as guests.

    Args:
        path: A directory with container_usage.csv, or else machine_usage.csv, or such
            a file. Beside it container_meta.csv or machine_meta.csv; without that,
            guests have the default sizes.
        window: Part of the trace; by default the first day, in intervals of 300 s.
            Many containers start on the second day, at 86,400 s.

    Raises:
        InvalidFileError: There are no such files, or their content is invalid.
        InvalidSettingError: The window does not fit the trace.
    """
    interval = INTERVAL if window.interval is None else window.interval
    trace_window = resolve_window(
        path,
        WindowSettings(start=window.start, length=window.length, interval=interval),
        step=SAMPLE_INTERVAL,
        begin=window.start or 0.0,
        length=DAY,
    )
    kind, usage, meta = _find_files(path)
    resampler = Resampler(trace_window, memory=True)
    for source in usage:
        for batch in read_csv(source, kind.usage):
            values = batch.values
            shares = (values[CPU] / PERCENT, values[MEMORY] / PERCENT)
            resampler.add(batch.names, batch.guest_index, values[TIME], *shares)
    resampler.check_duplicates(path, np.ceil(trace_window.interval / SAMPLE_INTERVAL))
    sizes = _read_sizes(meta, kind) if meta else None
    resampled = resampler.complete_guests(path, window, sizes)
    return _workload(resampled, trace_window, kind, sizes)


def _find_files(
    path: Path,
) -> tuple[_TraceKind, Iterator[TraceSource], Iterator[TraceSource] | None]:
    """Return the kind of guests, and the files of their load and sizes."""
    folder = path if path.is_dir() else path.parent
    for kind in (CONTAINERS, MACHINES):
        usage = path if path.is_file() else _find_file(folder, f"{kind.prefix}_usage")
        if usage is not None and kind.prefix in usage.name:
            meta = _find_file(folder, f"{kind.prefix}_meta")
            return kind, _tables(usage), None if meta is None else _tables(meta)
    if path.exists():
        raise InvalidFileError(
            f"{path}: neither container_usage.csv nor machine_usage.csv"
        )
    raise InvalidFileError(f"{path}: no such file or directory")


def _find_file(folder: Path, name: str) -> Path | None:
    """Return the file with that name, compressed or not."""
    pattern = re.compile(re.escape(name) + SUFFIX)
    return next(
        (each for each in sorted(folder.iterdir()) if pattern.fullmatch(each.name)),
        None,
    )


def _tables(path: Path) -> Iterator[TraceSource]:
    for source in trace_sources(path):
        if PurePosixPath(source.name).name.endswith((".csv", ".csv.gz")):
            yield source


def _read_sizes(
    meta: Iterator[TraceSource], kind: _TraceKind
) -> dict[str, tuple[float, float]]:
    """Return the largest cores and memory fraction recorded for each guest."""
    sizes: dict[str, tuple[float, float]] = {}
    for source in meta:
        for batch in read_csv(source, kind.meta):
            maxima = np.full((2, len(batch.names)), -np.inf)
            cores = batch.values[kind.cores] / kind.units_per_core
            memory = batch.values[SIZE] / PERCENT
            for row, column in zip(maxima, (cores, memory), strict=True):
                np.fmax.at(row, batch.guest_index, column)
            for name, cpu, size in zip(batch.names, *maxima.tolist(), strict=True):
                before = sizes.get(name, (cpu, size))
                sizes[name] = (max(before[0], cpu), max(before[1], size))
    return {name: size for name, size in sizes.items() if min(size) > 0}


def _workload(
    resampled: ResampledLoad,
    trace_window: TraceWindow,
    kind: _TraceKind,
    sizes: dict[str, tuple[float, float]] | None,
) -> Workload:
    notes: tuple[str, ...] = ()
    guest_sizes = None
    if sizes is None:
        notes = (f"no {kind.prefix}_meta.csv: guests have the default sizes",)
    else:
        columns = np.array([sizes[name] for name in resampled.names])
        guest_sizes = GuestSizes(
            cpu=columns[:, 0],
            cpu_unit=CpuUnit.CORES,
            cores=np.ceil(columns[:, 0]),
            memory=columns[:, 1],
            memory_unit=MemoryUnit.LARGEST_HOST,
        )
    return Workload(
        names=resampled.names,
        cpu=resampled.cpu,
        memory=resampled.memory,
        sizes=guest_sizes,
        interval=trace_window.interval,
        notes=(*resampled.notes, *notes),
    )
