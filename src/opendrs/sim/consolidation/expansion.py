"""Compressed files and archives, which may not become too much larger than they are.

A megabyte of zeros, compressed, is a gigabyte of them and more. What is read here is
counted as it is expanded, and refused from a hundred times its compressed size on;
load that was recorded shrinks to a tenth, rarely to a thirtieth.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from opendrs.errors import InvalidFileError
from opendrs.platforms.ordinary_files import MIB, open_ordinary

MOST_TIMES = 100  # the compressed size
ALWAYS = 64 * MIB  # bytes that are read however small the file was
MOST_FILES = 100_000  # of a directory or an archive; the largest trace has some 3,000
LONGEST_LINE = MIB  # bytes
LONGEST_READ = 16 * MIB  # bytes at once: the directory of a zip of 200,000 files
BUFFER = MIB

Expand = Callable[[BinaryIO], IO[bytes]]
_EXPAND: tuple[tuple[bytes, Expand], ...] = (
    (b"\x1f\x8b", lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file))),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (b"]\x00\x00", lzma.LZMAFile),
)
"""How files are expanded, by what they begin with."""


class Allowance:
    """How much may come out of a compressed file.

    Args:
        label: The file, for messages.
        packed: Bytes that it has.
    """

    def __init__(self, label: str, packed: int) -> None:
        self._label = label
        self._left = max(ALWAYS, MOST_TIMES * packed)

    def take(self, size: int) -> None:
        """Count *size* further bytes.

        Raises:
            InvalidFileError: They are too many.
        """
        self._left -= size
        if self._left < 0:
            raise InvalidFileError(
                f"{self._label}: expands to more than {MOST_TIMES} times its size "
                f"and {ALWAYS // MIB} MiB; if that is right, unpack it first"
            )


class Counted:
    """What has been read of one file; it counts once, however often it is read."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._furthest = 0

    def reach(self, position: int) -> None:
        """Count what lies up to *position* and was not counted yet."""
        if position > self._furthest:
            self._allowance.take(position - self._furthest)
            self._furthest = position


class _Bounded(io.RawIOBase):
    """A file of which not too much is read, neither in all nor at once.

    Args:
        content: The file.
        label: Where it is, for messages.
        counted: What counts; None where it is not compressed.
        below: What is closed with it.
    """

    def __init__(
        self,
        content: IO[bytes],
        label: str,
        counted: Counted | None,
        below: Sequence[IO[bytes]],
    ) -> None:
        self._content, self._counted, self._below = content, counted, below
        self._label = label

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._content.seekable()

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        if len(buffer) > LONGEST_READ:  # a name in a header, or a directory
            raise InvalidFileError(
                f"{self._label} is damaged: a name or a list of files in it has "
                f"{len(buffer):,} bytes"
            )
        found = self._content.read(len(buffer))
        buffer[: len(found)] = found
        self._reach(self._content.tell())
        return len(found)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET:
            self._reach(offset)  # before all of it is expanded
        return self._content.seek(offset, whence)

    def tell(self) -> int:
        return self._content.tell()

    def close(self) -> None:
        if not self.closed:
            for each in (self._content, *self._below):
                each.close()
        super().close()

    def _reach(self, position: int) -> None:
        if self._counted is not None:
            self._counted.reach(position)


def bounded(
    content: IO[bytes], label: str, counted: Counted | None, *below: IO[bytes]
) -> BinaryIO:
    """Return *content* so that no more of it can be read than counts.

    Args:
        content: A file that is being expanded.
        label: Where it is, for messages.
        counted: What is counted of it; None where it is not compressed.
        below: What is closed with it.
    """
    return io.BufferedReader(_Bounded(content, label, counted, below), BUFFER)


def open_plain(path: Path) -> BinaryIO:
    """Open an ordinary file as it is; no part longer than any is that is read at once.

    Raises:
        OSError: It cannot be opened, or is not an ordinary file.
    """
    return bounded(open_ordinary(path), str(path), None)


def open_expanded(path: Path, counted: Counted) -> BinaryIO:
    """Open an ordinary file, expanded if it begins as compressed ones do.

    Raises:
        OSError: It cannot be opened, or is not an ordinary file.
    """
    file = open_ordinary(path)
    start = file.read(8)
    file.seek(0)
    for magic, expand in _EXPAND:
        if start.startswith(magic):
            return bounded(expand(file), str(path), counted, file)
    return bounded(file, str(path), None)


def open_gzip(path: Path, counted: Counted) -> BinaryIO:
    """Open an ordinary file that gzip has compressed.

    Raises:
        OSError: It cannot be opened, or is not an ordinary file.
    """
    file = open_ordinary(path)
    expanded = cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    return bounded(expanded, str(path), counted, file)


def lines_of(content: IO[bytes], label: str) -> Iterator[bytes]:
    """Yield the lines of *content*, with their ends.

    Raises:
        InvalidFileError: One is longer than any is that is right.
    """
    number = 0
    while line := content.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise InvalidFileError(
                f"{label}, line {number}: longer than {LONGEST_LINE // MIB} MiB"
            )
        yield line


def whole(content: IO[bytes], label: str, most: int) -> bytes:
    """Return all of *content*.

    Raises:
        InvalidFileError: It has more than *most* bytes.
    """
    found = content.read(most + 1)
    if len(found) > most:
        raise InvalidFileError(f"{label}: larger than {most // 1024} KiB")
    return found
