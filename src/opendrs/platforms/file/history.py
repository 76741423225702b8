"""Histories: snapshots in JSON, one a line, as `opendrs record --every` writes them.

A history may be far larger than a snapshot: it is never read as a whole into memory.
Only its last line may be damaged, by a process that was killed while it wrote.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from opendrs.errors import InvalidFileError
from opendrs.platforms.file.documents import LARGEST_FILE, parse_json, shown_path
from opendrs.platforms.file.wire import FORMAT
from opendrs.platforms.ordinary_files import open_ordinary

SUFFIXES = (".jsonl", ".ndjson")
_BLOCK = 1 << 20  # bytes that are read at once, from the end
_BEGINNING = 300  # bytes of a line in which the time of the snapshot usually is
_START = f'{{"format": "{FORMAT}"'.encode()  # of each line that is written
_TAKEN_AT = re.compile(rb'"taken_at":\s*"([^"\\]{1,60})"')


@dataclass(frozen=True, slots=True)
class Entry:
    """One snapshot of a history.

    Attributes:
        document: Its plain values.
        source: Where it stands, to begin complaints with.
        damage: The damage of the last line, that was passed over; empty for none.
    """

    document: object
    source: str
    damage: str = ""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a history: its text, and where it begins."""

    content: bytes
    start: int


