"""Recorded load of guests, from files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opendrs.errors import InvalidFileError, ModelError
from opendrs.sim.consolidation.expansion import whole
from opendrs.sim.consolidation.sources import first_few, readable, sources

SAMPLES = 288  # a day of five minutes each
PERCENT = 100
LARGEST = 64 * 1024  # bytes of a file; with a dozen for each sample it has 4 KiB
LONGEST = 20  # digits of a percentage; Python does not read thousands of them


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


def read_planetlab(path: Path) -> Trace:
    """Return a day of PlanetLab, in the order of the names of its files.

    Args:
        path: A directory with a file per guest, or a tar archive of one; each
            file holds 288 whole percentages, one a line.

    Raises:
        InvalidFileError: There is nothing, or not what there should be; the first
            few files that are wrong have their lines.
    """
    found = sorted(files(path, LARGEST))
    if not found:
        raise InvalidFileError(f"{path}: no traces in there")
    complaints = [why for why in (_complaint(*each) for each in found) if why]
    if complaints:
        raise first_few(str(path), [f"{path}: {why}" for why in complaints])
    rows = [np.array(text.split(), dtype=np.int64) for _, text in found]
    return Trace(tuple(name for name, _ in found), np.array(rows))


def files(path: Path, most: int) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file of a directory or an archive.

    Args:
        path: The directory or archive.
        most: Bytes that a file may have.

    Raises:
        InvalidFileError: It cannot be read, a file is too large, or two have the same
            name, whatever directories of an archive they are in.
    """
    names: set[str] = set()
    for source in sources(path):
        name = Path(source.name).name
        if name in names:
            raise InvalidFileError(f"{path}: two files are called {name!r}")
        names.add(name)
        with readable(source.label), source.open() as content:
            yield name, whole(content, source.label, most).decode(errors="replace")


def _complaint(name: str, text: str) -> str | None:
    words = text.split()
    if len(words) != SAMPLES:
        return f"{name}: {len(words)} samples instead of {SAMPLES}"
    for line, word in enumerate(words, 1):
        digits = word.isascii() and word.isdigit() and len(word) <= LONGEST
        if not digits or int(word) > PERCENT:
            return f"{name}, line {line}: not a percentage: {word[:20]!r}"
    return None
