"""Platform of two programs: requests, answers and errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from opendrs.config.snapshot_writing import snapshot_document
from opendrs.errors import (
    InvalidSettingError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
    UnsupportedError,
)
from opendrs.model import GuestId, LiveMigration, NodeId, Pin
from opendrs.platforms.command import CommandPlatform, CommandPlatformSettings
from opendrs.ports import TaskId, TaskState, TaskStatus
from support import command_cluster
from support.builders import cluster, guest_ids

MOVE = LiveMigration(GuestId("vm"), NodeId("a"), NodeId("b"))
ORIGIN = cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.3)})


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state.json"
    command_cluster.create(path, snapshot_document(ORIGIN), {"vm": 60.0})
    return path


def platform_of(state: Path) -> CommandPlatform:
    program = command_cluster.command(state)
    settings = CommandPlatformSettings(
        snapshot_command=(*program, "snapshot"), action_command=program
    )
    return CommandPlatform("pool", settings)


def answering(output: str, status: int = 0) -> CommandPlatform:
    """Return a platform whose programs print *output* and exit with *status*."""
    script = (
        f"import sys; print({output!r}); print('busy', file=sys.stderr); "
        f"sys.exit({status})"
    )
    program = (sys.executable, "-c", script)
    settings = CommandPlatformSettings(
        snapshot_command=program, action_command=program, timeout=20.0
    )
    return CommandPlatform("pool", settings)


def test_snapshot_has_rules_of_program_and_configuration(state: Path) -> None:
    pin = Pin(guests=guest_ids("vm"))
    settings = CommandPlatformSettings(
        snapshot_command=(*command_cluster.command(state), "snapshot")
    )

    snapshot = CommandPlatform("pool", settings, (pin,)).observe()

    assert snapshot.nodes == ORIGIN.nodes
    assert snapshot.guests == ORIGIN.guests
    assert snapshot.rules == (pin,)


def test_task_of_started_action_is_found_by_another_process(state: Path) -> None:
    task = platform_of(state).start(MOVE)
    again = platform_of(state)

    assert again.find(MOVE) == task
    assert again.status(task).state is TaskState.RUNNING


def test_task_of_action_that_was_not_started_is_lost(state: Path) -> None:
    platform = platform_of(state)

    task = platform.find(MOVE)
    platform.abort(task)

    assert platform.status(task).state is TaskState.LOST


def test_aborted_task_has_failed(state: Path) -> None:
    platform = platform_of(state)
    task = platform.start(MOVE)

    platform.abort(task)

    assert platform.status(task).state is TaskState.FAILED
    assert platform.observe().guests[GuestId("vm")].migrating_to is None


def test_status_has_detail_and_progress() -> None:
    answer = {
        "state": "running",
        "detail": "copying",
        "progress": {"total": 10, "remaining": 4},
    }

    status = answering(json.dumps(answer)).status(TaskId("x"))

    assert (status.state, status.detail) == (TaskState.RUNNING, "copying")
    assert status.progress is not None
    assert (status.progress.total, status.progress.remaining) == (10, 4)
    assert status.progress.bandwidth is None


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (1, PlatformError),
        (69, UnsupportedError),
        (75, PlatformUnavailableError),
        (77, PermissionDeniedError),
    ],
)
def test_exit_status_determines_error(status: int, error: type[PlatformError]) -> None:
    platform = answering("{}", status)

    with pytest.raises(error) as caught:
        platform.start(MOVE)

    assert type(caught.value) is error
    assert str(caught.value) == (
        f"pool: action_command start: exit status {status}: busy"
    )


@pytest.mark.parametrize(
    "output",
    ["", "[]", '{"task": 7}', '{"task": ""}', '{"task": null}', '{"job": "x"}', "{"],
)
def test_invalid_answer_to_start_raises_error(output: str) -> None:
    with pytest.raises(UnexpectedResponseError, match="pool: action_command start: "):
        answering(output).start(MOVE)


@pytest.mark.parametrize("output", ['{"state": "gone"}', '{"state": "done", "x": 1}'])
def test_invalid_status_raises_error(output: str) -> None:
    with pytest.raises(UnexpectedResponseError, match="pool: action_command status: "):
        answering(output).status(TaskId("x"))


@pytest.mark.parametrize("output", ["", "[]", '{"nodes": {}}', '{"format": "other/1"}'])
def test_invalid_snapshot_raises_error(output: str) -> None:
    with pytest.raises(UnexpectedResponseError, match="pool: snapshot_command: "):
        answering(output).observe()


def test_arguments_are_not_in_error() -> None:
    settings = CommandPlatformSettings(snapshot_command=("/missing", "--password=x7"))

    with pytest.raises(PlatformError, match="cannot be run") as caught:
        CommandPlatform("pool", settings).observe()

    assert "x7" not in str(caught.value)


def test_program_is_killed_after_timeout() -> None:
    program = (sys.executable, "-c", "import time; time.sleep(60)")
    settings = CommandPlatformSettings(snapshot_command=program, timeout=0.2)

    with pytest.raises(PlatformError, match=r"killed: timeout after 0\.2 s"):
        CommandPlatform("pool", settings).observe()


def test_platform_without_action_command_is_only_observed(state: Path) -> None:
    settings = CommandPlatformSettings(
        snapshot_command=(*command_cluster.command(state), "snapshot")
    )

    with pytest.raises(UnsupportedError, match="action_command"):
        CommandPlatform("pool", settings).start(MOVE)


@pytest.mark.parametrize(
    "changes", [{"snapshot_command": ()}, {"action_command": ()}, {"timeout": 0.0}]
)
def test_invalid_setting_raises_error(changes: dict[str, object]) -> None:
    (name,) = changes

    with pytest.raises(InvalidSettingError, match=f"{name}: expected"):
        CommandPlatformSettings(**{"snapshot_command": ("x",), **changes})  # type: ignore[arg-type]


def test_lost_task_has_detail(state: Path) -> None:
    status = platform_of(state).status(TaskId("task-9"))

    assert status == TaskStatus(TaskState.LOST, "task-9 is unknown")
