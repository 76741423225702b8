"""Limits on the expansion of compressed files."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces import READERS, decompression, files
from opendrs.simulation.traces.files import trace_sources as files_of
from support.errors import has_code

SIZE = 80_000_000  # bytes, from which some 80,000 are left


class Zeros(io.RawIOBase):
    """File of endless zeros."""

    def read(self, size: int = -1) -> bytes:
        return bytes(size)


def read_all(path: Path) -> None:
    for source in files_of(path):
        with source.open() as content:
            while content.read(1 << 20):
                pass


def tar(path: Path) -> None:
    kind = path.suffix.removeprefix(".")
    with tarfile.open(path, f"w:{kind}") as archive:  # type: ignore[call-overload]
        member = tarfile.TarInfo("g1")
        member.size = SIZE
        archive.addfile(member, Zeros())


def write_zip(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("g1", "w") as member,
    ):
        member.write(bytes(SIZE))


def write_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes(SIZE)))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("day.tar.gz", tar),
        ("day.tar.xz", tar),
        ("day.tar.bz2", tar),
        ("day.zip", write_zip),
        ("day.gz", write_gzip),
    ],
)
def test_excessive_expansion_is_rejected(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    path = tmp_path / name
    make(path)

    with pytest.raises(
        InvalidFileError,
        match="expands to more than 100 times",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_all(path)


def test_repeated_read_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "day.gz"
    path.write_bytes(gzip.compress(bytes(decompression.MIN_LIMIT)))

    (source,) = files_of(path)
    for _ in range(3):
        with source.open() as content:
            size = 0
            while part := content.read(1 << 20):
                size += len(part)
            assert size == decompression.MIN_LIMIT


def test_holes_of_a_sparse_file_count(tmp_path: Path) -> None:
    member = tarfile.TarInfo("g1")
    member.type = tarfile.GNUTYPE_SPARSE
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    head[483:495] = b"%011o\0" % (1 << 32)  # its size once expanded
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    (tmp_path / "day.tar").write_bytes(bytes(head) + bytes(1024))

    with pytest.raises(
        InvalidFileError,
        match="expands to more than 100 times",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_all(tmp_path / "day.tar")


def test_too_long_name_in_archive_is_rejected(
    tmp_path: Path,
) -> None:
    long = tmp_path / "long.tar"
    with tarfile.open(long, "w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("a" * 5000))
    with pytest.raises(
        InvalidFileError,
        match=r"long\.tar: aaa.*: name too long",
        check=has_code(DiagnosticCode.OUT_OF_RANGE),
    ):
        list(files_of(long))

    head = tarfile.TarInfo("././@LongLink")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    unlimited = tmp_path / "endless.tar.gz"
    with gzip.open(unlimited, "wb") as file:
        file.write(head.tobuf(tarfile.GNU_FORMAT))
        file.write(b"a" * (1 << 20))
    with pytest.raises(
        InvalidFileError,
        match=r"endless\.tar\.gz: damaged: a name",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        list(files_of(unlimited))


@pytest.mark.parametrize("name", ["day.tar", "day.zip", "day"])
def test_number_of_files_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 3)
    path = tmp_path / name
    for count in (3, 4):
        names = [f"g{number}" for number in range(count)]
        if name.endswith(".tar"):
            with tarfile.open(path, "w") as archive:
                for each in names:
                    archive.addfile(tarfile.TarInfo(each))
        elif name.endswith(".zip"):
            with zipfile.ZipFile(path, "w") as packed:
                for each in names:
                    packed.writestr(each, b"")
        else:
            path.mkdir(exist_ok=True)
            for each in names:
                (path / each).touch()
        if count == 3:
            assert [source.name for source in files_of(path)] == names
        else:
            with pytest.raises(
                InvalidFileError,
                match="more than 3 files",
                check=has_code(DiagnosticCode.OUT_OF_RANGE),
            ):
                list(files_of(path))


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("csv", "load.csv", b"guest,cpu\n" + b"1" * (9 << 20)),
        ("csv", "head.csv", b"1" * (2 << 20)),
        ("google2019", "instance_usage.json", b'{"a":"' + b"1" * (2 << 20)),
    ],
)
def test_too_long_line_is_rejected(
    tmp_path: Path, kind: str, name: str, text: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(text)

    with pytest.raises(
        InvalidFileError,
        match=r"line [12]: longer than 1 MiB",
        check=has_code(DiagnosticCode.OUT_OF_RANGE),
    ):
        READERS[kind](path)


def test_too_large_file_of_guest_is_rejected(tmp_path: Path) -> None:
    for kind, size in (("planetlab", 70_000), ("google", 17 << 20)):
        folder = tmp_path / kind
        folder.mkdir()
        (folder / "g1").write_bytes(b"1 1\n" * (size // 4))

        with pytest.raises(
            InvalidFileError,
            match=r"g1: larger than \d+ KiB",
            check=has_code(DiagnosticCode.UNUSABLE_FILE),
        ):
            READERS[kind](folder)


def test_parquet_with_excessive_expansion_is_rejected(
    tmp_path: Path,
) -> None:
    import pyarrow as pa  # noqa: PLC0415 - takes long to load
    from pyarrow import parquet  # noqa: PLC0415

    rows = 6_000_000
    table = pa.table({"guest": ["a"] * rows, "cpu": [1.0] * rows})
    path = tmp_path / "load.parquet"
    parquet.write_table(table, path)
    assert path.stat().st_size < 100_000

    with pytest.raises(
        InvalidFileError,
        match="expands to more than 100 times",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        READERS["parquet"](path)


def test_damaged_archive_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "day.tar.xz"
    content = bytearray(lzma.compress(bytes(100_000)))
    content[30] ^= 0xFF
    path.write_bytes(content)

    with pytest.raises(
        InvalidFileError,
        match=r"day\.tar\.xz: damaged, or not",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        list(files_of(path))
