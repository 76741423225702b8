"""Actions and times as text, and back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

from opendrs.controller.documents import KINDS
from opendrs.errors import StoreError
from opendrs.model import Action, Step, StepId
from opendrs.platforms.file import shown

T = TypeVar("T")

MOST_CYCLES = 300  # that are kept: a day, one each five minutes

_NOT_UNDERSTOOD = (  # what is raised where a value is of a wrong type, or too large
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)
_ACTIONS = {name: kind for kind, name in KINDS.items()}


class DamageError(StoreError):
    """What a record holds cannot be understood; the message does not name it."""


def action_as_text(action: Action) -> str:
    """Return *action* as JSON: its kind, and the guests and nodes it names."""
    named = {name: getattr(action, name) for name in action.__slots__}
    return json.dumps({"kind": KINDS[type(action)], **named})


def action_from_text(text: str) -> Action:
    """Return the action that was written as *text*.

    Raises:
        DamageError: It is none.
    """
    with understood("an action", text):
        document = json.loads(text)
        kind = _ACTIONS[document.pop("kind")]
        require(str, document.values())
        return kind(**document)


def steps_as_text(steps: Iterable[Step]) -> str:
    """Return the names and the actions of *steps* as JSON."""
    return json.dumps([[step.id, action_as_text(step.action)] for step in steps])


def steps_from_text(text: str) -> tuple[Step, ...]:
    """Return the steps that were written as *text*.

    Raises:
        DamageError: It is none.
    """
    with understood("steps", text):
        pairs = [(name, action) for name, action in json.loads(text)]
        require(str, (part for pair in pairs for part in pair))
        return tuple(
            Step(StepId(name), action_from_text(action)) for name, action in pairs
        )


def words_as_text(words: Iterable[object]) -> str:
    """Return names or numbers as JSON."""
    return json.dumps([*words])


def words_from_text(text: str, kind: type[T]) -> tuple[T, ...]:
    """Return the names or numbers that were written as *text*.

    Raises:
        DamageError: It is none, or they are not of that *kind*.
    """
    with understood("a list", text):
        found = json.loads(text)
        require(list, [found])
        require(kind, found)
        return tuple(found)


def time_as_text(time: datetime) -> str:
    """Return *time* in UTC and of fixed width, so that text sorts as time does."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def time_from_text(text: str) -> datetime:
    """Return the time that was written as *text*.

    Raises:
        DamageError: It is none, or it is one of no zone.
    """
    with understood("a time", text):
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError(text)
        return time.astimezone(UTC)


def value_as_text(value: Mapping[str, object]) -> str:
    """Return *value* as JSON.

    Raises:
        StoreError: It holds something that JSON cannot hold.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"what is to be saved is not JSON: {error}") from error


def value_from_text(text: str) -> Mapping[str, object]:
    """Return the value that was written as *text*.

    Raises:
        DamageError: It is none.
    """
    with understood("a value", text):
        value = json.loads(text)
        require(dict, [value])
        found: Mapping[str, object] = value
        return found


@contextmanager
def understood(what: str, found: object) -> Iterator[None]:
    """Turn what goes wrong with *found*, which should be *what*, into one error.

    Raises:
        DamageError: It is not what it should be.
    """
    try:
        yield
    except _NOT_UNDERSTOOD as error:
        raise DamageError(f"holds {what} it should not: {shown(found)}") from error


def require(kind: type[object], values: Iterable[object]) -> None:
    """Check that all *values* are of that *kind*.

    Raises:
        TypeError: One is not.
    """
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(value)
