"""Each run is done once, and who does it in which order does not show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from opendrs.errors import ConfigurationError, InvalidFileError
from opendrs.sim.consolidation.sweep.journal import journal_path, open_journal
from opendrs.sim.consolidation.sweep.local import locally
from opendrs.sim.consolidation.sweep.results import read_results
from opendrs.sim.consolidation.sweep.running import (
    Entry,
    Work,
    finished,
    kept,
    prepared,
)
from opendrs.sim.consolidation.sweep.task import Done, Task, done
from sweeps import Worker, entries, grid, silent

POLICIES = [{"name": ["none", "lr-mmt"]}, {"name": "consolidate"}]


def six() -> list[Entry]:
    return entries(seed=[1, 2], policies=POLICIES)


@pytest.fixture(name="results")
def fixture_results(tmp_path: Path) -> Path:
    return tmp_path / "x.parquet"


class StrikeError(Exception):
    """Raised by who stops in the middle."""


class Striker(Worker):
    """A worker who stops after some runs."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after

    def __call__(self, tasks: Sequence[Task]) -> Done:
        for count, each in enumerate(super().__call__(tasks)):
            if count == self._after:
                raise StrikeError
            yield each


def test_every_run_is_done_and_told_in_the_order_that_was_asked(results: Path) -> None:
    worker = Worker()
    wanted = six()

    rows = finished(wanted, results, worker, silent)

    assert worker.did == [each.identity for each in wanted]
    assert [row["id"] for row in rows] == worker.did
    assert [row["policy"] for row in rows] == [each.trial.label for each in wanted]
    assert {row["id"] for row in read_results(results)} == set(worker.did)
    assert list(results.parent.iterdir()) == [results]


def test_what_is_finished_is_not_done_again(results: Path) -> None:
    first = finished(six(), results, Worker(), silent)
    before = results.read_bytes()
    worker = Worker()

    again = finished(six(), results, worker, silent)

    assert worker.did == []
    assert again == first
    assert results.read_bytes() == before


@pytest.mark.parametrize("after", range(6))
def test_a_sweep_that_stopped_goes_on_where_it_was(results: Path, after: int) -> None:
    striker, worker = Striker(after), Worker()

    with pytest.raises(StrikeError):
        finished(six(), results, striker, silent)

    assert not results.exists()
    assert len(kept(results)) == after
    assert journal_path(results).exists() == bool(after)
    finished(six(), results, worker, silent)
    assert striker.did[:after] + worker.did == [each.identity for each in six()]
    whole = results.with_name("whole.parquet")
    finished(six(), whole, Worker(), silent)
    assert results.read_bytes() == whole.read_bytes()


def test_a_sweep_that_was_killed_before_it_tidied_up_loses_nothing(
    results: Path,
) -> None:
    rows = finished(six(), results, Worker(), silent)
    before = results.read_bytes()
    with open_journal(journal_path(results)) as journal:
        for row in rows[:2]:
            journal.add(row)
    worker = Worker()

    finished(six(), results, worker, silent)

    assert worker.did == []
    assert results.read_bytes() == before
    assert not journal_path(results).exists()


def test_a_larger_sweep_does_only_what_is_new(results: Path) -> None:
    finished(entries(policies=[{"name": "none"}]), results, Worker(), silent)
    worker = Worker()

    finished(entries(policies=POLICIES), results, worker, silent)

    assert len(worker.did) == 2
    assert len(read_results(results)) == 3


def test_what_else_is_in_the_results_stays(results: Path) -> None:
    finished(entries(policies=POLICIES), results, Worker(), silent)
    before = results.read_bytes()

    finished(entries(policies=[{"name": "none"}]), results, Worker(), silent)

    assert results.read_bytes() == before


def test_results_of_another_sweep_are_told_and_left_alone(results: Path) -> None:
    finished(entries(seed=3), results, Worker(), silent)
    before = results.read_bytes()
    worker = Worker()

    with pytest.raises(InvalidFileError, match=r"x\.parquet holds runs of another"):
        finished(entries(seed=4), results, worker, silent)

    assert worker.did == []
    assert results.read_bytes() == before
    assert list(results.parent.iterdir()) == [results]


