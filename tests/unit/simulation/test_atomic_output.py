"""Output files are written together or not at all."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from opendrs.errors import InvalidFileError
from opendrs.simulation.atomic_output import (
    PLOT_SUFFIXES,
    TABLE_SUFFIXES,
    AtomicFiles,
    TableColumns,
    check_outputs,
    table_bytes,
)

COLUMNS: TableColumns = {
    "name": ["a", "ü,\n", "c"],
    "count": [1, 2, 3],
    "part": [0.1, float("nan"), None],
    "unknown": [None, None, None],
}
ROWS = [
    {"name": "a", "count": 1, "part": 0.1, "unknown": None},
    {"name": "ü,\n", "count": 2, "part": None, "unknown": None},
    {"name": "c", "count": 3, "part": None, "unknown": None},
]


def test_a_table_is_read_back_from_json() -> None:
    assert json.loads(table_bytes(COLUMNS, ".json")) == ROWS


def test_a_table_is_read_back_from_csv() -> None:
    lines = csv.DictReader(io.StringIO(table_bytes(COLUMNS, ".csv").decode()))

    assert list(lines) == [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in ROWS
    ]


def test_a_table_is_read_back_from_parquet() -> None:
    content = table_bytes(COLUMNS, ".parquet", {"who": "we"})

    found = parquet.read_table(pa.BufferReader(content))
    assert found.to_pylist() == ROWS
    assert found.schema.metadata[b"who"] == b"we"
    assert found.schema.field("unknown").type == pa.float64()


def test_equal_tables_are_equal_bytes() -> None:
    for suffix in TABLE_SUFFIXES:
        assert table_bytes(COLUMNS, suffix) == table_bytes(COLUMNS, suffix)


def test_atomic_files_are_replaced_together(tmp_path: Path) -> None:
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    one.write_text("old")

    with AtomicFiles() as drafts:
        drafts.add(one, b"new")
        drafts.add(other, b"new too")
        assert one.read_text() == "old"
        assert not other.exists()

    assert (one.read_text(), other.read_text()) == ("new", "new too")
    assert sorted(tmp_path.iterdir()) == [one, other]


def test_error_leaves_files_unchanged(tmp_path: Path) -> None:
    old = tmp_path / "old.csv"
    old.write_text("old")

    def broken() -> None:
        with AtomicFiles() as drafts:
            drafts.add(old, b"new")
            drafts.add(tmp_path / "further.csv", b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()

    assert old.read_text() == "old"
    assert list(tmp_path.iterdir()) == [old]


def test_unwritable_file_prevents_all_replacements(tmp_path: Path) -> None:
    good = tmp_path / "good.csv"

    def half() -> None:
        with AtomicFiles() as drafts:
            drafts.add(good, b"new")
            drafts.add(tmp_path / "none" / "bad.csv", b"new")

    with pytest.raises(InvalidFileError, match="cannot write"):
        half()

    assert list(tmp_path.iterdir()) == []


def test_target_of_symlink_is_replaced(tmp_path: Path) -> None:
    goal, link = tmp_path / "goal.csv", tmp_path / "link.csv"
    goal.write_text("old")
    link.symlink_to(goal)

    with AtomicFiles() as drafts:
        drafts.add(link, b"new")

    assert link.is_symlink()
    assert goal.read_text() == "new"


def test_all_output_errors_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    trace = tmp_path / "trace.csv"
    requested = [
        (tmp_path / "x.xls", TABLE_SUFFIXES),
        (tmp_path / "x.csv", PLOT_SUFFIXES),
        (tmp_path / "none" / "x.csv", TABLE_SUFFIXES),
        (tmp_path / "folder.csv", TABLE_SUFFIXES),
        (trace, TABLE_SUFFIXES),
        (tmp_path / "twice.csv", TABLE_SUFFIXES),
        (tmp_path / "." / "twice.csv", TABLE_SUFFIXES),
        (tmp_path / ("x" * 300 + ".csv"), TABLE_SUFFIXES),
    ]

    with pytest.raises(InvalidFileError) as messages:
        check_outputs(requested, [trace])

    assert [
        line.partition(f"{tmp_path}/")[2] for line in messages.value.messages[:6]
    ] == [
        "x.xls: expected a name that ends in .json, .csv or .parquet",
        "x.csv: expected a name that ends in .svg, .png or .pdf",
        f"none/x.csv: no such directory: {tmp_path / 'none'}",
        "folder.csv: exists and is not a regular file",
        "trace.csv: already used as input or output",
        "twice.csv: already used as input or output",
    ]
    assert "File name too long" in messages.value.messages[6]


def test_distinct_outputs_are_accepted(tmp_path: Path) -> None:
    check_outputs(
        [(tmp_path / "x.parquet", TABLE_SUFFIXES), (tmp_path / "x.pdf", PLOT_SUFFIXES)]
    )
