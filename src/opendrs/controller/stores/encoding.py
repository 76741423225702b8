"""Actions and times as text, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from opendrs.errors import StoreError
from opendrs.model import Action, Migration, PowerOff, PowerOn, Relocation

_KINDS: Mapping[str, type[Action]] = {
    "migrate": Migration,
    "relocate": Relocation,
    "power-on": PowerOn,
    "power-off": PowerOff,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def action_as_text(action: Action) -> str:
    """Return *action* as JSON: its kind, and the guests and nodes it names."""
    named = {name: getattr(action, name) for name in action.__slots__}
    return json.dumps({"kind": _NAMES[type(action)], **named})


def action_from_text(text: str) -> Action:
    """Return the action that was written as *text*.

    Raises:
        StoreError: It is none.
    """
    try:
        document = json.loads(text)
        return _KINDS[document.pop("kind")](**document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the record holds an action it should not: {text}") from error


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
