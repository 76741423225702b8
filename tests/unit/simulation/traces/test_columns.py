"""Large tables, and their errors by line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces.columns import NumberColumn, RowBatch, TableFormat
from opendrs.simulation.traces.delimited import read_csv
from opendrs.simulation.traces.files import TraceSource, trace_sources
from opendrs.simulation.traces.json_lines import read_json
from opendrs.simulation.traces.parquet import parquet_columns, read_parquet
from support.errors import has_code

LOAD = NumberColumn(name="load", maximum=100, unknown=(-1.0,), optional=True)
SIZE = NumberColumn(name="size", minimum=1, symbols={">24": 30.0})
BARE = TableFormat(
    columns=("guest", "other", "load", "size"), key=("guest",), fields=(LOAD, SIZE)
)
NAMED = TableFormat(key=("guest",), fields=(LOAD, SIZE))
NESTED = TableFormat(
    key=("job", "index"), fields=(NumberColumn(name="use.cpu", optional=True),)
)
Read = Callable[[TraceSource, TableFormat], Iterator[RowBatch]]


def only(path: Path) -> TraceSource:
    return next(trace_sources(path))


def rows(read: Read, path: Path, form: TableFormat) -> list[tuple[str | float, ...]]:
    found: list[tuple[str | float, ...]] = []
    for batch in read(only(path), form):
        names = [batch.names[each] for each in batch.guest_index.tolist()]
        columns = [values.tolist() for values in batch.values.values()]
        found += zip(names, *columns, strict=True)
    return found


def write_text(path: Path, text: str) -> Path:
    path.write_bytes(
        gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode()
    )
    return path


@pytest.mark.parametrize("name", ["load.csv", "load.csv.gz"])
def test_a_table_without_a_first_line(tmp_path: Path, name: str) -> None:
    path = write_text(tmp_path / name, "a,x,1.5,2\n\nb,,100,>24\na,y,7,3\n")

    assert rows(read_csv, path, BARE) == [("a", 1.5, 2), ("b", 100, 30), ("a", 7, 3)]


def test_a_first_line_names_the_columns_in_any_order(tmp_path: Path) -> None:
    path = write_text(tmp_path / "load.csv", "\ufeffsize, load ,guest,more\n2,5,a,x\n")

    assert rows(read_csv, path, NAMED) == [("a", 5, 2)]


def test_what_is_missing_or_marked_is_unknown(tmp_path: Path) -> None:
    path = write_text(tmp_path / "load.csv", "a,x,,2\na,x,-1,2\n")

    assert np.isnan([row[1] for row in rows(read_csv, path, BARE)]).all()


@pytest.mark.parametrize(
    ("text", "detail", "code"),
    [
        ("", "Empty", DiagnosticCode.UNUSABLE_FILE),
        (
            "a,x,1,2\n\nb,x,q,2\n",
            r"line 3: load: expected .* \[0, 100\], got 'q'",
            DiagnosticCode.WRONG_TYPE,
        ),
        ("a,x,101,2\n", "line 1: load: .* got '101'", DiagnosticCode.OUT_OF_RANGE),
        ("a,x,nan,2\n", "line 1: load: .* got 'nan'", DiagnosticCode.WRONG_TYPE),
        ("a,x,inf,2\n", "line 1: load: .* got 'inf'", DiagnosticCode.OUT_OF_RANGE),
        (
            "a,x,1,\n",
            "line 1: size: expected a number of at least 1, got nothing",
            DiagnosticCode.MISSING_KEY,
        ),
        ("a,x,1,>64\n", "line 1: size: .* got '>64'", DiagnosticCode.WRONG_TYPE),
        (
            "a,x,1,2\na,x,1\n",
            "line 2: 3 values instead of 4: guest, other, load",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "a,x,1,2\na,x,1,2,3\n",
            "line 2: 5 values instead of 4",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            ",x,1,2\n",
            "line 1: guest: expected a name, got nothing",
            DiagnosticCode.MISSING_KEY,
        ),
    ],
)
def test_invalid_line_is_reported(
    tmp_path: Path, text: str, detail: str, code: DiagnosticCode
) -> None:
    with pytest.raises(
        InvalidFileError, match=f"load.csv.*{detail}", check=has_code(code)
    ):
        rows(read_csv, write_text(tmp_path / "load.csv", text), BARE)


def test_number_of_reported_lines_is_limited(tmp_path: Path) -> None:
    path = write_text(tmp_path / "load.csv", "a,x,q,2\n" * 100)

    with pytest.raises(InvalidFileError) as caught:
        rows(read_csv, path, BARE)

    assert len(caught.value.messages) == 6
    assert caught.value.messages[-1].endswith("load.csv: and more")


def test_missing_column_is_reported(tmp_path: Path) -> None:
    path = write_text(tmp_path / "load.csv", "guest,lod,size\na,1,2\n")

    with pytest.raises(
        InvalidFileError,
        match="no column 'load'; found guest, lod",
        check=has_code(DiagnosticCode.MISSING_KEY),
    ):
        rows(read_csv, path, NAMED)


def test_control_characters_in_header_are_escaped(
    tmp_path: Path,
) -> None:
    path = write_text(tmp_path / "load.csv", "guest,\x1b[2Jlod\n")

    with pytest.raises(
        InvalidFileError,
        match=r"found guest, '\\x1b\[2Jlod'",
        check=has_code(DiagnosticCode.MISSING_KEY),
    ):
        rows(read_csv, path, NAMED)


def test_duplicate_column_is_reported(tmp_path: Path) -> None:
    path = write_text(tmp_path / "load.csv", "guest,load,size,load\na,1,2,3\n")

    with pytest.raises(
        InvalidFileError,
        match="duplicate column 'load'",
        check=has_code(DiagnosticCode.DUPLICATE_KEY),
    ):
        rows(read_csv, path, NAMED)


def test_invalid_csv_is_reported(tmp_path: Path) -> None:
    first = write_text(tmp_path / "first.csv", "guest,\rload\n")
    long = write_text(tmp_path / "long.csv", "a,x,q,2\n" + "a" * 200_000 + ",x,1,2\n")

    with pytest.raises(
        InvalidFileError,
        match=r"first.csv, line 1: new-line",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        rows(read_csv, first, NAMED)
    with pytest.raises(
        InvalidFileError,
        match=r"long.csv, line 2: field larger",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        rows(read_csv, long, BARE)


def test_truncated_archive_is_reported(tmp_path: Path) -> None:
    path = write_text(tmp_path / "load.csv.gz", "a,x,1,2\n" * 100_000)
    path.write_bytes(path.read_bytes()[:-200])

    with pytest.raises(
        InvalidFileError,
        match=r"load.csv.gz: truncated",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        rows(read_csv, path, BARE)


def test_invalid_archive_is_reported(tmp_path: Path) -> None:
    (tmp_path / "load.csv.gz").write_bytes(b"a,x,1,2\n")

    with pytest.raises(
        InvalidFileError,
        match=r"load.csv.gz: damaged, or not compressed as",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        rows(read_csv, tmp_path / "load.csv.gz", BARE)


def test_binary_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "load.csv").write_bytes(b"\xff\xfe\x00,x,1,2\n")

    with pytest.raises(
        InvalidFileError,
        match=r"load.csv: .*UTF8",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        rows(read_csv, tmp_path / "load.csv", BARE)


def test_json_lines_are_read(tmp_path: Path) -> None:
    lines = [
        {"job": "7", "index": "1", "use": {"cpu": 0.5}, "more": [1, {"x": 2}]},
        {"job": "7", "index": "2", "use": {}},
        {"job": "7", "index": "1"},
        {"job": "7", "index": "1", "use": {"cpu": 1}},
    ]
    path = write_text(
        tmp_path / "use.json.gz", "\n".join(json.dumps(each) for each in lines)
    )

    found = rows(read_json, path, NESTED)

    assert [row[0] for row in found] == ["7-1", "7-2", "7-1", "7-1"]
    assert np.array_equal(
        [row[1] for row in found], [0.5, np.nan, np.nan, 1], equal_nan=True
    )


def test_blank_lines_and_marked_values_in_json(tmp_path: Path) -> None:
    form = TableFormat(key=("guest",), fields=(LOAD,))
    text = '{"guest": "a", "load": -1}\n\n{"guest": "b", "load": null}\n'

    found = rows(read_json, write_text(tmp_path / "use.json", text), form)

    assert [name for name, _ in found] == ["a", "b"]
    assert np.isnan([load for _, load in found]).all()


def test_whole_numbers_may_be_strings_or_not(tmp_path: Path) -> None:
    form = TableFormat(key=("job",), fields=(NumberColumn(name="time"),))
    strings = write_text(tmp_path / "a.json", '{"job": "7", "time": "1838400000000"}\n')
    numbers = write_text(tmp_path / "b.json", '{"job": 7, "time": 1838400000000}\n')

    assert rows(read_json, strings, form) == [("7", 1838400000000.0)]
    assert rows(read_json, numbers, form) == [("7", 1838400000000.0)]


@pytest.mark.parametrize(
    ("line", "detail", "code"),
    [
        (
            '{"job": "1", "index": "1", "use": {"cpu": -0.5}}',
            "use.cpu: .* got -0.5",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            '{"job": "1", "index": "1", "use": {"cpu": "much"}}',
            "use.cpu: .* 'much'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            '{"job": "1", "use": {"cpu": 0.5}}',
            "index: expected a name",
            DiagnosticCode.MISSING_KEY,
        ),
        ('{"job": "1", "index": ', "not JSON", DiagnosticCode.UNUSABLE_FILE),
        (
            '{"job": "1", "index": "1", "use": {"cpu": true}}',
            "use.cpu: .* got True",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            '{"job": "1", "index": "1", "use": {"cpu": NaN}}',
            "use.cpu: .* got nan",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            '{"job": "1", "index": "1", "use": {"cpu": "nan"}}',
            "use.cpu: .* 'nan'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            '{"job": "1", "index": "1", "use": {"cpu": 1e999}}',
            "use.cpu: .* got inf",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        ("[1]", "expected an object", DiagnosticCode.WRONG_TYPE),
        ("null", "expected an object", DiagnosticCode.WRONG_TYPE),
        ("\x00", "not JSON", DiagnosticCode.UNUSABLE_FILE),
        ("[" * 100_000, "not JSON", DiagnosticCode.UNUSABLE_FILE),
    ],
)
def test_invalid_object_is_reported(
    tmp_path: Path, line: str, detail: str, code: DiagnosticCode
) -> None:
    fine = '{"job": "1", "index": "1", "use": {"cpu": 0.5}}'
    path = write_text(tmp_path / "use.json", f"{fine}\n{line}\n")

    with pytest.raises(
        InvalidFileError, match=f"use.json, line 2: {detail}", check=has_code(code)
    ):
        rows(read_json, path, NESTED)


def test_file_without_objects_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFileError,
        match=r"use.json: empty",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        rows(read_json, write_text(tmp_path / "use.json", ""), NESTED)


def table(path: Path, **columns: list[object]) -> Path:
    parquet.write_table(pa.table(columns), path, row_group_size=2)
    return path


def test_parquet_with_columns_in_columns(tmp_path: Path) -> None:
    path = table(
        tmp_path / "use.parquet",
        job=[7, 7, 7],
        index=[1, 2, 1],
        use=[{"cpu": 0.5, "x": 1}, {"cpu": None, "x": 1}, None],
    )

    found = rows(read_parquet, path, NESTED)

    assert parquet_columns(only(path)) == ("job", "index", "use.cpu", "use.x")
    assert [row[0] for row in found] == ["7-1", "7-2", "7-1"]
    assert np.array_equal(
        [row[1] for row in found], [0.5, np.nan, np.nan], equal_nan=True
    )


@pytest.mark.parametrize(
    ("load", "detail", "code"),
    [
        ([1, 2, 101.5], "row 3: load: .* got 101.5", DiagnosticCode.OUT_OF_RANGE),
        ([1, float("nan"), 3], "row 2: load: .* got nan", DiagnosticCode.WRONG_TYPE),
        (
            ["1", "2", "3"],
            "load: expected numbers, got string",
            DiagnosticCode.WRONG_TYPE,
        ),
    ],
)
def test_invalid_parquet_value_is_reported(
    tmp_path: Path, load: list[object], detail: str, code: DiagnosticCode
) -> None:
    path = table(
        tmp_path / "use.parquet", guest=["a", "b", "c"], load=load, size=[1, 1, 1]
    )

    with pytest.raises(
        InvalidFileError, match=f"use.parquet.*{detail}", check=has_code(code)
    ):
        rows(read_parquet, path, NAMED)


def test_missing_name_in_parquet_is_reported(tmp_path: Path) -> None:
    path = table(tmp_path / "use.parquet", guest=["a", None], load=[1, 2], size=[1, 1])

    with pytest.raises(
        InvalidFileError,
        match="row 2: guest: expected a name",
        check=has_code(DiagnosticCode.MISSING_KEY),
    ):
        rows(read_parquet, path, NAMED)


@pytest.mark.parametrize(
    "content", [b"", b"guest,cpu\na,1\n", b"PAR1 and no more PAR1"]
)
def test_file_without_parquet_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "use.parquet").write_bytes(content)

    with pytest.raises(
        InvalidFileError,
        match=r"use.parquet: ",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        parquet_columns(only(tmp_path / "use.parquet"))


def test_damaged_parquet_is_reported(tmp_path: Path) -> None:
    path = table(tmp_path / "use.parquet", guest=["a"] * 9, load=[1] * 9, size=[1] * 9)
    content = path.read_bytes()
    pages = content.index(b"guest")
    path.write_bytes(content[:4] + b"\xff" * (pages - 4) + content[pages:])

    with pytest.raises(
        InvalidFileError,
        match=r"use.parquet: ",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        rows(read_parquet, path, NAMED)


def test_parquet_with_invalid_column_names_is_reported(tmp_path: Path) -> None:
    path = table(tmp_path / "use.parquet", guest=["a"], load=[1], size=[1])
    path.write_bytes(path.read_bytes().replace(b"guest", b"gu\xc9st"))

    with pytest.raises(
        InvalidFileError,
        match=r"use.parquet: .*utf-8",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        rows(read_parquet, path, NAMED)
