"""Version 1 of the API between agents and the controller, field by field.

Requests to the controller are validated strictly and may hold no other fields. A response may hold
further fields in a later version; the reader ignores them.
"""

from __future__ import annotations

from datetime import UTC, datetime
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

from opendrs.ports import LoadState, Outcome
from opendrs.ports import RequestState as RequestState

REQUESTS_PATH = "/v1/requests"
REQUEST_PATH = "/v1/requests/{id}"
SAMPLES_PATH = "/v1/guests/{guest}/samples"
HEALTH_PATH = "/v1/health"
OPENAPI_PATH = "/v1/openapi.json"
MAX_BODY_BYTES = 4 * 2**20  # bytes: some 500 guests of 400 samples each
MAX_SEQUENCE = 2**63 - 1  # what SQLite holds
MAX_NAME_LENGTH = 255
MAX_INTERVAL = 86_400  # seconds
MAX_CORES = 1_000_000  # of one node
MAX_SAMPLES = 1000  # of one guest
MAX_TOTAL_SAMPLES = 400_000  # of one request: they take some 15 MiB of memory
MAX_GUESTS = 10_000  # on one node


def _to_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise PydanticCustomError("moment", "expected a time within reach") from None


def _require_distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise PydanticCustomError("distinct", "expected each name only once")
    return names


UtcTime = Annotated[AwareDatetime, AfterValidator(_to_utc)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]
Cores = Annotated[float, Field(ge=0, le=MAX_CORES)]
History = Annotated[list[Cores], Field(max_length=MAX_SAMPLES)]


class _RequestModel(BaseModel):
    """What is sent to the controller: just this, and strictly so."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False
    )


class _ResponseModel(BaseModel):
    """What the controller answers; what is not known of it is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class UsageSamples(_RequestModel):
    """What the guests of a node used, and the node outside of them.

    Histories begin with the oldest sample. Those at the end of each are of one
    moment, that of the request; one may be shorter than another. They have at most
    400,000 samples together.
    """

    interval: Annotated[
        float,
        Field(
            gt=0,
            le=MAX_INTERVAL,
            description="Seconds from one sample to the next.",
        ),
    ]
    guests: Annotated[
        dict[Name, History],
        Field(
            max_length=MAX_GUESTS,
            description="CPU that each guest of the node used, in cores. "
            "A guest that was not measured now is absent.",
        ),
    ]
    host_overhead: Annotated[
        History,
        Field(description="CPU that the node used outside its guests, in cores."),
    ]

    @model_validator(mode="after")
    def _require_total_samples(self) -> Self:
        count = len(self.host_overhead) + sum(map(len, self.guests.values()))
        if count > MAX_TOTAL_SAMPLES:
            raise PydanticCustomError(
                "samples",
                "expected at most {most} samples in all",
                {"most": MAX_TOTAL_SAMPLES},
            )
        return self


class RequestBody(_RequestModel):
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
            le=MAX_SEQUENCE,
            description="Grows with each request of the node, over restarts too.",
        ),
    ]
    taken_at: Annotated[
        UtcTime, Field(description="When the newest samples were taken.")
    ]
    load_state: Annotated[LoadState, Field(description="What the agent finds.")]
    evict: Annotated[
        list[Name],
        AfterValidator(_require_distinct),
        Field(
            max_length=MAX_GUESTS,
            description="Who should leave an overloaded node, the first first; "
            "empty otherwise.",
            json_schema_extra={"uniqueItems": True},
        ),
    ] = []
    samples: UsageSamples

    @model_validator(mode="after")
    def _require_overload_to_evict(self) -> Self:
        if self.evict and self.load_state is not LoadState.OVERLOADED:
            raise PydanticCustomError(
                "evict", "expected nobody to leave a node that is not overloaded"
            )
        return self


class ActionBody(_ResponseModel):
    """What a step does; switching a node has only a target."""

    kind: Literal["live-migration", "cold-migration", "power-on", "power-off"]
    guest: str | None = None
    source: str | None = None
    target: str


class StepOutcome(_ResponseModel):
    """One step that followed from a request, and what came of it."""

    id: Annotated[str, Field(description="Its name in the plan.")]
    action: Annotated[ActionBody, Field(description="What it does.")]
    outcome: Annotated[
        Outcome | None, Field(description="What came of it; null while it runs.")
    ] = None
    detail: Annotated[str, Field(description="Why, in words.")] = ""


class RequestStatus(_ResponseModel):
    """How a request stands."""

    id: Annotated[UUID, Field(description="The request.")]
    state: Annotated[
        RequestState,
        Field(
            description="queued: written down; evaluating: looked at now; executing: "
            "its steps run; done: nothing is left to do; rejected: nothing or not all "
            "was done, because it may not be; superseded: a newer request of the node "
            "came before it was looked at; failed: a step failed."
        ),
    ]
    detail: Annotated[str, Field(description="Why, in words.")] = ""
    steps: Annotated[
        list[StepOutcome], Field(description="What followed from it.")
    ] = []


class GuestSamples(_ResponseModel):
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


class Health(_ResponseModel):
    """That the controller answers."""

    status: Literal["ok"] = "ok"


class ProblemDetails(_ResponseModel):
    """Why something was not accepted."""

    detail: Annotated[str, Field(description="Why, in words.")]
    last_sequence: Annotated[
        int | None,
        Field(
            description="Of the last request of the node that was accepted, where "
            "one of the same or a lower sequence is not; null otherwise."
        ),
    ] = None
