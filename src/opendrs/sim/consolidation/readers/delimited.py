"""Large CSV files, a part at a time, and what is wrong with them, line by line.

Arrow reads; where it stumbles, or a value is out of range, the file is read again
by the line, to say where.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import closing

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.expansion import lines_of
from opendrs.sim.consolidation.readers.tables import (
    MOST,
    BadValueError,
    Batch,
    Form,
    checked,
    first_line,
)
from opendrs.sim.consolidation.sources import Source, readable

FURTHER = 10_000  # lines that are looked at after the first that is wrong
BLOCK = 8 << 20  # bytes read at a time
MOST_COLUMNS = 10_000  # Arrow takes room for each; the widest trace has 20


def read_csv(source: Source, form: Form) -> Iterator[Batch]:
    """Yield the rows of a CSV file.

    Raises:
        InvalidFileError: It cannot be read, or a row is not as *form* says.
    """
    import pyarrow as pa  # noqa: PLC0415 - takes long to load
    from pyarrow import csv as arrow  # noqa: PLC0415

    with readable(source.label), closing(source.open()) as content:
        names = form.columns or csv_columns(source, form.delimiter)
        known = form.within(names, source.label)
        kinds = {name: pa.string() for name in known.key}
        for each in known.fields:
            kinds[each.name] = pa.string() if each.words else pa.float64()
        try:
            reader = arrow.open_csv(
                content,
                arrow.ReadOptions(
                    column_names=list(names),
                    block_size=BLOCK,
                    skip_rows=0 if form.columns else 1,
                ),
                arrow.ParseOptions(delimiter=form.delimiter),
                arrow.ConvertOptions(
                    column_types=kinds,
                    include_columns=list(kinds),
                    null_values=[""],
                    strings_can_be_null=False,
                ),
            )
            for rows in reader:
                yield checked(rows, known)
        except (pa.ArrowException, BadValueError, UnicodeError) as error:
            found = tuple(_complaints(source, known, named=form.columns is None))
            raise InvalidFileError(
                *(found or (f"{source.label}: {first_line(error)}",))
            ) from error


def csv_columns(source: Source, delimiter: str = ",") -> tuple[str, ...]:
    """Return the names of the columns, which the first line tells.

    Raises:
        InvalidFileError: It cannot be read.
    """
    with readable(source.label), closing(source.open()) as content:
        start = next(lines_of(content, source.label), b"")
        line = start.decode("utf-8-sig", errors="replace")
    try:
        first = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:
        raise InvalidFileError(f"{source.label}, line 1: {error}") from error
    if len(first) > MOST_COLUMNS:
        raise InvalidFileError(
            f"{source.label}, line 1: more than {MOST_COLUMNS:,} columns"
        )
    return tuple(name.strip() for name in first)


def _complaints(source: Source, form: Form, *, named: bool) -> Iterator[str]:
    """Yield what is wrong with the lines of a CSV file."""
    assert form.columns is not None  # noqa: S101 - for the type checker
    told, since = 0, 0
    with closing(source.open()) as content:
        lines = lines_of(content, source.label)
        texts = (line.decode("utf-8", "replace") for line in lines)
        rows = csv.reader(texts, delimiter=form.delimiter)
        try:
            for row in rows:
                since += told > 0
                if since > FURTHER:
                    return
                if not row or (named and rows.line_num == 1):
                    continue
                why = _complaint(row, form)
                if why and told == MOST:
                    yield f"{source.label}: and more"
                    return
                if why:
                    told += 1
                    yield f"{source.label}, line {rows.line_num}: {why}"
        except csv.Error as error:
            yield f"{source.label}, line {rows.line_num}: {error}"


def _complaint(row: list[str], form: Form) -> str | None:
    assert form.columns is not None  # noqa: S101 - for the type checker
    if len(row) != len(form.columns):
        names = ", ".join(form.columns)
        return f"{len(row)} values instead of {len(form.columns)}: {names}"
    found = dict(zip(form.columns, row, strict=True))
    for name in form.key:
        if not found[name]:
            return f"{name}: expected a name, found nothing"
    told = (each.complaint(found[each.name]) for each in form.fields)
    return next((why for why in told if why), None)
