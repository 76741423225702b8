"""Who is in charge of a record: one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from opendrs.controller.stores.private import open_private
from opendrs.errors import LeaseLostError
from opendrs.platforms.file import shown_path

_LONGEST_NUMBER = 20  # digits of a process id, and more


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

    def take(self) -> None:
        """Take the lease.

        Raises:
            LeaseLostError: Another process holds it; the message says which.
            StoreError: The file cannot be opened, or is a symbolic link.
        """
        handle = open_private(self._path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(handle)
            os.close(handle)
            raise LeaseLostError(
                f"process {holder} is at work on this cluster; wait until it has "
                f"ended (it holds {shown_path(self._path)})"
            ) from error
        self._handle = handle
        self._sign(handle)

    def give_back(self) -> None:
        """Give the lease back, if it is held."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _sign(self, handle: int) -> None:
        # Only for people to read: a full disk must not stop anybody here.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def _holder(handle: int) -> str:
    """Return the number of the process that has signed the file."""
    with contextlib.suppress(OSError):
        signed = os.pread(handle, _LONGEST_NUMBER, 0).strip()
        if signed.isdigit():
            return signed.decode("ascii")
    return "unknown"
