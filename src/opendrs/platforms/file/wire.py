"""The format opendrs-snapshot/1, field by field.

What is optional is absent, and what is absent is unknown: never zero, never
null. The descriptions are published in the JSON Schema.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, NotRequired

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    WithJsonSchema,
    with_config,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict  # pydantic refuses the one of Python 3.11

from opendrs.model import GuestKind, GuestState, Mobility, NodeState
from opendrs.model.node import LEAST_CPU
from opendrs.model.quantities import RATE, SIZE, TIME
from opendrs.model.resources import LARGEST_AMOUNT

FORMAT = "opendrs-snapshot/1"

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def _moment(value: object) -> datetime:
    """Return the instant that *value* is, in UTC."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(found, datetime) and found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise PydanticCustomError(
        "moment", "expected a time with its zone, such as 2026-11-21T12:00:00Z"
    )


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise PydanticCustomError("distinct", "expected each name only once")
    return names


_DATE_TIME = {"type": "string", "format": "date-time"}
_UNIQUE = Field(json_schema_extra={"uniqueItems": True})

Moment = Annotated[datetime, PlainValidator(_moment), WithJsonSchema(_DATE_TIME)]
Name = Annotated[str, Field(min_length=1)]
_FIRST = Field(fail_fast=True)  # an error for each of a million members is too many
Words = Annotated[list[str], _FIRST, AfterValidator(_distinct), _UNIQUE]
Some = Annotated[
    list[Name], Field(min_length=1), _FIRST, AfterValidator(_distinct), _UNIQUE
]
Several = Annotated[
    list[Name], Field(min_length=2), _FIRST, AfterValidator(_distinct), _UNIQUE
]
Amount = Annotated[float, Field(ge=0, le=LARGEST_AMOUNT)]
Bytes = Annotated[int, Field(ge=0, le=LARGEST_AMOUNT), SIZE]
Fraction = Annotated[float, Field(ge=0, le=1)]
Lax = Field(strict=False)


@with_config(_STRICT)
class Capacity(TypedDict):
    """What a node has in all."""

    cpu: Annotated[
        float, Field(ge=LEAST_CPU, le=LARGEST_AMOUNT, description="Processor cores.")
    ]
    memory: Annotated[
        int, Field(gt=0, le=LARGEST_AMOUNT), SIZE, Field(description="Memory in bytes.")
    ]


@with_config(_STRICT)
class Limit(TypedDict):
    """What a guest may use at most."""

    cpu: Annotated[Amount, Field(description="Processor cores; 0 for no limit.")]
    memory: Annotated[Bytes, Field(description="Memory in bytes.")]


@with_config(_STRICT)
class Used(TypedDict, total=False):
    """What is in use now, as far as it was measured."""

    cpu: Annotated[Amount, Field(description="Busy processor cores.")]
    memory: Annotated[Bytes, Field(description="Memory in use, in bytes.")]


@with_config(_STRICT)
class Stalled(TypedDict, total=False):
    """The share of time in which work waited for a resource (PSI)."""

    some: Annotated[
        Fraction, Field(description="Fraction of time in which a task waited.")
    ]
    full: Annotated[
        Fraction, Field(description="Fraction of time in which all tasks waited.")
    ]


@with_config(_STRICT)
class Pressures(TypedDict, total=False):
    """Pressure stall information (PSI) for each resource."""

    cpu: Stalled
    memory: Stalled
    io: Stalled


@with_config(_STRICT)
class NodeEntry(TypedDict, total=False):
    """A hypervisor host."""

    capacity: Capacity
    usage: Used
    state: Annotated[
        NodeState,
        Lax,
        Field(description="Only an online node receives guests; absent is unknown."),
    ]
    architecture: Annotated[
        str, Field(description="Instruction set, such as x86_64 or aarch64.")
    ]
    cpu_model: Annotated[
        str, Field(description="Processor model as the hypervisor names it.")
    ]
    labels: Annotated[
        Words, Field(description="What the operator says about the host.")
    ]
    load_average: Annotated[
        Amount, Field(description="Runnable tasks, averaged over one minute.")
    ]
    pressure: Pressures
    ksm_shared: Annotated[
        Bytes, Field(description="Bytes saved by merging equal memory pages (KSM).")
    ]
    woken_at: Annotated[Moment, Field(description="When it was last woken.")]


