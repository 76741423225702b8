"""Schema of placement rules in files, for pydantic."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal, NotRequired

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    with_config,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict  # pydantic rejects that of Python 3.11

from opendrs.config.schema_types import STRICT, Name, NonEmptyNames
from opendrs.model import MAX_PRIORITY, MIN_PRIORITY


def _any_of(*names: str) -> dict[str, JsonValue]:
    return {"anyOf": [{"required": [name]} for name in names]}


_TWO: dict[str, JsonValue] = {
    "required": ["guests"],
    "properties": {"guests": {"minItems": 2}},
}
_TWO_OR_TAGS: dict[str, JsonValue] = {"anyOf": [{"required": ["tags"]}, _TWO]}
_TWO_GUESTS_OR_TAGS = ConfigDict(**STRICT, json_schema_extra=_TWO_OR_TAGS)
_ONE_OR_TWO_SIDES = ConfigDict(
    **STRICT,
    json_schema_extra={
        "if": _any_of("other_guests", "other_tags"),
        "then": {**_any_of("guests", "tags"), "not": _any_of("domain", "max_guests")},
        "else": _TWO_OR_TAGS,
    },
)
_GUESTS_AND_NODES = ConfigDict(
    **STRICT,
    json_schema_extra={
        "allOf": [_any_of("guests", "tags"), _any_of("nodes", "labels", "groups")]
    },
)

StrictFlag = Annotated[
    bool,
    Field(description="True if the rule must hold (default); false if preferred."),
]
DomainKey = Annotated[
    str, Field(min_length=1, description="Key of the labels that name the domain.")
]
MaxGuests = Annotated[int, Field(ge=1, le=10**9, description="Most in a domain.")]
GuestTags = Annotated[
    NonEmptyNames, Field(description="Tags of guests that join those named.")
]
OtherGuests = Annotated[
    NonEmptyNames, Field(description="Guests that share no node with the others.")
]
OtherTags = Annotated[
    NonEmptyNames, Field(description="Tags of guests that join the other guests.")
]
NodeLabels = Annotated[
    NonEmptyNames, Field(description="Labels of nodes that join those named.")
]
NodeGroups = Annotated[
    NonEmptyNames, Field(description="Groups of nodes that join those named.")
]
ExclusiveFlag = Annotated[
    bool, Field(description="True if all other guests keep off these nodes.")
]
SoftWeight = Annotated[
    float,
    Field(
        ge=MIN_PRIORITY,
        le=MAX_PRIORITY,
        description="Weight of a soft rule, relative to others (default 1).",
    ),
]
RuleName = Annotated[str, Field(description="Name of the rule.")]
RuleOrigin = Annotated[str, Field(description="Where the rule is defined.")]


@with_config(_GUESTS_AND_NODES)
class NodeAffinityEntry(TypedDict):
    """Each of these guests belongs on one of these nodes."""

    kind: Literal["node-affinity"]
    guests: NotRequired[NonEmptyNames]
    tags: NotRequired[GuestTags]
    nodes: NotRequired[
        Annotated[
            dict[Name, Annotated[int, Field(ge=-(10**9), le=10**9)]],
            Field(min_length=1, description="Priority of each; higher is better."),
        ]
    ]
    labels: NotRequired[NodeLabels]
    groups: NotRequired[NodeGroups]
    exclusive: NotRequired[ExclusiveFlag]
    strict: NotRequired[StrictFlag]
    weight: NotRequired[SoftWeight]
    name: NotRequired[RuleName]
    origin: NotRequired[RuleOrigin]


@with_config(_TWO_GUESTS_OR_TAGS)
class AffinityEntry(TypedDict):
    """All of these guests share a node, or a domain."""

    kind: Literal["affinity"]
    guests: NotRequired[NonEmptyNames]
    tags: NotRequired[GuestTags]
    domain: NotRequired[DomainKey]
    strict: NotRequired[StrictFlag]
    weight: NotRequired[SoftWeight]
    name: NotRequired[RuleName]
    origin: NotRequired[RuleOrigin]


@with_config(_ONE_OR_TWO_SIDES)
class AntiAffinityEntry(TypedDict):
    """No two of these guests share a node, or no more than allowed a domain.

    With other guests, none of them shares a node with any of these.
    """

    kind: Literal["anti-affinity"]
    guests: NotRequired[NonEmptyNames]
    tags: NotRequired[GuestTags]
    other_guests: NotRequired[OtherGuests]
    other_tags: NotRequired[OtherTags]
    domain: NotRequired[DomainKey]
    max_guests: NotRequired[MaxGuests]
    strict: NotRequired[StrictFlag]
    weight: NotRequired[SoftWeight]
    name: NotRequired[RuleName]
    origin: NotRequired[RuleOrigin]


@with_config(STRICT)
class PinEntry(TypedDict):
    """None of these guests is ever migrated."""

    kind: Literal["pin"]
    guests: NonEmptyNames
    name: NotRequired[RuleName]
    origin: NotRequired[RuleOrigin]


@with_config(STRICT)
class TagExclusionEntry(TypedDict):
    """No guest with one of these tags is ever migrated."""

    kind: Literal["exclusion"]
    tags: NonEmptyNames
    name: NotRequired[RuleName]
    origin: NotRequired[RuleOrigin]


def _require_priority(
    value: object, handler: ValidatorFunctionWrapHandler
) -> str | float:
    """Return *value*; reject it with one error for both forms of a priority."""
    try:
        priority: str | float = handler(value)
    except ValidationError:
        raise PydanticCustomError(
            "priority",
            "expected low, normal, high, or a number from {least} to {most}",
            {"least": f"{MIN_PRIORITY:g}", "most": f"{MAX_PRIORITY:g}"},
        ) from None
    return priority


@with_config(STRICT)
class GuestPriorityEntry(TypedDict):
    """The contention and the migrations of these guests count with this weight."""

    kind: Literal["priority"]
    value: Annotated[
        Literal["low", "normal", "high"]
        | Annotated[float, Field(ge=MIN_PRIORITY, le=MAX_PRIORITY)],
        WrapValidator(_require_priority),
        Field(description="Weight: low is 0.5, normal 1, high 2, or a number."),
    ]
    guests: NotRequired[NonEmptyNames]
    tags: NotRequired[GuestTags]
    name: NotRequired[RuleName]
    origin: NotRequired[RuleOrigin]


def _require_guests(entry: AffinityEntry) -> AffinityEntry:
    """Return *entry*; reject a single named guest."""
    _require_two(entry.get("guests", ()), has_tags="tags" in entry)
    return entry


def _require_two(guests: Collection[str], *, has_tags: bool) -> None:
    if len(guests) < 2 and not has_tags:
        raise ValueError(f"expected at least 2 guests, or tags, got {len(guests)}")


def _require_sides(entry: AntiAffinityEntry) -> AntiAffinityEntry:
    """Return *entry*; reject too few guests, and fields that exclude each other."""
    if "other_guests" not in entry and "other_tags" not in entry:
        _require_two(entry.get("guests", ()), has_tags="tags" in entry)
        return entry
    if "guests" not in entry and "tags" not in entry:
        raise ValueError("expected guests or tags besides the other guests")
    if "domain" in entry or "max_guests" in entry:
        raise ValueError("expected no domain and no max_guests with other guests")
    others = entry.get("other_guests", ())
    if both := sorted(set(entry.get("guests", ())).intersection(others)):
        raise ValueError(
            f"expected other_guests without {', '.join(both)}, which guests contains"
        )
    return entry


RuleEntry = (
    NodeAffinityEntry
    | Annotated[AffinityEntry, AfterValidator(_require_guests)]
    | Annotated[AntiAffinityEntry, AfterValidator(_require_sides)]
    | PinEntry
    | TagExclusionEntry
    | GuestPriorityEntry
)
RuleEntries = list[Annotated[RuleEntry, Field(discriminator="kind")]]
RULES = TypeAdapter(RuleEntries, config=ConfigDict(defer_build=True))
