"""The files that a trace is made of: those of a directory or an archive, or one."""

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

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.expansion import (
    MOST_FILES,
    Allowance,
    Counted,
    bounded,
    open_expanded,
    open_gzip,
    open_plain,
)

Open = Callable[[], IO[bytes]]
TAR = re.compile(r"\.(tar|tar\.\w+|tgz|tbz2?|txz)$")
LONGEST_NAME = 4096  # characters of a path, as Linux has it
MOST_TOLD = 5  # complaints about one trace
UNREADABLE = (
    OSError,
    EOFError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


@dataclass(frozen=True, slots=True)
class Source:
    """A file of a trace.

    Attributes:
        label: Where it is, for messages.
        name: Its path within the trace, with "/" between directories.
        open: Opens it, decompressed. Files of an archive can be opened, and again,
            until the next is asked for.
    """

    label: str
    name: str
    open: Open


def sources(path: Path, *, deep: bool = False) -> Iterator[Source]:
    """Yield each file of *path*, except hidden ones; those of directories by name.

    Args:
        path: A directory, a tar or zip archive, or a file.
        deep: Whether files in directories of a directory count too.

    Raises:
        InvalidFileError: It cannot be read, has a file twice, or too many.
    """
    names: set[PurePosixPath] = set()
    with readable(str(path)):
        if path.is_dir():
            found = _of_directory(path, deep=deep)
        elif TAR.search(path.name):
            found = _of_tar(path)
        elif path.suffix == ".zip":
            found = _of_zip(path)
        else:
            found = iter([single(path)])
        for source in found:
            if len(source.name) > LONGEST_NAME:
                begin = source.label[: len(str(path)) + 40]
                raise InvalidFileError(f"{begin}...: a name too long")
            name = PurePosixPath(source.name)
            if any(part.startswith((".", "__MACOSX")) for part in name.parts):
                continue
            if name in names:
                raise InvalidFileError(f"{source.label} is there twice")
            names.add(name)
            _require_few(path, len(names))
            yield source


def single(path: Path) -> Source:
    """Return *path* itself, which is neither a directory nor an archive.

    Raises:
        InvalidFileError: It is, or there is no such file.
    """
    if path.is_dir() or TAR.search(path.name) or path.suffix == ".zip":
        what = "a directory" if path.is_dir() else "an archive"
        raise InvalidFileError(f"{path}: expected a file, found {what}")
    with readable(str(path)):
        path.stat()
    return Source(str(path), path.name, _opener(path))


@contextmanager
def readable(label: str) -> Iterator[None]:
    """Turn what goes wrong in reading *label* into one kind of error.

    Raises:
        InvalidFileError: It cannot be read, or is cut off.
    """
    try:
        yield
    except UNREADABLE as error:
        raise InvalidFileError(f"{label}: {_reason(error)}") from error


def first_few(where: str, complaints: Sequence[str]) -> InvalidFileError:
    """Return an error with the first of *complaints*, and how many more there are."""
    told = list(complaints[:MOST_TOLD])
    if len(complaints) > MOST_TOLD:
        told.append(f"{where}: and {len(complaints) - MOST_TOLD} more")
    return InvalidFileError(*told)


def _reason(error: Exception) -> str:
    """Return why something could not be read, in words for the operator."""
    if isinstance(error, EOFError) or "unexpected end" in str(error):
        return "is cut off: its compressed data end too soon"
    if isinstance(error, gzip.BadGzipFile | zlib.error | lzma.LZMAError):
        return "is not compressed as its name says, or damaged"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"is damaged ({error})"


def _require_few(path: Path, files: int) -> None:
    if files > MOST_FILES:
        raise InvalidFileError(f"{path}: holds more than {MOST_FILES:,} files")


def _of_directory(path: Path, *, deep: bool) -> Iterator[Source]:
    for each in sorted(path.rglob("*") if deep else path.iterdir()):
        if each.is_file():
            name = each.relative_to(path).as_posix()
            yield Source(str(each), name, _opener(each))


def _opener(path: Path) -> Open:
    if path.suffix != ".gz":
        return lambda: open_plain(path)
    counted = Counted(_allowance(path))
    return lambda: open_gzip(path, counted)


def _allowance(path: Path) -> Allowance:
    return Allowance(str(path), path.stat().st_size)


def _of_tar(path: Path) -> Iterator[Source]:
    _require_content(path)
    allowance = _allowance(path)
    with (
        open_expanded(path, Counted(allowance)) as content,
        _tar(path, content) as archive,
    ):
        count = 0
        while (member := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined] # or it keeps them
            count += 1
            _require_few(path, count)
            if member.isfile():
                yield Source(
                    f"{path}: {member.name}",
                    member.name,
                    _member(archive, member, Counted(allowance)),
                )


def _tar(path: Path, content: IO[bytes]) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=content, mode="r:")
    except tarfile.ReadError as error:
        raise InvalidFileError(f"{path}: is not a tar archive, or damaged") from error


def _require_content(path: Path) -> None:
    if path.stat().st_size == 0:
        raise InvalidFileError(f"{path}: is empty")


def _member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, counted: Counted
) -> Open:
    # Tar stores a file as it is: all but the holes of a sparse one has been counted.
    found = counted if member.issparse() else None
    return lambda: bounded(
        cast("IO[bytes]", archive.extractfile(member)), member.name, found
    )


def _of_zip(path: Path) -> Iterator[Source]:
    _require_content(path)
    allowance = _allowance(path)
    with open_plain(path) as content, _zip(path, content) as archive:
        _require_few(path, len(archive.infolist()))
        for member in archive.infolist():
            if member.flag_bits & 1:
                raise InvalidFileError(f"{path}: {member.filename} is encrypted")
            if not member.is_dir():
                yield Source(
                    f"{path}: {member.filename}",
                    member.filename,
                    _packed(archive, member, Counted(allowance)),
                )


def _zip(path: Path, content: IO[bytes]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(content)
    except zipfile.BadZipFile as error:
        whole = "is not a zip archive, or is cut off: its directory is missing"
        raise InvalidFileError(f"{path}: {whole}") from error


def _packed(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, counted: Counted
) -> Open:
    return lambda: bounded(archive.open(member), member.filename, counted)
