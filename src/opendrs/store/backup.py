"""Copy of an SQLite store while a controller uses it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from opendrs.config import display_path
from opendrs.errors import ConfigurationError, DiagnosticCode, StoreError
from opendrs.escapes import escape_line
from opendrs.store.lease import open_private, require_readable


def backup_sqlite(source: Path, target: Path) -> None:
    """Copy the store *source* to the new file *target*.

    The copy contains all that was committed before it began. A controller can write
    meanwhile. The file appears under its name when it is complete and on the disk; it
    is readable only by its owner.

    Raises:
        ConfigurationError: The file *target* exists.
        StoreError: The store cannot be read, or the file cannot be written.
    """
    if target.exists() or target.is_symlink():
        raise ConfigurationError(
            f"{display_path(target)}: exists; expected the name of a new file",
            code=DiagnosticCode.INCONSISTENT,
        )
    require_readable(source)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        os.close(open_private(temporary))
        _copy(source, temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.link(temporary, target)  # fails if the file has been created meanwhile
        _sync_folder(target.parent)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StoreError(
            f"cannot write {display_path(target)}: {escape_line(str(reason))}"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_folder(path: Path) -> None:
    """Write the names of the files in *path* to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _copy(source: Path, target: Path) -> None:
    address = f"{source.absolute().as_uri()}?mode=rw"
    with (
        closing(sqlite3.connect(address, uri=True)) as one,
        closing(sqlite3.connect(target)) as other,
    ):
        one.backup(other)
        # A file in WAL mode could not be read where its folder is not writable.
        other.execute("PRAGMA journal_mode = DELETE")
