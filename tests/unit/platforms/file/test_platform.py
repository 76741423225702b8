"""A file can be observed, and nothing can be started on it."""

from pathlib import Path

import pytest

from builders import cluster, guest_ids
from opendrs.errors import InvalidFileError, UnsupportedError
from opendrs.model import GuestId, Migration, NodeId, Pin
from opendrs.platforms.file import FilePlatform, write_snapshot
from opendrs.ports import TaskId, TaskState

PAIR = cluster(nodes={"a": 0.5, "b": 0.1}, guests={"vm": ("a", 0.4)})
MOVE = Migration(GuestId("vm"), NodeId("a"), NodeId("b"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pair.json"
    write_snapshot(PAIR, path)
    return path


def test_observes_what_is_in_the_file(path: Path) -> None:
    assert FilePlatform(path).observe() == PAIR


def test_is_called_like_the_file_unless_told_otherwise(path: Path) -> None:
    assert FilePlatform(path).name == "pair"
    assert FilePlatform(path, name="lab").name == "lab"


def test_adds_the_rules_of_the_configuration(path: Path) -> None:
    pin = Pin(guests=guest_ids("vm"))

    assert FilePlatform(path, rules=[pin]).observe().rules == (pin,)


def test_a_rule_that_was_recorded_with_the_cluster_is_there_once(path: Path) -> None:
    pin = Pin(guests=guest_ids("vm"))
    write_snapshot(FilePlatform(path, rules=[pin]).observe(), path)

    assert FilePlatform(path, rules=[pin]).observe().rules == (pin,)


def test_a_file_that_is_gone_is_a_clear_error(path: Path) -> None:
    path.unlink()

    with pytest.raises(InvalidFileError, match="No such file"):
        FilePlatform(path).observe()


def test_nothing_can_be_started(path: Path) -> None:
    platform = FilePlatform(path)

    with pytest.raises(UnsupportedError, match="pair is a snapshot in a file"):
        platform.start(MOVE)
    with pytest.raises(UnsupportedError):
        platform.find(MOVE)
    with pytest.raises(UnsupportedError):
        platform.abort(TaskId("task"))


def test_no_task_is_known(path: Path) -> None:
    assert FilePlatform(path).status(TaskId("task")).state is TaskState.LOST
