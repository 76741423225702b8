"""Compressed files and archives, with a limit on their expansion.

A megabyte of compressed zeros can expand to more than a gigabyte. So expanded bytes are
counted, and a file is rejected at a hundred times its compressed size. Recorded load
compresses to a tenth, rarely to a thirtieth.
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
from opendrs.errors import DiagnosticCode, InvalidFileError

MAX_EXPANSION = 100  # multiple of the compressed size
MIN_LIMIT = 64 * MIB  # bytes that are read from any file, however small
MAX_FILES = 100_000  # of a directory or an archive; the largest trace has some 3,000
MAX_LINE = MIB  # bytes
MAX_READ = 16 * MIB  # bytes at once: the directory of a zip archive of 200,000 files
BUFFER_SIZE = MIB

Decompressor = Callable[[BinaryIO], IO[bytes]]
_DECOMPRESSORS: tuple[tuple[bytes, Decompressor], ...] = (
    (b"\x1f\x8b", lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file))),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (b"]\x00\x00", lzma.LZMAFile),
)
"""Decompressors by the first bytes of a file."""


class ExpansionLimit:
    """Limit on the expanded size of a compressed file.

    Args:
        label: Name of the file, for messages.
        compressed_size: Its size in bytes.
    """

    def __init__(self, label: str, compressed_size: int) -> None:
        self._label = label
        self._remaining = max(MIN_LIMIT, MAX_EXPANSION * compressed_size)

    def consume(self, size: int) -> None:
        """Count *size* further bytes.

        Raises:
            InvalidFileError: The limit is exceeded.
        """
        self._remaining -= size
        if self._remaining < 0:
            raise InvalidFileError(
                f"{self._label}: expands to more than {MAX_EXPANSION} times its size "
                f"and {MIN_LIMIT // MIB} MiB; unpack it first if it is valid"
            )


class ReadCounter:
    """Counter of the bytes read from one file; bytes read again do not count."""

    def __init__(self, limit: ExpansionLimit) -> None:
        self._limit = limit
        self._furthest = 0

    def advance_to(self, position: int) -> None:
        """Count the bytes up to *position* that were not counted yet."""
        if position > self._furthest:
            self._limit.consume(position - self._furthest)
            self._furthest = position


class _LimitedFile(io.RawIOBase):
    """File that limits the size of a read, and counts the bytes read.

    Args:
        content: The file.
        label: Its name, for messages.
        counter: Counter of the bytes read; None if it is not compressed.
        underlying: Files to close with it.
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
        if len(buffer) > MAX_READ:  # size of a name or directory in a header
            raise InvalidFileError(
                f"{self._label}: damaged: a name or a list of files in it has "
                f"{len(buffer):,} bytes"
            )
        content = self._content.read(len(buffer))
        buffer[: len(content)] = content
        self._advance_to(self._content.tell())
        return len(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET:
            self._advance_to(offset)  # check before the content is expanded
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
    """Return *content* with limited and counted reads.

    Args:
        content: File that is being expanded.
        label: Its name, for messages.
        counter: Counter of the bytes read; None if it is not compressed.
        underlying: Files to close with it.
    """
    return io.BufferedReader(
        _LimitedFile(content, label, counter, underlying), BUFFER_SIZE
    )


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file without decompression, with limited reads.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    return limit_reads(open_regular(path), str(path), None)


def open_expanded(path: Path, counter: ReadCounter) -> BinaryIO:
    """Open a regular file, decompressed if its first bytes are those of a format.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    file = open_regular(path)
    start = file.read(8)
    file.seek(0)
    for magic, decompress in _DECOMPRESSORS:
        if start.startswith(magic):
            return limit_reads(decompress(file), str(path), counter, file)
    return limit_reads(file, str(path), None)


def open_gzip(path: Path, counter: ReadCounter) -> BinaryIO:
    """Open a regular file that is compressed with gzip.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    file = open_regular(path)
    expanded = cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    return limit_reads(expanded, str(path), counter, file)


def read_lines(content: IO[bytes], label: str) -> Iterator[bytes]:
    """Yield the lines of *content*, with their line ends.

    Raises:
        InvalidFileError: A line is longer than 1 MiB.
    """
    number = 0
    while line := content.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise InvalidFileError(
                f"{label}, line {number}: longer than {MAX_LINE // MIB} MiB",
                code=DiagnosticCode.OUT_OF_RANGE,
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
