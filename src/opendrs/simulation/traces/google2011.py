"""Reader of the "VM" series that were derived from Google's cluster data of 2011."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from opendrs.config import Diagnostic
from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.model import format_count
from opendrs.simulation.traces.columns import NumberColumn, locate
from opendrs.simulation.traces.files import limited_error
from opendrs.simulation.traces.planetlab import PERCENT, read_files
from opendrs.simulation.traces.resample import check_equal_counts, clip_to_one
from opendrs.simulation.traces.window import (
    WHOLE_TRACE,
    WindowSettings,
    cut_window,
    guest_limit_note,
)
from opendrs.simulation.workload import Floats, Workload

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
    if not series:
        raise InvalidFileError(f"{path}: no traces found")
    counts = np.array([len(rows) for rows in series.values()])
    check_equal_counts(path, tuple(series), counts)
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
    diagnostics: list[Diagnostic] = []
    for name, text in read_files(path, MAX_FILE_SIZE):
        rows = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            diagnostic = _diagnose(words)
            if diagnostic is not None:
                location = f"{path}: {name}, line {number}"
                diagnostics.append(locate(diagnostic, location))
                break
            rows.append(tuple(float(word) for word in words))
        yield name, np.array(rows, np.float64)
    if diagnostics:
        raise limited_error(str(path), diagnostics)


def _diagnose(words: list[str]) -> Diagnostic | None:
    if len(words) != len(FIELDS):
        message = f"{format_count(len(words), 'value')} instead of {len(FIELDS)}"
        return Diagnostic((), message, code=DiagnosticCode.OUT_OF_RANGE)
    found = (each.diagnose(word) for each, word in zip(FIELDS, words, strict=True))
    return next((diagnostic for diagnostic in found if diagnostic), None)
