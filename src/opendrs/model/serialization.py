"""Text form of actions, steps and times in records, and names of rules."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

from opendrs.errors import StoreError
from opendrs.escapes import repr_value
from opendrs.model.identifiers import StepId
from opendrs.model.plan import (
    Action,
    ColdMigration,
    DiskMove,
    LiveMigration,
    Plan,
    PowerOff,
    PowerOn,
    Relocation,
    Step,
)
from opendrs.model.protection import MigrationLoad
from opendrs.model.resources import Usage
from opendrs.model.rule import (
    Affinity,
    AntiAffinity,
    DomainAffinity,
    GuestPriority,
    MutualAntiAffinity,
    NodeAffinity,
    Pin,
    Rule,
    TagExclusion,
)

T = TypeVar("T")

_DECODING_ERRORS = (  # raised for values of a wrong type, or too large
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)

ACTION_KINDS: dict[type[Action], str] = {
    LiveMigration: "live-migration",
    ColdMigration: "cold-migration",
    Relocation: "relocation",
    DiskMove: "disk-move",
    PowerOn: "power-on",
    PowerOff: "power-off",
}

RULE_KINDS: dict[type[Rule], str] = {
    NodeAffinity: "node-affinity",
    Affinity: "affinity",
    DomainAffinity: "affinity",
    AntiAffinity: "anti-affinity",
    MutualAntiAffinity: "anti-affinity",
    Pin: "pin",
    TagExclusion: "exclusion",
    GuestPriority: "priority",
}

_FORMER_KINDS: dict[str, type[Action]] = {
    "migrate": LiveMigration,
    "relocate": ColdMigration,
}
_ACTIONS = {name: kind for kind, name in ACTION_KINDS.items()} | _FORMER_KINDS


class DamagedRecordError(StoreError):
    """Record with undecodable content; the message does not name the record."""


def action_as_text(action: Action) -> str:
    """Return *action* as JSON: its kind, and the names of what it concerns."""
    named = {name: getattr(action, name) for name in action.__slots__}
    return json.dumps({"kind": ACTION_KINDS[type(action)], **named})


def action_from_text(text: str) -> Action:
    """Return the action that *text* encodes.

    Raises:
        DamagedRecordError: The text does not encode an action.
    """
    with decoding("an action", text):
        document = json.loads(text)
        kind = _ACTIONS[document.pop("kind")]
        require_type(str, document.values())
        return kind(**document)


def steps_as_text(steps: Iterable[Step]) -> str:
    """Return the ids and the actions of *steps* as JSON."""
    return json.dumps([[step.id, action_as_text(step.action)] for step in steps])


def steps_from_text(text: str) -> tuple[Step, ...]:
    """Return the steps that *text* encodes.

    Raises:
        DamagedRecordError: The text does not encode steps.
    """
    with decoding("steps", text):
        pairs = [(name, action) for name, action in json.loads(text)]
        require_type(str, (part for pair in pairs for part in pair))
        return tuple(
            Step(StepId(name), action_from_text(action)) for name, action in pairs
        )


def plan_as_text(plan: Plan) -> str:
    """Return the complete steps of *plan* as JSON: also dependencies and details."""
    return json.dumps(
        [
            [step.id, action_as_text(step.action), list(step.depends_on), step.detail]
            for step in plan.steps
        ]
    )


def plan_from_text(text: str) -> Plan:
    """Return the plan that *text* encodes.

    Raises:
        DamagedRecordError: The text does not encode a plan.
    """
    with decoding("a plan", text):
        steps = []
        for name, action, depends_on, detail in json.loads(text):
            require_type(str, [name, action, detail, *depends_on])
            names = tuple(StepId(each) for each in depends_on)
            steps.append(Step(StepId(name), action_from_text(action), names, detail))
        return Plan(tuple(steps))


def load_as_text(load: MigrationLoad) -> str:
    """Return the use of the guest, the source and the target as JSON."""
    uses = load.guest, load.source, load.target
    return json.dumps([[use.cpu, use.memory] for use in uses])


def load_from_text(text: str) -> MigrationLoad:
    """Return the load that *text* encodes.

    Raises:
        DamagedRecordError: The text does not encode a load.
    """
    with decoding("the load before a migration", text):
        guest, source, target = (Usage(cpu, memory) for cpu, memory in json.loads(text))
        return MigrationLoad(guest, source, target)


def list_as_text(values: Iterable[object]) -> str:
    """Return names or numbers as a JSON list."""
    return json.dumps([*values])


def list_from_text(text: str, value_type: type[T]) -> tuple[T, ...]:
    """Return the names or numbers that *text* encodes.

    Raises:
        DamagedRecordError: The text does not encode a list of *value_type*.
    """
    with decoding("a list", text):
        values = json.loads(text)
        require_type(list, [values])
        require_type(value_type, values)
        return tuple(values)


def time_as_text(time: datetime) -> str:
    """Return *time* in UTC and with a fixed width, so that texts sort like times."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def format_timestamp(time: datetime) -> str:
    """Return *time* in UTC as files and JSON have it, 2026-11-21T12:00:00Z."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def time_from_text(text: str) -> datetime:
    """Return the time that *text* encodes, in UTC.

    Raises:
        DamagedRecordError: The text is not a time, or has no time zone.
    """
    with decoding("a time", text):
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError(text)
        return time.astimezone(UTC)


def value_as_text(value: Mapping[str, object]) -> str:
    """Return *value* as JSON.

    Raises:
        StoreError: JSON cannot represent the value.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"value to be saved is not valid JSON: {error}") from error


def value_from_text(text: str) -> Mapping[str, object]:
    """Return the mapping that *text* encodes.

    Raises:
        DamagedRecordError: The text does not encode a mapping.
    """
    with decoding("a value", text):
        value = json.loads(text)
        require_type(dict, [value])
        mapping: Mapping[str, object] = value
        return mapping


@contextmanager
def decoding(expected: str, value: object) -> Iterator[None]:
    """Convert errors while decoding *value*, which should be *expected*, to one error.

    Raises:
        DamagedRecordError: The value cannot be decoded.
    """
    try:
        yield
    except _DECODING_ERRORS as error:
        raise DamagedRecordError(
            f"expected {expected}, got {repr_value(value)}"
        ) from error


def require_type(value_type: type[object], values: Iterable[object]) -> None:
    """Check that all *values* are of type *value_type*.

    Raises:
        TypeError: A value has another type.
    """
    for value in values:
        if not isinstance(value, value_type):
            raise TypeError(value)
