"""Lease on a store file, and private files that only the user can read."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import threading
from pathlib import Path

from opendrs.config import display_path
from opendrs.errors import LeaseLostError, StoreError
from opendrs.ports import LeaseHolder

PRIVATE = 0o600
SYMBOLIC_LINK = "symbolic link; remove it, or name its target"


def open_private(path: Path) -> int:
    """Return a file descriptor to read and write *path*; create it if absent.

    Symbolic links are rejected: in a directory that others can write to, a link could
    lead to any file of the user.

    Raises:
        StoreError: The file cannot be opened, or is not a regular file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, PRIVATE)
    except (OSError, ValueError) as error:
        raise _cannot_open(path, _error_detail(error)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _cannot_open(path, "expected a regular file")
    return handle


def create_database_file(path: Path) -> None:
    """Create the database file *path* for its owner alone; leave an existing one.

    A database file is never opened here: its locks belong to the process, so that to
    close any descriptor of the file would release the locks of all connections of this
    process (<https://www.sqlite.org/howtocorrupt.html>, section 2.2). Another process
    would then delete the write-ahead log as if it were the last one.

    Raises:
        StoreError: The file cannot be created, read or written, or is not a regular
            file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, PRIVATE))
    except FileExistsError:
        _require_database_file(path, os.R_OK | os.W_OK, follow_symlinks=False)
    except (OSError, ValueError) as error:
        raise _cannot_open(path, _error_detail(error)) from error


def require_readable(path: Path) -> None:
    """Check that the database file *path* can be read, without opening it.

    Raises:
        StoreError: The file cannot be read, or is not a regular file.
    """
    _require_database_file(path, os.R_OK)


def _require_database_file(
    path: Path, access: int, *, follow_symlinks: bool = True
) -> None:
    try:
        mode = path.stat(follow_symlinks=follow_symlinks).st_mode
    except (OSError, ValueError) as error:
        raise _cannot_open(path, _error_detail(error)) from error
    if stat.S_ISLNK(mode):
        raise _cannot_open(path, SYMBOLIC_LINK)
    if stat.S_ISDIR(mode):
        raise _cannot_open(path, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise _cannot_open(path, "expected a regular file")
    if not os.access(path, access, effective_ids=True):
        raise _cannot_open(path, os.strerror(errno.EACCES))


def _cannot_open(path: Path, detail: str) -> StoreError:
    return StoreError(f"cannot open {display_path(path)}: {detail}")


def _error_detail(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.errno == errno.ELOOP:
        return SYMBOLIC_LINK
    return error.strerror or str(error)


_MAX_PID_LENGTH = 20  # digits; more than those of a process id
_PROBE_TIME = 0.1  # seconds; longer than `lease_holder` locks the file


def lease_holder(path: Path) -> LeaseHolder | None:
    """Return the process of this machine that holds the lease; None if none does.

    Args:
        path: The lock file.

    Raises:
        StoreError: The file cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(
            f"cannot open {display_path(path)}: {_error_detail(error)}"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pid = _holder_pid(handle)
        return LeaseHolder(socket.gethostname(), int(pid) if pid.isdigit() else 0)
    else:
        return None
    finally:
        os.close(handle)  # also unlocks it


class Lease:
    """Exclusive right of this process to write to a store.

    The lease is a lock on a file beside the store. The kernel releases it when the
    process ends, also by a signal. The file contains the process id of the holder.

    Args:
        path: The lock file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    @property
    def handle(self) -> int:
        """Return the descriptor of the locked file; the lease must be held."""
        assert self._handle is not None  # noqa: S101 - for the type checker
        return self._handle

    def acquire(self) -> None:
        """Acquire the lease without waiting.

        Raises:
            LeaseLostError: Another process holds the lease; with its process id.
            StoreError: The file cannot be opened, or is a symbolic link.
        """
        handle = open_private(self._path)
        try:
            _lock(handle)
        except OSError as error:
            holder = _holder_pid(handle)
            os.close(handle)
            raise LeaseLostError(
                f"store: locked by process {holder}: {display_path(self._path)}; "
                "wait until the process has ended"
            ) from error
        self._handle = handle
        self._write_pid(handle)

    def release(self) -> None:
        """Release the lease if it is held."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _write_pid(self, handle: int) -> None:
        # Only informative: a full disk must not prevent the lease.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def _lock(handle: int) -> None:
    """Lock a file for this process alone; try again once, because of `lease_holder`.

    Raises:
        OSError: Another process has locked it.
    """
    exclusive = fcntl.LOCK_EX | fcntl.LOCK_NB
    try:
        fcntl.flock(handle, exclusive)
    except OSError:
        threading.Event().wait(_PROBE_TIME)
        fcntl.flock(handle, exclusive)


def _holder_pid(handle: int) -> str:
    """Return the process id in the lock file, or "unknown"."""
    with contextlib.suppress(OSError):
        signed = os.pread(handle, _MAX_PID_LENGTH, 0).strip()
        if signed.isdigit():
            return signed.decode("ascii")
    return "unknown"
