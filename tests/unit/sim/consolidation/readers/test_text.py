"""PlanetLab, the series of 2011, and CSV."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.readers import google, plain, planetlab


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_day_of_planetlab_has_no_memory(tmp_path: Path) -> None:
    written(tmp_path / "b", "50\n" * 288)
    written(tmp_path / "a", "7\n" * 288)

    work = planetlab(tmp_path)

    assert work.names == ("a", "b")
    assert work.memory is None
    assert work.cpu[:, 0].tolist() == [0.07, 0.5]


def test_google_has_cpu_and_memory_and_memory_above_100_counts_as_100(
    tmp_path: Path,
) -> None:
    written(tmp_path / "a", "10.5 20\n11 215.3\n")

    work = google(tmp_path)

    assert work.cpu.tolist() == [[0.105, 0.11]]
    assert work.memory is not None
    assert work.memory.tolist() == [[0.2, 1.0]]
    assert work.notes == ("memory above 100 % counts as 100 %: 1 guests",)


def test_archives_are_read_like_directories(tmp_path: Path) -> None:
    written(tmp_path / "a", "10 20\n11 21\n")
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a", "day/a")

    assert google(tmp_path / "all.tar.gz").names == ("a",)


def test_lines_of_different_guests_may_be_mixed_in_csv(tmp_path: Path) -> None:
    text = "guest,cpu,memory\nb,1,50\na,3,60\nb,2,50\na,4,60\n"

    work = plain(written(tmp_path / "load.csv", text))

    assert work.names == ("a", "b")
    assert work.cpu.tolist() == [[0.03, 0.04], [0.01, 0.02]]
    assert work.memory is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no column 'guest'"),
        ("guest,load\na,1\n", "no column 'cpu'"),
        ("guest,cpu\n", "no traces"),
        ("guest,cpu\na,1\na,x\n", r"line 3: cpu: expected .* \[0, 100\], found 'x'"),
        ("guest,cpu\na,1\na,-1\n", r"line 3: cpu: expected .* found '-1'"),
        ("guest,cpu\na,1\na,101\n", r"line 3: cpu: expected .* found '101'"),
        ("guest,cpu\na,1\na,nan\n", r"line 3: cpu: expected .* found 'nan'"),
        ("guest,cpu,memory\na,1,inf\na,1,2\n", "line 2: memory: .* found 'inf'"),
        ("guest,cpu,memory\na,1,1\na,1\n", "line 3: 2 values instead of 3"),
        ("guest,cpu\na,1\n,2\n", "line 3: guest: expected a name, found nothing"),
        ("guest,cpu\na,1\na,2\nb,1\n", "b: 1 samples instead of 2"),
        ("guest,cpu\na,1\n", "a: fewer than 2 samples"),
        ("guest,cpu\na,\na,1\n", "line 2: cpu: expected .* found ''"),
        ("guest,cpu,memory_mb\na,1,9\na,1,9\n", "a column 'cores' or 'mips'"),
    ],
)
def test_says_what_is_wrong_with_a_csv_file(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(InvalidFileError, match=why):
        plain(written(tmp_path / "load.csv", text))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 2\n3\n", "a, line 2: 1 values instead of 2"),
        ("1 2\nx 2\n", "a, line 2: CPU: expected a number .* found 'x'"),
        ("1 2\n101 2\n", "a, line 2: CPU: expected .* found '101'"),
        ("1 2\n1 -2\n", "a, line 2: memory: expected .* found '-2'"),
        ("1 2\n", "a: fewer than 2 samples"),
        ("", "a: fewer than 2 samples"),
    ],
)
def test_says_what_is_wrong_with_a_file_of_two_columns(
    tmp_path: Path, text: str, why: str
) -> None:
    written(tmp_path / "a", text)

    with pytest.raises(InvalidFileError, match=why):
        google(tmp_path)


def test_says_that_there_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="no traces"):
        google(tmp_path)
    with pytest.raises(InvalidFileError, match="No such file"):
        plain(tmp_path / "missing.csv")
