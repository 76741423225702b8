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

from opendrs.config.parsing import MAX_FILE_SIZE, display_path, parse_json
from opendrs.config.regular_files import open_regular
from opendrs.config.snapshot_schema import FORMAT
from opendrs.errors import InvalidFileError

SUFFIXES = (".jsonl", ".ndjson")
_BLOCK_SIZE = 1 << 20  # bytes that are read at once, from the end
_TIME_SEARCH_SIZE = 300  # bytes of a line in which the time of the snapshot usually is
_LINE_PREFIX = f'{{"format": "{FORMAT}"'.encode()  # of each line that is written
_TAKEN_AT = re.compile(rb'"taken_at":\s*"([^"\\]{1,60})"')


@dataclass(frozen=True, slots=True)
class HistorySnapshot:
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
class _HistoryLine:
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
        with open_regular(path) as file:
            first = file.readline(MAX_FILE_SIZE).strip()
            second = file.readline(_BLOCK_SIZE).strip()
    except (OSError, ValueError):  # reading it reports the error
        return False
    return first[:1] == b"{" and first[-1:] == b"}" and second[:1] == b"{"


def read_history_snapshot(path: Path, at: datetime | None = None) -> HistorySnapshot:
    """Return the newest snapshot of the history *path*, or that of a time.

    Args:
        path: The file.
        at: The time: the newest snapshot taken then or before is returned.

    Raises:
        InvalidFileError: There is none, or the file cannot be read.
    """
    try:
        with open_regular(path) as file:
            return _read_newest(file, path) if at is None else _read_at(file, path, at)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"cannot read {display_path(path)}: {reason}") from error


def _read_newest(file: BinaryIO, path: Path) -> HistorySnapshot:
    damage = ""
    for line in _read_backwards(file, path):
        if damage or _is_complete(line.content):
            return _to_snapshot(line, path, damage)
        damage = "the last line is damaged; the one before is used"
    raise InvalidFileError(f"{display_path(path)} holds no whole snapshot")


def _read_at(file: BinaryIO, path: Path, at: datetime) -> HistorySnapshot:
    last = next(_read_backwards(file, path), None)
    if last is None:
        raise InvalidFileError(f"{display_path(path)} holds no whole snapshot")
    last_is_damaged = not _is_complete(last.content)
    newest: tuple[datetime, _HistoryLine] | None = None
    first: datetime | None = None
    file.seek(0)
    for line in _read_forwards(file, path):
        if last_is_damaged and line.start >= last.start:
            break
        taken_at = _taken_at(line.content)
        if taken_at is None:
            _to_snapshot(line, path)  # says what is wrong, if it is no JSON
            raise InvalidFileError(
                f"{_line_location(path, line)}: taken_at: expected a time"
            )
        first = taken_at if first is None else min(first, taken_at)
        if taken_at <= at and (newest is None or newest[0] <= taken_at):
            newest = taken_at, line
    if first is None:
        raise InvalidFileError(f"{display_path(path)} holds no whole snapshot")
    if newest is None:
        raise no_snapshot_before(path, at, first)
    damage = "the last line is damaged, and is passed over"
    return _to_snapshot(newest[1], path, damage if last_is_damaged else "")


def no_snapshot_before(path: Path, at: datetime, first: datetime) -> InvalidFileError:
    """Return the error that *path* begins later than *at*."""
    return InvalidFileError(
        f"{display_path(path)}: nothing was recorded at {_format_time(at)} or before; "
        f"it begins at {_format_time(first)}"
    )


def _to_snapshot(line: _HistoryLine, path: Path, damage: str = "") -> HistorySnapshot:
    source = _line_location(path, line)
    try:
        text = line.content.decode()
    except UnicodeDecodeError as error:
        raise InvalidFileError(f"{source} is not text in UTF-8") from error
    return HistorySnapshot(parse_json(text, source), source, damage)


def _line_location(path: Path, line: _HistoryLine) -> str:
    """Return which line of *path* it is, counted from 1."""
    with open_regular(path) as file:
        remaining, number = line.start, 1
        while remaining > 0 and (block := file.read(min(_BLOCK_SIZE, remaining))):
            number += block.count(b"\n")
            remaining -= len(block)
    return f"{display_path(path)}, line {number}"


