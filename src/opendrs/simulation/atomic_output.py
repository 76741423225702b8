"""Output files (tables and plots) that are replaced together or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from opendrs.config import display_path
from opendrs.errors import InvalidFileError
from opendrs.escapes import escape_text

TABLE_SUFFIXES = (".json", ".csv", ".parquet")
PLOT_SUFFIXES = (".svg", ".png", ".pdf")

CellValue = str | int | float | bool | None
TableColumns = Mapping[str, Sequence[CellValue]]


def check_outputs(
    outputs: Iterable[tuple[Path, Collection[str]]], inputs: Iterable[Path] = ()
) -> None:
    """Check the paths of output files before anything is written.

    Args:
        outputs: Output paths, each with its allowed suffixes.
        inputs: Files that must not be overwritten.

    Raises:
        InvalidFileError: A path has another suffix, is used twice or as input, or
            cannot be written; with all such errors.
    """
    used_paths = {path.resolve() for path in inputs}
    messages: list[str] = []
    for path, suffixes in outputs:
        messages += _path_errors(path, suffixes)
        if path.resolve() in used_paths:
            messages.append(f"{display_path(path)}: already used as input or output")
        used_paths.add(path.resolve())
    if messages:
        raise InvalidFileError(*messages)


def _path_errors(path: Path, suffixes: Collection[str]) -> Iterator[str]:
    name = display_path(path)
    if path.suffix not in suffixes:
        known = " or ".join(suffixes).replace(" or ", ", ", len(suffixes) - 2)
        yield f"{name}: expected a name that ends in {known}"
    try:
        if not path.absolute().parent.is_dir():
            yield f"{name}: no such directory: {display_path(path.parent)}"
        elif path.exists() and not path.is_file():
            yield f"{name}: exists and is not a regular file"
        elif not os.access(path.absolute().parent, os.W_OK):
            yield f"{name}: directory not writable: {display_path(path.parent)}"
    except (OSError, ValueError) as error:  # such as a name that is too long
        reason = error.strerror if isinstance(error, OSError) else error
        yield f"{name}: {reason}"


class AtomicFiles:
    """Files that are written under temporary names and renamed together.

    A context manager. At its end all files are in place. After an error none is, and
    the previous files are unchanged.

    Raises:
        InvalidFileError: A file cannot be written.
    """

    def __init__(self) -> None:
        self._targets: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        return self

    def new(self, path: Path) -> Path:
        """Return the temporary path to write to for *path*."""
        target = path.resolve()
        temporary = target.with_name(f".{target.name}.{os.getpid()}{target.suffix}")
        self._targets[temporary] = target
        return temporary

    def add(self, path: Path, content: bytes) -> None:
        """Write *content* for *path*."""
        self.new(path).write_bytes(content)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._commit()
        except OSError as failure:
            raise _write_error(failure) from failure
        finally:
            for temporary in self._targets:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _write_error(error) from error

    def _commit(self) -> None:
        for temporary in self._targets:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        for temporary, target in self._targets.items():
            temporary.replace(target)


def _write_error(error: OSError) -> InvalidFileError:
    name = (
        display_path(Path(os.fsdecode(error.filename))) if error.filename else "a file"
    )
    return InvalidFileError(f"cannot write {name}: {error.strerror or error}")


def table_bytes(
    columns: TableColumns,
    suffix: str,
    notes: Mapping[str, str] | None = None,
    types: Mapping[str, type[CellValue]] | None = None,
) -> bytes:
    """Return a table in the format of a file.

    Args:
        columns: Columns by name; None and NaN mean unknown.
        suffix: Suffix of the file: .json (a list of objects), .csv or .parquet.
        notes: Metadata of the file; only Parquet stores it.
        types: Types of columns in Parquet; those of others are inferred.
    """
    plain = {
        name: [_nan_to_none(each) for each in column]
        for name, column in columns.items()
    }
    if suffix == ".parquet":
        return _parquet(plain, notes or {}, types or {})
    rows = zip(*plain.values(), strict=True)
    if suffix == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(plain)
        writer.writerows(rows)
        return escape_text(text.getvalue()).encode()
    return json_bytes([dict(zip(plain, row, strict=True)) for row in rows])


def json_bytes(value: object) -> bytes:
    """Return plain values in the format of a JSON file."""
    return escape_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _nan_to_none(value: CellValue) -> CellValue:
    return None if isinstance(value, float) and math.isnan(value) else value


def _parquet(
    columns: TableColumns,
    notes: Mapping[str, str],
    types: Mapping[str, type[CellValue]],
) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and rarely needed
    from pyarrow import parquet  # noqa: PLC0415

    arrow_types = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
    }
    arrays = {}
    for name, column in columns.items():
        kind = arrow_types[types[name]] if name in types else None
        if kind is None and all(value is None for value in column):
            kind = pa.float64()  # a column without known values is treated as numeric
        arrays[name] = pa.array(list(column), kind)
    arrow_table = pa.table(arrays).replace_schema_metadata(dict(notes))
    sink = pa.BufferOutputStream()
    parquet.write_table(arrow_table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content
