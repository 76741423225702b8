"""Files of directories and archives."""

from __future__ import annotations

import gzip
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from opendrs.config import Diagnostic
from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces.files import (
    limited_error,
    trace_sources,
    wrap_read_errors,
)
from support.errors import has_code


def contents(path: Path, *, deep: bool = False) -> dict[str, bytes]:
    found = {}
    for source in trace_sources(path, recursive=deep):
        with wrap_read_errors(str(path)), source.open() as content:
            found[source.name] = content.read()
        with source.open() as again:
            assert again.read() == found[source.name]
    return found


def folder(path: Path) -> Path:
    for name, text in (("b", "2"), ("a", "1"), ("deep/c", "3"), (".hidden", "4")):
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return path


def test_a_directory_has_its_files_by_name(tmp_path: Path) -> None:
    path = folder(tmp_path / "day")

    assert list(contents(path).items()) == [("a", b"1"), ("b", b"2")]
    assert contents(path, deep=True) == {"a": b"1", "b": b"2", "deep/c": b"3"}


@pytest.mark.parametrize("name", ["day.tar", "day.tar.gz", "day.tgz", "day.tar.xz"])
def test_a_tar_archive_has_its_files(tmp_path: Path, name: str) -> None:
    path = folder(tmp_path / "day")
    mode = {"tar": "w", "xz": "w:xz"}.get(name.rpartition(".")[2], "w:gz")
    with tarfile.open(tmp_path / name, mode) as archive:  # type: ignore[call-overload]
        archive.add(path, ".")

    names = {each.removeprefix("./") for each in contents(tmp_path / name)}
    assert names == {"a", "b", "deep/c"}


@pytest.mark.parametrize("again", ["day/a", "./day/a"])
def test_duplicate_file_is_rejected(tmp_path: Path, again: str) -> None:
    path = folder(tmp_path / "day")
    with tarfile.open(tmp_path / "day.tar", "w") as archive:
        archive.add(path / "a", "day/a")
        archive.add(path / "b", again)

    with pytest.raises(
        InvalidFileError,
        match=r"day\.tar: \S+: duplicate file",
        check=has_code(DiagnosticCode.DUPLICATE_NAME),
    ):
        contents(tmp_path / "day.tar")


def test_a_zip_archive_has_its_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "day.zip", "w") as archive:
        archive.mkdir("day")
        archive.writestr("day/a", "1")
        archive.writestr("__MACOSX/day/a", "no trace")

    assert contents(tmp_path / "day.zip") == {"day/a": b"1"}


def test_a_file_alone_is_decompressed(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1"))

    assert contents(tmp_path / "a.csv.gz") == {"a.csv.gz": b"1"}


def test_unreadable_trace_is_reported(tmp_path: Path) -> None:
    for name in ("text.zip", "text.tar.gz"):
        (tmp_path / name).write_text("no archive")
    for name in ("empty.zip", "empty.tar.gz"):
        (tmp_path / name).touch()
    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as archive:
        archive.writestr("a", "1")
    # Bit 0 of the flags, in the directory at the end: encrypted.
    content = bytearray((tmp_path / "whole.zip").read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "locked.zip").write_bytes(content)

    for name, detail in (
        ("text.zip", "not a zip archive"),
        ("text.tar.gz", "not a tar archive"),
        ("empty.zip", "empty"),
        ("empty.tar.gz", "empty"),
        ("locked.zip", "encrypted: a"),
        ("missing", "No such file"),
    ):
        with pytest.raises(
            InvalidFileError,
            match=f"{name}: .*{detail}",
            check=has_code(DiagnosticCode.UNUSABLE_FILE),
        ):
            contents(tmp_path / name)


@pytest.mark.parametrize("left", [30, 1000])
def test_truncated_archive_is_reported_in_one_line(tmp_path: Path, left: int) -> None:
    (tmp_path / "noise").write_bytes(os.urandom(20_000))
    path = tmp_path / "day.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "noise", "day/noise")
    path.write_bytes(path.read_bytes()[:left])

    with pytest.raises(InvalidFileError) as caught:
        contents(path)
    assert str(caught.value) == f"{path}: truncated: its compressed data end too soon"


def test_first_diagnostics_are_reported_with_count_of_others() -> None:
    diagnostics = [
        Diagnostic((), f"file {number}", code=DiagnosticCode.INVALID_VALUE)
        for number in range(1000)
    ]

    error = limited_error("day", diagnostics)

    assert error.messages[-2:] == ("file 4", "day: and 995 more")
    assert error.codes == (DiagnosticCode.INVALID_VALUE,) * 6
    assert limited_error("day", diagnostics[:1]).messages == ("file 0",)
