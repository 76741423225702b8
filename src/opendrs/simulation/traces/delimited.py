"""Reader of large CSV files in batches, with errors by line.

Arrow parses the file. If it fails, or a value is out of range, the file is read again
line by line to locate the errors.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from opendrs.config import Diagnostic
from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.model import format_count
from opendrs.simulation.traces.columns import (
    MAX_REPORTED,
    BadValueError,
    RowBatch,
    TableFormat,
    first_line,
    locate,
    missing_name,
    parse_rows,
)
from opendrs.simulation.traces.decompression import read_lines
from opendrs.simulation.traces.files import TraceSource, file_error, wrap_read_errors

MAX_FURTHER_LINES = 10_000  # lines that are checked after the first error
BLOCK_SIZE = 8 << 20  # bytes read at a time
MAX_COLUMNS = 10_000  # Arrow allocates memory for each; the widest trace has 20


def read_csv(source: TraceSource, table_format: TableFormat) -> Iterator[RowBatch]:
    """Yield the rows of a CSV file.

    Raises:
        InvalidFileError: The file cannot be read, or a row does not match
            *table_format*.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import csv as arrow  # noqa: PLC0415

    with wrap_read_errors(source.label), closing(source.open()) as content:
        names = table_format.columns or csv_columns(source, table_format.delimiter)
        present = table_format.select_columns(names, source.label)
        kinds = {name: pa.string() for name in present.key}
        for each in present.fields:
            kinds[each.name] = pa.string() if each.symbols else pa.float64()
        try:
            reader = arrow.open_csv(
                content,
                arrow.ReadOptions(
                    column_names=list(names),
                    block_size=BLOCK_SIZE,
                    skip_rows=0 if table_format.columns else 1,
                ),
                arrow.ParseOptions(delimiter=table_format.delimiter),
                arrow.ConvertOptions(
                    column_types=kinds,
                    include_columns=list(kinds),
                    null_values=[""],
                    strings_can_be_null=False,
                ),
            )
            for rows in reader:
                yield parse_rows(rows, present)
        except (pa.ArrowException, BadValueError, UnicodeError) as error:
            diagnostics = tuple(
                _diagnostics(source, present, has_header=table_format.columns is None)
            ) or (_unusable(f"{source.label}: {first_line(error)}"),)
            raise file_error(diagnostics) from error


def csv_columns(source: TraceSource, delimiter: str = ",") -> tuple[str, ...]:
    """Return the names of the columns in the first line.

    Raises:
        InvalidFileError: The file cannot be read.
    """
    with wrap_read_errors(source.label), closing(source.open()) as content:
        start = next(read_lines(content, source.label), b"")
        line = start.decode("utf-8-sig", errors="replace")
    try:
        first = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:
        raise InvalidFileError(f"{source.label}, line 1: {error}") from error
    if len(first) > MAX_COLUMNS:
        raise InvalidFileError(
            f"{source.label}, line 1: more than {MAX_COLUMNS:,} columns",
            code=DiagnosticCode.OUT_OF_RANGE,
        )
    return tuple(name.strip() for name in first)


def _diagnostics(
    source: TraceSource, table_format: TableFormat, *, has_header: bool
) -> Iterator[Diagnostic]:
    """Yield the errors in the lines of a CSV file."""
    assert table_format.columns is not None  # noqa: S101 - for the type checker
    reported, since = 0, 0
    with closing(source.open()) as content:
        lines = read_lines(content, source.label)
        texts = (line.decode("utf-8", "replace") for line in lines)
        rows = csv.reader(texts, delimiter=table_format.delimiter)
        try:
            for row in rows:
                since += reported > 0
                if since > MAX_FURTHER_LINES:
                    return
                if not row or (has_header and rows.line_num == 1):
                    continue
                diagnostic = _diagnose(row, table_format)
                if diagnostic and reported == MAX_REPORTED:
                    yield replace(diagnostic, message=f"{source.label}: and more")
                    return
                if diagnostic:
                    reported += 1
                    yield locate(diagnostic, f"{source.label}, line {rows.line_num}")
        except csv.Error as error:
            yield _unusable(f"{source.label}, line {rows.line_num}: {error}")


def _unusable(message: str) -> Diagnostic:
    return Diagnostic((), message, code=DiagnosticCode.UNUSABLE_FILE)


def _diagnose(row: list[str], table_format: TableFormat) -> Diagnostic | None:
    assert table_format.columns is not None  # noqa: S101 - for the type checker
    if len(row) != len(table_format.columns):
        names = ", ".join(table_format.columns)
        count = format_count(len(row), "value")
        message = f"{count} instead of {len(table_format.columns)}: {names}"
        return Diagnostic((), message, code=DiagnosticCode.OUT_OF_RANGE)
    values = dict(zip(table_format.columns, row, strict=True))
    for name in table_format.key:
        if not values[name]:
            return missing_name(name)
    found = (each.diagnose(values[each.name]) for each in table_format.fields)
    return next((diagnostic for diagnostic in found if diagnostic), None)
