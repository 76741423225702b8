"""Files that an operator names: only ordinary ones, and of a limited size.

A named pipe without a writer would be waited for without end, a device may have no end
or act when it is opened. Pipes that this process was started with are an exception:
`opendrs record demo -o /dev/stdout | opendrs plan /dev/stdin`, and what a shell makes
of `<(...)`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, cast

MIB = 1 << 20
SMALL = MIB  # bytes; far more than any token or password
BUNDLE = 16 * MIB  # bytes; far more than the certificates that a system trusts
_INHERITED = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_ordinary(path: Path, *, pipes: bool = False) -> BinaryIO:
    """Open *path* for reading; it is never waited for.

    Args:
        path: The file.
        pipes: Whether a pipe that this process was started with may be read, too.

    Raises:
        OSError: It cannot be opened, or is not an ordinary file.
        ValueError: No file can have that name.
    """
    inherited = pipes and _INHERITED.fullmatch(str(path)) is not None
    # A device is not even opened: some act on it.
    _require_ordinary(path.stat(), pipe_allowed=inherited)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_ordinary(os.fstat(handle), pipe_allowed=inherited)
        os.set_blocking(handle, True)
        return cast("BinaryIO", os.fdopen(handle, "rb"))
    except BaseException:
        os.close(handle)
        raise


def read_ordinary(path: Path, most: int, *, pipes: bool = False) -> bytes:
    """Return what *path* holds.

    Args:
        path: The file.
        most: Bytes that it may hold.
        pipes: Whether a pipe that this process was started with may be read, too.

    Raises:
        OSError: It cannot be read, is not an ordinary file, or is larger.
        ValueError: No file can have that name.
    """
    with open_ordinary(path, pipes=pipes) as file:
        content = file.read(most + 1)
    if len(content) > most:
        size = f"{most // MIB} MiB" if most >= MIB else f"{most} bytes"
        raise OSError(errno.EFBIG, f"it is larger than {size}")
    return content


def require_ordinary(path: Path, most: int = BUNDLE) -> None:
    """Check that *path* can be read at once by a library that opens it by its name.

    Raises:
        OSError: It cannot be read, is not an ordinary file, or is larger than *most*.
        ValueError: No file can have that name.
    """
    read_ordinary(path, most)


def _require_ordinary(found: os.stat_result, *, pipe_allowed: bool) -> None:
    mode = found.st_mode
    if stat.S_ISREG(mode) or (pipe_allowed and stat.S_ISFIFO(mode)):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    kind = next((name for test, name in _KINDS if test(mode)), "something else")
    raise OSError(errno.EINVAL, f"it is {kind}; name an ordinary file")
