"""Each run is executed once, and the executor does not affect the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from opendrs.errors import ConfigurationError, InvalidFileError
from opendrs.simulation.sweep.checkpoint import checkpoint_path, open_checkpoint
from opendrs.simulation.sweep.results import read_results
from opendrs.simulation.sweep.run import (
    PreparedTrial,
    TaskRunner,
    finished_rows,
    prepare_trials,
    run_sweep,
)
from opendrs.simulation.sweep.tasks import SweepTask, TaskResults, run_locally, run_task
from support.sweeps import RecordingWorker, ignore_progress, prepared_trials, sweep_grid

POLICIES = [{"name": ["none", "lr-mmt"]}, {"name": "consolidate"}]


def six_trials() -> list[PreparedTrial]:
    return prepared_trials(seed=[1, 2], policies=POLICIES)


@pytest.fixture(name="results")
def fixture_results(tmp_path: Path) -> Path:
    return tmp_path / "x.parquet"


class InjectedError(Exception):
    """Raised by an executor that stops early."""


class FailingRunner(RecordingWorker):
    """Executor that stops after some runs."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after

    def __call__(self, tasks: Sequence[SweepTask]) -> TaskResults:
        for count, each in enumerate(super().__call__(tasks)):
            if count == self._after:
                raise InjectedError
            yield each


def test_rows_are_in_order_of_trials(results: Path) -> None:
    worker = RecordingWorker()
    wanted = six_trials()

    rows = run_sweep(wanted, results, worker, ignore_progress)

    assert worker.completed == [each.identity for each in wanted]
    assert [row["id"] for row in rows] == worker.completed
    assert [row["policy"] for row in rows] == [each.trial.label for each in wanted]
    assert {row["id"] for row in read_results(results)} == set(worker.completed)
    assert list(results.parent.iterdir()) == [results]


def test_finished_runs_are_not_repeated(results: Path) -> None:
    first = run_sweep(six_trials(), results, RecordingWorker(), ignore_progress)
    before = results.read_bytes()
    worker = RecordingWorker()

    again = run_sweep(six_trials(), results, worker, ignore_progress)

    assert worker.completed == []
    assert again == first
    assert results.read_bytes() == before


@pytest.mark.parametrize("after", range(6))
def test_stopped_sweep_resumes(results: Path, after: int) -> None:
    striker, worker = FailingRunner(after), RecordingWorker()

    with pytest.raises(InjectedError):
        run_sweep(six_trials(), results, striker, ignore_progress)

    assert not results.exists()
    assert len(finished_rows(results)) == after
    assert checkpoint_path(results).exists() == bool(after)
    run_sweep(six_trials(), results, worker, ignore_progress)
    assert striker.completed[:after] + worker.completed == [
        each.identity for each in six_trials()
    ]
    whole = results.with_name("whole.parquet")
    run_sweep(six_trials(), whole, RecordingWorker(), ignore_progress)
    assert results.read_bytes() == whole.read_bytes()


def test_sweep_killed_before_cleanup_loses_no_run(
    results: Path,
) -> None:
    rows = run_sweep(six_trials(), results, RecordingWorker(), ignore_progress)
    before = results.read_bytes()
    with open_checkpoint(checkpoint_path(results)) as journal:
        for row in rows[:2]:
            journal.add(row)
    worker = RecordingWorker()

    run_sweep(six_trials(), results, worker, ignore_progress)

    assert worker.completed == []
    assert results.read_bytes() == before
    assert not checkpoint_path(results).exists()


def test_larger_sweep_runs_only_new_trials(results: Path) -> None:
    run_sweep(
        prepared_trials(policies=[{"name": "none"}]),
        results,
        RecordingWorker(),
        ignore_progress,
    )
    worker = RecordingWorker()

    run_sweep(prepared_trials(policies=POLICIES), results, worker, ignore_progress)

    assert len(worker.completed) == 2
    assert len(read_results(results)) == 3


def test_other_rows_in_results_are_kept(results: Path) -> None:
    run_sweep(
        prepared_trials(policies=POLICIES), results, RecordingWorker(), ignore_progress
    )
    before = results.read_bytes()

    run_sweep(
        prepared_trials(policies=[{"name": "none"}]),
        results,
        RecordingWorker(),
        ignore_progress,
    )

    assert results.read_bytes() == before


def test_results_of_other_sweep_are_reported_and_unchanged(results: Path) -> None:
    run_sweep(prepared_trials(seed=3), results, RecordingWorker(), ignore_progress)
    before = results.read_bytes()
    worker = RecordingWorker()

    with pytest.raises(
        InvalidFileError, match=r"x\.parquet: contains only runs of another"
    ):
        run_sweep(prepared_trials(seed=4), results, worker, ignore_progress)

    assert worker.completed == []
    assert results.read_bytes() == before
    assert list(results.parent.iterdir()) == [results]


