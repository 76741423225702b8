"""Days of PlanetLab, from directories and archives, and their errors."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from opendrs.errors import DiagnosticCode, InvalidFileError, ModelError
from opendrs.simulation.traces import (
    Trace,
    read_google2011,
    read_native_csv,
    read_planetlab,
    read_planetlab_day,
)
from support.errors import has_code

DAY = [str(each % 100) for each in range(288)]


def directory(path: Path, **files: list[str]) -> Path:
    path.mkdir()
    for name, lines in files.items():
        (path / name).write_text("\n".join(lines) + "\n")
    return path


def archive(path: Path, folder: Path) -> Path:
    with tarfile.open(path, "w:gz") as made:
        made.add(folder, folder.name)
    return path


def test_guests_are_numbered_in_the_order_of_their_names(tmp_path: Path) -> None:
    trace = read_planetlab_day(directory(tmp_path / "day", b=DAY, a=["7"] * 288))

    assert trace.names == ("a", "b")
    assert trace.percent[0].tolist() == [7] * 288
    assert trace.percent[1].tolist() == [int(each) for each in DAY]


def test_an_archive_reads_as_the_directory_in_it(tmp_path: Path) -> None:
    folder = directory(tmp_path / "day", a=DAY, b=DAY[::-1])
    packed = read_planetlab_day(archive(tmp_path / "day.tar.gz", folder))

    assert packed.names == read_planetlab_day(folder).names
    assert np.array_equal(packed.percent, read_planetlab_day(folder).percent)


@pytest.mark.parametrize(
    ("lines", "message", "code"),
    [
        (DAY[:-1], "a: 287 samples instead of 288", DiagnosticCode.OUT_OF_RANGE),
        ([*DAY, "1"], "a: 289 samples instead of 288", DiagnosticCode.OUT_OF_RANGE),
        ([], "a: 0 samples", DiagnosticCode.OUT_OF_RANGE),
        (
            ["x", *DAY[1:]],
            "a, line 1: not a percentage: 'x'",
            DiagnosticCode.INVALID_VALUE,
        ),
        (
            [DAY[0], "-1", *DAY[2:]],
            "a, line 2: not a percentage: '-1'",
            DiagnosticCode.INVALID_VALUE,
        ),
        (
            [*DAY[:-1], "101"],
            "a, line 288: not a percentage: '101'",
            DiagnosticCode.INVALID_VALUE,
        ),
        ([*DAY[:-1], "1.5"], "not a percentage", DiagnosticCode.INVALID_VALUE),
        ([*DAY[:-1], "nan"], "not a percentage", DiagnosticCode.INVALID_VALUE),
        (
            [*DAY[:-1], "1" * 5000],
            "a, line 288: not a percentage: '1{20}'",
            DiagnosticCode.INVALID_VALUE,
        ),
        (
            [*DAY[:-1], "0" * 5000],
            "a, line 288: not a percentage: '0{20}'",
            DiagnosticCode.INVALID_VALUE,
        ),
    ],
)
def test_invalid_file_is_named(
    tmp_path: Path, lines: list[str], message: str, code: DiagnosticCode
) -> None:
    with pytest.raises(InvalidFileError, match=message, check=has_code(code)):
        read_planetlab_day(directory(tmp_path / "day", a=lines, b=DAY))


def test_all_invalid_files_are_named_at_once(tmp_path: Path) -> None:
    folder = directory(tmp_path / "day", a=["x"] * 288, b=DAY, c=DAY[1:])

    with pytest.raises(InvalidFileError) as caught:
        read_planetlab_day(folder)

    assert len(caught.value.messages) == 2


def test_duplicate_guest_name_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "days.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        for day in ("03", "06"):
            made.add(directory(tmp_path / day, vm=DAY), day)

    with pytest.raises(
        InvalidFileError,
        match=r"days\.tar\.gz: duplicate file name: 'vm'",
        check=has_code(DiagnosticCode.DUPLICATE_NAME),
    ):
        read_planetlab_day(path)


def test_path_without_traces_is_rejected(tmp_path: Path) -> None:
    empty = directory(tmp_path / "empty")
    (tmp_path / "text.tar.gz").write_text("not an archive")
    cut = tmp_path / "cut.tar.gz"
    whole = archive(tmp_path / "day.tar.gz", directory(tmp_path / "day", a=DAY))
    content = whole.read_bytes()
    cut.write_bytes(content[: len(content) // 2])
    for path in (
        empty,
        archive(tmp_path / "empty.tar.gz", empty),
        tmp_path / "text.tar.gz",
        cut,
        tmp_path / "missing",
    ):
        with pytest.raises(
            InvalidFileError,
            match=path.name,
            check=has_code(DiagnosticCode.UNUSABLE_FILE),
        ):
            read_planetlab_day(path)


@pytest.mark.parametrize(
    "percent", [[[1, 2], [3, 4]], [[1]], [[-1, 2]], [[1, 101]], [1, 2]]
)
def test_invalid_trace_is_rejected(percent: list[list[int]]) -> None:
    with pytest.raises(ModelError):
        Trace(("a",), np.array(percent))


def write_file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_day_of_planetlab_has_no_memory(tmp_path: Path) -> None:
    write_file(tmp_path / "b", "50\n" * 288)
    write_file(tmp_path / "a", "7\n" * 288)

    work = read_planetlab(tmp_path)

    assert work.names == ("a", "b")
    assert work.memory is None
    assert work.cpu[:, 0].tolist() == [0.07, 0.5]


def test_google_has_cpu_and_memory_and_memory_above_100_counts_as_100(
    tmp_path: Path,
) -> None:
    write_file(tmp_path / "a", "10.5 20\n11 215.3\n")

    work = read_google2011(tmp_path)

    assert work.cpu.tolist() == [[0.105, 0.11]]
    assert work.memory is not None
    assert work.memory.tolist() == [[0.2, 1.0]]
    assert work.notes == ("memory above 100 % counts as 100 %: 1 guest",)


def test_archives_are_read_like_directories(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "10 20\n11 21\n")
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a", "day/a")

    assert read_google2011(tmp_path / "all.tar.gz").names == ("a",)


def test_lines_of_different_guests_may_be_mixed_in_csv(tmp_path: Path) -> None:
    text = "guest,cpu,memory\nb,1,50\na,3,60\nb,2,50\na,4,60\n"

    work = read_native_csv(write_file(tmp_path / "load.csv", text))

    assert work.names == ("a", "b")
    assert work.cpu.tolist() == [[0.03, 0.04], [0.01, 0.02]]
    assert work.memory is not None


@pytest.mark.parametrize(
    ("text", "detail", "code"),
    [
        ("", "no column 'guest'", DiagnosticCode.MISSING_KEY),
        ("guest,load\na,1\n", "no column 'cpu'", DiagnosticCode.MISSING_KEY),
        ("guest,cpu\n", "no traces", DiagnosticCode.UNUSABLE_FILE),
        (
            "guest,cpu\na,1\na,x\n",
            r"line 3: cpu: expected .* \[0, 100\], got 'x'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            "guest,cpu\na,1\na,-1\n",
            r"line 3: cpu: expected .* got '-1'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "guest,cpu\na,1\na,101\n",
            r"line 3: cpu: expected .* got '101'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "guest,cpu\na,1\na,nan\n",
            r"line 3: cpu: expected .* got 'nan'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            "guest,cpu,memory\na,1,inf\na,1,2\n",
            "line 2: memory: .* got 'inf'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "guest,cpu,memory\na,1,1\na,1\n",
            "line 3: 2 values instead of 3",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "guest,cpu\na,1\n,2\n",
            "line 3: guest: expected a name, got nothing",
            DiagnosticCode.MISSING_KEY,
        ),
        (
            "guest,cpu\na,1\na,2\nb,1\n",
            "b: 1 sample instead of 2",
            DiagnosticCode.INCONSISTENT,
        ),
        ("guest,cpu\na,1\n", "a: fewer than 2 samples", DiagnosticCode.OUT_OF_RANGE),
        (
            "guest,cpu\na,\na,1\n",
            "line 2: cpu: expected .* got nothing",
            DiagnosticCode.MISSING_KEY,
        ),
        (
            "guest,cpu,memory_mb\na,1,9\na,1,9\n",
            "a column 'cores' or 'mips'",
            DiagnosticCode.MISSING_KEY,
        ),
    ],
)
def test_invalid_csv_file_is_reported(
    tmp_path: Path, text: str, detail: str, code: DiagnosticCode
) -> None:
    with pytest.raises(InvalidFileError, match=detail, check=has_code(code)):
        read_native_csv(write_file(tmp_path / "load.csv", text))


@pytest.mark.parametrize(
    ("text", "detail", "code"),
    [
        ("1 2\n3\n", "a, line 2: 1 value instead of 2", DiagnosticCode.OUT_OF_RANGE),
        (
            "1 2\nx 2\n",
            "a, line 2: CPU: expected a number .* got 'x'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            "1 2\n101 2\n",
            "a, line 2: CPU: expected .* got '101'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "1 2\n1 -2\n",
            "a, line 2: memory: expected .* got '-2'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        ("1 2\n", "a: fewer than 2 samples", DiagnosticCode.OUT_OF_RANGE),
        ("", "a: fewer than 2 samples", DiagnosticCode.OUT_OF_RANGE),
    ],
)
def test_invalid_google2011_file_is_reported(
    tmp_path: Path, text: str, detail: str, code: DiagnosticCode
) -> None:
    write_file(tmp_path / "a", text)

    with pytest.raises(InvalidFileError, match=detail, check=has_code(code)):
        read_google2011(tmp_path)


def test_empty_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFileError,
        match="no traces",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_google2011(tmp_path)
    with pytest.raises(
        InvalidFileError,
        match="No such file",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_native_csv(tmp_path / "missing.csv")
