"""Traces of PlanetLab: a day of CPU load per guest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opendrs.errors import InvalidFileError, ModelError
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

SAMPLES_PER_DAY = 288  # a day of five minutes each
PERCENT = 100
MAX_FILE_SIZE = 64 * 1024  # bytes of a file; with a dozen for each sample it has 4 KiB
MAX_DIGITS = 20  # digits of a percentage; Python does not read thousands of them


@dataclass(frozen=True, slots=True)
class Trace:
    """The CPU load of guests over a day.

    Attributes:
        names: The guests, in the order they are numbered in.
        percent: Load of each, sample by sample; shape (guests, samples).

    Raises:
        ModelError: There is not a row for each guest, fewer than two samples, or
            one that is no percentage.
    """

    names: tuple[str, ...]
    percent: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        shape = self.percent.shape
        if len(shape) != 2 or shape[0] != len(self.names) or shape[1] < 2:
            raise ModelError(f"{len(self.names)} guests have no samples of {shape}")
        if ((self.percent < 0) | (self.percent > PERCENT)).any():
            raise ModelError(f"loads must be in [0, {PERCENT}] %")


def read_planetlab_day(path: Path) -> Trace:
    """Return a day of PlanetLab, in the order of the names of its files.

    Args:
        path: A directory with a file per guest, or a tar archive of one; each
            file holds 288 whole percentages, one a line.

    Raises:
        InvalidFileError: There is nothing, or not what there should be; the first
            few files that are wrong have their lines.
    """
    texts = sorted(read_files(path, MAX_FILE_SIZE))
    if not texts:
        raise InvalidFileError(f"{path}: no traces in there")
    diagnostics = [detail for detail in (_diagnose(*each) for each in texts) if detail]
    if diagnostics:
        raise limited_error(str(path), [f"{path}: {detail}" for detail in diagnostics])
    rows = [np.array(text.split(), dtype=np.int64) for _, text in texts]
    return Trace(tuple(name for name, _ in texts), np.array(rows))


def read_files(path: Path, max_size: int) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file of a directory or an archive.

    Args:
        path: The directory or archive.
        max_size: Bytes that a file may have.

    Raises:
        InvalidFileError: It cannot be read, a file is too large, or two have the same
            name, whatever directories of an archive they are in.
    """
    names: set[str] = set()
    for source in trace_sources(path):
        name = Path(source.name).name
        if name in names:
            raise InvalidFileError(f"{path}: two files are called {name!r}")
        names.add(name)
        with wrap_read_errors(source.label), source.open() as content:
            yield (
                name,
                read_all(content, source.label, max_size).decode(errors="replace"),
            )


def _diagnose(name: str, text: str) -> str | None:
    words = text.split()
    if len(words) != SAMPLES_PER_DAY:
        return f"{name}: {len(words)} samples instead of {SAMPLES_PER_DAY}"
    for line, word in enumerate(words, 1):
        is_number = word.isascii() and word.isdigit() and len(word) <= MAX_DIGITS
        if not is_number or int(word) > PERCENT:
            return f"{name}, line {line}: not a percentage: {word[:20]!r}"
    return None


SAMPLE_INTERVAL = 300.0  # s


def read_planetlab(path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
    """Return a day of PlanetLab, of which memory was not recorded.

    Args:
        path: A directory with a file per guest, or an archive of one; each file
            holds 288 whole percentages, one a line, every 300 s.
        window: Which part of it.

    Raises:
        InvalidFileError: There is nothing, or not what there should be.
        InvalidSettingError: The window does not suit it.

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
