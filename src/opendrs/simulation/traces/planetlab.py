"""Traces of PlanetLab: one day of CPU load per guest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opendrs.config import Diagnostic
from opendrs.errors import DiagnosticCode, InvalidFileError, ModelError
from opendrs.model import format_count
from opendrs.simulation.traces.columns import locate
from opendrs.simulation.traces.decompression import read_all
from opendrs.simulation.traces.files import (
    limited_error,
    trace_sources,
    wrap_read_errors,
)
from opendrs.simulation.traces.window import (
    WHOLE_TRACE,
    WindowSettings,
    cut_window,
    guest_limit_note,
)
from opendrs.simulation.workload import Workload

SAMPLES_PER_DAY = 288  # one every five minutes
PERCENT = 100
MAX_FILE_SIZE = 64 * 1024  # bytes of a file; a dozen per sample are some 4 KiB
MAX_DIGITS = 20  # digits of a percentage; Python rejects thousands of them


@dataclass(frozen=True, slots=True)
class Trace:
    """CPU load of guests over a day.

    Attributes:
        names: Names of the guests, in the order of the rows.
        percent: Load of each guest in percent; shape (guests, samples).

    Raises:
        ModelError: The number of rows is not that of the guests, there are fewer than
            two samples, or a value is not a percentage.
    """

    names: tuple[str, ...]
    percent: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        shape = self.percent.shape
        if len(shape) != 2 or shape[0] != len(self.names) or shape[1] < 2:
            raise ModelError(
                f"percent: expected {len(self.names)} rows of at least 2 samples, "
                f"got shape {shape}"
            )
        if ((self.percent < 0) | (self.percent > PERCENT)).any():
            raise ModelError(f"percent: expected numbers in [0, {PERCENT}]")


def read_planetlab_day(path: Path) -> Trace:
    """Return a day of PlanetLab, in the order of the file names.

    Args:
        path: A directory with a file per guest, or a tar archive of one; each
            file contains 288 integer percentages, one per line.

    Raises:
        InvalidFileError: There are no such files, or their content is invalid; with
            the lines of the first few errors.
    """
    texts = sorted(read_files(path, MAX_FILE_SIZE))
    if not texts:
        raise InvalidFileError(f"{path}: no traces found")
    found = (_diagnose(*each) for each in texts)
    diagnostics = [locate(each, str(path)) for each in found if each is not None]
    if diagnostics:
        raise limited_error(str(path), diagnostics)
    rows = [np.array(text.split(), dtype=np.int64) for _, text in texts]
    return Trace(tuple(name for name, _ in texts), np.array(rows))


def read_files(path: Path, max_size: int) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file of a directory or an archive.

    Args:
        path: The directory or archive.
        max_size: Largest size of a file in bytes.

    Raises:
        InvalidFileError: The path cannot be read, a file is too large, or two files
            have the same name, in any directory of an archive.
    """
    names: set[str] = set()
    for source in trace_sources(path):
        name = Path(source.name).name
        if name in names:
            raise InvalidFileError(
                f"{path}: duplicate file name: {name!r}",
                code=DiagnosticCode.DUPLICATE_NAME,
            )
        names.add(name)
        with wrap_read_errors(source.label), source.open() as content:
            yield (
                name,
                read_all(content, source.label, max_size).decode(errors="replace"),
            )


def _diagnose(name: str, text: str) -> Diagnostic | None:
    words = text.split()
    if len(words) != SAMPLES_PER_DAY:
        count = format_count(len(words), "sample")
        message = f"{name}: {count} instead of {SAMPLES_PER_DAY}"
        return Diagnostic((), message, code=DiagnosticCode.OUT_OF_RANGE)
    for line, word in enumerate(words, 1):
        is_number = word.isascii() and word.isdigit() and len(word) <= MAX_DIGITS
        if not is_number or int(word) > PERCENT:
            message = f"{name}, line {line}: not a percentage: {word[:20]!r}"
            return Diagnostic((), message, code=DiagnosticCode.INVALID_VALUE)
    return None


SAMPLE_INTERVAL = 300.0  # s


def read_planetlab(path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
    """Return a day of PlanetLab; memory was not recorded.

    Args:
        path: A directory with a file per guest, or an archive of one; each file
            contains 288 integer percentages, one per line, every 300 s.
        window: Part of the trace.

    Raises:
        InvalidFileError: There are no such files, or their content is invalid.
        InvalidSettingError: The window does not fit the trace.

    Source:
        Park and Pai, CoMon (2006); published with CloudSim, Beloglazov and Buyya
        (CCPE 2012).
    """
    trace = read_planetlab_day(path)
    cpu, interval = cut_window(path, trace.percent / PERCENT, window, SAMPLE_INTERVAL)
    return Workload(
        names=trace.names[: len(cpu)],
        cpu=cpu,
        interval=interval,
        notes=guest_limit_note(window, len(trace.names)),
    )