def test_a_journal_of_another_sweep_is_told_and_left_alone(results: Path) -> None:
    with pytest.raises(StrikeError):
        finished(six(), results, Striker(2), silent)
    before = journal_path(results).read_bytes()

    with pytest.raises(InvalidFileError, match=r"x\.parquet\.journal holds runs of"):
        finished(entries(seed=4), results, Worker(), silent)

    assert journal_path(results).read_bytes() == before


def test_a_run_with_two_names_is_done_once_and_told_by_both(results: Path) -> None:
    two = [{"name": "lr-mmt"}, {"name": "lr-mmt-1.2"}, {"name": "none"}]
    worker = Worker()
    told: list[tuple[int, int]] = []

    rows = finished(
        entries(policies=two), results, worker, lambda *far: told.append(far)
    )

    assert len(worker.did) == 2
    assert [row["policy"] for row in rows] == ["lr-mmt", "lr-mmt-1.2", "none"]
    assert sorted(str(row["policy"]) for row in read_results(results)) == [
        "lr-mmt",
        "lr-mmt-1.2",
        "none",
    ]
    assert told == [(0, 3), (2, 3), (3, 3)]
    finished(entries(policies=two), results, worker, silent)
    assert len(worker.did) == 2


def test_neither_order_nor_number_of_workers_shows(tmp_path: Path) -> None:
    def backwards(tasks: Sequence[Task]) -> Done:
        return ((task, done(task)) for task in reversed(tasks))

    def two(tasks: Sequence[Task]) -> Done:
        return locally(tasks, 2)

    ways: dict[str, Work] = {"one": Worker(), "backwards": backwards, "two": two}
    for name, work in ways.items():
        finished(six(), tmp_path / name, work, silent)

    contents = {(tmp_path / name).read_bytes() for name in ways}
    assert len(contents) == 1


def test_progress_is_told_from_where_it_goes_on(results: Path) -> None:
    with pytest.raises(StrikeError):
        finished(six(), results, Striker(4), silent)
    told: list[tuple[int, int]] = []

    finished(six(), results, Worker(), lambda *far: told.append(far))

    assert told == [(4, 6), (5, 6), (6, 6)]


def test_all_loads_are_read_before_anything_runs(tmp_path: Path) -> None:
    workload = [
        {"kind": "synthetic", "guests": 8},
        {"kind": "planetlab", "path": str(tmp_path / "none.tar")},
    ]

    with pytest.raises(InvalidFileError, match=r"none\.tar: No such file"):
        prepared(grid(workload=workload), silent)


def test_guests_without_room_are_told_before_anything_runs() -> None:
    hosts = [{"count": 6, "memory": [65536, 100]}]

    with pytest.raises(ConfigurationError, match="finds no room on 6 hosts"):
        prepared(grid(hosts=hosts), silent)


def test_the_reading_is_told() -> None:
    told: list[tuple[int, int]] = []

    prepared(grid(seed=[1, 2], policies=POLICIES), lambda *far: told.append(far))

    assert told == [(0, 2), (1, 2), (2, 2)]


def test_runs_of_one_load_follow_one_another() -> None:
    loads = [each.digest for each in six()]

    assert loads == [loads[0]] * 3 + [loads[3]] * 3


def test_a_load_that_changed_meanwhile_is_told(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("20\n" * 288)
    workload = {"kind": "planetlab", "path": str(tmp_path)}
    (entry,) = entries(workload=workload)
    (tmp_path / "b").write_text("30\n" * 288)

    with pytest.raises(InvalidFileError, match="is not what it was when the sweep beg"):
        done(entry.task())


def test_a_load_that_another_sweep_found_changed_is_read_anew(tmp_path: Path) -> None:
    workload = {"kind": "planetlab", "path": str(tmp_path)}
    guests = []
    for name in ("a", "b"):
        (tmp_path / name).write_text("20\n" * 288)
        (entry,) = entries(workload=workload)
        guests.append(done(entry.task())["guests"])

    assert guests == [1, 2]