def _is_complete(content: bytes) -> bool:
    return isinstance(_parse_line(content), dict)


def _is_snapshot(content: bytes) -> bool:
    """Return whether a line is a snapshot, or the beginning of one that was cut off."""
    document = _parse_line(content)
    if isinstance(document, dict):
        return document.get("format") == FORMAT
    cut_off = not content.endswith(b"\n")
    return cut_off and content[: len(_LINE_PREFIX)] == _LINE_PREFIX[: len(content)]


def _parse_line(content: bytes) -> object:
    """Return the values of a line; None if it is no JSON, or too large."""
    try:
        return parse_json(content.decode(), "a line")
    except (UnicodeDecodeError, InvalidFileError):
        return None


def _taken_at(content: bytes) -> datetime | None:
    """Return when the snapshot was taken; None where that cannot be told."""
    if content[-1:] != b"}":  # it was cut off
        return None
    match = _TAKEN_AT.search(content[:_TIME_SEARCH_SIZE])
    document = None if match else _parse_line(content)
    try:
        text = match[1].decode() if match else document["taken_at"]  # type: ignore[index]
        time = datetime.fromisoformat(text)
    except (ValueError, LookupError, TypeError):
        return None
    return time if time.tzinfo else None


def _format_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _read_forwards(file: BinaryIO, path: Path) -> Iterator[_HistoryLine]:
    """Yield the lines with anything in them."""
    start = 0
    while content := file.readline(MAX_FILE_SIZE + 1):
        _require_line_size(content, path)
        if content.strip():
            yield _HistoryLine(content.strip(), start)
        start += len(content)


def _read_backwards(file: BinaryIO, path: Path) -> Iterator[_HistoryLine]:
    """Yield the lines with anything in them, the last one first."""
    start, rest = file.seek(0, os.SEEK_END), b""
    while start > 0:
        size = min(_BLOCK_SIZE, start)
        start -= size
        file.seek(start)
        rest = file.read(size) + rest
        _require_line_size(rest, path)
        while (end := rest.rfind(b"\n")) >= 0:
            line, rest = rest[end + 1 :], rest[:end]
            if line.strip():
                yield _HistoryLine(line.strip(), start + end + 1)
    if rest.strip():
        yield _HistoryLine(rest.strip(), 0)


def _require_line_size(content: bytes, path: Path) -> None:
    if len(content) > MAX_FILE_SIZE + _BLOCK_SIZE:
        raise InvalidFileError(
            f"{display_path(path)}: a line is larger than {MAX_FILE_SIZE >> 20} MiB"
        )


class HistoryFile:
    """A history that snapshots are added to; used in a `with` statement.

    Args:
        path: The file; it is made if absent. To what is no ordinary file, such as
            /dev/stdout, is written as it is.
        replace: Whether what is in it gives way to the first snapshot that is added.

    Attributes:
        repair: What was done to a damaged end; empty for nothing.

    Raises:
        InvalidFileError: It holds something else, or another process adds to it.
        OSError: It cannot be written.
    """

    def __init__(self, path: Path, *, replace: bool = False) -> None:
        is_regular = path.is_file() or not path.exists()
        self._replace = replace and is_regular
        self._file = path.open("a+b" if is_regular else "ab")
        self.repair = ""
        try:
            if is_regular:
                _lock(self._file, path)
            if is_regular and not replace:
                self.repair = _repair_end(self._file, path)
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
            f"{display_path(path)}: another process adds to it; wait until it has ended"
        ) from error


def _repair_end(file: BinaryIO, path: Path) -> str:
    """Let *file* end with a whole line, and return what was done to it."""
    if file.seek(0, os.SEEK_END) == 0:
        return ""
    file.seek(0)
    first = file.readline(MAX_FILE_SIZE)
    if not _is_snapshot(first):
        raise InvalidFileError(
            f"{display_path(path)}: it is there, and is no history to add to; "
            "--force replaces it"
        )
    last = next(_read_backwards(file, path), None)
    file.seek(-1, os.SEEK_END)
    if last is None or file.read() == b"\n":
        return ""
    if _is_complete(last.content):
        file.write(b"\n")
        return ""
    file.truncate(last.start)
    return f"{display_path(path)}: the last line was cut off, and has been removed"
