"""What the columns of a table must hold, and some of its rows as columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.hardware import Floats, Integers, Truths

MOST = 5  # complaints about one file
LARGEST = 1e18  # of any number; larger ones are no measurements
LONGEST = 40  # characters of a value that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of numbers.

    Attributes:
        name: Its name.
        least: The least value it may have.
        most: The largest.
        unknown: Values that stand for one that is not known.
        optional: Whether a value may be missing, which makes it unknown.
        needed: Whether the column must be there, where the file names its columns.
        words: Values that are no numbers, and what they stand for.
    """

    name: str
    least: float = 0.0
    most: float = LARGEST
    unknown: tuple[float, ...] = ()
    optional: bool = False
    needed: bool = True
    words: Mapping[str, float] = field(default_factory=dict)

    @property
    def expected(self) -> str:
        """What is expected there."""
        if self.least == -LARGEST:
            return "a number"
        if self.most == LARGEST:
            return f"a number of at least {self.least:g}"
        return f"a number in [{self.least:g}, {self.most:g}]"

    def accepts(self, values: Floats) -> Truths:
        """Return which of *values* are in range or stand for an unknown one."""
        fine = (values >= self.least) & (values <= self.most)
        for each in self.unknown:
            fine |= values == each
        return np.asarray(fine, np.bool_)

    def complaint(self, word: str) -> str | None:
        """Return what is wrong with *word*, or None."""
        text = word.strip()
        if text in self.words or (self.optional and not text):
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if self.accepts(np.array([value]))[0]:
            return None
        return (
            f"{self.name}: expected {self.expected}, found {word.strip()[:LONGEST]!r}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What the columns of a table are.

    Attributes:
        key: Those that together name the guest; none where the file does.
        fields: Those with numbers that are wanted.
        columns: All of them, in order; None where the first line names them.
        delimiter: What is between two.
    """

    key: tuple[str, ...]
    fields: tuple[Field, ...]
    columns: tuple[str, ...] | None = None
    delimiter: str = ","

    def within(self, columns: Sequence[str], label: str) -> Form:
        """Return what of it is there in *columns*.

        Raises:
            InvalidFileError: One that is needed is not, or is there twice.
        """
        needed = [*self.key, *(each.name for each in self.fields if each.needed)]
        lacking = [name for name in needed if name not in columns]
        if lacking:
            names = ", ".join(repr(name) for name in lacking)
            plain = (name if name.isprintable() else ascii(name) for name in columns)
            found = ", ".join(plain)[:200] or "nothing"
            raise InvalidFileError(f"{label}: no column {names}; found {found}")
        fields = tuple(each for each in self.fields if each.name in columns)
        for name in (*self.key, *(each.name for each in fields)):
            if columns.count(name) > 1:
                raise InvalidFileError(f"{label}: there are two columns {name!r}")
        return Form(
            key=self.key,
            fields=fields,
            columns=tuple(columns),
            delimiter=self.delimiter,
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a table.

    Attributes:
        names: The guests in them.
        which: Which of them each row is about; shape (rows,).
        values: The numbers, by field; NaN where unknown; each of shape (rows,).
    """

    names: list[str]
    which: Integers
    values: dict[str, Floats]


class BadValueError(ValueError):
    """A value is not what it should be.

    Attributes:
        row: In which row of the batch.
        why: What is wrong with it.
    """

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row, self.why = row, why


def checked(rows: Any, form: Form) -> Batch:  # noqa: ANN401 - Arrow has no types
    """Return *rows*, a record batch, as columns of numbers.

    Raises:
        BadValueError: A value is not as *form* says.
    """
    values = {each.name: _numbers(rows.column(each.name), each) for each in form.fields}
    if not form.key:
        return Batch([""], np.zeros(len(rows), np.int64), values)
    names, which = _guests(rows, form.key)
    return Batch(names, which, values)


def _guests(rows: Any, key: tuple[str, ...]) -> tuple[list[str], Integers]:  # noqa: ANN401 - as above
    """Return the guests of *rows*, and which of them each is about."""
    from pyarrow import compute  # noqa: PLC0415 - takes long to load

    keys = [compute.cast(rows.column(name), "string") for name in key]
    joined = keys[0]
    if len(keys) > 1:
        joined = compute.binary_join_element_wise(*keys, "-")
    coded = joined.dictionary_encode()
    names = coded.dictionary.to_pylist()
    which = coded.indices.to_numpy(zero_copy_only=False)
    if joined.null_count or "" in names:
        empty = compute.fill_null(compute.equal(joined, ""), fill_value=True)
        row = compute.index(empty, value=True).as_py()
        raise BadValueError(row, f"{key[0]}: expected a name, found nothing")
    return names, which.astype(np.int64)


def _numbers(column: Any, wanted: Field) -> Floats:  # noqa: ANN401 - as above
    import pyarrow as pa  # noqa: PLC0415 - takes long to load
    from pyarrow import compute  # noqa: PLC0415

    there = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type):
        coded = column.dictionary_encode()
        words = coded.dictionary.to_pylist()
        told = [wanted.words.get(word.strip(), word.strip()) for word in words]
        numbers = np.array([_number(each) for each in told], np.float64)
        which = compute.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False)
        blank = np.array([each == "" for each in told], np.bool_)
        if told:
            there = there & ~blank[which]
        values = numbers[which] if told else np.full(len(column), np.nan)
    else:
        values = compute.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    bad = np.where(there, ~wanted.accepts(values), not wanted.optional)
    if bad.any():
        row = int(np.argmax(bad))
        found = repr(column[row].as_py()) if there[row] else "nothing"
        raise BadValueError(
            row, f"{wanted.name}: expected {wanted.expected}, found {found[:LONGEST]}"
        )
    lost = ~there
    for each in wanted.unknown:
        lost |= values == each
    return np.where(lost, np.nan, values)


def _number(word: str | float) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def first_line(error: Exception) -> str:
    """Return the first line of the message of *error*."""
    return str(error).partition("\n")[0][:200]
