"""Compiled code is kept for other processes, and only sound code is loaded."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from opendrs.controller import compiled_code
from opendrs.controller.compiled_code import (
    MANIFEST,
    CompiledCodeProvider,
    ensure_folder,
    find_folder_in,
    load_folder,
)
from opendrs.errors import StoreError
from opendrs.optimizer import SearchKind, select_search


def silent(_line: str) -> None:
    pass


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only directory where compiled code is looked for; it holds some."""
    select_search(SearchKind.COMPILED)  # loaded in this process
    place = tmp_path / "cache"
    ensure_folder(silent, place)
    monkeypatch.setattr(compiled_code, "cache_directories", lambda: (place,))
    return place


def folder_in(directory: Path) -> Path:
    folder = find_folder_in(directory)
    assert folder is not None
    return folder


def test_written_code_is_found_and_loaded(directory: Path) -> None:
    lines: list[str] = []

    assert load_folder(folder_in(directory))
    assert CompiledCodeProvider(lines.append)(False)  # noqa: FBT003 - a provision takes one argument
    assert lines == []


def test_a_second_compilation_changes_nothing(directory: Path) -> None:
    before = {each: each.stat().st_mtime_ns for each in directory.rglob("*.bin")}

    folder, new = ensure_folder(silent, directory)

    assert (folder, new) == (folder_in(directory), False)
    after = {each: each.stat().st_mtime_ns for each in directory.rglob("*.bin")}
    assert after == before


