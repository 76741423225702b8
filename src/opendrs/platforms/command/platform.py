"""Platform that observes and acts by programs of the operator.

The contract of the programs is in docs/reference/command-platform.md. Exit statuses
follow sysexits(3) of BSD.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import replace

from opendrs.config.platform_kinds import PlatformKind, Questioner
from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
    UnsupportedError,
)
from opendrs.model import Action, Rule, Snapshot
from opendrs.platforms.command.reading import (
    MAX_ANSWER_SIZE,
    MAX_SNAPSHOT_SIZE,
    AnswerT,
    StatusAnswer,
    TaskAnswer,
    answer_of,
    request_of,
    snapshot_of,
    status_of,
    task_request,
)
from opendrs.platforms.command.settings import CommandPlatformSettings
from opendrs.ports import TaskId, TaskState, TaskStatus
from opendrs.transport.commands import CommandResult, run_command

_ERRORS: dict[int, type[PlatformError]] = {
    os.EX_UNAVAILABLE: UnsupportedError,
    os.EX_TEMPFAIL: PlatformUnavailableError,
    os.EX_NOPERM: PermissionDeniedError,
}
NO_TASK = TaskId("none")  # task of an action that was never started


class CommandPlatform:
    """Cluster that two programs observe and change.

    Args:
        name: Name in the configuration.
        settings: The programs.
        rules: Rules in addition to those of the snapshot.
    """

    def __init__(
        self, name: str, settings: CommandPlatformSettings, rules: Iterable[Rule] = ()
    ) -> None:
        self._name = name
        self._settings = settings
        self._rules = tuple(rules)

    @property
    def name(self) -> str:
        """Return the name in the configuration."""
        return self._name

    def observe(self) -> Snapshot:
        """Return the snapshot that the program prints, with the additional rules.

        Raises:
            PlatformError: The program fails, or prints no valid snapshot.
        """
        result = self._run(
            "snapshot_command",
            self._settings.snapshot_command,
            b"",
            max_output=MAX_SNAPSHOT_SIZE,
        )
        try:
            snapshot = snapshot_of(result.output)
        except UnexpectedResponseError as error:
            raise UnexpectedResponseError(
                f"{self._name}: snapshot_command: {error}"
            ) from None
        return replace(snapshot, rules=(*snapshot.rules, *self._rules))

    def start(self, action: Action) -> TaskId:
        """Start *action*.

        Raises:
            PlatformError: The program fails, or names no task.
        """
        answer = self._ask("start", request_of(action), TaskAnswer)
        if answer.task is None:
            raise UnexpectedResponseError(
                f"{self._name}: action_command start: expected a task, got null"
            )
        return TaskId(answer.task)

    def find(self, action: Action) -> TaskId:
        """Return the task of *action*, or `NO_TASK` if it was never started.

        Raises:
            PlatformError: The program fails.
        """
        answer = self._ask("find", request_of(action), TaskAnswer)
        return NO_TASK if answer.task is None else TaskId(answer.task)

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task*.

        Raises:
            PlatformError: The program fails.
        """
        if task == NO_TASK:
            return TaskStatus(TaskState.LOST, "the action was not started")
        return status_of(self._ask("status", task_request(task), StatusAnswer))

    def abort(self, task: TaskId) -> None:
        """Request the abort of *task*.

        Raises:
            PlatformError: The program fails.
        """
        if task != NO_TASK:
            self._run_action("abort", task_request(task))

    def _ask(self, verb: str, request: bytes, kind: type[AnswerT]) -> AnswerT:
        result = self._run_action(verb, request)
        try:
            return answer_of(result.output, kind)
        except UnexpectedResponseError as error:
            raise UnexpectedResponseError(
                f"{self._name}: action_command {verb}: {error}"
            ) from None

    def _run_action(self, verb: str, request: bytes) -> CommandResult:
        command = self._settings.action_command
        if command is None:
            raise UnsupportedError(
                f"{self._name}: the setting action_command is missing: "
                "the platform is only observed"
            )
        return self._run(
            f"action_command {verb}",
            (*command, verb),
            request,
            max_output=MAX_ANSWER_SIZE,
        )

    def _run(
        self, name: str, command: tuple[str, ...], request: bytes, *, max_output: int
    ) -> CommandResult:
        description = f"{self._name}: {name}"
        result = run_command(
            description,
            command,
            timeout=self._settings.timeout,
            standard_input=request,
            max_output=max_output,
        )
        if result.status != 0:
            error = _ERRORS.get(result.status, PlatformError)
            raise error(f"{description}: {result.problem}")
        return result


def ask(questioner: Questioner) -> dict[str, object]:
    """Return the table of a platform from the answers of the operator."""
    snapshot = questioner.text("Command that prints a snapshot")
    action = questioner.text("Command for actions (empty: observe only)")
    table: dict[str, object] = {"snapshot_command": shlex.split(snapshot)}
    if action:
        table["action_command"] = shlex.split(action)
    return table


KIND = PlatformKind(
    settings_type=CommandPlatformSettings, create=CommandPlatform, ask=ask
)
