"""Reader of the "VM" series that were derived from Google's cluster data of 2011."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.model import format_count
from opendrs.simulation.traces.columns import NumberColumn
from opendrs.simulation.traces.files import limited_error
from opendrs.simulation.traces.planetlab import PERCENT, read_files
from opendrs.simulation.traces.resample import clip_to_one
from opendrs.simulation.traces.window import (
    WHOLE_TRACE,
    WindowSettings,
    cut_window,
    guest_limit_note,
)
from opendrs.simulation.workload import MIN_SAMPLES, Floats, Workload

SAMPLE_INTERVAL = 300.0  # s
MAX_FILE_SIZE = 16 << 20  # bytes of a file: twelve years of samples
FIELDS = (NumberColumn(name="CPU", maximum=PERCENT), NumberColumn(name="memory"))


def read_google2011(path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
    """Return CPU and memory of guests, two percentages per line, every 300 s.

    Memory above 100 %, which the series contain, counts as 100 %.

    Args:
        path: A directory with a file per guest, or an archive of one.
        window: Part of the trace.

    Raises:
        InvalidFileError: There are no such files, or their content is invalid.
        InvalidSettingError: The window does not fit the trace.

    Source:
        Nguyen, Di Francesco and Yla-Jaaski, Virtual Machine Consolidation with
        Multiple Usage Prediction (IEEE TSC 2017), from Google's trace of 2011.
    """
    series = dict(sorted(_rows(path)))
    _check_equal_counts(path, {name: len(rows) for name, rows in series.items()})
    values = np.array(list(series.values())) / PERCENT
    cpu, interval = cut_window(path, values[:, :, 0], window, SAMPLE_INTERVAL)
    memory, notes = clip_to_one(
        cut_window(path, values[:, :, 1], window, SAMPLE_INTERVAL)[0], "memory"
    )
    return Workload(
        names=tuple(series)[: len(cpu)],
        cpu=cpu,
        memory=memory,
        interval=interval,
        notes=(*guest_limit_note(window, len(series)), *notes),
    )


def _rows(path: Path) -> Iterator[tuple[str, Floats]]:
    diagnostics: list[str] = []
    for name, text in read_files(path, MAX_FILE_SIZE):
        rows = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            detail = _diagnose(words)
            if detail is not None:
                diagnostics.append(f"{path}: {name}, line {number}: {detail}")
                break
            rows.append(tuple(float(word) for word in words))
        yield name, np.array(rows, np.float64)
    if diagnostics:
        raise limited_error(str(path), diagnostics)


def _diagnose(words: list[str]) -> str | None:
    if len(words) != len(FIELDS):
        return f"{format_count(len(words), 'value')} instead of {len(FIELDS)}"
    details = (each.diagnose(word) for each, word in zip(FIELDS, words, strict=True))
    return next((detail for detail in details if detail), None)


def _check_equal_counts(path: Path, lengths: dict[str, int]) -> None:
    """Check that there are guests, all with the same number of samples."""
    if not lengths:
        raise InvalidFileError(f"{path}: no traces found")
    first, length = next(iter(lengths.items()))
    diagnostics = [
        f"{path}: {name}: {format_count(count, 'sample')} instead of {length}"
        for name, count in lengths.items()
        if count != length
    ]
    if length < MIN_SAMPLES:
        diagnostics.append(f"{path}: {first}: fewer than {MIN_SAMPLES} samples")
    if diagnostics:
        raise limited_error(str(path), diagnostics)
