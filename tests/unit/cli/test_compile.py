"""Compiled code is made at set-up; until then plans are made without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import opendrs as package
from opendrs.config import snapshot_document
from opendrs.optimizer import SearchKind, select_search
from support.builders import cluster
from support.terminal import RunOpendrs

PROGRAM = [sys.executable, "-c", "from opendrs.cli.main import main; main()"]


def large_cluster(folder: Path) -> Path:
    """Write a cluster that is not small: 20 nodes, and 500 guests on half of them."""
    names = [f"n{i:02}" for i in range(20)]
    snapshot = cluster(
        nodes={name: 0.9 * (i < 10) for i, name in enumerate(names)},
        guests={f"g{i:03}": (names[i % 10], 0.018) for i in range(500)},
    )
    path = folder / "large.json"
    path.write_text(json.dumps(snapshot_document(snapshot)))
    return path


def run_program(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run opendrs in a process that can neither read nor write compiled code."""
    (folder / "file").touch()
    return subprocess.run(  # noqa: S603 - this program
        [*PROGRAM, *arguments],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(package.__file__).parents[1]),
            "OPENDRS_CACHE": str(folder / "file" / "below"),
            "HOME": str(folder / "file"),
            "COLUMNS": "200",
        },
        capture_output=True,
        text=True,
        check=True,
    )


def test_plan_without_compiled_code_has_a_note(
    tmp_path: Path,
) -> None:
    arguments = ("plan", str(large_cluster(tmp_path)), "--policy", "optimize")

    done = run_program(tmp_path, *arguments, "--format", "json")

    plan = json.loads(done.stdout)
    assert plan["after"]["imbalance"] < plan["before"]["imbalance"] / 3
    (note,) = [each for each in plan["notes"] if each.startswith("search: plain")]
    assert "opendrs compile" in note
    assert "compiling" not in done.stderr


@pytest.mark.slow
def test_compilation_reports_its_progress(
    tmp_path: Path,
) -> None:
    arguments = ("plan", str(large_cluster(tmp_path)), "--policy", "optimize")

    done = run_program(tmp_path, *arguments, "--set", "search=compiled")

    for number in range(1, 6):
        assert f"compiling the search: {number} of 5, " in done.stderr
    assert "no writable directory" in done.stderr
    assert "search: plain" not in done.stdout


def test_uncompiled_search_can_be_requested(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    arguments = ("plan", str(large_cluster(tmp_path)), "--policy", "optimize")

    command = opendrs(*arguments, "--set", "search=plain")

    assert command.status == 0
    assert "search: plain\n" in command.out


def test_plan_with_compiled_code_has_no_note(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    planned = opendrs("plan", str(large_cluster(tmp_path)), "--policy", "optimize")

    assert planned.status == 0
    assert "search:" not in planned.out


@pytest.mark.slow
def test_compile_reports_its_directory(opendrs: RunOpendrs, tmp_path: Path) -> None:
    select_search(SearchKind.COMPILED)  # loaded in this process
    directory = tmp_path / "cache"

    absent = opendrs("compile", "--check", "--to", str(directory))
    first = opendrs("compile", "--to", str(directory))
    second = opendrs("compile", "--to", str(directory))
    present = opendrs("compile", "--check", "--to", str(directory))

    assert (absent.status, first.status, second.status, present.status) == (1, 0, 0, 0)
    assert "created in" in first.out
    assert "up to date" in second.out
    (folder,) = directory.glob("compiled-*")
    assert str(folder) in present.out


def test_compile_to_read_only_directory_fails(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    rejected = opendrs("compile", "--to", str(tmp_path / "file" / "below"))

    assert rejected.status == 3
    assert str(tmp_path / "file" / "below") in rejected.err
