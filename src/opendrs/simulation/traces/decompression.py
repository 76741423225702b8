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

from opendrs.config.regular_files import MIB, open_regular
from opendrs.errors import InvalidFileError

MAX_EXPANSION = 100  # the compressed size
MIN_LIMIT = 64 * MIB  # bytes that are read however small the file was
MAX_FILES = 100_000  # of a directory or an archive; the largest trace has some 3,000
MAX_LINE = MIB  # bytes
MAX_READ = 16 * MIB  # bytes at once: the directory of a zip of 200,000 files
BUFFER_SIZE = MIB

Decompressor = Callable[[BinaryIO], IO[bytes]]
_DECOMPRESSORS: tuple[tuple[bytes, Decompressor], ...] = (
    (b"\x1f\x8b", lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file))),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (b"]\x00\x00", lzma.LZMAFile),
)
"""How files are expanded, by what they begin with."""


class ExpansionLimit:
    """How much may come out of a compressed file.

    Args:
        label: The file, for messages.
        compressed_size: Bytes that it has.
    """

    def __init__(self, label: str, compressed_size: int) -> None:
        self._label = label
        self._remaining = max(MIN_LIMIT, MAX_EXPANSION * compressed_size)

    def consume(self, size: int) -> None:
        """Count *size* further bytes.

        Raises:
            InvalidFileError: They are too many.
        """
        self._remaining -= size
        if self._remaining < 0:
            raise InvalidFileError(
                f"{self._label}: expands to more than {MAX_EXPANSION} times its size "
                f"and {MIN_LIMIT // MIB} MiB; if that is right, unpack it first"
            )


class ReadCounter:
    """What has been read of one file; it counts once, however often it is read."""

    def __init__(self, limit: ExpansionLimit) -> None:
        self._limit = limit
        self._furthest = 0

    def advance_to(self, position: int) -> None:
        """Count what lies up to *position* and was not counted yet."""
        if position > self._furthest:
            self._limit.consume(position - self._furthest)
            self._furthest = position


class _LimitedFile(io.RawIOBase):
    """A file of which not too much is read, neither in all nor at once.

    Args:
        content: The file.
        label: Where it is, for messages.
        counter: What counts; None where it is not compressed.
        underlying: What is closed with it.
    """

    def __init__(
        self,
        content: IO[bytes],
        label: str,
        counter: ReadCounter | None,
        underlying: Sequence[IO[bytes]],
    ) -> None:
        self._content, self._counter, self._underlying = content, counter, underlying
        self._label = label

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._content.seekable()

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        if len(buffer) > MAX_READ:  # a name in a header, or a directory
            raise InvalidFileError(
                f"{self._label} is damaged: a name or a list of files in it has "
                f"{len(buffer):,} bytes"
            )
        content = self._content.read(len(buffer))
        buffer[: len(content)] = content
        self._advance_to(self._content.tell())
        return len(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET:
            self._advance_to(offset)  # before all of it is expanded
        return self._content.seek(offset, whence)

    def tell(self) -> int:
        return self._content.tell()

    def close(self) -> None:
        if not self.closed:
            for each in (self._content, *self._underlying):
                each.close()
        super().close()

    def _advance_to(self, position: int) -> None:
        if self._counter is not None:
            self._counter.advance_to(position)


def limit_reads(
    content: IO[bytes], label: str, counter: ReadCounter | None, *underlying: IO[bytes]
) -> BinaryIO:
    """Return *content* so that no more of it can be read than counts.

    Args:
        content: A file that is being expanded.
        label: Where it is, for messages.
        counter: What is counted of it; None where it is not compressed.
        underlying: What is closed with it.
    """
    return io.BufferedReader(
        _LimitedFile(content, label, counter, underlying), BUFFER_SIZE
    )


def open_plain(path: Path) -> BinaryIO:
    """Open an ordinary file as it is; no part longer than any is that is read at once.

    Raises:
        OSError: It cannot be opened, or is not an ordinary file.
    """
    return limit_reads(open_regular(path), str(path), None)


def open_expanded(path: Path, counter: ReadCounter) -> BinaryIO:
    """Open an ordinary file, expanded if it begins as compressed ones do.

    Raises:
        OSError: It cannot be opened, or is not an ordinary file.
    """
    file = open_regular(path)
    start = file.read(8)
    file.seek(0)
    for magic, decompress in _DECOMPRESSORS:
        if start.startswith(magic):
            return limit_reads(decompress(file), str(path), counter, file)
    return limit_reads(file, str(path), None)


def open_gzip(path: Path, counter: ReadCounter) -> BinaryIO:
    """Open an ordinary file that gzip has compressed.

    Raises:
        OSError: It cannot be opened, or is not an ordinary file.
    """
    file = open_regular(path)
    expanded = cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    return limit_reads(expanded, str(path), counter, file)


def read_lines(content: IO[bytes], label: str) -> Iterator[bytes]:
    """Yield the lines of *content*, with their ends.

    Raises:
        InvalidFileError: One is longer than any is that is right.
    """
    number = 0
    while line := content.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise InvalidFileError(
                f"{label}, line {number}: longer than {MAX_LINE // MIB} MiB"
            )
        yield line


def read_all(content: IO[bytes], label: str, max_size: int) -> bytes:
    """Return all of *content*.

    Raises:
        InvalidFileError: It has more than *max_size* bytes.
    """
    data = content.read(max_size + 1)
    if len(data) > max_size:
        raise InvalidFileError(f"{label}: larger than {max_size // 1024} KiB")
    return data
