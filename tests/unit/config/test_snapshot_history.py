"""Snapshot histories: newest snapshot, snapshot at a time, truncated last line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from opendrs.config import (
    HistoryFile,
    is_history,
    json_line,
    snapshot_history,
    write_snapshot,
)
from opendrs.errors import InvalidFileError
from opendrs.model import Snapshot
from opendrs.platforms.snapshot_file import SnapshotFilePlatform
from support.builders import NOON, cluster

PAIR = cluster(nodes={"a": 0.5, "b": 0.1}, guests={"vm": ("a", 0.4)})
MINUTE = timedelta(minutes=1)


def snapshot_at(minute: int) -> Snapshot:
    return replace(PAIR, taken_at=NOON + minute * MINUTE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a history of three minutes."""
    path = tmp_path / "history.jsonl"
    with HistoryFile(path) as file:
        for minute in range(3):
            file.add(json_line(snapshot_at(minute)))
    return path


def test_newest_snapshot_is_observed(path: Path) -> None:
    platform = SnapshotFilePlatform(path)

    assert platform.observe() == snapshot_at(2)
    assert platform.damage == ""


@pytest.mark.parametrize(
    ("seconds", "minute"), [(0, 0), (59, 0), (60, 1), (125, 2), (10**6, 2)]
)
def test_newest_snapshot_before_a_time_is_observed(
    path: Path, seconds: int, minute: int
) -> None:
    then = NOON + timedelta(seconds=seconds)

    assert SnapshotFilePlatform(path).as_of(then).observe() == snapshot_at(minute)


@pytest.mark.parametrize("name", ["history.jsonl", "cluster.json"])
def test_time_before_the_first_snapshot_is_rejected(path: Path, name: str) -> None:
    write_snapshot(snapshot_at(0), path.with_name("cluster.json"))

    with pytest.raises(InvalidFileError, match="taken at 2026-11-21T12:00:00Z"):
        SnapshotFilePlatform(path.with_name(name)).as_of(NOON - MINUTE).observe()


def test_a_snapshot_is_a_history_of_one(tmp_path: Path) -> None:
    write_snapshot(snapshot_at(0), tmp_path / "cluster.json")

    assert SnapshotFilePlatform(tmp_path / "cluster.json").as_of(
        NOON
    ).observe() == snapshot_at(0)


def test_a_clock_that_was_set_back_does_not_hide_what_was_taken_before(
    path: Path,
) -> None:
    with HistoryFile(path) as file:
        file.add(json_line(snapshot_at(1)))
        file.add(json_line(snapshot_at(-5)))

    assert SnapshotFilePlatform(path).as_of(NOON + 3 * MINUTE).observe() == snapshot_at(
        2
    )
    assert SnapshotFilePlatform(path).observe() == snapshot_at(
        -5
    )  # what was written last


ENDS: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda line: line[: len(line) // 2],
    "one byte": lambda line: line[:1],
    "cut off at the last byte": lambda line: line[:-1],
    "zeros": lambda line: bytes(len(line)),
    "in a character": lambda line: line[:20] + b"\xc3",
    "a line of its own": lambda line: line[: len(line) // 2] + b"\n",
}


@pytest.mark.parametrize("end", ENDS)
def test_damaged_last_line_is_skipped_and_reported(path: Path, end: str) -> None:
    with path.open("ab") as file:
        file.write(ENDS[end](json_line(snapshot_at(3)).encode()))
    newest, earlier = (
        SnapshotFilePlatform(path),
        SnapshotFilePlatform(path).as_of(NOON + 9 * MINUTE),
    )

    assert newest.observe() == earlier.observe() == snapshot_at(2)
    assert newest.damage.startswith(f"{path}: last line damaged")
    assert earlier.damage.startswith(f"{path}: last line damaged")


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"{", b'{"taken_at": "now"', b"x\ny"]
)
def test_history_without_snapshot_is_rejected(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    for platform in (
        SnapshotFilePlatform(path),
        SnapshotFilePlatform(path).as_of(NOON),
    ):
        with pytest.raises(InvalidFileError):
            platform.observe()


def test_damage_before_the_end_names_its_line(path: Path) -> None:
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:-10]
    path.write_text("\n".join(lines))

    assert SnapshotFilePlatform(path).observe() == snapshot_at(2)
    with pytest.raises(InvalidFileError, match=r"history\.jsonl, line 2: not JSON"):
        SnapshotFilePlatform(path).as_of(NOON + 2 * MINUTE).observe()


