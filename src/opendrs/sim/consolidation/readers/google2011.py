"""The "VM" series that were made of Google's cluster data of 2011."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.readers.finishing import part
from opendrs.sim.consolidation.readers.tables import Field
from opendrs.sim.consolidation.readers.window import WHOLE, Window, cut, limited
from opendrs.sim.consolidation.sources import first_few
from opendrs.sim.consolidation.traces import PERCENT, files
from opendrs.sim.consolidation.workload import LEAST, Workload

STEP = 300.0  # s
LARGEST = 16 << 20  # bytes of a file: twelve years of a guest
FIELDS = (Field(name="CPU", most=PERCENT), Field(name="memory"))


def google(path: Path, window: Window = WHOLE) -> Workload:
    """Return CPU and memory of guests, two percentages a line, every 300 s.

    Memory above 100 %, which the series have, counts as 100 %.

    Args:
        path: A directory with a file per guest, or an archive of one.
        window: Which part of it.

    Raises:
        InvalidFileError: There is nothing, or not what there should be.
        InvalidSettingError: The window does not suit it.

    Source:
        Nguyen, Di Francesco and Yla-Jaaski, Virtual Machine Consolidation with
        Multiple Usage Prediction (IEEE TSC 2017), from Google's trace of 2011.
    """
    found = dict(sorted(_rows(path)))
    _require_even(path, {name: len(rows) for name, rows in found.items()})
    values = np.array(list(found.values())) / PERCENT
    cpu, interval = cut(path, values[:, :, 0], window, STEP)
    memory, notes = part(cut(path, values[:, :, 1], window, STEP)[0], "memory")
    return Workload(
        names=tuple(found)[: len(cpu)],
        cpu=cpu,
        memory=memory,
        interval=interval,
        notes=(*limited(window, len(found)), *notes),
    )


def _rows(path: Path) -> Iterator[tuple[str, Floats]]:
    complaints: list[str] = []
    for name, text in files(path, LARGEST):
        rows = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            why = _complaint(words)
            if why is not None:
                complaints.append(f"{path}: {name}, line {number}: {why}")
                break
            rows.append(tuple(float(word) for word in words))
        yield name, np.array(rows, np.float64)
    if complaints:
        raise first_few(str(path), complaints)


def _complaint(words: list[str]) -> str | None:
    if len(words) != len(FIELDS):
        return f"{len(words)} values instead of {len(FIELDS)}"
    told = (each.complaint(word) for each, word in zip(FIELDS, words, strict=True))
    return next((why for why in told if why), None)


def _require_even(path: Path, lengths: dict[str, int]) -> None:
    """Check that there are guests, with as many samples each."""
    if not lengths:
        raise InvalidFileError(f"{path}: no traces in there")
    first, length = next(iter(lengths.items()))
    complaints = [
        f"{path}: {name}: {found} samples instead of {length}"
        for name, found in lengths.items()
        if found != length
    ]
    if length < LEAST:
        complaints.append(f"{path}: {first}: fewer than {LEAST} samples")
    if complaints:
        raise first_few(str(path), complaints)
