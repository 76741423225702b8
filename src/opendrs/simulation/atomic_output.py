"""Tables and pictures in files: all of them appear whole, or none does."""

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
    """Check what can be checked of files before they are written.

    Args:
        outputs: The files, each with the suffixes it may have.
        inputs: Files that must not be written over.

    Raises:
        InvalidFileError: A name has another suffix, stands twice or is that of an
            input, or there is no place for it; with everything that is wrong.
    """
    used_paths = {path.resolve() for path in inputs}
    messages: list[str] = []
    for path, suffixes in outputs:
        messages += _path_errors(path, suffixes)
        if path.resolve() in used_paths:
            messages.append(f"{display_path(path)} is read or written already")
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
            yield f"{name}: there is no directory {display_path(path.parent)}"
        elif path.exists() and not path.is_file():
            yield f"{name} is there, and no file"
        elif not os.access(path.absolute().parent, os.W_OK):
            yield f"{name}: the directory cannot be written to"
    except (OSError, ValueError) as error:  # such as a name that is too long
        reason = error.strerror if isinstance(error, OSError) else error
        yield f"{name}: {reason}"


class AtomicFiles:
    """Files that are written aside, and take their places together.

    Used with `with`: at its end all are in place, or, after an error, none is and
    what was there before still is.

    Raises:
        InvalidFileError: One cannot be written.
    """

    def __init__(self) -> None:
        self._targets: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        return self

    def new(self, path: Path) -> Path:
        """Return where to write what is to become *path*."""
        target = path.resolve()
        temporary = target.with_name(f".{target.name}.{os.getpid()}{target.suffix}")
        self._targets[temporary] = target
        return temporary

    def add(self, path: Path, content: bytes) -> None:
        """Write *content*, which is to become *path*."""
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
    """Return a table as a file holds it.

    Args:
        columns: Its columns by name; None is unknown, and so is NaN.
        suffix: Of the file: .json (a list of objects), .csv or .parquet.
        notes: What is said about it in a file that has a place for that, Parquet.
        types: What the values of columns are, in Parquet; others tell by themselves.
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
    """Return plain values as a JSON file holds them."""
    return escape_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _nan_to_none(value: CellValue) -> CellValue:
    return None if isinstance(value, float) and math.isnan(value) else value


def _parquet(
    columns: TableColumns,
    notes: Mapping[str, str],
    types: Mapping[str, type[CellValue]],
) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - takes long, and is seldom needed
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
            kind = pa.float64()  # what is wholly unknown is taken to be a number
        arrays[name] = pa.array(list(column), kind)
    arrow_table = pa.table(arrays).replace_schema_metadata(dict(notes))
    sink = pa.BufferOutputStream()
    parquet.write_table(arrow_table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content
