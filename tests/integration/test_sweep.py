"""A sweep that is killed, stopped or out of disk space loses no results."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import tomli_w
from pyarrow import parquet

from support.sweeps import SMALL_SWEEP

PROGRAM = str(Path(sys.executable).with_name("opendrs"))
RESULTS, JOURNAL = Path("grid.parquet"), Path("grid.parquet.journal")
RUNS = 24
LEFT = 8  # runs that are left when a sweep is interrupted
WAIT_TIMEOUT = 120.0  # s, on a machine that is busy with other tests

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fixture_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def grid(runs: int = RUNS) -> None:
    """Write the sweep file."""
    document = {
        **SMALL_SWEEP,
        "seed": list(range(runs)),
        "policies": [{"name": "lr-mmt"}],
    }
    Path("grid.toml").write_text(tomli_w.dumps(document))


@contextmanager
def sweep(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Begin a sweep; it is not left behind."""
    with subprocess.Popen(  # noqa: S603 - our own program
        [PROGRAM, "sweep", "grid.toml", "--format", "json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def done(*options: str) -> dict[str, int]:
    """Run the sweep to its end and return what it says of it."""
    with sweep(*options) as process:
        out, err = process.communicate(timeout=WAIT_TIMEOUT)
    assert process.returncode == 0, err
    document: dict[str, int] = json.loads(out)
    return document


def journal() -> list[str]:
    """Return which runs are in the journal: those whose lines are whole."""
    content = JOURNAL.read_bytes() if JOURNAL.exists() else b""
    lines = content[: content.rfind(b"\n") + 1].splitlines()[1:]
    return [json.loads(line)["id"] for line in lines]


@contextmanager
def stopped_sweep(
    is_reached: Callable[[subprocess.Popen[str]], bool], most: int, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """Begin a sweep, and stop all its processes at a moment; they are continued later.

    On a busy machine it may have gone too far before it is stopped; another one is
    begun then.

    Args:
        is_reached: Whether the moment has come.
        most: Runs that may be kept at that moment.
        options: Options of the sweep.
    """
    files = {path: path.read_bytes() for path in (RESULTS, JOURNAL) if path.exists()}
    end = time.monotonic() + WAIT_TIMEOUT
    while time.monotonic() < end:
        with sweep(*options) as process:
            while process.poll() is None and not is_reached(process):
                time.sleep(0.002)  # noqa: TID251 - for another process
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGSTOP)
            try:
                if process.poll() is None and len(journal()) <= most:
                    yield process
                    return
            finally:
                process.kill()
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGCONT)
                process.wait()
        for path in (RESULTS, JOURNAL):
            path.unlink(missing_ok=True)
        for path, content in files.items():
            path.write_bytes(content)
    pytest.fail("no sweep was stopped in time")


def has_rows(count: int) -> Callable[[subprocess.Popen[str]], bool]:
    """Return a function that is true once at least *count* runs are kept."""
    return lambda _: len(journal()) >= count


def children(pid: int) -> list[int]:
    """Return which processes the process *pid* has begun."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def runs(pid: int) -> bool:
    """Return whether a process runs: it is there, and does not wait to be buried."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_the_end(of: list[int]) -> None:
    """Wait until all *of* them have ended by themselves."""
    end = time.monotonic() + WAIT_TIMEOUT
    while any(runs(pid) for pid in of):
        assert time.monotonic() < end
        threading.Event().wait(0.02)


def interrupted(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C at a stopped sweep; return what it wrote."""
    os.killpg(process.pid, signal.SIGINT)  # all of them, as a terminal does
    os.killpg(process.pid, signal.SIGCONT)
    return process.communicate(timeout=WAIT_TIMEOUT)


def test_killed_sweep_computes_each_run_once() -> None:
    grid()
    kept: list[str] = []
    for more in (1, 5):
        rows = has_rows(len(kept) + more)
        most = RUNS - LEFT if more == 1 else RUNS - 1
        with stopped_sweep(rows, most, "--jobs", "2") as process:
            workers = children(process.pid)
        assert process.returncode == -signal.SIGKILL
        assert len(workers) >= 2
        wait_for_the_end(workers)
        assert not RESULTS.exists()
        found = journal()
        assert found[: len(kept)] == kept
        assert len(found) == len(set(found)) >= len(kept) + more
        kept = found

    document = done("--jobs", "2")

    assert (document["runs"], document["computed"]) == (RUNS, RUNS - len(kept))
    rows = parquet.read_table(RESULTS).to_pylist()
    assert sorted(row["seed"] for row in rows) == list(range(RUNS))
    assert set(kept) <= {row["id"] for row in rows}
    assert not JOURNAL.exists()
    done("--jobs", "1", "--out", "whole.parquet")
    assert RESULTS.read_bytes() == Path("whole.parquet").read_bytes()


def test_results_stay_as_they_were_when_more_is_killed() -> None:
    grid(runs=2)
    done("--jobs", "1")
    before = RESULTS.read_bytes()
    grid()

    with stopped_sweep(has_rows(3), RUNS - LEFT, "--jobs", "1") as process:
        pass

    assert process.returncode == -signal.SIGKILL
    assert RESULTS.read_bytes() == before
    kept = len(journal())
    assert done("--jobs", "1")["computed"] == RUNS - 2 - kept


def test_ctrl_c_reports_completed_runs() -> None:
    grid()

    with stopped_sweep(has_rows(2), RUNS - LEFT, "--jobs", "2") as process:
        out, err = interrupted(process)

    kept = len(journal())
    assert process.returncode == 130
    assert out == ""
    assert err.strip() == (
        f"opendrs: interrupted: {kept} of {RUNS} runs finished and stored; "
        "repeat the command to continue"
    )


def test_ctrl_c_during_process_start_is_quiet() -> None:
    grid()

    def has_children(process: subprocess.Popen[str]) -> bool:
        return len(children(process.pid)) >= 3  # the third keeps account of the others

    with stopped_sweep(has_children, 0, "--jobs", "2") as process:
        out, err = interrupted(process)

    assert (process.returncode, out, err.strip()) == (130, "", "")
    assert [each.name for each in Path().iterdir()] == ["grid.toml"]


def test_two_sweeps_with_the_same_results_do_not_mix() -> None:
    grid()
    with stopped_sweep(has_rows(1), RUNS - LEFT, "--jobs", "1") as first:
        with sweep("--jobs", "1") as second:
            _, err = second.communicate(timeout=WAIT_TIMEOUT)
        os.killpg(first.pid, signal.SIGCONT)
        first.communicate(timeout=WAIT_TIMEOUT)

    assert second.returncode == 3
    assert "grid.parquet.journal: another sweep writes to it" in err
    assert first.returncode == 0
    assert len(parquet.read_table(RESULTS)) == RUNS


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limit the files of processes started inside the `with` to *size* bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("free_space", "status", "message", "kept"),
    [
        (6_000, 3, "cannot write grid.parquet.journal: File too large", range(1, 4)),
        (20_000, 2, "File too large", range(4, 5)),
    ],
)
def test_full_disk_keeps_completed_runs(
    free_space: int, status: int, message: str, kept: range
) -> None:
    grid(runs=4)

    with largest_file(free_space), sweep("--jobs", "1") as process:
        out, err = process.communicate(timeout=WAIT_TIMEOUT)

    assert (process.returncode, out) == (status, "")
    assert message in err
    assert "Traceback" not in err
    assert sorted(each.name for each in Path().iterdir()) == [
        "grid.parquet.journal",
        "grid.toml",
    ]
    found = len(journal())
    assert found in kept
    assert done("--jobs", "1")["computed"] == 4 - found
    assert len(parquet.read_table(RESULTS)) == 4
