"""What was added to a journal is in it, however its writer came to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendrs.errors import InvalidFileError, StoreError
from opendrs.sim.consolidation.sweep.journal import (
    journal_path,
    open_journal,
    read_journal,
)
from opendrs.sim.consolidation.sweep.results import Row

ONE: Row = {"id": "a", "seed": 1, "energy_kwh": 0.1, "slav": None}
TWO: Row = {"id": "b", "seed": 2, "energy_kwh": 0.2, "policy": "ü\n"}


def written(path: Path, *rows: Row) -> bytes:
    with open_journal(path) as journal:
        for row in rows:
            journal.add(row)
    return path.read_bytes()


def test_it_stands_beside_the_results() -> None:
    assert journal_path(Path("a/x.parquet")) == Path("a/x.parquet.journal")


def test_what_was_added_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    written(path, ONE)
    written(path, TWO)

    assert read_journal(path) == {"a": ONE, "b": TWO}
    with open_journal(path) as journal:
        assert journal.rows == {"a": ONE, "b": TWO}


def test_each_row_is_on_the_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"

    with open_journal(path) as journal:
        journal.add(ONE)
        assert read_journal(path) == {"a": ONE}


def test_none_is_there_when_there_is_no_file(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "x.journal") == {}


def test_wherever_it_was_cut_whole_rows_are_kept_and_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    content = written(path, ONE, TWO)
    ends = [place for place, byte in enumerate(content, 1) if byte == ord("\n")]
    assert len(ends) == 3

    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        kept = [
            row for row, end in zip((ONE, TWO), ends[1:], strict=True) if end <= cut
        ]
        assert list(read_journal(path).values()) == kept
        with open_journal(path) as journal:
            assert list(journal.rows.values()) == kept
            journal.add(TWO)
        assert list(read_journal(path).values()) == list(
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
def test_another_file_is_told_and_left_as_it_was(
    tmp_path: Path, content: bytes, line: int
) -> None:
    path = tmp_path / "x.journal"
    path.write_bytes(content)

    with pytest.raises(InvalidFileError, match=f"journal, line {line}: this is no"):
        read_journal(path)
    with pytest.raises(InvalidFileError, match="no journal"), open_journal(path):
        pass
    assert path.read_bytes() == content


def test_two_sweeps_never_write_to_one(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"

    with (
        open_journal(path),
        pytest.raises(StoreError, match="another sweep writes to"),
        open_journal(path),
    ):
        pass

    assert written(path, ONE)


def test_a_journal_that_was_removed_meanwhile_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    with open_journal(path) as journal:
        journal.add(ONE)
        journal.remove()

    assert read_journal(path) == {}
    written(path, TWO)
    assert read_journal(path) == {"b": TWO}


def test_no_place_for_it_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match=r"cannot open .*No such file or directory"),
        open_journal(tmp_path / "none" / "x.journal"),
    ):
        pass
