"""Large files with a JSON object a line, a part at a time.

With the standard library: Arrow's reader of JSON ends the whole process where it meets
a line that says `null` (pyarrow 26.0.1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.expansion import lines_of
from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.readers.tables import LONGEST, MOST, Batch, Field, Form
from opendrs.sim.consolidation.sources import Source, first_few, readable

LINES = 20_000  # at a time
BLOCK = 32 << 20  # bytes at a time, if there are more in so many lines

Record = tuple[int, object]  # line number, and what it says


def read_json(source: Source, form: Form) -> Iterator[Batch]:
    """Yield the objects of a file; a dot in the name of a field leads into another.

    Numbers may be strings, as BigQuery writes whole ones.

    Raises:
        InvalidFileError: It cannot be read, or an object is not as *form* says.
    """
    with readable(source.label), closing(source.open()) as content:
        before = 0
        for lines in _portions(lines_of(content, source.label)):
            yield _batch(_records(lines, before, source), form, source)
            before += len(lines)
        if not before:
            raise InvalidFileError(f"{source.label}: empty")


def _portions(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    found, size = [], 0
    for line in lines:
        found.append(line)
        size += len(line)
        if len(found) == LINES or size >= BLOCK:
            yield found
            found, size = [], 0
    if found:
        yield found


def _records(lines: list[bytes], before: int, source: Source) -> list[Record]:
    found, complaints = [], []
    for number, line in enumerate(lines, before + 1):
        if line.isspace():
            continue
        try:
            found.append((number, json.loads(line)))
        except (ValueError, RecursionError) as error:
            complaints.append(f"{source.label}, line {number}: not JSON: {error}")
    if complaints:
        raise first_few(source.label, complaints)
    return found


def _batch(records: list[Record], form: Form, source: Source) -> Batch:
    index: dict[str, int] = {}
    names = zip(*(_column(records, name) for name in form.key), strict=True)
    which = [index.setdefault(_name(parts), len(index)) for parts in names]
    values = {
        each.name: _numbers(_column(records, each.name), each) for each in form.fields
    }
    fine = np.array([name != "" for name in index], np.bool_)[which]
    for each in form.fields:
        column = values[each.name]
        fine &= np.isnan(column) | each.accepts(column)
    if not fine.all():
        wrong = [records[row] for row in np.flatnonzero(~fine)[:MOST].tolist()]
        raise InvalidFileError(
            *(
                f"{source.label}, line {number}: {_complaint(record, form)}"
                for number, record in wrong
            )
        )
    for each in form.fields:
        for unknown in each.unknown:
            values[each.name][values[each.name] == unknown] = math.nan
    return Batch(list(index), np.array(which, np.int64), values)


def _column(records: list[Record], name: str) -> list[object]:
    outer, _, inner = name.partition(".")
    column = [
        each.get(outer) if isinstance(each, dict) else None for _, each in records
    ]
    return [_within(each, inner) for each in column] if inner else column


def _within(outer: object, inner: str) -> object:
    """Return what *outer* has by the name *inner*; what is no object has no number."""
    if isinstance(outer, dict):
        return outer.get(inner)
    return None if outer is None else _NoObject(outer)


@dataclass(frozen=True, slots=True)
class _NoObject:
    """What stands where an object in braces should be."""

    found: object

    def __repr__(self) -> str:
        return f"{self.found!r} instead of an object"


def _name(parts: tuple[object, ...]) -> str:
    """Return the name that *parts* make; nothing if one is missing."""
    if None in parts or "" in parts:
        return ""
    return "-".join(map(str, parts))


def _numbers(column: list[object], field: Field) -> Floats:
    """Return *column*; NaN where it may be unknown, infinity where it is wrong."""
    kinds = set(map(type, column))
    if kinds <= {int, float} or kinds == {str}:
        with suppress(ValueError, OverflowError):
            numbers = np.array(column, np.float64)
            return np.where(np.isnan(numbers), math.inf, numbers)
    return np.array([_number(value, field) for value in column], np.float64)


def _number(value: object, field: Field) -> float:
    if value is None or value == "":
        return math.nan if field.optional else math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return math.inf
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.inf
    return math.inf if math.isnan(number) else number


def _complaint(record: object, form: Form) -> str:
    """Return what is wrong with *record*, of which something is."""
    if not isinstance(record, dict):
        return "expected an object in braces"
    for name in form.key:
        if _column([(0, record)], name)[0] in (None, ""):
            return f"{name}: expected a name, found nothing"
    wrong = next(each for each in form.fields if not _fits(record, each))
    value = _column([(0, record)], wrong.name)[0]
    found = "nothing" if value is None else repr(value)[:LONGEST]
    return f"{wrong.name}: expected {wrong.expected}, found {found}"


def _fits(record: object, field: Field) -> bool:
    number = _numbers(_column([(0, record)], field.name), field)
    return bool(np.isnan(number)[0] or field.accepts(number)[0])
