"""Output of the programs, checked and converted to values of the model."""

from __future__ import annotations

import json
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from opendrs.config import parse, snapshot_from
from opendrs.errors import ConfigurationError, UnexpectedResponseError
from opendrs.model import Action, Snapshot, action_as_text
from opendrs.ports import Progress, TaskId, TaskState, TaskStatus

MAX_SNAPSHOT_SIZE = 256 << 20  # bytes, as of a snapshot file
MAX_ANSWER_SIZE = 1 << 20  # bytes
_STRICT = ConfigDict(extra="forbid")
_Text = Annotated[str, Field(max_length=4_096)]
_Amount = Annotated[float, Field(ge=0, le=1e18)]


class TaskAnswer(BaseModel):
    """Answer to `start` and `find`: the id of a task, or null if there is none."""

    model_config = _STRICT
    task: Annotated[str, Field(min_length=1, max_length=1_024)] | None


class ProgressAnswer(BaseModel):
    """Progress of a migration, in bytes, bytes per second and seconds."""

    model_config = _STRICT
    total: Annotated[int, Field(ge=0, le=10**18)] | None = None
    remaining: Annotated[int, Field(ge=0, le=10**18)] | None = None
    dirty_rate: _Amount | None = None
    bandwidth: _Amount | None = None
    downtime: _Amount | None = None


class StatusAnswer(BaseModel):
    """Answer to `status`."""

    model_config = _STRICT
    state: TaskState
    detail: _Text = ""
    progress: ProgressAnswer | None = None


AnswerT = TypeVar("AnswerT", bound=BaseModel)


def snapshot_of(output: bytes) -> Snapshot:
    """Return the snapshot that a program printed.

    Raises:
        UnexpectedResponseError: The output is not a snapshot; with the first error.
    """
    source = "output"
    try:
        return snapshot_from(parse(output.decode(), source, ".json"), source)
    except UnicodeDecodeError:
        raise UnexpectedResponseError("output is not UTF-8") from None
    except ConfigurationError as error:
        raise UnexpectedResponseError(error.messages[0]) from None


def answer_of(output: bytes, kind: type[AnswerT]) -> AnswerT:
    """Return the answer that a program printed.

    Raises:
        UnexpectedResponseError: The output is not such an answer; with the error.
    """
    try:
        return kind.model_validate_json(output)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "output"
        raise UnexpectedResponseError(f"{place}: {first['msg']}") from None


def status_of(answer: StatusAnswer) -> TaskStatus:
    """Return the status of a task in *answer*."""
    progress = answer.progress
    return TaskStatus(
        answer.state,
        answer.detail,
        None if progress is None else Progress(**progress.model_dump()),
    )


def request_of(action: Action) -> bytes:
    """Return *action* as the standard input of a program."""
    return action_as_text(action).encode()


def task_request(task: TaskId) -> bytes:
    """Return *task* as the standard input of a program."""
    return json.dumps({"task": task}).encode()
