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

from opendrs.errors import InvalidFileError
from opendrs.escapes import escaped
from opendrs.platforms.file import shown_path

TABLES = (".json", ".csv", ".parquet")
PICTURES = (".svg", ".png", ".pdf")

Value = str | int | float | bool | None
Columns = Mapping[str, Sequence[Value]]


def require_outputs(
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
    taken = {path.resolve() for path in inputs}
    wrong: list[str] = []
    for path, suffixes in outputs:
        wrong += _wrong(path, suffixes)
        if path.resolve() in taken:
            wrong.append(f"{shown_path(path)} is read or written already")
        taken.add(path.resolve())
    if wrong:
        raise InvalidFileError(*wrong)


def _wrong(path: Path, suffixes: Collection[str]) -> Iterator[str]:
    name = shown_path(path)
    if path.suffix not in suffixes:
        known = " or ".join(suffixes).replace(" or ", ", ", len(suffixes) - 2)
        yield f"{name}: expected a name that ends in {known}"
    try:
        if not path.absolute().parent.is_dir():
            yield f"{name}: there is no directory {shown_path(path.parent)}"
        elif path.exists() and not path.is_file():
            yield f"{name} is there, and no file"
        elif not os.access(path.absolute().parent, os.W_OK):
            yield f"{name}: the directory cannot be written to"
    except (OSError, ValueError) as error:  # such as a name that is too long
        reason = error.strerror if isinstance(error, OSError) else error
        yield f"{name}: {reason}"


class Drafts:
    """Files that are written aside, and take their places together.

    Used with `with`: at its end all are in place, or, after an error, none is and
    what was there before still is.

    Raises:
        InvalidFileError: One cannot be written.
    """

    def __init__(self) -> None:
        self._drafts: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        return self

    def new(self, path: Path) -> Path:
        """Return where to write what is to become *path*."""
        goal = path.resolve()
        draft = goal.with_name(f".{goal.name}.{os.getpid()}{goal.suffix}")
        self._drafts[draft] = goal
        return draft

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
                self._place()
        except OSError as wrong:
            raise _unwritten(wrong) from wrong
        finally:
            for draft in self._drafts:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritten(error) from error

    def _place(self) -> None:
        for draft in self._drafts:
            with draft.open("rb") as file:
                os.fsync(file.fileno())
        for draft, goal in self._drafts.items():
            draft.replace(goal)


def _unwritten(error: OSError) -> InvalidFileError:
    name = shown_path(Path(os.fsdecode(error.filename))) if error.filename else "a file"
    return InvalidFileError(f"cannot write {name}: {error.strerror or error}")


def table_bytes(
    columns: Columns,
    suffix: str,
    notes: Mapping[str, str] | None = None,
    types: Mapping[str, type[Value]] | None = None,
) -> bytes:
    """Return a table as a file holds it.

    Args:
        columns: Its columns by name; None is unknown, and so is NaN.
        suffix: Of the file: .json (a list of objects), .csv or .parquet.
        notes: What is said about it in a file that has a place for that, Parquet.
        types: What the values of columns are, in Parquet; others tell by themselves.
    """
    plain = {
        name: [_plain(each) for each in column] for name, column in columns.items()
    }
    if suffix == ".parquet":
        return _parquet(plain, notes or {}, types or {})
    rows = zip(*plain.values(), strict=True)
    if suffix == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(plain)
        writer.writerows(rows)
        return escaped(text.getvalue()).encode()
    return json_bytes([dict(zip(plain, row, strict=True)) for row in rows])


def json_bytes(value: object) -> bytes:
    """Return plain values as a JSON file holds them."""
    return escaped(json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _plain(value: Value) -> Value:
    return None if isinstance(value, float) and math.isnan(value) else value


def _parquet(
    columns: Columns, notes: Mapping[str, str], types: Mapping[str, type[Value]]
) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - takes long, and is seldom needed
    from pyarrow import parquet  # noqa: PLC0415

    known = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    arrays = {}
    for name, column in columns.items():
        kind = known[types[name]] if name in types else None
        if kind is None and all(value is None for value in column):
            kind = pa.float64()  # what is wholly unknown is taken to be a number
        arrays[name] = pa.array(list(column), kind)
    made = pa.table(arrays).replace_schema_metadata(dict(notes))
    sink = pa.BufferOutputStream()
    parquet.write_table(made, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content
