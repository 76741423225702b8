"""Files that only the user may read, and that are never reached over a link."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from opendrs.errors import StoreError
from opendrs.platforms.file import shown_path
from opendrs.platforms.ordinary_files import open_ordinary

PRIVATE = 0o600


def open_private(path: Path) -> int:
    """Return a handle to read and write the file *path*, which is made if absent.

    In a directory that others may write, a symbolic link could lead to any file of
    the user; it is refused.

    Raises:
        StoreError: It cannot be opened, or is not an ordinary file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, PRIVATE)
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot open {shown_path(path)}: {_why(error)}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StoreError(f"cannot open {shown_path(path)}: it is not an ordinary file")
    return handle


def require_readable(path: Path) -> None:
    """Check that the file *path* can be read, without a wish to write to it.

    Raises:
        StoreError: It cannot be opened, or is not an ordinary file.
    """
    try:
        open_ordinary(path).close()
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot open {shown_path(path)}: {_why(error)}") from error


def _why(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.errno == errno.ELOOP:
        return "it is a symbolic link; remove it, or name the file that it leads to"
    return error.strerror or str(error)