@with_config(_STRICT)
class GuestEntry(TypedDict):
    """A virtual machine or a system container."""

    node: Annotated[Name, Field(description="The node it is on.")]
    kind: Annotated[GuestKind, Lax, Field(description="What kind of guest it is.")]
    state: NotRequired[
        Annotated[
            GuestState,
            Lax,
            Field(description="Whether it runs; absent is unknown."),
        ]
    ]
    limit: NotRequired[Limit]
    usage: NotRequired[Used]
    pressure: NotRequired[Pressures]
    uptime: NotRequired[
        Annotated[Amount, TIME, Field(description="Seconds since it started.")]
    ]
    moves: NotRequired[
        Annotated[
            Mobility,
            Lax,
            Field(description="How it can get to another node."),
        ]
    ]
    obstacle: NotRequired[
        Annotated[str, Field(description="Why it cannot move live, in words.")]
    ]
    ha_managed: NotRequired[
        Annotated[bool, Field(description="Whether an HA manager restarts it.")]
    ]
    tags: NotRequired[
        Annotated[Words, Field(description="What the operator says about the guest.")]
    ]
    cpu_model: NotRequired[
        Annotated[str, Field(description="The node's processor model it depends on.")]
    ]
    migrating_to: NotRequired[
        Annotated[
            Name, Field(description="The target, while a migration is under way.")
        ]
    ]
    moved_at: NotRequired[
        Annotated[Moment, Field(description="When it was last moved.")]
    ]
    dirty_rate: NotRequired[
        Annotated[
            Amount,
            RATE,
            Field(description="Bytes of memory it writes anew in a second."),
        ]
    ]


Strict = Annotated[
    bool,
    Field(description="Whether the rule must be kept; true when absent."),
]
Title = Annotated[str, Field(description="What the operator calls the rule.")]


@with_config(_STRICT)
class NodeAffinityEntry(TypedDict):
    """Each of these guests belongs on one of these nodes."""

    kind: Literal["node-affinity"]
    guests: Some
    nodes: Annotated[
        dict[Name, Annotated[int, Field(ge=-(10**9), le=10**9)]],
        Field(min_length=1, description="Priority of each; the higher, the better."),
    ]
    strict: NotRequired[Strict]
    name: NotRequired[Title]


@with_config(_STRICT)
class AffinityEntry(TypedDict):
    """All of these guests share a node."""

    kind: Literal["affinity"]
    guests: Several
    strict: NotRequired[Strict]
    name: NotRequired[Title]


@with_config(_STRICT)
class AntiAffinityEntry(TypedDict):
    """No two of these guests share a node."""

    kind: Literal["anti-affinity"]
    guests: Several
    strict: NotRequired[Strict]
    name: NotRequired[Title]


@with_config(_STRICT)
class PinEntry(TypedDict):
    """None of these guests is ever moved."""

    kind: Literal["pin"]
    guests: Some
    name: NotRequired[Title]


@with_config(_STRICT)
class ExclusionEntry(TypedDict):
    """No guest that bears one of these tags is ever moved."""

    kind: Literal["exclusion"]
    tags: Some
    name: NotRequired[Title]


RuleEntry = (
    NodeAffinityEntry | AffinityEntry | AntiAffinityEntry | PinEntry | ExclusionEntry
)
RuleEntries = list[Annotated[RuleEntry, Field(discriminator="kind")]]


@with_config(_STRICT)
class SnapshotEntry(TypedDict):
    """One cluster at one instant."""

    format: Literal["opendrs-snapshot/1"]
    taken_at: Annotated[Moment, Field(description="When the cluster was observed.")]
    nodes: Annotated[dict[Name, NodeEntry], Field(description="Every node by name.")]
    guests: Annotated[
        dict[Name, GuestEntry],
        Field(description="Every guest by name, such as vm:101."),
    ]
    rules: NotRequired[
        Annotated[RuleEntries, Field(description="The placement rules in force.")]
    ]


SNAPSHOT = TypeAdapter(SnapshotEntry)
RULES = TypeAdapter(RuleEntries)
FIELDS = frozenset(
    field
    for entry in (
        SnapshotEntry,
        NodeEntry,
        GuestEntry,
        Capacity,
        Pressures,
        Stalled,
        NodeAffinityEntry,
        ExclusionEntry,
    )
    for field in entry.__annotations__
)
