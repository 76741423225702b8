"""Definitions of table columns, and batches of parsed rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from opendrs.config import Diagnostic
from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.workload import Floats, Integers, Mask

MAX_REPORTED = 5  # errors per file
MAX_NUMBER = 1e18  # larger numbers are invalid
MAX_VALUE_LENGTH = 40  # characters of a value in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumn:
    """Column of numbers.

    Attributes:
        name: Name of the column.
        minimum: Least valid value.
        maximum: Largest valid value.
        unknown: Values that mean unknown.
        optional: True if a value may be empty, which means unknown.
        required: True if the column must exist in a file with a header.
        symbols: Texts that represent numbers.
    """

    name: str
    minimum: float = 0.0
    maximum: float = MAX_NUMBER
    unknown: tuple[float, ...] = ()
    optional: bool = False
    required: bool = True
    symbols: Mapping[str, float] = field(default_factory=dict)

    @property
    def expected(self) -> str:
        """Description of the valid values."""
        if self.minimum == -MAX_NUMBER:
            return "a number"
        if self.maximum == MAX_NUMBER:
            return f"a number of at least {self.minimum:g}"
        return f"a number in [{self.minimum:g}, {self.maximum:g}]"

    def accepts(self, values: Floats) -> Mask:
        """Return True where *values* are in range or mean unknown."""
        accepted = (values >= self.minimum) & (values <= self.maximum)
        for each in self.unknown:
            accepted |= values == each
        return np.asarray(accepted, np.bool_)

    def diagnose(self, value: str) -> Diagnostic | None:
        """Return the error of *value*, or None."""
        text = value.strip()
        if text in self.symbols or (self.optional and not text):
            return None
        if self.accepts(np.array([_number(text)]))[0]:
            return None
        return self.diagnostic(text)

    def diagnostic(self, value: object) -> Diagnostic:
        """Return the error of the invalid *value*; None and "" if it is missing."""
        if value in (None, ""):
            code, found = DiagnosticCode.MISSING_KEY, "nothing"
        else:
            is_number = type(value) in (str, int, float) and not math.isnan(
                _number(str(value))
            )
            code = (
                DiagnosticCode.OUT_OF_RANGE if is_number else DiagnosticCode.WRONG_TYPE
            )
            found = repr(value)[:MAX_VALUE_LENGTH]
        message = f"{self.name}: expected {self.expected}, got {found}"
        return Diagnostic((), message, code=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """Columns of a table.

    Attributes:
        key: Columns that together identify the guest; empty if the file does.
        fields: Columns of numbers to read.
        columns: All columns, in order; None if the first line contains them.
        delimiter: Separator of the values.
    """

    key: tuple[str, ...]
    fields: tuple[NumberColumn, ...]
    columns: tuple[str, ...] | None = None
    delimiter: str = ","

    def select_columns(self, columns: Sequence[str], label: str) -> TableFormat:
        """Return this format with only the fields that exist in *columns*.

        Raises:
            InvalidFileError: A required column is missing or duplicate.
        """
        required = [*self.key, *(each.name for each in self.fields if each.required)]
        missing = [name for name in required if name not in columns]
        if missing:
            names = ", ".join(repr(name) for name in missing)
            printable = (
                name if name.isprintable() else ascii(name) for name in columns
            )
            found = ", ".join(printable)[:200] or "nothing"
            raise InvalidFileError(
                f"{label}: no column {names}; found {found}",
                code=DiagnosticCode.MISSING_KEY,
            )
        fields = tuple(each for each in self.fields if each.name in columns)
        for name in (*self.key, *(each.name for each in fields)):
            if columns.count(name) > 1:
                raise InvalidFileError(
                    f"{label}: duplicate column {name!r}",
                    code=DiagnosticCode.DUPLICATE_KEY,
                )
        return TableFormat(
            key=self.key,
            fields=fields,
            columns=tuple(columns),
            delimiter=self.delimiter,
        )


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows of a table.

    Attributes:
        names: Guests in the rows.
        guest_index: Index of the guest of each row; shape (rows,).
        values: Numbers by field; NaN where unknown; each of shape (rows,).
    """

    names: list[str]
    guest_index: Integers
    values: dict[str, Floats]


def missing_name(column: str) -> Diagnostic:
    """Return the error of a row without the name of its guest."""
    message = f"{column}: expected a name, got nothing"
    return Diagnostic((), message, code=DiagnosticCode.MISSING_KEY)


def locate(diagnostic: Diagnostic, location: str) -> Diagnostic:
    """Return *diagnostic* with its *location* at the start of the message."""
    return replace(diagnostic, message=f"{location}: {diagnostic.message}")


class BadValueError(ValueError):
    """Invalid value in a row.

    Attributes:
        row: Index of the row in the batch.
        diagnostic: Description of the error.
    """

    def __init__(self, row: int, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.row, self.diagnostic = row, diagnostic


# Arrow has no type annotations, so its objects are Any.
def parse_rows(rows: Any, table_format: TableFormat) -> RowBatch:  # noqa: ANN401
    """Return *rows*, a record batch, as columns of numbers.

    Raises:
        BadValueError: A value does not match *table_format*.
    """
    values = {
        each.name: _numbers(rows.column(each.name), each)
        for each in table_format.fields
    }
    if not table_format.key:
        return RowBatch([""], np.zeros(len(rows), np.int64), values)
    names, guest_index = _guest_names(rows, table_format.key)
    return RowBatch(names, guest_index, values)


def _guest_names(rows: Any, key: tuple[str, ...]) -> tuple[list[str], Integers]:  # noqa: ANN401
    """Return the guests of *rows*, and the index of the guest of each row."""
    from pyarrow import compute  # noqa: PLC0415 - slow to import

    keys = [compute.cast(rows.column(name), "string") for name in key]
    joined = keys[0]
    if len(keys) > 1:
        joined = compute.binary_join_element_wise(*keys, "-")
    encoded = joined.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    guest_index = encoded.indices.to_numpy(zero_copy_only=False)
    if joined.null_count or "" in names:
        empty = compute.fill_null(compute.equal(joined, ""), fill_value=True)
        row = compute.index(empty, value=True).as_py()
        raise BadValueError(row, missing_name(key[0]))
    return names, guest_index.astype(np.int64)


def _numbers(column: Any, number_column: NumberColumn) -> Floats:  # noqa: ANN401
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import compute  # noqa: PLC0415

    present = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode()
        words = encoded.dictionary.to_pylist()
        parsed = [
            number_column.symbols.get(word.strip(), word.strip()) for word in words
        ]
        numbers = np.array([_number(each) for each in parsed], np.float64)
        which = compute.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
        blank = np.array([each == "" for each in parsed], np.bool_)
        if parsed:
            present = present & ~blank[which]
        values = numbers[which] if parsed else np.full(len(column), np.nan)
    else:
        values = compute.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    invalid = np.where(
        present, ~number_column.accepts(values), not number_column.optional
    )
    if invalid.any():
        row = int(np.argmax(invalid))
        found = column[row].as_py() if present[row] else None
        raise BadValueError(row, number_column.diagnostic(found))
    unknown = ~present
    for each in number_column.unknown:
        unknown |= values == each
    return np.where(unknown, np.nan, values)


def _number(word: str | float) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def first_line(error: Exception) -> str:
    """Return the first line of the message of *error*."""
    return str(error).partition("\n")[0][:200]
