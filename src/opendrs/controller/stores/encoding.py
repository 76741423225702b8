"""Actions and times as text, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from opendrs.controller.documents import KINDS
from opendrs.errors import StoreError
from opendrs.model import Action, Step, StepId

T = TypeVar("T")

MOST_CYCLES = 300  # that are kept: a day, one each five minutes

_ACTIONS = {name: kind for kind, name in KINDS.items()}


def action_as_text(action: Action) -> str:
    """Return *action* as JSON: its kind, and the guests and nodes it names."""
    named = {name: getattr(action, name) for name in action.__slots__}
    return json.dumps({"kind": KINDS[type(action)], **named})


def action_from_text(text: str) -> Action:
    """Return the action that was written as *text*.

    Raises:
        StoreError: It is none.
    """
    try:
        document = json.loads(text)
        return _ACTIONS[document.pop("kind")](**document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the record holds an action it should not: {text}") from error


def steps_as_text(steps: Iterable[Step]) -> str:
    """Return the names and the actions of *steps* as JSON."""
    return json.dumps([[step.id, action_as_text(step.action)] for step in steps])


def steps_from_text(text: str) -> tuple[Step, ...]:
    """Return the steps that were written as *text*.

    Raises:
        StoreError: It is none.
    """
    try:
        return tuple(
            Step(StepId(name), action_from_text(action))
            for name, action in json.loads(text)
        )
    except (ValueError, TypeError) as error:
        raise StoreError(f"the record holds steps it should not: {text}") from error


def words_as_text(words: Iterable[object]) -> str:
    """Return names or numbers as JSON."""
    return json.dumps([*words])


def words_from_text(text: str, kind: type[T]) -> tuple[T, ...]:
    """Return the names or numbers that were written as *text*.

    Raises:
        StoreError: It is none, or they are not of that *kind*.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, list) and all(isinstance(each, kind) for each in found):
        return tuple(found)
    raise StoreError(f"the record holds a list it should not: {text}")


def time_as_text(time: datetime) -> str:
    """Return *time* in UTC and of fixed width, so that text sorts as time does."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


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
        StoreError: It is none.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise StoreError(f"the record holds a value it should not: {text}") from error
    if not isinstance(value, dict):
        raise StoreError(f"the record holds a value it should not: {text}")
    return value
