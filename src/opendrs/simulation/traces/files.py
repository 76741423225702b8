"""Files of a trace: those of a directory or an archive, or a single one."""

from __future__ import annotations

import gzip
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from opendrs.config import Diagnostic
from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces.decompression import (
    MAX_FILES,
    ExpansionLimit,
    ReadCounter,
    limit_reads,
    open_expanded,
    open_gzip,
    open_plain,
)

OpenFile = Callable[[], IO[bytes]]
TAR_SUFFIX = re.compile(r"\.(tar|tar\.\w+|tgz|tbz2?|txz)$")
MAX_PATH_LENGTH = 4096  # characters of a path, the limit of Linux
MAX_DIAGNOSTICS = 5  # errors per trace
READ_ERRORS = (
    OSError,
    EOFError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


@dataclass(frozen=True, slots=True)
class TraceSource:
    """File of a trace.

    Attributes:
        label: Name of the file, for messages.
        name: Path within the trace, with "/" between directories.
        open: Opens it, decompressed. Files of an archive can be opened, repeatedly,
            until the next one is requested.
    """

    label: str
    name: str
    open: OpenFile


def trace_sources(path: Path, *, recursive: bool = False) -> Iterator[TraceSource]:
    """Yield each file of *path* except hidden ones; those of directories by name.

    Args:
        path: A directory, a tar or zip archive, or a file.
        recursive: True to include files in subdirectories.

    Raises:
        InvalidFileError: The path cannot be read, contains a duplicate file, or too
            many files.
    """
    names: set[PurePosixPath] = set()
    with wrap_read_errors(str(path)):
        if path.is_dir():
            candidates = _directory_sources(path, recursive=recursive)
        elif TAR_SUFFIX.search(path.name):
            candidates = _tar_sources(path)
        elif path.suffix == ".zip":
            candidates = _zip_sources(path)
        else:
            candidates = iter([single_source(path)])
        for source in candidates:
            if len(source.name) > MAX_PATH_LENGTH:
                prefix = source.label[: len(str(path)) + 40]
                raise InvalidFileError(
                    f"{prefix}...: name too long", code=DiagnosticCode.OUT_OF_RANGE
                )
            name = PurePosixPath(source.name)
            if any(part.startswith((".", "__MACOSX")) for part in name.parts):
                continue
            if name in names:
                raise InvalidFileError(
                    f"{source.label}: duplicate file",
                    code=DiagnosticCode.DUPLICATE_NAME,
                )
            names.add(name)
            _check_file_count(path, len(names))
            yield source


def single_source(path: Path) -> TraceSource:
    """Return *path* itself, which is neither a directory nor an archive.

    Raises:
        InvalidFileError: It is a directory or an archive, or does not exist.
    """
    if path.is_dir() or TAR_SUFFIX.search(path.name) or path.suffix == ".zip":
        kind = "a directory" if path.is_dir() else "an archive"
        raise InvalidFileError(f"{path}: expected a file, got {kind}")
    with wrap_read_errors(str(path)):
        path.stat()
    return TraceSource(str(path), path.name, _opener(path))


@contextmanager
def wrap_read_errors(label: str) -> Iterator[None]:
    """Convert errors while reading *label*.

    Raises:
        InvalidFileError: The file cannot be read, or is truncated.
    """
    try:
        yield
    except READ_ERRORS as error:
        raise InvalidFileError(f"{label}: {_reason(error)}") from error


def limited_error(label: str, diagnostics: Sequence[Diagnostic]) -> InvalidFileError:
    """Return an error with the first of *diagnostics*, and the number of others."""
    reported = list(diagnostics[:MAX_DIAGNOSTICS])
    if len(diagnostics) > MAX_DIAGNOSTICS:
        more = f"{label}: and {len(diagnostics) - MAX_DIAGNOSTICS} more"
        reported.append(Diagnostic((), more, code=reported[-1].code))
    return file_error(reported)


def file_error(diagnostics: Sequence[Diagnostic]) -> InvalidFileError:
    """Return an error with the messages and codes of *diagnostics*."""
    messages = (each.message for each in diagnostics)
    return InvalidFileError(*messages, code=[each.code for each in diagnostics])


def _reason(error: Exception) -> str:
    """Return the reason of a read error, in words for the operator."""
    if isinstance(error, EOFError) or "unexpected end" in str(error):
        return "truncated: its compressed data end too soon"
    if isinstance(error, gzip.BadGzipFile | zlib.error | lzma.LZMAError):
        return "damaged, or not compressed as its name implies"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"damaged ({error})"


def _check_file_count(path: Path, files: int) -> None:
    if files > MAX_FILES:
        raise InvalidFileError(
            f"{path}: more than {MAX_FILES:,} files", code=DiagnosticCode.OUT_OF_RANGE
        )


def _directory_sources(path: Path, *, recursive: bool) -> Iterator[TraceSource]:
    for each in sorted(path.rglob("*") if recursive else path.iterdir()):
        if each.is_file():
            name = each.relative_to(path).as_posix()
            yield TraceSource(str(each), name, _opener(each))


def _opener(path: Path) -> OpenFile:
    if path.suffix != ".gz":
        return lambda: open_plain(path)
    counter = ReadCounter(_expansion_limit(path))
    return lambda: open_gzip(path, counter)


def _expansion_limit(path: Path) -> ExpansionLimit:
    return ExpansionLimit(str(path), path.stat().st_size)


def _tar_sources(path: Path) -> Iterator[TraceSource]:
    _check_not_empty(path)
    limit = _expansion_limit(path)
    with (
        open_expanded(path, ReadCounter(limit)) as content,
        _open_tar(path, content) as archive,
    ):
        count = 0
        while (member := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined] # it keeps all of them
            count += 1
            _check_file_count(path, count)
            if member.isfile():
                yield TraceSource(
                    f"{path}: {member.name}",
                    member.name,
                    _tar_member_opener(archive, member, ReadCounter(limit)),
                )


def _open_tar(path: Path, content: IO[bytes]) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=content, mode="r:")
    except tarfile.ReadError as error:
        raise InvalidFileError(f"{path}: not a tar archive, or damaged") from error


def _check_not_empty(path: Path) -> None:
    if path.stat().st_size == 0:
        raise InvalidFileError(f"{path}: empty")


def _tar_member_opener(
    archive: tarfile.TarFile, member: tarfile.TarInfo, counter: ReadCounter
) -> OpenFile:
    # The archive is counted already, and stores files uncompressed; only sparse files
    # expand.
    counted = counter if member.issparse() else None
    return lambda: limit_reads(
        cast("IO[bytes]", archive.extractfile(member)), member.name, counted
    )


def _zip_sources(path: Path) -> Iterator[TraceSource]:
    _check_not_empty(path)
    limit = _expansion_limit(path)
    with open_plain(path) as content, _open_zip(path, content) as archive:
        _check_file_count(path, len(archive.infolist()))
        for member in archive.infolist():
            if member.flag_bits & 1:
                raise InvalidFileError(f"{path}: encrypted: {member.filename}")
            if not member.is_dir():
                yield TraceSource(
                    f"{path}: {member.filename}",
                    member.filename,
                    _zip_member_opener(archive, member, ReadCounter(limit)),
                )


def _open_zip(path: Path, content: IO[bytes]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(content)
    except zipfile.BadZipFile as error:
        detail = "not a zip archive, or truncated: its directory is missing"
        raise InvalidFileError(f"{path}: {detail}") from error


def _zip_member_opener(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, counter: ReadCounter
) -> OpenFile:
    return lambda: limit_reads(archive.open(member), member.filename, counter)
