"""Histories: one snapshot in JSON per line, as written by `opendrs record --every`.

A history may be far larger than a snapshot and is never loaded into memory completely.
Only its last line may be damaged, by a process that was killed while writing.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from opendrs.config.parsing import MAX_FILE_SIZE, display_path, parse_json
from opendrs.config.regular_files import open_regular
from opendrs.config.snapshot_schema import FORMAT
from opendrs.errors import InvalidFileError
from opendrs.model import format_timestamp

SUFFIXES = (".jsonl", ".ndjson")
_BLOCK_SIZE = 1 << 20  # bytes per read, from the end
_TIME_SEARCH_SIZE = 300  # bytes at the start of a line that usually contain its time
_LINE_PREFIX = f'{{"format": "{FORMAT}"'.encode()  # of each written line
_TAKEN_AT = re.compile(rb'"taken_at":\s*"([^"\\]{1,60})"')


@dataclass(frozen=True, slots=True)
class HistorySnapshot:
    """One snapshot of a history.

    Attributes:
        document: Plain values of the snapshot.
        source: File and line, for error messages.
        damage: Damage of the last line, which was ignored; empty for none.
    """

    document: object
    source: str
    damage: str = ""


@dataclass(frozen=True, slots=True)
class _HistoryLine:
    """A line of a history, with its position in bytes.

    Its number is counted from 1; None if the file was read backwards.
    """

    content: bytes
    start: int
    number: int | None = None


def is_history(path: Path) -> bool:
    """Return True if *path* is a history.

    The suffixes `SUFFIXES` determine it. For other files, the first line must be a
    complete JSON object and the second line must start one.
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
    """Return the newest snapshot of the history *path*, or the newest one up to *at*.

    Args:
        path: The file.
        at: Latest time of the snapshot; None for no limit.

    Raises:
        InvalidFileError: There is no such snapshot, or the file cannot be read.
    """
    try:
        with open_regular(path) as file:
            return _read_newest(file, path) if at is None else _read_at(file, path, at)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"cannot read {display_path(path)}: {reason}") from error


def read_history(
    path: Path, since: datetime | None = None
) -> Iterator[HistorySnapshot]:
    """Yield the snapshots of the history *path*, in the order of the file.

    A damaged last line is ignored.

    Args:
        path: The file.
        since: Earliest time of a snapshot; None for no limit.

    Raises:
        InvalidFileError: A line other than the last one is damaged, or the file cannot
            be read.
    """
    try:
        with open_regular(path) as file:
            yield from _read_since(file, path, since)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"cannot read {display_path(path)}: {reason}") from error


def _read_since(
    file: BinaryIO, path: Path, since: datetime | None
) -> Iterator[HistorySnapshot]:
    last = next(_read_backwards(file, path), None)
    if last is None:
        return
    file.seek(0)
    for line in _read_forwards(file, path):
        if line.start >= last.start and not _is_complete(line.content):
            return
        taken_at = _taken_at(line.content)
        if since is None or taken_at is None or taken_at >= since:
            yield _to_snapshot(line, path)


def _read_newest(file: BinaryIO, path: Path) -> HistorySnapshot:
    damage = ""
    for line in _read_backwards(file, path):
        if damage or _is_complete(line.content):
            return _to_snapshot(line, path, damage)
        damage = "last line damaged; the previous one is used"
    raise _no_snapshot(path)


def _read_at(file: BinaryIO, path: Path, at: datetime) -> HistorySnapshot:
    last = next(_read_backwards(file, path), None)
    if last is None:
        raise _no_snapshot(path)
    last_is_damaged = not _is_complete(last.content)
    newest: tuple[datetime, _HistoryLine] | None = None
    first: datetime | None = None
    file.seek(0)
    for line in _read_forwards(file, path):
        if last_is_damaged and line.start >= last.start:
            break
        taken_at = _taken_at(line.content)
        if taken_at is None:
            _to_snapshot(line, path)  # raises a specific error if it is not JSON
            raise InvalidFileError(
                f"{_line_location(path, line)}: taken_at: expected a time"
            )
        first = taken_at if first is None else min(first, taken_at)
        if taken_at <= at and (newest is None or newest[0] <= taken_at):
            newest = taken_at, line
    if first is None:
        raise _no_snapshot(path)
    if newest is None:
        raise no_snapshot_before(path, at, first)
    damage = "last line damaged; it is ignored"
    return _to_snapshot(newest[1], path, damage if last_is_damaged else "")


