"""What agents and the controller say to each other: version 1, field by field.

What is sent to the controller is taken strictly, and may hold nothing else. An
answer may one day hold more than is known here: who reads one passes over that.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from opendrs.ports import Outcome
from opendrs.ports import RequestState as RequestState

REQUESTS = "/v1/requests"
REQUEST = "/v1/requests/{id}"
SAMPLES = "/v1/guests/{guest}/samples"
HEALTH = "/v1/health"
OPENAPI = "/v1/openapi.json"

LARGEST_BODY = 4 * 2**20  # bytes: some 500 guests of 400 samples each
LARGEST_SEQUENCE = 2**63 - 1  # what SQLite holds
LONGEST_NAME = 255
LONGEST_INTERVAL = 86_400  # seconds
MOST_CORES = 1_000_000  # of one node
MOST_SAMPLES = 1000  # of one guest
MOST_SAMPLES_IN_ALL = 400_000  # of one request: they take some 15 MiB of memory
MOST_GUESTS = 10_000  # on one node


class Verdict(StrEnum):
    """What a node's agent finds of its node."""

    CALM = "calm"
    UNDERLOADED = "underloaded"
    OVERLOADED = "overloaded"


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise PydanticCustomError("moment", "expected a time within reach") from None


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise PydanticCustomError("distinct", "expected each name only once")
    return names


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Cores = Annotated[float, Field(ge=0, le=MOST_CORES)]
History = Annotated[list[Cores], Field(max_length=MOST_SAMPLES)]


class _Told(BaseModel):
    """What is sent to the controller: just this, and strictly so."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False
    )


class _Answer(BaseModel):
    """What the controller answers; what is not known of it is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Samples(_Told):
    """What the guests of a node used, and the node outside of them.

    Histories begin with the oldest sample. Those at the end of each are of one
    moment, that of the request; one may be shorter than another. They have at most
    400,000 samples together.
    """

    interval: Annotated[
        float,
        Field(
            gt=0,
            le=LONGEST_INTERVAL,
            description="Seconds from one sample to the next.",
        ),
    ]
    guests: Annotated[
        dict[Name, History],
        Field(
            max_length=MOST_GUESTS,
            description="CPU that each guest of the node used, in cores. "
            "A guest that was not measured now is absent.",
        ),
    ]
    own: Annotated[
        History,
        Field(description="CPU that the node used outside its guests, in cores."),
    ]

    @model_validator(mode="after")
    def _not_too_many_in_all(self) -> Self:
        count = len(self.own) + sum(map(len, self.guests.values()))
        if count > MOST_SAMPLES_IN_ALL:
            raise PydanticCustomError(
                "samples",
                "expected at most {most} samples in all",
                {"most": MOST_SAMPLES_IN_ALL},
            )
        return self


class Request(_Told):
    """What the agent of a node finds, and asks for.

    It is sent each interval, also when all is calm: it is the agent's sign of
    life, and what it measured.
    """

    id: Annotated[
        UUID,
        Field(description="Chosen by the agent; sent again it changes nothing."),
    ]
    node: Annotated[Name, Field(description="The node that the agent is on.")]
    sequence: Annotated[
        int,
        Field(
            ge=0,
            le=LARGEST_SEQUENCE,
            description="Grows with each request of the node, over restarts too.",
        ),
    ]
    taken_at: Annotated[
        Moment, Field(description="When the newest samples were taken.")
    ]
    verdict: Annotated[Verdict, Field(description="What the agent finds.")]
    leaving: Annotated[
        list[Name],
        AfterValidator(_distinct),
        Field(
            max_length=MOST_GUESTS,
            description="Who should leave an overloaded node, the first first; "
            "empty otherwise.",
            json_schema_extra={"uniqueItems": True},
        ),
    ] = []
    samples: Samples

    @model_validator(mode="after")
    def _only_the_overloaded_give_away(self) -> Self:
        if self.leaving and self.verdict is not Verdict.OVERLOADED:
            raise PydanticCustomError(
                "leaving", "expected nobody to leave a node that is not overloaded"
            )
        return self


class Deed(_Answer):
    """What a step does; switching a node has only a target."""

    kind: Literal["migrate", "relocate", "power-on", "power-off"]
    guest: str | None = None
    source: str | None = None
    target: str


class StepOutcome(_Answer):
    """One step that followed from a request, and what came of it."""

    id: Annotated[str, Field(description="Its name in the plan.")]
    action: Annotated[Deed, Field(description="What it does.")]
    outcome: Annotated[
        Outcome | None, Field(description="What came of it; null while it runs.")
    ] = None
    detail: Annotated[str, Field(description="Why, in words.")] = ""


class Standing(_Answer):
    """How a request stands."""

    id: Annotated[UUID, Field(description="The request.")]
    state: Annotated[
        RequestState,
        Field(
            description="queued: written down; deciding: looked at now; executing: "
            "its steps run; done: nothing is left to do; refused: nothing or not all "
            "was done, because it may not be; superseded: a newer request of the node "
            "came before it was looked at; failed: a step failed."
        ),
    ]
    detail: Annotated[str, Field(description="Why, in words.")] = ""
    steps: Annotated[
        list[StepOutcome], Field(description="What followed from it.")
    ] = []


class GuestSamples(_Answer):
    """The history of a guest that counts, wherever it was measured."""

    interval: Annotated[
        float, Field(description="Seconds from one sample to the next.")
    ]
    taken_at: Annotated[
        AwareDatetime, Field(description="When the newest sample was taken.")
    ]
    samples: Annotated[
        list[float], Field(description="CPU it used, in cores; the oldest first.")
    ]


class Health(_Answer):
    """That the controller answers."""

    status: Literal["ok"] = "ok"


class Problem(_Answer):
    """Why something was not accepted."""

    detail: Annotated[str, Field(description="Why, in words.")]
    last_sequence: Annotated[
        int | None,
        Field(
            description="Of the last request of the node that was accepted, where "
            "one of the same or a lower sequence is not; null otherwise."
        ),
    ] = None
