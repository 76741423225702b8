"""Reader of large files with one JSON object per line, in batches.

It uses the standard library, because Arrow's reader of JSON aborts the whole process at
a line with `null` (pyarrow 26.0.1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

import numpy as np

from opendrs.config import Diagnostic
from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces.columns import (
    MAX_REPORTED,
    NumberColumn,
    RowBatch,
    TableFormat,
    locate,
    missing_name,
)
from opendrs.simulation.traces.decompression import read_lines
from opendrs.simulation.traces.files import TraceSource, limited_error, wrap_read_errors
from opendrs.simulation.workload import Floats

LINES_PER_BATCH = 20_000
BATCH_SIZE = 32 << 20  # bytes per batch, if that is reached with fewer lines

NumberedRecord = tuple[int, object]  # line number, parsed value


def read_json(source: TraceSource, table_format: TableFormat) -> Iterator[RowBatch]:
    """Yield the objects of a file; a dot in a field name denotes a nested field.

    Numbers may be strings, as BigQuery writes integers.

    Raises:
        InvalidFileError: The file cannot be read, or an object does not match
            *table_format*.
    """
    with wrap_read_errors(source.label), closing(source.open()) as content:
        before = 0
        for lines in _line_batches(read_lines(content, source.label)):
            yield _batch(_records(lines, before, source), table_format, source)
            before += len(lines)
        if not before:
            raise InvalidFileError(f"{source.label}: empty")


def _line_batches(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    batch, size = [], 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if len(batch) == LINES_PER_BATCH or size >= BATCH_SIZE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _records(
    lines: list[bytes], before: int, source: TraceSource
) -> list[NumberedRecord]:
    records, diagnostics = [], []
    for number, line in enumerate(lines, before + 1):
        if line.isspace():
            continue
        try:
            records.append((number, json.loads(line)))
        except (ValueError, RecursionError) as error:
            message = f"{source.label}, line {number}: not JSON: {error}"
            diagnostics.append(
                Diagnostic((), message, code=DiagnosticCode.UNUSABLE_FILE)
            )
    if diagnostics:
        raise limited_error(source.label, diagnostics)
    return records


def _batch(
    records: list[NumberedRecord], table_format: TableFormat, source: TraceSource
) -> RowBatch:
    index: dict[str, int] = {}
    names = zip(*(_column(records, name) for name in table_format.key), strict=True)
    guest_index = [index.setdefault(_name(parts), len(index)) for parts in names]
    values = {
        each.name: _numbers(_column(records, each.name), each)
        for each in table_format.fields
    }
    valid = np.array([name != "" for name in index], np.bool_)[guest_index]
    for each in table_format.fields:
        column = values[each.name]
        valid &= np.isnan(column) | each.accepts(column)
    if not valid.all():
        invalid = [
            records[row] for row in np.flatnonzero(~valid)[:MAX_REPORTED].tolist()
        ]
        raise limited_error(
            source.label,
            [
                locate(
                    _diagnose(record, table_format), f"{source.label}, line {number}"
                )
                for number, record in invalid
            ],
        )
    for each in table_format.fields:
        for unknown in each.unknown:
            values[each.name][values[each.name] == unknown] = math.nan
    return RowBatch(list(index), np.array(guest_index, np.int64), values)


def _column(records: list[NumberedRecord], name: str) -> list[object]:
    outer, _, inner = name.partition(".")
    column = [
        each.get(outer) if isinstance(each, dict) else None for _, each in records
    ]
    return [_inner_value(each, inner) for each in column] if inner else column


def _inner_value(outer: object, inner: str) -> object:
    """Return the field *inner* of *outer*; a marker if it is not an object."""
    if isinstance(outer, dict):
        return outer.get(inner)
    return None if outer is None else _NotAnObject(outer)


@dataclass(frozen=True, slots=True)
class _NotAnObject:
    """Marker of a value where an object was expected."""

    value: object

    def __repr__(self) -> str:
        return f"{self.value!r} instead of an object"


def _name(parts: tuple[object, ...]) -> str:
    """Return the name joined from *parts*; empty if one is missing."""
    if None in parts or "" in parts:
        return ""
    return "-".join(map(str, parts))


def _numbers(column: list[object], field: NumberColumn) -> Floats:
    """Return *column*; NaN where unknown, infinity where invalid."""
    kinds = set(map(type, column))
    if kinds <= {int, float} or kinds == {str}:
        with suppress(ValueError, OverflowError):
            numbers = np.array(column, np.float64)
            return np.where(np.isnan(numbers), math.inf, numbers)
    return np.array([_number(value, field) for value in column], np.float64)


def _number(value: object, field: NumberColumn) -> float:
    if value is None or value == "":
        return math.nan if field.optional else math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return math.inf
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.inf
    return math.inf if math.isnan(number) else number


def _diagnose(record: object, table_format: TableFormat) -> Diagnostic:
    """Return the error of *record*, which is known to be invalid."""
    if not isinstance(record, dict):
        message = "expected an object in braces"
        return Diagnostic((), message, code=DiagnosticCode.WRONG_TYPE)
    for name in table_format.key:
        if _column([(0, record)], name)[0] in (None, ""):
            return missing_name(name)
    column = next(each for each in table_format.fields if not _is_valid(record, each))
    return column.diagnostic(_column([(0, record)], column.name)[0])


def _is_valid(record: object, field: NumberColumn) -> bool:
    number = _numbers(_column([(0, record)], field.name), field)
    return bool(np.isnan(number)[0] or field.accepts(number)[0])
