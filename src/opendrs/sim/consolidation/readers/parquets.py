"""Large Parquet files, a part at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import IO, Any

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.expansion import Allowance
from opendrs.sim.consolidation.readers.tables import (
    BadValueError,
    Batch,
    Form,
    checked,
    first_line,
)
from opendrs.sim.consolidation.sources import Source, readable

ROWS = 65_536  # at a time


def parquet_columns(source: Source) -> tuple[str, ...]:
    """Return the names of the columns; a dot leads into one that has several.

    Raises:
        InvalidFileError: It is no Parquet file.
    """
    with readable(source.label), closing(source.open()) as content:
        return tuple(_names(_opened(content, source).schema_arrow))


def read_parquet(source: Source, form: Form) -> Iterator[Batch]:
    """Yield the rows of a Parquet file.

    Raises:
        InvalidFileError: It cannot be read, or a row is not as *form* says.
    """
    import pyarrow as pa  # noqa: PLC0415 - takes long to load

    with readable(source.label), closing(source.open()) as content:
        file = _opened(content, source)
        schema = file.schema_arrow
        known = form.within(_names(schema), source.label)
        _require_numbers(schema, known, source)
        wanted = [*known.key, *(each.name for each in known.fields)]
        _require_bearable(file.metadata, len(wanted), content, source)
        before = 0
        try:
            for rows in file.iter_batches(ROWS, columns=wanted):
                flat = pa.Table.from_batches([rows]).flatten().combine_chunks()
                for part in flat.to_batches():
                    yield checked(part, known)
                before += len(rows)
        except BadValueError as error:
            raise InvalidFileError(
                f"{source.label}, row {before + error.row + 1}: {error.why}"
            ) from error
        except (pa.ArrowException, UnicodeError) as error:
            raise InvalidFileError(f"{source.label}: {first_line(error)}") from error


def _opened(content: object, source: Source) -> Any:  # noqa: ANN401 - Arrow has no types
    """Return the file, of which it is known that it has columns with names."""
    import pyarrow as pa  # noqa: PLC0415 - takes long to load
    from pyarrow import parquet  # noqa: PLC0415

    try:
        file = parquet.ParquetFile(content)
        _names(file.schema_arrow)
    except (pa.ArrowException, UnicodeError) as error:
        raise InvalidFileError(f"{source.label}: {first_line(error)}") from error
    return file


def _require_bearable(
    metadata: Any,  # noqa: ANN401 - as above
    columns: int,
    content: IO[bytes],
    source: Source,
) -> None:
    """Check that a file does not have many more values than its size suggests."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    stored = sum(group.total_byte_size for group in groups)
    held = metadata.num_rows * columns * np.dtype(np.float64).itemsize
    allowance = Allowance(source.label, content.seek(0, os.SEEK_END))
    allowance.take(max(stored, held))


def _names(schema: Any) -> list[str]:  # noqa: ANN401 - as above
    import pyarrow as pa  # noqa: PLC0415 - takes long to load

    names = []
    for each in schema:
        if pa.types.is_struct(each.type):
            names += [f"{each.name}.{inner.name}" for inner in each.type]
        else:
            names.append(each.name)
    return names


def _require_numbers(schema: Any, form: Form, source: Source) -> None:  # noqa: ANN401 - as above
    """Check that numbers are numbers."""
    from pyarrow import types  # noqa: PLC0415 - takes long to load

    for each in form.fields:
        outer, dot, inner = each.name.partition(".")
        kind = schema.field(outer).type
        if dot:
            kind = kind.field(inner).type
        if not (
            types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        ):
            raise InvalidFileError(
                f"{source.label}: {each.name}: expected numbers, found {kind}"
            )
