"""Native trace format, in CSV and Parquet."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as files

from opendrs.errors import DiagnosticCode, InvalidFileError, InvalidSettingError
from opendrs.simulation.traces import (
    WindowSettings,
    read_native_csv,
    read_native_parquet,
)
from opendrs.simulation.workload import CpuUnit
from support.errors import has_code

TIMED = "time,guest,cpu\n300,a,2\n0,b,5\n600,a,3\n0,a,1\n600,b,7\n300,b,6\n"


def write_file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def table(path: Path, **columns: list[object]) -> Path:
    files.write_table(pa.table(columns), path)
    return path


def test_rows_with_time_may_be_in_any_order(tmp_path: Path) -> None:
    work = read_native_csv(write_file(tmp_path / "load.csv", TIMED))

    assert work.names == ("a", "b")
    assert work.interval == 300
    assert work.cpu.tolist() == [[0.01, 0.02, 0.03], [0.05, 0.06, 0.07]]


def test_the_interval_is_that_of_the_rows(tmp_path: Path) -> None:
    text = "guest,cpu,time\na,10,-60.5\na,30,-0.5\na,20,-30.5\n"

    work = read_native_csv(write_file(tmp_path / "load.csv", text))

    assert work.interval == 30
    assert work.cpu.tolist() == [[0.1, 0.2, 0.3]]


def test_times_may_be_off_by_rounding(tmp_path: Path) -> None:
    text = "guest,cpu,time\na,10,0.1\na,20,0.2\na,30,0.30000000000000004\na,40,0.4\n"

    assert read_native_csv(write_file(tmp_path / "load.csv", text)).cpu.shape == (1, 4)


def test_samples_may_be_numbered_instead(tmp_path: Path) -> None:
    text = "guest,cpu,sample\na,30,9\na,10,7\na,20,8\n"

    work = read_native_csv(write_file(tmp_path / "load.csv", text))

    assert work.interval == 300
    assert work.cpu.tolist() == [[0.1, 0.2, 0.3]]


def test_a_window_counts_from_the_first_sample(tmp_path: Path) -> None:
    path = write_file(tmp_path / "load.csv", TIMED)

    assert read_native_csv(path, WindowSettings(start=300)).cpu[0].tolist() == [
        0.02,
        0.03,
    ]
    assert read_native_csv(
        path, WindowSettings(start=300, length=600, max_guests=1)
    ).names == ("a",)


def test_irregular_times_need_interval(tmp_path: Path) -> None:
    text = "guest,cpu,time\na,10,0\na,20,300\na,30,700\na,40,1200\n"
    path = write_file(tmp_path / "load.csv", text)

    with pytest.raises(
        InvalidFileError,
        match="fixed distance, got 300 and 400 s",
        check=has_code(DiagnosticCode.INCONSISTENT),
    ):
        read_native_csv(path)
    assert read_native_csv(path, WindowSettings(interval=600)).cpu.tolist() == [
        pytest.approx([0.15, 0.3])
    ]


@pytest.mark.parametrize("interval", [None, 300.0])
def test_too_close_rows_are_reported(tmp_path: Path, interval: float | None) -> None:
    text = "guest,cpu,time\na,10,0\na,20,1e-310\na,30,300\n"
    path = write_file(tmp_path / "load.csv", text)

    with pytest.raises(
        InvalidFileError,
        match=r"0\.001 s apart, got 0 and 1e-310 s",
        check=has_code(DiagnosticCode.INCONSISTENT),
    ):
        read_native_csv(path, WindowSettings(interval=interval))


def test_too_many_samples_are_reported(tmp_path: Path) -> None:
    rows = "".join(f"vm{guest},1,{guest % 2 * 300}\n" for guest in range(2000))
    path = write_file(tmp_path / "load.csv", f"guest,cpu,time\n{rows}a,1,270000000\n")

    with pytest.raises(
        InvalidSettingError,
        match=r"load\.csv: at least 2,001 guests with 900,001 intervals each",
        check=has_code(DiagnosticCode.OUT_OF_RANGE),
    ):
        read_native_csv(path)


def test_duplicate_row_is_reported(tmp_path: Path) -> None:
    path = write_file(tmp_path / "load.csv", TIMED + "300,b,6\n")

    with pytest.raises(
        InvalidFileError,
        match="'b': too many samples from 300 to 600",
        check=has_code(DiagnosticCode.INCONSISTENT),
    ):
        read_native_csv(path)


def test_a_row_that_is_missing_is_not_zero(tmp_path: Path) -> None:
    text = TIMED.replace("300,a,2\n", "")
    work = read_native_csv(write_file(tmp_path / "load.csv", text))

    assert work.cpu[0].tolist() == [0.01, 0.01, 0.03]
    assert "1 sample of 1 guest" in work.notes[0]


def test_sizes_are_read(tmp_path: Path) -> None:
    text = "guest,cpu,cores,mips,memory_mb\nb,1,2,5000,4096\na,1,1,2000,512\n"
    work = read_native_csv(
        write_file(tmp_path / "load.csv", text + text.partition("\n")[2])
    )

    assert work.sizes is not None
    assert work.sizes.cpu_unit is CpuUnit.MIPS
    assert work.sizes.cpu.tolist() == [2000, 5000]
    assert work.sizes.cores is not None
    assert work.sizes.cores.tolist() == [1, 2]
    assert work.sizes.memory is not None
    assert work.sizes.memory.tolist() == [512, 4096]


def test_cores_alone_are_a_size_too(tmp_path: Path) -> None:
    text = "guest,cpu,cores\na,1,2\na,1,2\n"
    sizes = read_native_csv(write_file(tmp_path / "load.csv", text)).sizes

    assert sizes is not None
    assert sizes.cpu_unit is CpuUnit.CORES
    assert sizes.memory is None


@pytest.mark.parametrize(
    ("text", "detail", "code"),
    [
        (
            "guest,cpu,time\na,1,x\n",
            "line 2: time: expected a number, got 'x'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            "guest,cpu,time\na,1,nan\n",
            "line 2: time: .* got 'nan'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            "guest,cpu,sample\na,1,-1\n",
            "line 2: sample: .* at least 0, got '-1'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "guest,cpu,cores\na,1,0\n",
            "line 2: cores: .* at least 1, got '0'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "guest,cpu,time\na,1,0\na,1,0\n",
            "fewer than 2 samples",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        ("guest,cpu,time\n", "fewer than 2 samples", DiagnosticCode.OUT_OF_RANGE),
        ("guest,cpu\n", "no traces", DiagnosticCode.UNUSABLE_FILE),
    ],
)
def test_invalid_csv_is_reported(
    tmp_path: Path, text: str, detail: str, code: DiagnosticCode
) -> None:
    with pytest.raises(
        InvalidFileError, match=f"load.csv.*{detail}", check=has_code(code)
    ):
        read_native_csv(write_file(tmp_path / "load.csv", text))


def test_parquet_reads_like_csv(tmp_path: Path) -> None:
    path = table(
        tmp_path / "load.parquet",
        time=[300, 0, 0, 300],
        guest=["a", "b", "a", "b"],
        cpu=[2, 5, 1, 6],
        memory=[50.0, 60.0, 50.0, 120.0],
        cores=[2, 4, 2, 4],
    )

    work = read_native_parquet(path)

    assert work.names == ("a", "b")
    assert work.cpu.tolist() == [[0.01, 0.02], [0.05, 0.06]]
    assert work.memory is not None
    assert work.memory.tolist() == [[0.5, 0.5], [0.6, 1.0]]
    assert work.notes == ("memory above 100 % counts as 100 %: 1 guest",)
    assert work.sizes is not None
    assert work.sizes.cpu.tolist() == [2, 4]


def test_parquet_without_a_time_is_in_order(tmp_path: Path) -> None:
    path = table(
        tmp_path / "load.parquet", guest=["b", "a", "b", "a"], cpu=[1, 2, 3, 4]
    )

    assert read_native_parquet(path).cpu.tolist() == [[0.02, 0.04], [0.01, 0.03]]


def test_parquet_may_have_a_column_per_guest(tmp_path: Path) -> None:
    path = table(tmp_path / "load.parquet", time=[60, 0], b=[2, 1], a=[4, 3])

    work = read_native_parquet(path)

    assert work.names == ("a", "b")
    assert work.interval == 60
    assert work.cpu.tolist() == [[0.03, 0.04], [0.01, 0.02]]


@pytest.mark.parametrize(
    ("columns", "detail", "code"),
    [
        (
            {"cpu": [1, 2], "memory": [1, 2]},
            "no column 'guest'; found cpu, memory",
            DiagnosticCode.MISSING_KEY,
        ),
        ({"guest": ["a", "a"]}, "no column 'cpu'", DiagnosticCode.MISSING_KEY),
        (
            {"guest": ["a", "a"], "cpu": [1, 101]},
            "row 2: cpu: .* got 101",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            {"guest": ["a", "a"], "cpu": [1, None]},
            "row 2: cpu: .* got nothing",
            DiagnosticCode.MISSING_KEY,
        ),
        (
            {"guest": ["a", "a"], "cpu": ["1", "2"]},
            "cpu: expected numbers",
            DiagnosticCode.WRONG_TYPE,
        ),
        ({"time": [1, 2]}, "no column besides 'time'", DiagnosticCode.MISSING_KEY),
        (
            {"time": [1, 2], "a": [1, -1]},
            "row 2: a: .* got -1",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            {"guest": [], "cpu": pa.array([], pa.float64())},
            "no traces",
            DiagnosticCode.UNUSABLE_FILE,
        ),
    ],
)
def test_invalid_parquet_is_reported(
    tmp_path: Path, columns: dict[str, list[object]], detail: str, code: DiagnosticCode
) -> None:
    path = table(tmp_path / "load.parquet", **columns)

    with pytest.raises(
        InvalidFileError, match=f"load.parquet.*{detail}", check=has_code(code)
    ):
        read_native_parquet(path)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    for read in (read_native_csv, read_native_parquet):
        with pytest.raises(
            InvalidFileError,
            match="No such file",
            check=has_code(DiagnosticCode.UNUSABLE_FILE),
        ):
            read(tmp_path / "missing")
        with pytest.raises(
            InvalidFileError,
            match="expected a file, got a directory",
            check=has_code(DiagnosticCode.UNUSABLE_FILE),
        ):
            read(tmp_path)
        with pytest.raises(
            InvalidFileError,
            match="expected a file, got an archive",
            check=has_code(DiagnosticCode.UNUSABLE_FILE),
        ):
            read(tmp_path / "load.zip")


def test_csv_may_be_compressed(tmp_path: Path) -> None:
    (tmp_path / "load.csv.gz").write_bytes(gzip.compress(TIMED.encode()))

    assert read_native_csv(tmp_path / "load.csv.gz").names == ("a", "b")


def test_window_beyond_rows_is_reported(tmp_path: Path) -> None:
    path = write_file(tmp_path / "load.csv", TIMED)

    with pytest.raises(
        InvalidSettingError,
        match="at least 2 intervals",
        check=has_code(DiagnosticCode.OUT_OF_RANGE),
    ):
        read_native_csv(path, WindowSettings(start=600))
    with pytest.raises(
        InvalidFileError,
        match="choose another start",
        check=has_code(DiagnosticCode.INCOMPLETE),
    ):
        read_native_csv(path, WindowSettings(start=3600, length=3600))
