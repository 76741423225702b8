"""A sweep on a real Dask cluster: the same results, and no end unnoticed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from distributed import Client
from pyarrow import parquet

import opendrs
from opendrs.simulation.sweep.dask_cluster import connect, run_on_cluster
from opendrs.simulation.sweep.tasks import run_task
from support.dask_cluster import STARTUP_TIMEOUT, DaskCluster, dask_cluster
from support.sweeps import SMALL_SWEEP, prepared_trials

PROGRAM = str(Path(sys.executable).with_name("opendrs"))
POLICIES = [{"name": ["none", "lr-mmt"]}]
OTHER = "import opendrs; opendrs.__version__ = '0.0.0'"
NONE = "raise ModuleNotFoundError"
MANY = list(range(100))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="two")
def fixture_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Give a cluster with two workers."""
    with dask_cluster(tmp_path_factory.mktemp("two"), 2) as found:
        yield found


@pytest.fixture(name="bare")
def fixture_bare(tmp_path: Path) -> Iterator[DaskCluster]:
    """Give a cluster without workers."""
    folder = tmp_path / "bare"
    folder.mkdir()
    with dask_cluster(folder, 0) as found:
        yield found


@pytest.fixture(name="place", autouse=True)
def fixture_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def grid(**tables: Any) -> None:  # noqa: ANN401 - a document
    document = {**SMALL_SWEEP, "policies": POLICIES, **tables}
    Path("grid.toml").write_text(tomli_w.dumps(document))


