"""Checkpoint of a sweep: finished runs, saved one by one until all are.

A file beside the results, to which each finished run is appended at once. A killed
sweep loses only its running runs. An incomplete last line is dropped.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from opendrs.config import display_path
from opendrs.config.regular_files import open_regular
from opendrs.errors import InvalidFileError, StoreError
from opendrs.simulation.sweep.results import ResultRow

CHECKPOINT_FORMAT = "opendrs-sweep-journal/1"
HEADER = json.dumps({"format": CHECKPOINT_FORMAT}).encode() + b"\n"


def checkpoint_path(results: Path) -> Path:
    """Return the path of the checkpoint of a sweep with these *results*."""
    return results.with_name(f"{results.name}.journal")


def read_checkpoint(path: Path) -> dict[str, ResultRow]:
    """Return the rows in the checkpoint *path* by identity; empty if it does not exist.

    Raises:
        InvalidFileError: The file cannot be read or is not a checkpoint.
    """
    try:
        with open_regular(path) as file:
            content = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidFileError(
            f"cannot read {display_path(path)}: {error.strerror}"
        ) from error
    return {str(row["id"]): row for row in _parse_rows(path, content)}


def _parse_rows(path: Path, content: bytes) -> Iterator[ResultRow]:
    if not content.startswith(HEADER[: len(content)]):
        raise _not_a_checkpoint(path, 1)
    complete_lines = content[len(HEADER) : content.rfind(b"\n") + 1]
    for number, line in enumerate(complete_lines.splitlines(), 2):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict) or "id" not in value:
            raise _not_a_checkpoint(path, number)
        yield value


def _not_a_checkpoint(path: Path, line: int) -> InvalidFileError:
    return InvalidFileError(
        f"{display_path(path)}, line {line}: not the journal of a sweep; remove it, "
        "or give another name with --out"
    )


class SweepCheckpoint:
    """Checkpoint that is open for writing.

    Attributes:
        rows: Its rows, by identity.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self._path, self._file = path, file
        content = file.read()
        self.rows = {str(row["id"]): row for row in _parse_rows(path, content)}
        file.truncate(content.rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        if not file.tell():
            self._write(HEADER)

    def add(self, row: ResultRow) -> None:
        """Append *row*; it is on the disk when this returns.

        Raises:
            StoreError: The file cannot be written.
        """
        self._write(json.dumps(row).encode() + b"\n")
        self.rows[str(row["id"])] = row

    def _write(self, line: bytes) -> None:
        remaining = memoryview(line)
        try:
            while remaining:
                remaining = remaining[self._file.write(remaining) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StoreError(
                f"cannot write {display_path(self._path)}: {error.strerror}"
            ) from error

    def remove(self) -> None:
        """Remove the file, after its rows were written to the results."""
        self._path.unlink(missing_ok=True)


@contextmanager
def open_checkpoint(path: Path) -> Iterator[SweepCheckpoint]:
    """Open the checkpoint *path* with an exclusive lock.

    Raises:
        InvalidFileError: The file is not a checkpoint.
        StoreError: The file cannot be opened, or another process writes to it.
    """
    with _open_locked(path) as file:
        yield SweepCheckpoint(path, file)


@contextmanager
def _open_locked(path: Path) -> Iterator[FileIO]:
    name = display_path(path)
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StoreError(f"cannot open {name}: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # reading a pipe may not end
            os.close(handle)
            raise StoreError(f"cannot open {name}: not a regular file")
        with os.fdopen(handle, "r+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StoreError(
                    f"{name}: another sweep writes to it; wait until it has ended"
                ) from error
            if _is_same_file(path, handle):
                yield file
                return
            # The sweep that held the lock has removed the file, so open it again.


def _is_same_file(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
