"""Reader of large Parquet files in batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import IO, Any

import numpy as np

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces.columns import (
    BadValueError,
    RowBatch,
    TableFormat,
    first_line,
    parse_rows,
)
from opendrs.simulation.traces.decompression import ExpansionLimit
from opendrs.simulation.traces.files import TraceSource, wrap_read_errors

ROWS_PER_BATCH = 65_536


def parquet_columns(source: TraceSource) -> tuple[str, ...]:
    """Return the names of the columns; a dot denotes a nested column.

    Raises:
        InvalidFileError: The file is not in Parquet format.
    """
    with wrap_read_errors(source.label), closing(source.open()) as content:
        return tuple(_column_names(_open_parquet(content, source).schema_arrow))


def read_parquet(source: TraceSource, table_format: TableFormat) -> Iterator[RowBatch]:
    """Yield the rows of a Parquet file.

    Raises:
        InvalidFileError: The file cannot be read, or a row does not match
            *table_format*.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    with wrap_read_errors(source.label), closing(source.open()) as content:
        file = _open_parquet(content, source)
        schema = file.schema_arrow
        present = table_format.select_columns(_column_names(schema), source.label)
        _check_numeric(schema, present, source)
        wanted = [*present.key, *(each.name for each in present.fields)]
        _check_expansion(file.metadata, len(wanted), content, source)
        rows_before = 0
        try:
            for rows in file.iter_batches(ROWS_PER_BATCH, columns=wanted):
                flat = pa.Table.from_batches([rows]).flatten().combine_chunks()
                for part in flat.to_batches():
                    yield parse_rows(part, present)
                rows_before += len(rows)
        except BadValueError as error:
            row = rows_before + error.row + 1
            raise InvalidFileError(
                f"{source.label}, row {row}: {error.diagnostic.message}",
                code=error.diagnostic.code,
            ) from error
        except (pa.ArrowException, UnicodeError) as error:
            raise InvalidFileError(f"{source.label}: {first_line(error)}") from error


# Arrow has no type annotations, so its objects are Any.
def _open_parquet(content: object, source: TraceSource) -> Any:  # noqa: ANN401
    """Return the opened file after checking that its columns have names."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import parquet  # noqa: PLC0415

    try:
        file = parquet.ParquetFile(content)
        _column_names(file.schema_arrow)
    except (pa.ArrowException, UnicodeError) as error:
        raise InvalidFileError(f"{source.label}: {first_line(error)}") from error
    return file


def _check_expansion(
    metadata: Any,  # noqa: ANN401
    columns: int,
    content: IO[bytes],
    source: TraceSource,
) -> None:
    """Check that a file does not have far more values than its size suggests."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    stored = sum(group.total_byte_size for group in groups)
    in_memory = metadata.num_rows * columns * np.dtype(np.float64).itemsize
    limit = ExpansionLimit(source.label, content.seek(0, os.SEEK_END))
    limit.consume(max(stored, in_memory))


def _column_names(schema: Any) -> list[str]:  # noqa: ANN401
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    names = []
    for each in schema:
        if pa.types.is_struct(each.type):
            names += [f"{each.name}.{inner.name}" for inner in each.type]
        else:
            names.append(each.name)
    return names


def _check_numeric(schema: Any, table_format: TableFormat, source: TraceSource) -> None:  # noqa: ANN401
    """Check that all fields have numeric types."""
    from pyarrow import types  # noqa: PLC0415 - slow to import

    for each in table_format.fields:
        outer, dot, inner = each.name.partition(".")
        kind = schema.field(outer).type
        if dot:
            kind = kind.field(inner).type
        if not (
            types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        ):
            raise InvalidFileError(
                f"{source.label}: {each.name}: expected numbers, got {kind}",
                code=DiagnosticCode.WRONG_TYPE,
            )
