"""What has been finished of a sweep, kept run by run until all are.

A file beside the results, to which each finished run adds a line at once. A sweep
that is killed loses the runs under way and nothing else; a line that was being
written is dropped.
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

from opendrs.errors import InvalidFileError, StoreError
from opendrs.platforms.file import shown_path
from opendrs.platforms.ordinary_files import open_ordinary
from opendrs.sim.consolidation.sweep.results import Row

FORMAT = "opendrs-sweep-journal/1"
HEAD = json.dumps({"format": FORMAT}).encode() + b"\n"


def journal_path(results: Path) -> Path:
    """Return where the journal of a sweep with these *results* is."""
    return results.with_name(f"{results.name}.journal")


def read_journal(path: Path) -> dict[str, Row]:
    """Return the rows in the journal *path* by identity; none when it is not there.

    Raises:
        InvalidFileError: It cannot be read, or is no journal.
    """
    try:
        with open_ordinary(path) as file:
            content = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidFileError(
            f"cannot read {shown_path(path)}: {error.strerror}"
        ) from error
    return {str(row["id"]): row for row in _rows(path, content)}


def _rows(path: Path, content: bytes) -> Iterator[Row]:
    if not content.startswith(HEAD[: len(content)]):
        raise _no_journal(path, 1)
    whole = content[len(HEAD) : content.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), 2):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict) or "id" not in value:
            raise _no_journal(path, number)
        yield value


def _no_journal(path: Path, line: int) -> InvalidFileError:
    return InvalidFileError(
        f"{shown_path(path)}, line {line}: this is no journal of a sweep; remove it, "
        "or give another name with --out"
    )


class Journal:
    """A journal that is being written.

    Attributes:
        rows: What is in it, by identity.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self._path, self._file = path, file
        content = file.read()
        self.rows = {str(row["id"]): row for row in _rows(path, content)}
        file.truncate(content.rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        if not file.tell():
            self._write(HEAD)

    def add(self, row: Row) -> None:
        """Add *row*; it is on the disk when this returns.

        Raises:
            StoreError: It cannot be written.
        """
        self._write(json.dumps(row).encode() + b"\n")
        self.rows[str(row["id"])] = row

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StoreError(
                f"cannot write {shown_path(self._path)}: {error.strerror}"
            ) from error

    def remove(self) -> None:
        """Remove it, once what it holds is in the results."""
        self._path.unlink(missing_ok=True)


@contextmanager
def open_journal(path: Path) -> Iterator[Journal]:
    """Open the journal *path* for one process alone.

    Raises:
        InvalidFileError: It is no journal.
        StoreError: It cannot be opened, or another process writes to it.
    """
    with _locked(path) as file:
        yield Journal(path, file)


@contextmanager
def _locked(path: Path) -> Iterator[FileIO]:
    name = shown_path(path)
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StoreError(f"cannot open {name}: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # a pipe would have no end
            os.close(handle)
            raise StoreError(f"cannot open {name}: it is not an ordinary file")
        with os.fdopen(handle, "r+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StoreError(
                    f"another sweep writes to {name}; wait until it has ended"
                ) from error
            if _is_same(path, handle):
                yield file
                return
            # The sweep that had it has ended and removed it: once more.


def _is_same(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
