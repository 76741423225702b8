"""GWA-T-12: the virtual machines of Bitbrains, 2013.

`fastStorage` (1,250 guests, a month) and `Rnd` (500, in a folder a month), a file
per guest, "Timestamp [ms];<tab>CPU cores;<tab>..." in its first line, a sample every
300 s or so. Quirks of the data, which the description does not tell:

- timestamps are in seconds, not milliseconds; both are understood;
- they drift by a second now and then: a sample belongs to the interval that begins
  nearest to it;
- a guest that is not there any more, or not yet, has lines with no capacity at all,
  and often several with the same time: it is taken to be absent.

Source:
    Shen, van Beek and Iosup, Statistical Characterization of Business-Critical
    Workloads Hosted in Cloud Datacenters (CCGrid 2015); columns as described at
    gwa.ewi.tudelft.nl/datasets/gwa-t-12-bitbrains.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.readers.delimited import read_csv
from opendrs.sim.consolidation.readers.finishing import part
from opendrs.sim.consolidation.readers.grid import Grid
from opendrs.sim.consolidation.readers.tables import Field, Form
from opendrs.sim.consolidation.readers.window import WHOLE, Frame, Window, frame
from opendrs.sim.consolidation.sources import Source, sources
from opendrs.sim.consolidation.workload import CpuUnit, Sizes, Workload

STEP = 300.0  # s
KB = 1024  # in a MB
MILLISECONDS = 1e11  # what is larger is no time in seconds
TIME, CORES = "Timestamp [ms]", "CPU cores"
CPU, USED_CPU = "CPU capacity provisioned [MHZ]", "CPU usage [MHZ]"
MEMORY, USED_MEMORY = "Memory capacity provisioned [KB]", "Memory usage [KB]"
FORM = Form(
    key=(),
    fields=tuple(
        Field(name=name) for name in (TIME, CORES, CPU, USED_CPU, MEMORY, USED_MEMORY)
    ),
    delimiter=";",
)


@dataclass(frozen=True, slots=True)
class _Machine:
    """A guest while it is there; columns of shape (samples,) by name."""

    name: str
    columns: dict[str, Floats]

    def within(self, span: Frame) -> _Machine:
        time = self.columns[TIME]
        inside = (time >= span.begin - STEP / 2) & (time < span.end - STEP / 2)
        return _Machine(
            self.name, {name: each[inside] for name, each in self.columns.items()}
        )


def bitbrains(path: Path, window: Window = WHOLE) -> Workload:
    """Return guests with their real number of cores, MHz and memory.

    CPU is what a guest used of the MHz it had, at most, in the window, and memory
    the same; more than that counts as 100 %.

    Args:
        path: A directory with a file per guest, or an archive of one.
        window: Which part of it; starts at the first sample of all.

    Raises:
        InvalidFileError: There is nothing, or not what there should be.
        InvalidSettingError: The window does not suit it.
    """
    machines = _named(
        path,
        [
            _machine(source)
            for source in sources(path, deep=True)
            if source.name.endswith((".csv", ".csv.gz"))
        ],
    )
    there = [each.columns[TIME] for each in machines if len(each.columns[TIME])]
    if not there:
        raise InvalidFileError(f"{path}: no traces in there")
    first = min(float(time.min()) for time in there)
    last = max(float(time.max()) for time in there)
    begin = first + (window.start or 0.0)
    span = frame(path, window, step=STEP, begin=begin, length=last - begin + STEP)
    return _workload(path, window, span, machines)


def _workload(
    path: Path, window: Window, span: Frame, machines: list[_Machine]
) -> Workload:
    grid = Grid(span, memory=True, early=STEP / 2)
    found = {}
    for machine in machines:
        inside = machine.within(span)
        time = inside.columns[TIME]
        which = np.zeros(len(time), np.int64)
        used = (inside.columns[USED_CPU], inside.columns[USED_MEMORY])
        grid.add([machine.name], which, time, *used)
        if len(time):
            found[machine.name] = inside
    kept = grid.kept(path, window, None)
    cores, mips, memory = (
        np.array([found[name].columns[what].max() for name in kept.names])
        for what in (CORES, CPU, MEMORY)
    )
    assert kept.memory is not None  # noqa: S101 - for the type checker
    cpu, above = part(kept.cpu / mips[:, None], "CPU")
    used_memory, more = part(kept.memory / memory[:, None], "memory")
    twice = sum(
        len(found[name].columns[TIME]) - len(np.unique(found[name].columns[TIME]))
        for name in kept.names
    )
    note = f"samples of a guest with the same time count as their mean: {twice}"
    return Workload(
        names=kept.names,
        cpu=cpu,
        memory=used_memory,
        sizes=Sizes(
            cpu=mips,
            cpu_unit=CpuUnit.MIPS,
            cores=np.maximum(cores, 1.0),
            memory=memory / KB,
        ),
        interval=span.interval,
        notes=(*kept.notes, *((note,) if twice else ()), *above, *more),
    )


def _machine(source: Source) -> _Machine:
    parts = [batch.values for batch in read_csv(source, FORM)]
    if not parts:
        raise InvalidFileError(f"{source.label}: no samples in there")
    columns = {
        each.name: np.concatenate([values[each.name] for values in parts])
        for each in FORM.fields
    }
    if columns[TIME].max(initial=0.0) > MILLISECONDS:
        columns[TIME] = columns[TIME] / 1000
    there = (columns[CPU] > 0) & (columns[MEMORY] > 0)
    return _Machine(source.name, {name: each[there] for name, each in columns.items()})


def _named(path: Path, machines: list[_Machine]) -> list[_Machine]:
    """Return *machines*, named after their files, with folders where there are some.

    Raises:
        InvalidFileError: Two would have the same name.
    """
    paths = [PurePosixPath(each.name.removesuffix(".gz")) for each in machines]
    alone = len({each.parent for each in paths}) == 1
    names = [each.stem if alone else str(each.with_suffix("")) for each in paths]
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidFileError(f"{path}: {count} files are of guest {name!r}")
    return [
        _Machine(name, each.columns) for name, each in zip(names, machines, strict=True)
    ]
