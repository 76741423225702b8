"""Azure's public data sets, in small files of the published format."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces import WindowSettings, read_azure
from opendrs.simulation.workload import CpuUnit, MemoryUnit
from support.errors import has_code

HOUR = WindowSettings(length=1200)
A, B = "x/XsOfHO4ocsV99i4NluqKDux", "+ZcrOp5/c/fJ6mVgP5qMZlOAG"


def machine(
    name: str,
    created: int = 0,
    deleted: int = 2591700,
    cores: str = "1",
    memory: str = "1.75",
) -> str:
    return (
        f"{name},VDU4C8cqdr,Pc2VLB8a==,{created},{deleted},99.369869,3.42,10.19,"
        f"Delay-insensitive,{cores},{memory}"
    )


def table(path: Path, *lines: str) -> None:
    (path / "vmtable.csv").write_text("".join(f"{each}\n" for each in lines))


def reading(time: float, name: str, percent: object) -> str:
    return f"{time:.0f},{name},0.5,99.0,{percent}"


def readings(path: Path, lines: Iterable[str], number: int = 1, of: int = 1) -> Path:
    file = path / f"vm_cpu_readings-file-{number}-of-{of}.csv"
    file.write_text("".join(f"{each}\n" for each in lines))
    return file


def steady(name: str, percent: float, samples: int = 4, start: int = 0) -> list[str]:
    return [reading(start + 300 * each, name, percent) for each in range(samples)]


def test_v1_has_cores_and_memory(tmp_path: Path) -> None:
    table(tmp_path, machine(A, cores="8", memory="56"), machine(B, memory="0.75"))
    readings(tmp_path, [*steady(A, 25), *steady(B, 50)])

    work = read_azure(tmp_path, HOUR)

    assert work.names == (B, A)
    assert work.cpu.tolist() == [[0.5] * 4, [0.25] * 4]
    assert work.memory is None
    assert work.sizes is not None
    assert work.sizes.cpu_unit is CpuUnit.CORES
    assert work.sizes.memory_unit is MemoryUnit.MB
    assert work.sizes.cpu.tolist() == [1, 8]
    assert work.sizes.memory is not None
    assert work.sizes.memory.tolist() == [768, 57_344]
    assert work.notes == (
        "memory usage was not recorded: guests use all of their memory",
    )


def test_v2_has_buckets(tmp_path: Path) -> None:
    table(tmp_path, machine(A, cores=">24", memory=">64"), machine(B, cores="24"))
    readings(tmp_path, [*steady(A, 25), *steady(B, 50)])

    sizes = read_azure(tmp_path, HOUR).sizes

    assert sizes is not None
    assert sizes.cpu.tolist() == [24, 30]
    assert sizes.memory is not None
    assert sizes.memory.tolist() == [1.75 * 1024, 70 * 1024]


def test_compressed_slices_in_subdirectories_are_merged(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "trace_data_vmtable_vmtable.csv.gz").write_bytes(
        gzip.compress(machine(A).encode())
    )
    lines = steady(A, 25)
    readings(tmp_path / "deep", lines[2:], number=10, of=10)
    first = "trace_data_vm_cpu_readings_vm_cpu_readings-file-9-of-10.csv.gz"
    (tmp_path / first).write_bytes(gzip.compress("\n".join(lines[:2]).encode()))

    work = read_azure(tmp_path, HOUR)

    assert work.cpu.tolist() == [[0.25] * 4]
    assert work.sizes is not None


def test_guests_created_or_deleted_in_window_are_skipped_with_note(
    tmp_path: Path,
) -> None:
    table(
        tmp_path,
        machine(A),
        machine(B, deleted=300),
        machine("late", created=600),
    )
    readings(tmp_path, [*steady(A, 25), *steady(B, 50, 2), *steady("late", 9, 2, 600)])

    work = read_azure(tmp_path, WindowSettings(length=1200, max_gap=0))

    assert work.names == (A,)
    assert ": 2 of 3" in work.notes[-1]


def test_last_reading_of_deleted_guest_counts(tmp_path: Path) -> None:
    table(tmp_path, machine(A, deleted=900))
    readings(tmp_path, steady(A, 25))

    assert read_azure(tmp_path, WindowSettings(length=1200, max_gap=0)).names == (A,)


def test_a_later_window(tmp_path: Path) -> None:
    table(tmp_path, machine(A))
    readings(tmp_path, [reading(300 * each, A, each) for each in range(10)])

    work = read_azure(tmp_path, WindowSettings(start=600, length=1200, interval=600))

    assert work.interval == 600
    assert work.cpu.tolist() == [pytest.approx([0.025, 0.045])]


def test_guests_without_vm_table_have_default_sizes(tmp_path: Path) -> None:
    readings(tmp_path, steady(A, 25))

    work = read_azure(tmp_path, HOUR)

    assert work.sizes is None
    assert "no vmtable.csv" in work.notes[-1]


def test_vm_table_of_other_version_is_reported(tmp_path: Path) -> None:
    table(tmp_path, machine(A), machine(B, deleted=0))
    readings(tmp_path, steady("other", 25))

    with pytest.raises(
        InvalidFileError, match="no samples", check=has_code(DiagnosticCode.INCOMPLETE)
    ) as caught:
        read_azure(tmp_path, WindowSettings(length=1200, max_gap=0))

    assert "1 of 2" in caught.value.messages[-1]


@pytest.mark.parametrize(
    ("line", "detail", "code"),
    [
        (
            reading(300, A, "x"),
            r"avgcpu: expected .* \[0, 100\], got 'x'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (reading(300, A, -0.1), "avgcpu: .* got '-0.1'", DiagnosticCode.OUT_OF_RANGE),
        (
            reading(300, A, 100.1),
            "avgcpu: .* got '100.1'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (reading(300, A, "NaN"), "avgcpu: .* got 'NaN'", DiagnosticCode.WRONG_TYPE),
        (reading(300, A, ""), "avgcpu: .* got nothing", DiagnosticCode.MISSING_KEY),
        (
            reading(-300, A, 1),
            "timestamp: .* got '-300'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (reading(300, "", 1), "vmid: expected a name", DiagnosticCode.MISSING_KEY),
        (
            f"300,{A},1,2",
            "4 values instead of 5: timestamp, vmid, mincpu",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "timestamp,vm id,min cpu,max cpu,avg cpu",
            "timestamp: .* 'timestamp'",
            DiagnosticCode.WRONG_TYPE,
        ),
    ],
)
def test_invalid_reading_is_reported(
    tmp_path: Path, line: str, detail: str, code: DiagnosticCode
) -> None:
    readings(tmp_path, [reading(0, A, 1), line])

    with pytest.raises(
        InvalidFileError,
        match=rf"file-1-of-1\.csv, line 2: {detail}",
        check=has_code(code),
    ):
        read_azure(tmp_path, HOUR)


@pytest.mark.parametrize(
    ("line", "detail", "code"),
    [
        (
            machine(A, cores=">64"),
            "cores: expected a number of at least 1, got '>64'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (machine(A, cores="0"), "cores: .* got '0'", DiagnosticCode.OUT_OF_RANGE),
        (machine(A, memory=""), "memory: .* got nothing", DiagnosticCode.MISSING_KEY),
        ("only,three,words", "3 values instead of 11", DiagnosticCode.OUT_OF_RANGE),
    ],
)
def test_invalid_line_of_vm_table_is_reported(
    tmp_path: Path, line: str, detail: str, code: DiagnosticCode
) -> None:
    table(tmp_path, machine(B), line)
    readings(tmp_path, steady(B, 25))

    with pytest.raises(
        InvalidFileError, match=rf"vmtable\.csv, line 2: {detail}", check=has_code(code)
    ):
        read_azure(tmp_path, HOUR)


def test_duplicate_reading_is_reported(tmp_path: Path) -> None:
    readings(tmp_path, [*steady(A, 25), reading(600, A, 30)])

    with pytest.raises(
        InvalidFileError,
        match="too many samples from 600 to 900",
        check=has_code(DiagnosticCode.INCONSISTENT),
    ):
        read_azure(tmp_path, HOUR)


def test_readings_outside_window_are_reported(tmp_path: Path) -> None:
    readings(tmp_path, steady(A, 25, start=86_400))
    (tmp_path / "schema.csv").write_text("no readings\n")

    with pytest.raises(
        InvalidFileError,
        match="choose another start",
        check=has_code(DiagnosticCode.INCOMPLETE),
    ):
        read_azure(tmp_path, HOUR)


def test_truncated_or_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFileError,
        match="no vm_cpu_readings",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_azure(tmp_path)
    with pytest.raises(
        InvalidFileError,
        match="No such file",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_azure(tmp_path / "missing")
    with pytest.raises(
        InvalidFileError,
        match="expected a directory, got a file",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_azure(readings(tmp_path, steady(A, 25)))
    packed = gzip.compress("".join(steady(A, 25, 10_000)).encode())
    (tmp_path / "vm_cpu_readings-file-2-of-2.csv.gz").write_bytes(packed[:-100])
    with pytest.raises(
        InvalidFileError,
        match="truncated",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_azure(tmp_path)
