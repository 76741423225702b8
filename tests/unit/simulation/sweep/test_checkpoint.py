"""Checkpoints keep every added row, even if the writer is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendrs.errors import InvalidFileError, StoreError
from opendrs.simulation.sweep.checkpoint import (
    checkpoint_path,
    open_checkpoint,
    read_checkpoint,
)
from opendrs.simulation.sweep.results import ResultRow

ONE: ResultRow = {"id": "a", "seed": 1, "energy_kwh": 0.1, "slav": None}
TWO: ResultRow = {"id": "b", "seed": 2, "energy_kwh": 0.2, "policy": "ü\n"}


def write_checkpoint(path: Path, *rows: ResultRow) -> bytes:
    with open_checkpoint(path) as journal:
        for row in rows:
            journal.add(row)
    return path.read_bytes()


def test_checkpoint_is_next_to_results() -> None:
    assert checkpoint_path(Path("a/x.parquet")) == Path("a/x.parquet.journal")


def test_added_rows_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    write_checkpoint(path, ONE)
    write_checkpoint(path, TWO)

    assert read_checkpoint(path) == {"a": ONE, "b": TWO}
    with open_checkpoint(path) as journal:
        assert journal.rows == {"a": ONE, "b": TWO}


def test_row_is_on_disk_after_add(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"

    with open_checkpoint(path) as journal:
        journal.add(ONE)
        assert read_checkpoint(path) == {"a": ONE}


def test_missing_checkpoint_has_no_rows(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "x.journal") == {}


def test_truncated_checkpoint_keeps_complete_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    content = write_checkpoint(path, ONE, TWO)
    ends = [place for place, byte in enumerate(content, 1) if byte == ord("\n")]
    assert len(ends) == 3

    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        kept = [
            row for row, end in zip((ONE, TWO), ends[1:], strict=True) if end <= cut
        ]
        assert list(read_checkpoint(path).values()) == kept
        with open_checkpoint(path) as journal:
            assert list(journal.rows.values()) == kept
            journal.add(TWO)
        assert list(read_checkpoint(path).values()) == list(
            {row["id"]: row for row in [*kept, TWO]}.values()
        )


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"somebody's diary", 1),
        (b"somebody's diary\n", 1),
        (b'{"format": "opendrs-sweep-journal/2"}\n', 1),
        (b'{"format": "opendrs-sweep-journal/1"}\n{"id": "a"}\n[]\n', 3),
        (b'{"format": "opendrs-sweep-journal/1"}\n{"seed": 3}\n', 2),
        (b'{"format": "opendrs-sweep-journal/1"}\n\xff\xfe\n', 2),
    ],
)
def test_other_file_is_reported_and_unchanged(
    tmp_path: Path, content: bytes, line: int
) -> None:
    path = tmp_path / "x.journal"
    path.write_bytes(content)

    with pytest.raises(
        InvalidFileError, match=f"journal, line {line}: not the journal"
    ):
        read_checkpoint(path)
    with (
        pytest.raises(InvalidFileError, match="not the journal of a sweep"),
        open_checkpoint(path),
    ):
        pass
    assert path.read_bytes() == content


def test_checkpoint_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"

    with (
        open_checkpoint(path),
        pytest.raises(StoreError, match="another sweep writes to it"),
        open_checkpoint(path),
    ):
        pass

    assert write_checkpoint(path, ONE)


def test_removed_checkpoint_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    with open_checkpoint(path) as journal:
        journal.add(ONE)
        journal.remove()

    assert read_checkpoint(path) == {}
    write_checkpoint(path, TWO)
    assert read_checkpoint(path) == {"b": TWO}


def test_missing_directory_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match=r"cannot open .*No such file or directory"),
        open_checkpoint(tmp_path / "none" / "x.journal"),
    ):
        pass
