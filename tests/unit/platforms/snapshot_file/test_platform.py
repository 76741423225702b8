"""A file can be observed, and nothing can be started on it."""

from pathlib import Path

import pytest

from opendrs.config import write_snapshot
from opendrs.errors import InvalidFileError, UnsupportedError
from opendrs.model import GuestId, LiveMigration, NodeId, Pin
from opendrs.platforms.snapshot_file import SnapshotFilePlatform
from opendrs.ports import TaskId, TaskState
from support.builders import cluster, guest_ids

PAIR = cluster(nodes={"a": 0.5, "b": 0.1}, guests={"vm": ("a", 0.4)})
MOVE = LiveMigration(GuestId("vm"), NodeId("a"), NodeId("b"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pair.json"
    write_snapshot(PAIR, path)
    return path


def test_observes_what_is_in_the_file(path: Path) -> None:
    assert SnapshotFilePlatform(path).observe() == PAIR


def test_default_name_is_the_file_name(path: Path) -> None:
    assert SnapshotFilePlatform(path).name == "pair"
    assert SnapshotFilePlatform(path, name="lab").name == "lab"


def test_adds_the_rules_of_the_configuration(path: Path) -> None:
    pin = Pin(guests=guest_ids("vm"))

    assert SnapshotFilePlatform(path, rules=[pin]).observe().rules == (pin,)


def test_a_rule_that_was_recorded_with_the_cluster_is_there_once(path: Path) -> None:
    pin = Pin(guests=guest_ids("vm"))
    write_snapshot(SnapshotFilePlatform(path, rules=[pin]).observe(), path)

    assert SnapshotFilePlatform(path, rules=[pin]).observe().rules == (pin,)


def test_missing_file_is_an_error(path: Path) -> None:
    path.unlink()

    with pytest.raises(InvalidFileError, match="No such file"):
        SnapshotFilePlatform(path).observe()


def test_nothing_can_be_started(path: Path) -> None:
    platform = SnapshotFilePlatform(path)

    with pytest.raises(
        UnsupportedError, match="pair: a snapshot file cannot be changed"
    ):
        platform.start(MOVE)
    with pytest.raises(UnsupportedError):
        platform.find(MOVE)
    with pytest.raises(UnsupportedError):
        platform.abort(TaskId("task"))


def test_no_task_is_known(path: Path) -> None:
    assert SnapshotFilePlatform(path).status(TaskId("task")).state is TaskState.LOST