def test_checkpoint_of_other_sweep_is_reported_and_unchanged(results: Path) -> None:
    with pytest.raises(InjectedError):
        run_sweep(six_trials(), results, FailingRunner(2), ignore_progress)
    before = checkpoint_path(results).read_bytes()

    with pytest.raises(
        InvalidFileError, match=r"x\.parquet\.journal: contains only runs of"
    ):
        run_sweep(prepared_trials(seed=4), results, RecordingWorker(), ignore_progress)

    assert checkpoint_path(results).read_bytes() == before


def test_run_with_two_labels_runs_once(results: Path) -> None:
    two = [{"name": "lr-mmt"}, {"name": "lr-mmt-1.2"}, {"name": "none"}]
    worker = RecordingWorker()
    reported: list[tuple[int, int]] = []

    rows = run_sweep(
        prepared_trials(policies=two),
        results,
        worker,
        lambda *far: reported.append(far),
    )

    assert len(worker.completed) == 2
    assert [row["policy"] for row in rows] == ["lr-mmt", "lr-mmt-1.2", "none"]
    assert sorted(str(row["policy"]) for row in read_results(results)) == [
        "lr-mmt",
        "lr-mmt-1.2",
        "none",
    ]
    assert reported == [(0, 3), (2, 3), (3, 3)]
    run_sweep(prepared_trials(policies=two), results, worker, ignore_progress)
    assert len(worker.completed) == 2


def test_results_are_independent_of_order_and_workers(tmp_path: Path) -> None:
    def backwards(tasks: Sequence[SweepTask]) -> TaskResults:
        return ((task, run_task(task)) for task in reversed(tasks))

    def two(tasks: Sequence[SweepTask]) -> TaskResults:
        return run_locally(tasks, 2)

    runners: dict[str, TaskRunner] = {
        "one": RecordingWorker(),
        "backwards": backwards,
        "two": two,
    }
    for name, work in runners.items():
        run_sweep(six_trials(), tmp_path / name, work, ignore_progress)

    contents = {(tmp_path / name).read_bytes() for name in runners}
    assert len(contents) == 1


def test_progress_starts_at_finished_runs(results: Path) -> None:
    with pytest.raises(InjectedError):
        run_sweep(six_trials(), results, FailingRunner(4), ignore_progress)
    reported: list[tuple[int, int]] = []

    run_sweep(
        six_trials(), results, RecordingWorker(), lambda *far: reported.append(far)
    )

    assert reported == [(4, 6), (5, 6), (6, 6)]


def test_all_loads_are_read_before_anything_runs(tmp_path: Path) -> None:
    workload = [
        {"kind": "synthetic", "guests": 8},
        {"kind": "planetlab", "path": str(tmp_path / "none.tar")},
    ]

    with pytest.raises(InvalidFileError, match=r"none\.tar: No such file"):
        prepare_trials(sweep_grid(workload=workload), ignore_progress)


def test_unplaceable_guests_are_reported_before_first_run() -> None:
    hosts = [{"count": 6, "memory": [65536, 100]}]

    with pytest.raises(ConfigurationError, match="does not fit on 6 hosts"):
        prepare_trials(sweep_grid(hosts=hosts), ignore_progress)


def test_reading_progress_is_reported() -> None:
    reported: list[tuple[int, int]] = []

    prepare_trials(
        sweep_grid(seed=[1, 2], policies=POLICIES), lambda *far: reported.append(far)
    )

    assert reported == [(0, 2), (1, 2), (2, 2)]


def test_runs_of_one_load_are_adjacent() -> None:
    loads = [each.digest for each in six_trials()]

    assert loads == [loads[0]] * 3 + [loads[3]] * 3


def test_changed_load_is_reported(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("20\n" * 288)
    workload = {"kind": "planetlab", "path": str(tmp_path)}
    (entry,) = prepared_trials(workload=workload)
    (tmp_path / "b").write_text("30\n" * 288)

    with pytest.raises(InvalidFileError, match="changed since the sweep started"):
        run_task(entry.task())


def test_load_changed_by_other_sweep_is_read_again(tmp_path: Path) -> None:
    workload = {"kind": "planetlab", "path": str(tmp_path)}
    guests = []
    for name in ("a", "b"):
        (tmp_path / name).write_text("20\n" * 288)
        (entry,) = prepared_trials(workload=workload)
        guests.append(run_task(entry.task())["guests"])

    assert guests == [1, 2]
