"""Alibaba's trace of 2018, in small files of the published format."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from opendrs.errors import DiagnosticCode, InvalidFileError, InvalidSettingError
from opendrs.simulation.traces import WindowSettings, read_alibaba
from opendrs.simulation.workload import CpuUnit, MemoryUnit
from support.errors import has_code

SHORT = WindowSettings(length=600)


def usage(name: str, time: float, cpu: object, memory: object) -> str:
    return f"{name},m_2556,{time:.0f},{cpu},{memory},0.95,,,,,3"


def steady(name: str, cpu: object, memory: object, samples: int = 60) -> list[str]:
    return [usage(name, 10 * each, cpu, memory) for each in range(samples)]


def meta(name: str, cores: object = 400, memory: object = 1.56, time: int = 0) -> str:
    return f"{name},m_2556,{time},app_5052,started,{cores},{cores},{memory}"


def write_file(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{each}\n" for each in lines))
    return path


def test_containers_have_requested_size(tmp_path: Path) -> None:
    write_file(
        tmp_path / "container_usage.csv",
        [*steady("c_1", 20, 50), *steady("c_2", 40, 60)],
    )
    write_file(
        tmp_path / "container_meta.csv",
        [meta("c_1"), meta("c_2", 800, 3.12), meta("c_1", 400, 1.56, 287942)],
    )

    work = read_alibaba(tmp_path, SHORT)

    assert work.names == ("c_1", "c_2")
    assert work.interval == 300
    assert work.cpu.tolist() == [pytest.approx([0.2, 0.2]), pytest.approx([0.4, 0.4])]
    assert work.memory is not None
    assert work.memory[1].tolist() == pytest.approx([0.6, 0.6])
    assert work.sizes is not None
    assert work.sizes.cpu_unit is CpuUnit.CORES
    assert work.sizes.memory_unit is MemoryUnit.LARGEST_HOST
    assert work.sizes.cpu.tolist() == [4, 8]
    assert work.sizes.memory is not None
    assert work.sizes.memory.tolist() == pytest.approx([0.0156, 0.0312])
    assert work.notes == ()


def test_invalid_markers_are_unknown(tmp_path: Path) -> None:
    lines = steady("c_1", 20, 50)
    lines[3:6] = [
        usage("c_1", 30, -1, 50),
        usage("c_1", 40, 101, 101),
        usage("c_1", 50, "", ""),
    ]
    write_file(tmp_path / "container_usage.csv", lines)

    work = read_alibaba(tmp_path, SHORT)

    assert work.cpu[0].tolist() == pytest.approx([0.2, 0.2])
    assert work.memory is not None
    assert work.memory[0].tolist() == pytest.approx([0.5, 0.5])


def test_shorter_interval_is_supported(tmp_path: Path) -> None:
    lines = [usage("c_1", 10 * each, each, 50) for each in range(6)]
    write_file(tmp_path / "container_usage.csv", lines)

    work = read_alibaba(tmp_path, WindowSettings(length=60, interval=20))

    assert work.cpu.tolist() == [pytest.approx([0.005, 0.025, 0.045])]
    with pytest.raises(
        InvalidSettingError,
        match="at least 10 s",
        check=has_code(DiagnosticCode.OUT_OF_RANGE),
    ):
        read_alibaba(tmp_path, WindowSettings(length=60, interval=5))


def test_container_of_unknown_size_is_skipped(tmp_path: Path) -> None:
    lines = [line for each in range(4) for line in steady(f"c_{each}", 20, 50)]
    write_file(tmp_path / "container_usage.csv", lines)
    write_file(
        tmp_path / "container_meta.csv",
        [meta("c_0"), meta("c_1", 0), meta("c_2", 400, 101)],
    )

    work = read_alibaba(tmp_path, SHORT)

    assert work.names == ("c_0",)
    assert work.notes[0].endswith("or of unknown size: 3 of 4")


def test_machines_are_read_as_guests(tmp_path: Path) -> None:
    lines = [f"m_1932,{10 * each},37,83,,,43.08,33.12,3" for each in range(60)]
    path = write_file(tmp_path / "machine_usage.csv", lines)
    write_file(tmp_path / "machine_meta.csv", ["m_1932,0,15,10,96,100,USING"])

    work = read_alibaba(tmp_path, SHORT)

    assert work.names == read_alibaba(path, SHORT).names == ("m_1932",)
    assert work.cpu.tolist() == [pytest.approx([0.37, 0.37])]
    assert work.sizes is not None
    assert work.sizes.cpu.tolist() == [96]
    assert work.sizes.memory is not None
    assert work.sizes.memory.tolist() == [1]


def test_archives_are_read_as_they_are_published(tmp_path: Path) -> None:
    for name, lines in (
        ("container_usage", steady("c_1", 20, 50)),
        ("container_meta", [meta("c_1")]),
    ):
        path = write_file(tmp_path / f"{name}.csv", lines)
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(path, path.name)
        path.unlink()

    work = read_alibaba(tmp_path, SHORT)

    assert work.names == read_alibaba(tmp_path / "container_usage.tar.gz", SHORT).names
    assert work.sizes is not None


@pytest.mark.parametrize(
    ("line", "detail", "code"),
    [
        (
            usage("c_1", 10, "x", 1),
            r"cpu_util_percent: .* \[0, 100\], got 'x'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            usage("c_1", 10, 102, 1),
            "cpu_util_percent: .* got '102'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            usage("c_1", 10, -2, 1),
            "cpu_util_percent: .* got '-2'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            usage("c_1", 10, 1, "nan"),
            "mem_util_percent: .* got 'nan'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            "c_1,m_1,,1,1,,,,,,",
            "time_stamp: expected .* got nothing",
            DiagnosticCode.MISSING_KEY,
        ),
        (
            usage("", 10, 1, 1),
            "container_id: expected a name",
            DiagnosticCode.MISSING_KEY,
        ),
        ("c_1,m_1,10,1,1", "5 values instead of 11", DiagnosticCode.OUT_OF_RANGE),
    ],
)
def test_invalid_line_is_reported(
    tmp_path: Path, line: str, detail: str, code: DiagnosticCode
) -> None:
    write_file(tmp_path / "container_usage.csv", [usage("c_1", 0, 1, 1), line])

    with pytest.raises(
        InvalidFileError,
        match=rf"container_usage.csv, line 2: {detail}",
        check=has_code(code),
    ):
        read_alibaba(tmp_path)


def test_duplicate_samples_are_reported(tmp_path: Path) -> None:
    write_file(tmp_path / "container_usage.csv", [*steady("c_1", 1, 1, 30)] * 2)

    with pytest.raises(
        InvalidFileError,
        match="'c_1': too many samples from 0 to 300",
        check=has_code(DiagnosticCode.INCONSISTENT),
    ):
        read_alibaba(tmp_path, SHORT)


def test_error_of_empty_window_has_range_of_samples(tmp_path: Path) -> None:
    lines = [usage("c_1", 86_400 + 10 * each, 1, 1) for each in range(60)]
    write_file(tmp_path / "container_usage.csv", lines)

    with pytest.raises(
        InvalidFileError,
        match="between 86400 and 86990 s",
        check=has_code(DiagnosticCode.INCOMPLETE),
    ):
        read_alibaba(tmp_path, SHORT)
    assert read_alibaba(tmp_path, WindowSettings(start=86_400, length=600)).names == (
        "c_1",
    )


def test_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFileError,
        match=r"neither container_usage\.csv nor",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_alibaba(tmp_path)
    with pytest.raises(
        InvalidFileError,
        match="no such file",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_alibaba(tmp_path / "missing")
    other = write_file(tmp_path / "batch_task.csv", ["task"])
    with pytest.raises(
        InvalidFileError,
        match=r"neither container_usage\.csv nor",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_alibaba(other)
    write_file(tmp_path / "container_usage.csv", [])
    with pytest.raises(
        InvalidFileError, match="Empty", check=has_code(DiagnosticCode.UNUSABLE_FILE)
    ):
        read_alibaba(tmp_path)
