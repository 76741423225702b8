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

Open = Callable[[], IO[bytes]]
TAR = re.compile(r"\.(tar|tar\.\w+|tgz|tbz2?|txz)$")
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
        InvalidFileError: It cannot be read, or has a file twice.
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
            name = PurePosixPath(source.name)
            if any(part.startswith((".", "__MACOSX")) for part in name.parts):
                continue
            if name in names:
                raise InvalidFileError(f"{source.label} is there twice")
            names.add(name)
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


def _of_directory(path: Path, *, deep: bool) -> Iterator[Source]:
    for each in sorted(path.rglob("*") if deep else path.iterdir()):
        if each.is_file():
            name = each.relative_to(path).as_posix()
            yield Source(str(each), name, _opener(each))


def _opener(path: Path) -> Open:
    if path.suffix == ".gz":
        return lambda: cast("IO[bytes]", gzip.open(path))
    return lambda: path.open("rb")


def _of_tar(path: Path) -> Iterator[Source]:
    with _tar(path) as archive:
        for member in archive:
            if member.isfile():
                yield Source(
                    f"{path}: {member.name}", member.name, _member(archive, member)
                )


def _tar(path: Path) -> tarfile.TarFile:
    _require_content(path)
    try:
        return tarfile.open(path)
    except tarfile.ReadError as error:
        if "\n" not in str(error):  # else what each way of compressing says
            raise
        raise InvalidFileError(f"{path}: is not a tar archive") from error


def _require_content(path: Path) -> None:
    if path.stat().st_size == 0:
        raise InvalidFileError(f"{path}: is empty")


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Open:
    return lambda: cast("IO[bytes]", archive.extractfile(member))


def _of_zip(path: Path) -> Iterator[Source]:
    _require_content(path)
    with _zip(path) as archive:
        for member in archive.infolist():
            if member.flag_bits & 1:
                raise InvalidFileError(f"{path}: {member.filename} is encrypted")
            if not member.is_dir():
                yield Source(
                    f"{path}: {member.filename}",
                    member.filename,
                    _packed(archive, member),
                )


def _zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        whole = "is not a zip archive, or is cut off: its directory is missing"
        raise InvalidFileError(f"{path}: {whole}") from error


def _packed(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Open:
    return lambda: archive.open(member)
