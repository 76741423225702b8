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
MAX_SECRET_SIZE = MIB  # bytes; far more than any token or password
MAX_CERTIFICATES_SIZE = (
    16 * MIB
)  # bytes; far more than the certificates that a system trusts
_INHERITED = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path, *, allow_pipes: bool = False) -> BinaryIO:
    """Open *path* for reading; it is never waited for.

    Args:
        path: The file.
        allow_pipes: Whether a pipe that this process was started with may be read, too.

    Raises:
        OSError: It cannot be opened, or is not an ordinary file.
        ValueError: No file can have that name.
    """
    inherited = allow_pipes and _INHERITED.fullmatch(str(path)) is not None
    # A device is not even opened: some act on it.
    _require_regular_mode(path.stat(), allow_pipe=inherited)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular_mode(os.fstat(descriptor), allow_pipe=inherited)
        os.set_blocking(descriptor, True)
        return cast("BinaryIO", os.fdopen(descriptor, "rb"))
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, max_size: int, *, allow_pipes: bool = False) -> bytes:
    """Return what *path* holds.

    Args:
        path: The file.
        max_size: Bytes that it may hold.
        allow_pipes: Whether a pipe that this process was started with may be read, too.

    Raises:
        OSError: It cannot be read, is not an ordinary file, or is larger.
        ValueError: No file can have that name.
    """
    with open_regular(path, allow_pipes=allow_pipes) as file:
        content = file.read(max_size + 1)
    if len(content) > max_size:
        size = f"{max_size // MIB} MiB" if max_size >= MIB else f"{max_size} bytes"
        raise OSError(errno.EFBIG, f"it is larger than {size}")
    return content


def require_regular(path: Path, max_size: int = MAX_CERTIFICATES_SIZE) -> None:
    """Check that *path* can be read at once by a library that opens it by its name.

    Raises:
        OSError: It cannot be read, is not an ordinary file, or is larger than *max_size*.
        ValueError: No file can have that name.
    """
    read_regular(path, max_size)


def _require_regular_mode(status: os.stat_result, *, allow_pipe: bool) -> None:
    mode = status.st_mode
    if stat.S_ISREG(mode) or (allow_pipe and stat.S_ISFIFO(mode)):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    kind = next((name for test, name in _KINDS if test(mode)), "something else")
    raise OSError(errno.EINVAL, f"it is {kind}; name an ordinary file")