@contextmanager
def sweep(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Begin a sweep; it is not left behind."""
    with subprocess.Popen(  # noqa: S603 - our own program
        [PROGRAM, "sweep", "grid.toml", "--format", "json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def swept(*options: str) -> tuple[int, str, str]:
    """Run the sweep to its end; return its status and what it wrote."""
    with sweep(*options) as process:
        out, err = process.communicate(timeout=STARTUP_TIMEOUT)
    return process.returncode, out, err


def kept() -> int:
    """Return how many runs are in the journal."""
    path = Path("grid.parquet.journal")
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def wait_for_rows(process: subprocess.Popen[str], count: int) -> None:
    end = time.monotonic() + STARTUP_TIMEOUT
    while kept() < count:
        assert time.monotonic() < end
        with pytest.raises(subprocess.TimeoutExpired):  # or it ended too early
            process.wait(0.02)


def kill_after_rows(count: int, address: str) -> None:
    """Kill a sweep once *count* runs are kept; repeat it if it has ended before."""
    returncode = 0
    while returncode == 0:
        Path("grid.parquet").unlink(missing_ok=True)
        with sweep("--scheduler", address) as process:
            while process.poll() is None and kept() < count:
                time.sleep(0.02)  # noqa: TID251 - for another process
            process.kill()
            returncode = process.wait()
    assert returncode == -signal.SIGKILL


def test_dask_cluster_gives_the_local_results(two: DaskCluster) -> None:
    Path("day").mkdir()
    for name in ("a", "b"):  # where no worker looks for it
        (Path("day") / name).write_text("20\n60\n" * 144)
    grid(
        seed=[1, 2],
        workload=[
            {"kind": "planetlab", "path": "day"},
            {"kind": "synthetic", "guests": 8},
        ],
    )

    status, out, err = swept("--scheduler", two.address)
    swept("--jobs", "1", "--out", "local.parquet")

    assert (status, err) == (0, "")
    assert json.loads(out)["computed"] == 8
    assert Path("grid.parquet").read_bytes() == Path("local.parquet").read_bytes()


def test_killed_sweep_continues_on_the_cluster(two: DaskCluster) -> None:
    grid(seed=MANY[:12])
    kill_after_rows(3, two.address)
    before = kept()
    assert not Path("grid.parquet").exists()

    status, out, _ = swept("--jobs", "1")

    assert status == 0
    assert json.loads(out)["computed"] == 24 - before
    rows = parquet.read_table("grid.parquet").to_pylist()
    assert len({(row["policy"], row["seed"]) for row in rows}) == len(rows) == 24


def test_lost_scheduler_is_reported_and_runs_are_kept(
    bare: DaskCluster,
) -> None:
    grid(seed=MANY)

    with bare.worker(), sweep("--scheduler", bare.address) as process:
        wait_for_rows(process, 1)
        bare.scheduler.kill()
        out, err = process.communicate(timeout=STARTUP_TIMEOUT)

    assert (process.returncode, out) == (3, "")
    first, last = err.splitlines()
    assert first == (
        f"opendrs: interrupted: {kept()} of 200 runs finished and stored; "
        "repeat the command to continue"
    )
    assert json.loads(last) == {
        "code": "platform-unreachable",
        "message": "the connection to the Dask scheduler was lost",
    }
    assert not Path("grid.parquet").exists()


def test_dead_worker_is_replaced(bare: DaskCluster) -> None:
    grid(seed=MANY[:20])

    with bare.worker(), sweep("--scheduler", bare.address) as process:
        with bare.worker() as other:
            wait_for_rows(process, 1)
            other.kill()
        out, err = process.communicate(timeout=STARTUP_TIMEOUT)

    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["computed"] == 40
    assert len(parquet.read_table("grid.parquet")) == 40


def test_results_on_a_dead_worker_are_computed_again(bare: DaskCluster) -> None:
    tasks = [each.task() for each in prepared_trials(seed=MANY[:5])]

    with connect(bare.address) as client:
        with bare.worker() as process:
            work = run_on_cluster(client, tasks, print)
            first = next(work)
            wait_for_states(client, lambda states: states == {"finished"})
            process.kill()
            wait_for_states(client, lambda states: "finished" not in states)
        with bare.worker():
            found = {task.identity: metrics for task, metrics in [first, *work]}

    assert found == {task.identity: run_task(task) for task in tasks}


def wait_for_states(client: Client, suits: Callable[[set[str]], bool]) -> None:
    """Wait until *suits* is true of the states of all results that *client* has."""
    end = time.monotonic() + STARTUP_TIMEOUT
    while not suits({state.status for state in client.futures.values()}):
        assert time.monotonic() < end
        time.sleep(0.02)  # noqa: TID251 - for another process


def test_cluster_without_workers_is_reported_and_awaited(bare: DaskCluster) -> None:
    grid()

    with sweep("--scheduler", bare.address) as process:
        assert process.stderr is not None
        reported = process.stderr.readline()
        with bare.worker():
            process.communicate(timeout=STARTUP_TIMEOUT)

    assert reported == "no worker in the Dask cluster; waiting for one\n"
    assert process.returncode == 0
    assert len(parquet.read_table("grid.parquet")) == 2


def test_ctrl_c_ends_the_waiting(bare: DaskCluster) -> None:
    grid()

    with sweep("--scheduler", bare.address) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=STARTUP_TIMEOUT)

    assert process.returncode == 130
    assert os.listdir() == ["grid.toml"]  # noqa: PTH208 - their names


def test_worker_address_is_rejected(two: DaskCluster) -> None:
    grid()
    worker = two.worker_address()

    status, out, err = swept("--scheduler", worker)

    assert (status, out) == (3, "")
    assert json.loads(err) == unreachable(worker)


def test_hanging_scheduler_is_reported(bare: DaskCluster) -> None:
    grid()
    bare.scheduler.send_signal(signal.SIGSTOP)

    status, out, err = swept("--scheduler", bare.address)

    assert (status, out) == (3, "")
    assert json.loads(err) == unreachable(bare.address)


def unreachable(address: str) -> dict[str, str]:
    """Return the error about the scheduler at *address*."""
    return {
        "code": "platform-unreachable",
        "message": f"no Dask scheduler responds at {address}",
    }


@pytest.mark.parametrize(
    ("file", "content", "has"),
    [
        ("sitecustomize.py", OTHER, "opendrs 0.0.0"),
        ("opendrs.py", NONE, "no opendrs"),
    ],
)
def test_worker_with_other_version_is_reported(
    bare: DaskCluster, tmp_path: Path, file: str, content: str, has: str
) -> None:
    grid()
    (tmp_path / file).write_text(content)
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]

    with bare.worker({"PYTHONPATH": os.pathsep.join(paths)}):
        status, out, err = swept("--scheduler", bare.address)

    assert (status, out) == (3, "")
    assert (
        f": {has}; install {opendrs.__version__} on the scheduler and all workers"
        in err
    )
    assert os.listdir() == ["grid.toml"]  # noqa: PTH208 - their names
