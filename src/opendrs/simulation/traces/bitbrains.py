"""GWA-T-12: the virtual machines of Bitbrains, 2013.

`fastStorage` (1,250 guests, one month) and `Rnd` (500, one folder per month), one file
per guest, with "Timestamp [ms];<tab>CPU cores;<tab>..." in its first line and a sample
about every 300 s. Quirks of the data that its description does not mention:

- Timestamps are in seconds, not milliseconds; both are accepted.
- They drift by a second now and then: a sample belongs to the interval with the
  nearest start.
- A guest that does not exist at a time has lines without capacity, often several with
  the same time: it is treated as absent.

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

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces.columns import NumberColumn, TableFormat
from opendrs.simulation.traces.delimited import read_csv
from opendrs.simulation.traces.files import TraceSource, trace_sources
from opendrs.simulation.traces.resample import Resampler, clip_to_one
from opendrs.simulation.traces.window import (
    WHOLE_TRACE,
    TraceWindow,
    WindowSettings,
    resolve_window,
)
from opendrs.simulation.workload import CpuUnit, Floats, GuestSizes, Workload

SAMPLE_INTERVAL = 300.0  # s
KB = 1024  # KB per MB
MIN_MILLISECONDS = 1e11  # larger times are in milliseconds
TIME, CORES = "Timestamp [ms]", "CPU cores"
CPU, USED_CPU = "CPU capacity provisioned [MHZ]", "CPU usage [MHZ]"
MEMORY, USED_MEMORY = "Memory capacity provisioned [KB]", "Memory usage [KB]"
TABLE_FORMAT = TableFormat(
    key=(),
    fields=tuple(
        NumberColumn(name=name)
        for name in (TIME, CORES, CPU, USED_CPU, MEMORY, USED_MEMORY)
    ),
    delimiter=";",
)


@dataclass(frozen=True, slots=True)
class _GuestTrace:
    """Samples of a guest while it exists; columns of shape (samples,) by name."""

    name: str
    columns: dict[str, Floats]

    def cut(self, trace_window: TraceWindow) -> _GuestTrace:
        time = self.columns[TIME]
        inside = (time >= trace_window.begin - SAMPLE_INTERVAL / 2) & (
            time < trace_window.end - SAMPLE_INTERVAL / 2
        )
        return _GuestTrace(
            self.name, {name: each[inside] for name, each in self.columns.items()}
        )


def read_bitbrains(path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
    """Return guests with their recorded cores, MHz and memory.

    CPU is the usage relative to the largest capacity in the window, and memory the
    same; larger values count as 100 %.

    Args:
        path: A directory with a file per guest, or an archive of one.
        window: Part of the trace; starts at the first sample of all guests.

    Raises:
        InvalidFileError: There are no such files, or their content is invalid.
        InvalidSettingError: The window does not fit the trace.
    """
    traces = _with_unique_names(
        path,
        [
            _read_guest(source)
            for source in trace_sources(path, recursive=True)
            if source.name.endswith((".csv", ".csv.gz"))
        ],
    )
    times = [each.columns[TIME] for each in traces if len(each.columns[TIME])]
    if not times:
        raise InvalidFileError(f"{path}: no traces found")
    first = min(float(time.min()) for time in times)
    last = max(float(time.max()) for time in times)
    begin = first + (window.start or 0.0)
    trace_window = resolve_window(
        path,
        window,
        step=SAMPLE_INTERVAL,
        begin=begin,
        length=last - begin + SAMPLE_INTERVAL,
    )
    return _workload(path, window, trace_window, traces)


def _workload(
    path: Path,
    window: WindowSettings,
    trace_window: TraceWindow,
    traces: list[_GuestTrace],
) -> Workload:
    resampler = Resampler(trace_window, memory=True, tolerance=SAMPLE_INTERVAL / 2)
    by_name = {}
    for trace in traces:
        inside = trace.cut(trace_window)
        time = inside.columns[TIME]
        guest_index = np.zeros(len(time), np.int64)
        used = (inside.columns[USED_CPU], inside.columns[USED_MEMORY])
        resampler.add([trace.name], guest_index, time, *used)
        if len(time):
            by_name[trace.name] = inside
    resampled = resampler.complete_guests(path, window, None)
    cores, mips, memory = (
        np.array([by_name[name].columns[column].max() for name in resampled.names])
        for column in (CORES, CPU, MEMORY)
    )
    assert resampled.memory is not None  # noqa: S101 - for the type checker
    cpu, cpu_notes = clip_to_one(resampled.cpu / mips[:, None], "CPU")
    used_memory, memory_notes = clip_to_one(
        resampled.memory / memory[:, None], "memory"
    )
    duplicates = sum(
        len(by_name[name].columns[TIME]) - len(np.unique(by_name[name].columns[TIME]))
        for name in resampled.names
    )
    note = f"samples of a guest with the same time count as their mean: {duplicates}"
    return Workload(
        names=resampled.names,
        cpu=cpu,
        memory=used_memory,
        sizes=GuestSizes(
            cpu=mips,
            cpu_unit=CpuUnit.MIPS,
            cores=np.maximum(cores, 1.0),
            memory=memory / KB,
        ),
        interval=trace_window.interval,
        notes=(
            *resampled.notes,
            *((note,) if duplicates else ()),
            *cpu_notes,
            *memory_notes,
        ),
    )


def _read_guest(source: TraceSource) -> _GuestTrace:
    parts = [batch.values for batch in read_csv(source, TABLE_FORMAT)]
    if not parts:
        raise InvalidFileError(f"{source.label}: no samples found")
    columns = {
        each.name: np.concatenate([values[each.name] for values in parts])
        for each in TABLE_FORMAT.fields
    }
    if columns[TIME].max(initial=0.0) > MIN_MILLISECONDS:
        columns[TIME] = columns[TIME] / 1000
    present = (columns[CPU] > 0) & (columns[MEMORY] > 0)
    return _GuestTrace(
        source.name, {name: each[present] for name, each in columns.items()}
    )


def _with_unique_names(path: Path, traces: list[_GuestTrace]) -> list[_GuestTrace]:
    """Return *traces* named after their files, with folders if there are several.

    Raises:
        InvalidFileError: Two traces have the same name.
    """
    paths = [PurePosixPath(each.name.removesuffix(".gz")) for each in traces]
    same_folder = len({each.parent for each in paths}) == 1
    names = [each.stem if same_folder else str(each.with_suffix("")) for each in paths]
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidFileError(
                f"{path}: {count} files for guest {name!r}",
                code=DiagnosticCode.DUPLICATE_NAME,
            )
    return [
        _GuestTrace(name, each.columns)
        for name, each in zip(names, traces, strict=True)
    ]
