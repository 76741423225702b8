"""The lease on a store file: one process at a time, in a file only its owner can read."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

from opendrs.config import display_path
from opendrs.config.regular_files import open_regular
from opendrs.errors import LeaseLostError, StoreError

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
        raise StoreError(
            f"cannot open {display_path(path)}: {_error_detail(error)}"
        ) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StoreError(
            f"cannot open {display_path(path)}: it is not an ordinary file"
        )
    return handle


def require_readable(path: Path) -> None:
    """Check that the file *path* can be read, without a wish to write to it.

    Raises:
        StoreError: It cannot be opened, or is not an ordinary file.
    """
    try:
        open_regular(path).close()
    except (OSError, ValueError) as error:
        raise StoreError(
            f"cannot open {display_path(path)}: {_error_detail(error)}"
        ) from error


def _error_detail(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.errno == errno.ELOOP:
        return "it is a symbolic link; remove it, or name the file that it leads to"
    return error.strerror or str(error)


_MAX_PID_LENGTH = 20  # digits of a process id, and more


class Lease:
    """The right to write to a record, for as long as the process lives.

    It is a lock on a file beside the record, which the kernel takes back when
    the process dies, in whatever way. The file tells who holds it.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def acquire(self) -> None:
        """Take the lease.

        Raises:
            LeaseLostError: Another process holds it; the message says which.
            StoreError: The file cannot be opened, or is a symbolic link.
        """
        handle = open_private(self._path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder_pid(handle)
            os.close(handle)
            raise LeaseLostError(
                f"process {holder} is at work on this cluster; wait until it has "
                f"ended (it holds {display_path(self._path)})"
            ) from error
        self._handle = handle
        self._write_pid(handle)

    def release(self) -> None:
        """Give the lease back, if it is held."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _write_pid(self, handle: int) -> None:
        # Only for people to read: a full disk must not stop anybody here.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def _holder_pid(handle: int) -> str:
    """Return the number of the process that has signed the file."""
    with contextlib.suppress(OSError):
        signed = os.pread(handle, _MAX_PID_LENGTH, 0).strip()
        if signed.isdigit():
            return signed.decode("ascii")
    return "unknown"
