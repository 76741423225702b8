"""Alibaba's cluster trace of 2018 (cluster-trace-v2018).

`container_usage.csv` tells the load of containers, `container_meta.csv` what they
asked for; or `machine_usage.csv` and `machine_meta.csv` for whole machines, as if each
were a guest. All may be gzipped or in a tar archive each, as they are published. No
file names its columns. CPU is told in percent of the cores that a container asked for
(issue 62 of the repository), memory of its own; -1 and 101 stand for invalid values,
which are unknown here, as those that are empty. Sizes of memory are told as part of
the largest machine.

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
from opendrs.sim.consolidation.readers.delimited import read_csv
from opendrs.sim.consolidation.readers.grid import Grid, Kept
from opendrs.sim.consolidation.readers.tables import Field, Form
from opendrs.sim.consolidation.readers.window import WHOLE, Frame, Window, frame
from opendrs.sim.consolidation.sources import Source, sources
from opendrs.sim.consolidation.workload import CpuUnit, MemoryUnit, Sizes, Workload

STEP = 10.0  # s, of the trace
INTERVAL = 300.0  # s, of the simulation if nothing else is asked for
DAY = 86_400.0
PERCENT = 100.0
INVALID = (-1.0, 101.0)
TIME, CPU, MEMORY = "time_stamp", "cpu_util_percent", "mem_util_percent"
SIZE = "mem_size"
SUFFIX = r"\.(csv|csv\.gz|tar\.gz|tgz|tar)$"


def _share(name: str) -> Field:
    return Field(name=name, most=PERCENT, unknown=INVALID, optional=True)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What may be taken for guests: their files, and how many cores a unit of CPU is.

    Attributes:
        what: What its files are called after.
        usage: What the columns of their load are.
        meta: What the columns of their sizes are.
        cores: In which of these their CPU is told.
        unit: How many of that are a core.
    """

    what: str
    usage: Form
    meta: Form
    cores: str
    unit: float


CONTAINERS = _Kind(
    what="container",
    usage=Form(
        columns=(
            *("container_id", "machine_id", TIME, CPU, MEMORY, "cpi", "mem_gps"),
            *("mpki", "net_in", "net_out", "disk_io_percent"),
        ),
        key=("container_id",),
        fields=(Field(name=TIME), _share(CPU), _share(MEMORY)),
    ),
    meta=Form(
        columns=(
            *("container_id", "machine_id", TIME, "app_du", "status"),
            *("cpu_request", "cpu_limit", SIZE),
        ),
        key=("container_id",),
        fields=(Field(name="cpu_request", optional=True), _share(SIZE)),
    ),
    cores="cpu_request",
    unit=100.0,
)
MACHINES = _Kind(
    what="machine",
    usage=Form(
        columns=(
            *("machine_id", TIME, CPU, MEMORY, "mem_gps", "mkpi"),
            *("net_in", "net_out", "disk_io_percent"),
        ),
        key=("machine_id",),
        fields=(Field(name=TIME), _share(CPU), _share(MEMORY)),
    ),
    meta=Form(
        columns=(
            *("machine_id", TIME, "failure_domain_1", "failure_domain_2"),
            *("cpu_num", SIZE, "status"),
        ),
        key=("machine_id",),
        fields=(Field(name="cpu_num", optional=True), _share(SIZE)),
    ),
    cores="cpu_num",
    unit=1.0,
)


def alibaba(path: Path, window: Window = WHOLE) -> Workload:
    """Return containers as guests, or machines.

    Args:
        path: A directory with container_usage.csv, or else machine_usage.csv; or such
            a file. Beside it container_meta.csv or machine_meta.csv; without that,
            guests are of the usual kinds.
        window: Which part of it; the first day, in intervals of 300 s, if nothing
            else is asked for. Many containers begin on the second day, at 86,400 s.

    Raises:
        InvalidFileError: There is nothing, or not what there should be.
        InvalidSettingError: The window does not suit it.
    """
    interval = INTERVAL if window.interval is None else window.interval
    span = frame(
        path,
        Window(start=window.start, length=window.length, interval=interval),
        step=STEP,
        begin=window.start or 0.0,
        length=DAY,
    )
    kind, usage, meta = _files(path)
    grid = Grid(span, memory=True)
    for source in usage:
        for batch in read_csv(source, kind.usage):
            values = batch.values
            shares = (values[CPU] / PERCENT, values[MEMORY] / PERCENT)
            grid.add(batch.names, batch.which, values[TIME], *shares)
    grid.require_once(path, np.ceil(span.interval / STEP))
    sizes = _sizes(meta, kind) if meta else None
    kept = grid.kept(path, window, sizes)
    return _workload(kept, span, kind, sizes)


def _files(path: Path) -> tuple[_Kind, Iterator[Source], Iterator[Source] | None]:
    """Return what are taken for guests, and the files of their load and sizes."""
    folder = path if path.is_dir() else path.parent
    for kind in (CONTAINERS, MACHINES):
        usage = path if path.is_file() else _file(folder, f"{kind.what}_usage")
        if usage is not None and kind.what in usage.name:
            meta = _file(folder, f"{kind.what}_meta")
            return kind, _tables(usage), None if meta is None else _tables(meta)
    if path.exists():
        raise InvalidFileError(
            f"{path}: neither container_usage.csv nor machine_usage.csv"
        )
    raise InvalidFileError(f"{path}: there is no such file or directory")


def _file(folder: Path, name: str) -> Path | None:
    """Return the file of that name, packed or not."""
    form = re.compile(re.escape(name) + SUFFIX)
    return next(
        (each for each in sorted(folder.iterdir()) if form.fullmatch(each.name)), None
    )


def _tables(path: Path) -> Iterator[Source]:
    for source in sources(path):
        if PurePosixPath(source.name).name.endswith((".csv", ".csv.gz")):
            yield source


def _sizes(meta: Iterator[Source], kind: _Kind) -> dict[str, tuple[float, float]]:
    """Return cores and part of the memory of the largest machine, the most told."""
    found: dict[str, tuple[float, float]] = {}
    for source in meta:
        for batch in read_csv(source, kind.meta):
            told = np.full((2, len(batch.names)), -np.inf)
            cores = batch.values[kind.cores] / kind.unit
            memory = batch.values[SIZE] / PERCENT
            for row, column in zip(told, (cores, memory), strict=True):
                np.fmax.at(row, batch.which, column)
            for name, cpu, size in zip(batch.names, *told.tolist(), strict=True):
                before = found.get(name, (cpu, size))
                found[name] = (max(before[0], cpu), max(before[1], size))
    return {name: size for name, size in found.items() if min(size) > 0}


def _workload(
    kept: Kept, span: Frame, kind: _Kind, sizes: dict[str, tuple[float, float]] | None
) -> Workload:
    notes: tuple[str, ...] = ()
    told = None
    if sizes is None:
        notes = (f"there is no {kind.what}_meta.csv: guests are of the usual kinds",)
    else:
        of = np.array([sizes[name] for name in kept.names])
        told = Sizes(
            cpu=of[:, 0],
            cpu_unit=CpuUnit.CORES,
            cores=np.ceil(of[:, 0]),
            memory=of[:, 1],
            memory_unit=MemoryUnit.LARGEST_HOST,
        )
    return Workload(
        names=kept.names,
        cpu=kept.cpu,
        memory=kept.memory,
        sizes=told,
        interval=span.interval,
        notes=(*kept.notes, *notes),
    )
