"""Reading of files named by the operator: regular files of a limited size only.

Opening a named pipe without a writer would block forever. Reading a device may not
end, and opening one may have side effects. Pipes that this process inherited are an
exception: `opendrs record demo -o /dev/stdout | opendrs plan /dev/stdin`, and the
`<(...)` of a shell.
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
MAX_CERTIFICATES_SIZE = 16 * MIB  # bytes; far more than any system trust store
_INHERITED = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path, *, allow_pipes: bool = False) -> BinaryIO:
    """Open *path* for reading without blocking.

    Args:
        path: The file.
        allow_pipes: True to allow pipes that this process inherited.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
        ValueError: The path is not valid.
    """
    inherited = allow_pipes and _INHERITED.fullmatch(str(path)) is not None
    # Checked before opening: opening a device may have side effects.
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
    """Return the content of *path*.

    Args:
        path: The file.
        max_size: Largest allowed size in bytes.
        allow_pipes: True to allow pipes that this process inherited.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too large.
        ValueError: The path is not valid.
    """
    with open_regular(path, allow_pipes=allow_pipes) as file:
        content = file.read(max_size + 1)
    if len(content) > max_size:
        size = f"{max_size // MIB} MiB" if max_size >= MIB else f"{max_size} bytes"
        raise OSError(errno.EFBIG, f"larger than {size}")
    return content


def require_regular(path: Path, max_size: int = MAX_CERTIFICATES_SIZE) -> None:
    """Check that a library can read *path* without blocking.

    Args:
        path: The file.
        max_size: Largest allowed size in bytes.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too large.
        ValueError: The path is not valid.
    """
    read_regular(path, max_size)


def _require_regular_mode(status: os.stat_result, *, allow_pipe: bool) -> None:
    mode = status.st_mode
    if stat.S_ISREG(mode) or (allow_pipe and stat.S_ISFIFO(mode)):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    kind = next((name for test, name in _KINDS if test(mode)), "another kind")
    raise OSError(errno.EINVAL, f"expected a regular file, got {kind}")