def test_impossible_snapshot_names_its_line(path: Path) -> None:
    document = json.loads(json_line(snapshot_at(3)))
    del document["nodes"]["a"]
    with HistoryFile(path) as file:
        file.add(json.dumps(document))

    with pytest.raises(InvalidFileError, match=r"line 4: guests\.vm"):
        SnapshotFilePlatform(path).observe()


def test_the_time_may_stand_anywhere(path: Path) -> None:
    document = json.loads(json_line(snapshot_at(3)))
    document["taken_at"] = document.pop("taken_at")
    with HistoryFile(path) as file:
        file.add(json.dumps({"format": document["format"], **document}))

    assert SnapshotFilePlatform(path).as_of(NOON + 3 * MINUTE).observe() == snapshot_at(
        3
    )


def test_long_lines_are_read_from_the_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in (1, 7, 64):
        monkeypatch.setattr(snapshot_history, "_BLOCK_SIZE", block)
        assert SnapshotFilePlatform(path).observe() == snapshot_at(2)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"a": 1}\n{"a": 2}\n', True),
        ('{"a": 1}\n{"a":', True),
        ('{"a": 1}\n', False),
        ('{\n"a": 1}\n', False),
        ('[platform.a]\nkind = "file"\n', False),
        ("", False),
    ],
)
def test_a_history_is_known_by_its_lines(
    tmp_path: Path,
    content: str,
    found: bool,  # noqa: FBT001
) -> None:
    (tmp_path / "file.json").write_text(content)

    assert is_history(tmp_path / "file.json") == found
    assert not is_history(tmp_path / "absent.jsonl")
    assert not is_history(tmp_path)


def test_appending_removes_a_truncated_line(path: Path) -> None:
    with path.open("ab") as file:
        file.write(json_line(snapshot_at(3)).encode()[:50])

    with HistoryFile(path) as again:
        again.add(json_line(snapshot_at(4)))

    assert again.repair == f"{path}: last line incomplete; removed"
    assert len(path.read_text().splitlines()) == 4
    assert SnapshotFilePlatform(path).observe() == snapshot_at(4)


@pytest.mark.parametrize(
    "content",
    [
        "my notes, without a line break",
        "notes\nof two lines",
        '{"a": 1}',
        '{"a": 1}\n{"a":',
        '{"format": "opendrs-configuration/1", "platform',
        "[1, 2]",
    ],
)
def test_append_to_other_file_leaves_it_unchanged(tmp_path: Path, content: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content)

    with pytest.raises(InvalidFileError, match="not a history"):
        HistoryFile(path)

    assert path.read_text() == content


@pytest.mark.parametrize("size", [1, 20, 50, 300])
def test_history_with_one_truncated_line_restarts(tmp_path: Path, size: int) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(json_line(snapshot_at(0))[:size])

    with HistoryFile(path) as file:
        file.add(json_line(snapshot_at(1)))

    assert path.read_text() == f"{json_line(snapshot_at(1))}\n"


def test_line_without_newline_is_kept(path: Path) -> None:
    with path.open("ab") as file:
        file.write(json_line(snapshot_at(3)).encode())

    with HistoryFile(path) as again:
        again.add(json_line(snapshot_at(4)))

    assert again.repair == ""
    assert len(path.read_text().splitlines()) == 5


def test_only_one_process_adds_to_a_history(path: Path) -> None:
    with (
        HistoryFile(path),
        pytest.raises(InvalidFileError, match="locked by another process"),
    ):
        HistoryFile(path)


def test_a_history_is_replaced_when_there_is_something_to_replace_it_by(
    path: Path,
) -> None:
    before = path.read_bytes()
    with HistoryFile(path, replace=True) as file:
        assert path.read_bytes() == before
        file.add(json_line(snapshot_at(9)))
        file.add(json_line(snapshot_at(10)))

    assert len(path.read_text().splitlines()) == 2
