"""Days of PlanetLab, from directories and archives, and what is wrong with them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from opendrs.errors import InvalidFileError, ModelError
from opendrs.sim.consolidation import Trace, read_planetlab

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
    trace = read_planetlab(directory(tmp_path / "day", b=DAY, a=["7"] * 288))

    assert trace.names == ("a", "b")
    assert trace.percent[0].tolist() == [7] * 288
    assert trace.percent[1].tolist() == [int(each) for each in DAY]


def test_an_archive_reads_as_the_directory_in_it(tmp_path: Path) -> None:
    folder = directory(tmp_path / "day", a=DAY, b=DAY[::-1])
    packed = read_planetlab(archive(tmp_path / "day.tar.gz", folder))

    assert packed.names == read_planetlab(folder).names
    assert np.array_equal(packed.percent, read_planetlab(folder).percent)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (DAY[:-1], "a: 287 samples instead of 288"),
        ([*DAY, "1"], "a: 289 samples instead of 288"),
        ([], "a: 0 samples"),
        (["x", *DAY[1:]], "a, line 1: not a percentage: 'x'"),
        ([DAY[0], "-1", *DAY[2:]], "a, line 2: not a percentage: '-1'"),
        ([*DAY[:-1], "101"], "a, line 288: not a percentage: '101'"),
        ([*DAY[:-1], "1.5"], "not a percentage"),
        ([*DAY[:-1], "nan"], "not a percentage"),
        ([*DAY[:-1], "1" * 5000], "a, line 288: not a percentage: '1{20}'"),
        ([*DAY[:-1], "0" * 5000], "a, line 288: not a percentage: '0{20}'"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, lines: list[str], complaint: str) -> None:
    with pytest.raises(InvalidFileError, match=complaint):
        read_planetlab(directory(tmp_path / "day", a=lines, b=DAY))


def test_all_bad_files_are_named_at_once(tmp_path: Path) -> None:
    folder = directory(tmp_path / "day", a=["x"] * 288, b=DAY, c=DAY[1:])

    with pytest.raises(InvalidFileError) as caught:
        read_planetlab(folder)

    assert len(caught.value.complaints) == 2


def test_a_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "days.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        for day in ("03", "06"):
            made.add(directory(tmp_path / day, vm=DAY), day)

    with pytest.raises(InvalidFileError, match=r"days\.tar\.gz: two files .* 'vm'"):
        read_planetlab(path)


def test_what_holds_no_traces_is_refused(tmp_path: Path) -> None:
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
        with pytest.raises(InvalidFileError, match=path.name):
            read_planetlab(path)


@pytest.mark.parametrize(
    "percent", [[[1, 2], [3, 4]], [[1]], [[-1, 2]], [[1, 101]], [1, 2]]
)
def test_a_trace_that_cannot_exist_is_refused(percent: list[list[int]]) -> None:
    with pytest.raises(ModelError):
        Trace(("a",), np.array(percent))