def _no_snapshot(path: Path) -> InvalidFileError:
    return InvalidFileError(f"{display_path(path)}: no complete snapshot")


def no_snapshot_before(path: Path, at: datetime, first: datetime) -> InvalidFileError:
    """Return the error for a history *path* that starts at *first*, after *at*."""
    return InvalidFileError(
        f"{display_path(path)}: no snapshot at or before {format_timestamp(at)}; the "
        f"first was taken at {format_timestamp(first)}"
    )


def _to_snapshot(line: _HistoryLine, path: Path, damage: str = "") -> HistorySnapshot:
    source = _line_location(path, line)
    try:
        text = line.content.decode()
    except UnicodeDecodeError as error:
        raise InvalidFileError(f"{source}: not UTF-8") from error
    return HistorySnapshot(parse_json(text, source), source, damage)


def _line_location(path: Path, line: _HistoryLine) -> str:
    """Return *path* with the number of the line, counted from 1."""
    if line.number is not None:
        return f"{display_path(path)}, line {line.number}"
    with open_regular(path) as file:
        remaining, number = line.start, 1
        while remaining > 0 and (block := file.read(min(_BLOCK_SIZE, remaining))):
            number += block.count(b"\n")
            remaining -= len(block)
    return f"{display_path(path)}, line {number}"


def _is_complete(content: bytes) -> bool:
    return isinstance(_parse_line(content), dict)


def _is_snapshot(content: bytes) -> bool:
    """Return True if a line is a snapshot, or the start of a truncated one."""
    document = _parse_line(content)
    if isinstance(document, dict):
        return document.get("format") == FORMAT
    cut_off = not content.endswith(b"\n")
    return cut_off and content[: len(_LINE_PREFIX)] == _LINE_PREFIX[: len(content)]


def _parse_line(content: bytes) -> object:
    """Return the values of a line; None if it is not JSON or too large."""
    try:
        return parse_json(content.decode(), "a line")
    except (UnicodeDecodeError, InvalidFileError):
        return None


def _taken_at(content: bytes) -> datetime | None:
    """Return the time of the snapshot in a line; None if it cannot be determined."""
    if content[-1:] != b"}":  # truncated
        return None
    match = _TAKEN_AT.search(content[:_TIME_SEARCH_SIZE])
    document = None if match else _parse_line(content)
    try:
        text = match[1].decode() if match else document["taken_at"]  # type: ignore[index]
        time = datetime.fromisoformat(text)
    except (ValueError, LookupError, TypeError):
        return None
    return time if time.tzinfo else None


def _read_forwards(file: BinaryIO, path: Path) -> Iterator[_HistoryLine]:
    """Yield the lines that are not blank."""
    start, number = 0, 1
    while content := file.readline(MAX_FILE_SIZE + 1):
        _require_line_size(content, path)
        if content.strip():
            yield _HistoryLine(content.strip(), start, number)
        start, number = start + len(content), number + 1


def _read_backwards(file: BinaryIO, path: Path) -> Iterator[_HistoryLine]:
    """Yield the lines that are not blank, last line first."""
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
            f"{display_path(path)}: line larger than {MAX_FILE_SIZE >> 20} MiB"
        )


class HistoryFile:
    """Writer that appends snapshots to a history; used in a `with` statement.

    Args:
        path: The file; created if absent. A path that is not a regular file, such as
            /dev/stdout, is written without checks.
        replace: True to replace the content with the first snapshot that is added.

    Attributes:
        repair: Description of the repair of a damaged end; empty for none.

    Raises:
        InvalidFileError: The file is not a history, or another process appends to it.
        OSError: The file cannot be written.
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
        """Append *line*, a snapshot in JSON without a line break."""
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
            f"{display_path(path)}: locked by another process; wait until it has ended"
        ) from error


def _repair_end(file: BinaryIO, path: Path) -> str:
    """Make *file* end with a complete line; return a description of the repair."""
    if file.seek(0, os.SEEK_END) == 0:
        return ""
    file.seek(0)
    first = file.readline(MAX_FILE_SIZE)
    if not _is_snapshot(first):
        raise InvalidFileError(
            f"{display_path(path)}: exists and is not a history; use --force to "
            "replace it"
        )
    last = next(_read_backwards(file, path), None)
    file.seek(-1, os.SEEK_END)
    if last is None or file.read() == b"\n":
        return ""
    if _is_complete(last.content):
        file.write(b"\n")
        return ""
    file.truncate(last.start)
    return f"{display_path(path)}: last line incomplete; removed"