def is_history(path: Path) -> bool:
    """Return whether *path* is a file in which each line is a snapshot.

    A file that is called so is one. Otherwise its first line has to be a whole object,
    and another has to follow.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        if path.suffix in SUFFIXES:
            return True
        with open_ordinary(path) as file:
            first = file.readline(LARGEST_FILE).strip()
            second = file.readline(_BLOCK).strip()
    except (OSError, ValueError):  # reading it reports the error
        return False
    return first[:1] == b"{" and first[-1:] == b"}" and second[:1] == b"{"


def read_entry(path: Path, at: datetime | None = None) -> Entry:
    """Return the newest snapshot of the history *path*, or that of a time.

    Args:
        path: The file.
        at: The time: the newest snapshot taken then or before is returned.

    Raises:
        InvalidFileError: There is none, or the file cannot be read.
    """
    try:
        with open_ordinary(path) as file:
            return _newest(file, path) if at is None else _at(file, path, at)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"cannot read {shown_path(path)}: {reason}") from error


def _newest(file: BinaryIO, path: Path) -> Entry:
    damage = ""
    for line in _backwards(file, path):
        if damage or _is_whole(line.content):
            return _entry(line, path, damage)
        damage = "the last line is damaged; the one before is used"
    raise InvalidFileError(f"{shown_path(path)} holds no whole snapshot")


def _at(file: BinaryIO, path: Path, at: datetime) -> Entry:
    last = next(_backwards(file, path), None)
    if last is None:
        raise InvalidFileError(f"{shown_path(path)} holds no whole snapshot")
    damaged = not _is_whole(last.content)
    found: tuple[datetime, _Line] | None = None
    first: datetime | None = None
    file.seek(0)
    for line in _forwards(file, path):
        if damaged and line.start >= last.start:
            break
        taken_at = _taken_at(line.content)
        if taken_at is None:
            _entry(line, path)  # says what is wrong, if it is no JSON
            raise InvalidFileError(f"{_place(path, line)}: taken_at: expected a time")
        first = taken_at if first is None else min(first, taken_at)
        if taken_at <= at and (found is None or found[0] <= taken_at):
            found = taken_at, line
    if first is None:
        raise InvalidFileError(f"{shown_path(path)} holds no whole snapshot")
    if found is None:
        raise nothing_before(path, at, first)
    damage = "the last line is damaged, and is passed over"
    return _entry(found[1], path, damage if damaged else "")


def nothing_before(path: Path, at: datetime, first: datetime) -> InvalidFileError:
    """Return the error that *path* begins later than *at*."""
    return InvalidFileError(
        f"{shown_path(path)}: nothing was recorded at {_shown(at)} or before; "
        f"it begins at {_shown(first)}"
    )


def _entry(line: _Line, path: Path, damage: str = "") -> Entry:
    source = _place(path, line)
    try:
        text = line.content.decode()
    except UnicodeDecodeError as error:
        raise InvalidFileError(f"{source} is not text in UTF-8") from error
    return Entry(parse_json(text, source), source, damage)


def _place(path: Path, line: _Line) -> str:
    """Return which line of *path* it is, counted from 1."""
    with open_ordinary(path) as file:
        rest, number = line.start, 1
        while rest > 0 and (block := file.read(min(_BLOCK, rest))):
            number += block.count(b"\n")
            rest -= len(block)
    return f"{shown_path(path)}, line {number}"


def _is_whole(content: bytes) -> bool:
    return isinstance(_parsed(content), dict)


def _is_snapshot(content: bytes) -> bool:
    """Return whether a line is a snapshot, or the beginning of one that was cut off."""
    document = _parsed(content)
    if isinstance(document, dict):
        return document.get("format") == FORMAT
    cut_off = not content.endswith(b"\n")
    return cut_off and content[: len(_START)] == _START[: len(content)]


def _parsed(content: bytes) -> object:
    """Return the values of a line; None if it is no JSON, or too large."""
    try:
        return parse_json(content.decode(), "a line")
    except (UnicodeDecodeError, InvalidFileError):
        return None


def _taken_at(content: bytes) -> datetime | None:
    """Return when the snapshot was taken; None where that cannot be told."""
    if content[-1:] != b"}":  # it was cut off
        return None
    found = _TAKEN_AT.search(content[:_BEGINNING])
    document = None if found else _parsed(content)
    try:
        text = found[1].decode() if found else document["taken_at"]  # type: ignore[index]
        time = datetime.fromisoformat(text)
    except (ValueError, LookupError, TypeError):
        return None
    return time if time.tzinfo else None


def _shown(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _forwards(file: BinaryIO, path: Path) -> Iterator[_Line]:
    """Yield the lines with anything in them."""
    start = 0
    while content := file.readline(LARGEST_FILE + 1):
        _require_short(content, path)
        if content.strip():
            yield _Line(content.strip(), start)
        start += len(content)


def _backwards(file: BinaryIO, path: Path) -> Iterator[_Line]:
    """Yield the lines with anything in them, the last one first."""
    start, rest = file.seek(0, os.SEEK_END), b""
    while start > 0:
        size = min(_BLOCK, start)
        start -= size
        file.seek(start)
        rest = file.read(size) + rest
        _require_short(rest, path)
        while (end := rest.rfind(b"\n")) >= 0:
            line, rest = rest[end + 1 :], rest[:end]
            if line.strip():
                yield _Line(line.strip(), start + end + 1)
    if rest.strip():
        yield _Line(rest.strip(), 0)


def _require_short(content: bytes, path: Path) -> None:
    if len(content) > LARGEST_FILE + _BLOCK:
        raise InvalidFileError(
            f"{shown_path(path)}: a line is larger than {LARGEST_FILE >> 20} MiB"
        )


class HistoryFile:
    """A history that snapshots are added to; used in a `with` statement.

    Args:
        path: The file; it is made if absent. To what is no ordinary file, such as
            /dev/stdout, is written as it is.
        replace: Whether what is in it gives way to the first snapshot that is added.

    Attributes:
        mended: What was done to a damaged end; empty for nothing.

    Raises:
        InvalidFileError: It holds something else, or another process adds to it.
        OSError: It cannot be written.
    """

    def __init__(self, path: Path, *, replace: bool = False) -> None:
        ordinary = path.is_file() or not path.exists()
        self._replace = replace and ordinary
        self._file = path.open("a+b" if ordinary else "ab")
        self.mended = ""
        try:
            if ordinary:
                _lock(self._file, path)
            if ordinary and not replace:
                self.mended = _mended(self._file, path)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, line: str) -> None:
        """Add *line*, a snapshot in JSON."""
        if self._replace:
            self._file.truncate(0)
            self._replace = False
        self._file.write(f"{line}\n".encode())
        self._file.flush()


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InvalidFileError(
            f"{shown_path(path)}: another process adds to it; wait until it has ended"
        ) from error


def _mended(file: BinaryIO, path: Path) -> str:
    """Let *file* end with a whole line, and return what was done to it."""
    if file.seek(0, os.SEEK_END) == 0:
        return ""
    file.seek(0)
    first = file.readline(LARGEST_FILE)
    if not _is_snapshot(first):
        raise InvalidFileError(
            f"{shown_path(path)}: it is there, and is no history to add to; "
            "--force replaces it"
        )
    last = next(_backwards(file, path), None)
    file.seek(-1, os.SEEK_END)
    if last is None or file.read() == b"\n":
        return ""
    if _is_whole(last.content):
        file.write(b"\n")
        return ""
    file.truncate(last.start)
    return f"{shown_path(path)}: the last line was cut off, and has been removed"
