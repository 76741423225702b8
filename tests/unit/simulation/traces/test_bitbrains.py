"""GWA-T-12, in small files of the published format."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from opendrs.errors import DiagnosticCode, InvalidFileError, InvalidSettingError
from opendrs.simulation.traces import WindowSettings, read_bitbrains
from opendrs.simulation.workload import CpuUnit, MemoryUnit, Workload
from support.errors import has_code

FIRST = (
    "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\t"
    "CPU usage [%];\tMemory capacity provisioned [KB];\tMemory usage [KB];\t"
    "Disk read throughput [KB/s];\tDisk write throughput [KB/s];\t"
    "Network received throughput [KB/s];\tNetwork transmitted throughput [KB/s]"
)
BEGIN = 1372629804
Row = tuple[float, float, float, float, float, float]  # as in `line`


def line(row: Row) -> str:
    time, cores, mhz, used, memory, memory_used = row
    share = 100 * used / mhz if mhz else 0.0
    words = (time, cores, mhz, used, share, memory, memory_used, 0.0, 21.7, 0.2, 1.4)
    return ";\t".join(str(word) for word in words)


def machine(path: Path, rows: Iterable[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join((FIRST, *(line(row) for row in rows))) + "\n")
    return path


def steady(share: float, samples: int = 4, begin: float = BEGIN) -> list[Row]:
    """Return samples of a guest of 2 cores, 5,000 MHz and 1 GB."""
    return [
        (begin + 300 * each, 2, 5000.0, 5000.0 * share, 1_048_576.0, 524_288.0)
        for each in range(samples)
    ]


def test_cpu_memory_and_sizes_are_as_in_trace(tmp_path: Path) -> None:
    machine(tmp_path / "10.csv", steady(0.5))
    machine(tmp_path / "2.csv", steady(0.25))

    work = read_bitbrains(tmp_path)

    assert work.names == ("10", "2")
    assert work.cpu.tolist() == [[0.5] * 4, [0.25] * 4]
    assert work.memory is not None
    assert work.memory.tolist() == [[0.5] * 4] * 2
    assert work.sizes is not None
    assert work.sizes.cpu_unit is CpuUnit.MIPS
    assert work.sizes.memory_unit is MemoryUnit.MB
    assert work.sizes.cpu.tolist() == [5000, 5000]
    assert work.sizes.cores is not None
    assert work.sizes.cores.tolist() == [2, 2]
    assert work.sizes.memory is not None
    assert work.sizes.memory.tolist() == [1024, 1024]
    assert work.notes == ()


def test_timestamps_may_be_milliseconds_as_their_name_says(tmp_path: Path) -> None:
    rows = [(1000 * time, *rest) for time, *rest in steady(0.5)]
    machine(tmp_path / "1.csv", rows)  # type: ignore[arg-type]

    assert read_bitbrains(tmp_path).cpu.shape == (1, 4)


def test_timestamps_may_drift(tmp_path: Path) -> None:
    rows = steady(0.5)
    drifting = [(time - each % 3, *rest) for each, (time, *rest) in enumerate(rows)]
    machine(tmp_path / "1.csv", drifting)  # type: ignore[arg-type]
    machine(tmp_path / "2.csv", steady(0.25, begin=BEGIN + 140))

    work = read_bitbrains(tmp_path)

    assert work.cpu.tolist() == [[0.5] * 4, [0.25] * 4]
    assert work.notes == ()


def test_cpu_is_relative_to_largest_capacity(tmp_path: Path) -> None:
    rows = steady(0.5)
    rows[0] = (*rows[0][:2], 2500.0, 2500.0, *rows[0][4:])
    machine(tmp_path / "1.csv", rows)

    assert read_bitbrains(tmp_path).cpu.tolist() == [[0.5] * 4]


def test_usage_above_capacity_is_clipped_with_note(tmp_path: Path) -> None:
    rows = [(*row[:3], 5100.0, row[4], row[4] + 1) for row in steady(0.5)]
    machine(tmp_path / "1.csv", rows)

    work = read_bitbrains(tmp_path)

    assert work.cpu.tolist() == [[1.0] * 4]
    assert work.notes == (
        "CPU above 100 % counts as 100 %: 1 guest",
        "memory above 100 % counts as 100 %: 1 guest",
    )


def test_guest_without_capacity_is_absent(tmp_path: Path) -> None:
    gone = [(time, 0, 0.0, 0.0, 0.0, 0.0) for time, *_ in steady(0.5)[2:]]
    machine(tmp_path / "1.csv", steady(0.5))
    machine(tmp_path / "2.csv", [*steady(0.5)[:2], *gone, *gone])

    work = read_bitbrains(tmp_path, WindowSettings(max_gap=0))

    assert work.names == ("1",)
    (note,) = work.notes
    assert note.endswith(": 1 of 2")


def test_samples_with_the_same_time_count_as_their_mean(tmp_path: Path) -> None:
    machine(tmp_path / "1.csv", [*steady(0.5), *steady(0.25)])

    work = read_bitbrains(tmp_path)

    assert work.cpu.tolist() == [[0.375] * 4]
    (note,) = work.notes
    assert note.endswith(": 4")


def test_samples_may_be_in_any_order(tmp_path: Path) -> None:
    rows = [(*row[:3], 1000.0 * each, *row[4:]) for each, row in enumerate(steady(0.5))]
    machine(tmp_path / "1.csv", reversed(rows))

    assert read_bitbrains(tmp_path).cpu.tolist() == [[0.0, 0.2, 0.4, 0.6]]


def test_months_are_folders(tmp_path: Path) -> None:
    machine(tmp_path / "2013-7/1.csv", steady(0.5))
    machine(tmp_path / "2013-8/1.csv", steady(0.25, begin=BEGIN + 1200))

    work = read_bitbrains(tmp_path, WindowSettings(start=1200))

    assert work.names == ("2013-8/1",)


def test_two_files_of_one_guest_are_reported(tmp_path: Path) -> None:
    packed = machine(tmp_path / "1.csv", steady(0.5)).read_bytes()
    (tmp_path / "1.csv.gz").write_bytes(gzip.compress(packed))

    with pytest.raises(
        InvalidFileError,
        match="2 files for guest '1'",
        check=has_code(DiagnosticCode.DUPLICATE_NAME),
    ):
        read_bitbrains(tmp_path)


def test_archives_are_read_like_directories(tmp_path: Path) -> None:
    path = machine(tmp_path / "month/1.csv", steady(0.5))
    with zipfile.ZipFile(tmp_path / "month.zip", "w") as archive:
        archive.write(path, "fastStorage/2013-8/1.csv")
        archive.writestr("__MACOSX/fastStorage/._1.csv", "no trace")
    with tarfile.open(tmp_path / "month.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "month", ".")

    def same(found: Workload) -> bool:
        return found.names == ("1",) and found.cpu.tolist() == [[0.5] * 4]

    assert same(read_bitbrains(tmp_path / "month.zip"))
    assert same(read_bitbrains(tmp_path / "month.tar.gz"))


@pytest.mark.parametrize(
    ("place", "word", "detail", "code"),
    [
        (
            0,
            "x",
            r"Timestamp \[ms\]: expected a number of at least 0, got 'x'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (1, "-2", "CPU cores: .* got '-2'", DiagnosticCode.OUT_OF_RANGE),
        (
            2,
            "nan",
            r"CPU capacity provisioned \[MHZ\]: .* got 'nan'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (3, "", r"CPU usage \[MHZ\]: .* got nothing", DiagnosticCode.MISSING_KEY),
        (6, "inf", r"Memory usage \[KB\]: .* got 'inf'", DiagnosticCode.OUT_OF_RANGE),
    ],
)
def test_invalid_line_is_reported(
    tmp_path: Path, place: int, word: str, detail: str, code: DiagnosticCode
) -> None:
    path = machine(tmp_path / "1.csv", steady(0.5))
    lines = path.read_text().splitlines()
    words = lines[2].split(";\t")
    words[place] = word
    lines[2] = ";\t".join(words)
    path.write_text("\n".join(lines))

    with pytest.raises(
        InvalidFileError, match=rf"1\.csv, line 3: {detail}", check=has_code(code)
    ):
        read_bitbrains(tmp_path)


@pytest.mark.parametrize(
    ("text", "detail", "code"),
    [
        ("", "no column 'Timestamp .ms.'", DiagnosticCode.MISSING_KEY),
        (
            FIRST.replace("CPU cores", "cores") + "\n",
            "no column 'CPU cores'; found",
            DiagnosticCode.MISSING_KEY,
        ),
        (FIRST + "\n", "no samples found", DiagnosticCode.UNUSABLE_FILE),
        (
            FIRST.replace(";\t", ",") + "\n1,2\n",
            "no column",
            DiagnosticCode.MISSING_KEY,
        ),
        (
            f"{FIRST}\n1372629804;\t2;\t5851.9\n",
            "line 2: 3 values instead of 11",
            DiagnosticCode.OUT_OF_RANGE,
        ),
    ],
)
def test_invalid_file_is_reported(
    tmp_path: Path, text: str, detail: str, code: DiagnosticCode
) -> None:
    (tmp_path / "1.csv").write_text(text)

    with pytest.raises(
        InvalidFileError, match=rf"1\.csv.*{detail}", check=has_code(code)
    ):
        read_bitbrains(tmp_path)


def test_directory_without_traces_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFileError,
        match="no traces",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_bitbrains(tmp_path)
    with pytest.raises(
        InvalidFileError,
        match="No such file",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_bitbrains(tmp_path / "missing")
    machine(tmp_path / "1.csv", [(BEGIN, 0, 0.0, 0.0, 0.0, 0.0)])
    with pytest.raises(
        InvalidFileError,
        match="no traces",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_bitbrains(tmp_path)


def test_empty_window_is_reported(tmp_path: Path) -> None:
    machine(tmp_path / "1.csv", steady(0.5))

    with pytest.raises(
        InvalidSettingError,
        match="at least 2 intervals",
        check=has_code(DiagnosticCode.OUT_OF_RANGE),
    ):
        read_bitbrains(tmp_path, WindowSettings(start=900))
    with pytest.raises(
        InvalidFileError,
        match="choose another start",
        check=has_code(DiagnosticCode.INCOMPLETE),
    ):
        read_bitbrains(tmp_path, WindowSettings(start=900, length=3600))
