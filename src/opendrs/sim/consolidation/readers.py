"""Workloads from files."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.traces import PERCENT, files, read_planetlab
from opendrs.sim.consolidation.workload import LEAST, Workload

MOST = 20  # complaints about one file or archive
NAME, CPU, MEMORY = "guest", "cpu", "memory"  # columns

Row = tuple[float, ...]


def planetlab(path: Path) -> Workload:
    """Return a day of PlanetLab, of which memory was not recorded.

    Args:
        path: A directory with a file per guest, or a tar archive of one; each
            file holds 288 whole percentages, one a line.

    Raises:
        InvalidFileError: There is nothing, or not what there should be.
    """
    trace = read_planetlab(path)
    return Workload(names=trace.names, cpu=trace.percent / PERCENT)


def google(path: Path) -> Workload:
    """Return CPU and memory of guests, two percentages a line.

    Memory above 100 %, which the series of 2011 have, counts as 100 %.

    Args:
        path: A directory with a file per guest, or a tar archive of one.

    Raises:
        InvalidFileError: There is nothing, or not what there should be.
    """
    return _workload(path, dict(_google_rows(path)), least_columns=2)


def plain(path: Path) -> Workload:
    """Return a workload from CSV: a line per guest and sample, in order of time.

    The columns `guest` and `cpu` are needed, `memory` may be there; the last two in
    percent. Lines of different guests may be mixed.

    Raises:
        InvalidFileError: It cannot be read, or does not hold that.
    """
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            return _workload(path, _csv_rows(path, csv.DictReader(lines)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidFileError(f"{path}: {error}") from error


def _google_rows(path: Path) -> Iterator[tuple[str, list[Row]]]:
    complaints: list[str] = []
    for name, text in files(path):
        rows = []
        for number, line in enumerate(text.splitlines(), 1):
            row, why = _percentages(line.split())
            if why is None and len(row) != 2:
                why = f"{len(row)} values instead of 2"
            if why is not None:
                complaints.append(f"{path}: {name}, line {number}: {why}")
                break
            rows.append(row)
        yield name, rows
    if complaints:
        raise InvalidFileError(*complaints[:MOST])


def _csv_rows(path: Path, reader: csv.DictReader[str]) -> dict[str, list[Row]]:
    columns = reader.fieldnames or []
    for needed in (NAME, CPU):
        if needed not in columns:
            raise InvalidFileError(f"{path}: no column {needed!r} in the first line")
    wanted = [CPU, MEMORY] if MEMORY in columns else [CPU]
    found: dict[str, list[Row]] = {}
    complaints = []
    for record in reader:
        row, why = _percentages([record[each] or "" for each in wanted])
        if why is None:
            found.setdefault(record[NAME], []).append(row)
        else:
            complaints.append(f"{path}, line {reader.line_num}: {why}")
    if complaints:
        raise InvalidFileError(*complaints[:MOST])
    return found


def _percentages(words: list[str]) -> tuple[Row, str | None]:
    """Return the numbers of *words*, or what is wrong with them.

    Only the first, the CPU, must not be above 100 %.
    """
    values = []
    for place, word in enumerate(words):
        try:
            value = float(word)
        except ValueError:
            return (), f"not a number: {word[:20]!r}"
        if not (0 <= value <= PERCENT or (place > 0 and PERCENT < value < np.inf)):
            return (), f"not in [0, {PERCENT}] %: {word[:20]}"
        values.append(value)
    return tuple(values), None


def _workload(
    path: Path, found: dict[str, list[Row]], least_columns: int = 1
) -> Workload:
    if not found:
        raise InvalidFileError(f"{path}: no traces in there")
    names = sorted(found)
    length = len(found[names[0]])
    complaints = [
        f"{path}: {name}: {len(found[name])} samples instead of {length}"
        for name in names
        if len(found[name]) != length
    ]
    if length < LEAST:
        complaints.append(f"{path}: {names[0]}: fewer than {LEAST} samples")
    if complaints:
        raise InvalidFileError(*complaints[:MOST])
    values = np.array([found[name] for name in names], float) / PERCENT
    with_memory = max(least_columns, values.shape[2]) > 1
    memory: Floats | None = values[:, :, 1] if with_memory else None
    above = 0 if memory is None else int((memory > 1).any(axis=1).sum())
    note = f"memory above 100 % counts as 100 %: {above} guests" if above else None
    return Workload(
        names=tuple(names),
        cpu=values[:, :, 0],
        memory=None if memory is None else np.minimum(memory, 1.0),
        notes=(note,) if note else (),
    )


READERS: Mapping[str, Callable[[Path], Workload]] = {
    "planetlab": planetlab,
    "google": google,
    "csv": plain,
}