def test_waiting_for_other_compilation_is_reported(directory: Path) -> None:
    lines: list[str] = []
    with (directory / ".compiled.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def release(line: str) -> None:
            lines.append(line)
            fcntl.flock(lock, fcntl.LOCK_UN)

        ensure_folder(release, directory)

    place = f"compiled code: another process compiles: {directory}; waiting"
    assert lines == [place]


@pytest.mark.parametrize("content", [b"", b"not machine code"])
def test_damaged_code_is_not_loaded_and_is_named(
    directory: Path, content: bytes
) -> None:
    folder = folder_in(directory)
    (folder / "anneal.bin").write_bytes(content)
    lines: list[str] = []

    assert not CompiledCodeProvider(lines.append)(False)  # noqa: FBT003
    (line,) = lines
    assert f"{folder}: damaged" in line
    assert "opendrs compile" in line


def test_damaged_code_is_replaced_by_what_another_directory_holds(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_in(directory)
    other = tmp_path / "other"
    ensure_folder(silent, other)
    (folder / "anneal.bin").write_bytes(b"")
    monkeypatch.setattr(compiled_code, "cache_directories", lambda: (other, directory))

    assert ensure_folder(silent, directory) == (folder, True)
    assert load_folder(folder)


@pytest.mark.parametrize("part", ["opendrs", "numba", "python", "processor"])
def test_code_of_other_version_is_not_loaded_and_difference_is_reported(
    directory: Path, part: str
) -> None:
    folder = folder_in(directory)
    about = json.loads((folder / MANIFEST).read_text())
    about["version"][part] = "another"
    (folder / MANIFEST).write_text(json.dumps(about))
    folder.rename(directory / "compiled-0123456789abcdef")
    lines: list[str] = []

    assert not CompiledCodeProvider(lines.append)(False)  # noqa: FBT003
    (line,) = lines
    assert f": {part}" in line


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_code_writable_by_others_is_not_loaded(directory: Path, mode: int) -> None:
    folder = folder_in(directory)
    folder.chmod(mode)
    lines: list[str] = []

    assert not CompiledCodeProvider(lines.append)(False)  # noqa: FBT003
    assert len(lines) == 1


def test_code_behind_symlink_is_not_loaded(directory: Path, tmp_path: Path) -> None:
    folder = folder_in(directory)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")

    assert find_folder_in(directory) is None


def test_code_that_cannot_be_written_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    select_search(SearchKind.COMPILED)  # loaded in this process
    place = tmp_path / "cache"
    (place / ".compiled.lock").mkdir(parents=True)  # cannot be opened for writing
    monkeypatch.setattr(compiled_code, "cache_directories", lambda: (place,))
    lines: list[str] = []

    assert CompiledCodeProvider(lines.append)(True)  # noqa: FBT003
    assert str(place) in lines[0]


def test_without_compiled_code_nothing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        compiled_code, "cache_directories", lambda: (tmp_path / "none",)
    )
    lines: list[str] = []

    assert not CompiledCodeProvider(lines.append)(False)  # noqa: FBT003
    assert lines == []


def test_compile_without_writable_directory_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(compiled_code, "cache_directories", lambda: (file / "below",))

    with pytest.raises(StoreError, match="no writable directory"):
        ensure_folder(silent)


def test_the_environment_names_the_directories() -> None:
    home = {"XDG_CACHE_HOME": "/c"}
    beside = Path(compiled_code.__file__).parents[1] / "__pycache__"

    assert compiled_code.cache_directories(home) == (beside, Path("/c/opendrs"))
    assert compiled_code.cache_directories(home | {"NUMBA_CACHE_DIR": "/b"}) == (
        Path("/b"),
        beside,
        Path("/c/opendrs"),
    )
    assert compiled_code.cache_directories(home | {"OPENDRS_CACHE": "/a"}) == (
        Path("/a"),
    )


def environment(directory: Path, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process that finds code in *directory* only."""
    path = str(Path(compiled_code.__file__).parents[2])
    beside = {name: os.environ[name] for name in ("PATH",)}
    return beside | {
        "PYTHONPATH": path,
        "OPENDRS_CACHE": str(directory),
        "XDG_CACHE_HOME": str(tmp_path / "home"),
    }


COMPILE = [sys.executable, "-m", "opendrs.controller.compiled_code"]


@pytest.mark.slow
def test_killed_compilation_blocks_nothing(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "cache"
    process = subprocess.Popen(  # noqa: S603 - this program
        [*COMPILE, str(directory)], env=environment(directory, tmp_path)
    )
    while not directory.exists():
        time.sleep(0.05)  # noqa: TID251 - another process
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert find_folder_in(directory) is None
    (directory / ".new-killed").mkdir()  # as if it had been killed while it wrote
    folder, new = ensure_folder(silent, directory)

    assert new
    assert load_folder(folder)
    assert not list(directory.glob(".new-*"))


@pytest.mark.slow
def test_background_compilation_is_used_when_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "cache"
    monkeypatch.setattr(compiled_code, "cache_directories", lambda: (place,))
    lines: list[str] = []
    supply = CompiledCodeProvider(lines.append, background=True)

    assert not supply(False)  # noqa: FBT003
    while not supply(False):  # noqa: FBT003
        time.sleep(0.2)  # noqa: TID251 - another process
    supply.close()

    assert len(lines) == 2
    assert find_folder_in(place) is not None


def test_failed_background_compilation_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "cache"
    monkeypatch.setattr(compiled_code, "cache_directories", lambda: (place,))
    monkeypatch.setattr(
        compiled_code,
        "BACKGROUND_COMMAND",
        [sys.executable, "-c", "raise SystemExit('no memory')"],
    )
    lines: list[str] = []
    supply = CompiledCodeProvider(lines.append, background=True)

    assert not supply(False)  # noqa: FBT003
    while len(lines) < 2:
        assert not supply(False)  # noqa: FBT003
        time.sleep(0.05)  # noqa: TID251 - another process
    for _ in range(3):
        assert not supply(False)  # noqa: FBT003

    assert "no memory" in lines[1]
    assert len(lines) == 2


def test_closing_ends_the_process_and_removes_its_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_code, "cache_directories", lambda: ())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lines: list[str] = []
    supply = CompiledCodeProvider(lines.append, background=True)

    supply(False)  # noqa: FBT003
    assert list(tmp_path.glob("opendrs-compiled-*"))
    supply.close()

    assert not list(tmp_path.glob("opendrs-compiled-*"))
