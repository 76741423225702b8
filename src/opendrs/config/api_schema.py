"""Schema of the HTTP API, version 1, between agents and the controller.

Requests are validated strictly and must not contain other fields. A response may
contain further fields in a later version; clients ignore them.

`api` and `agent` do not import each other, so the schema is in a package below both:
in `config`, which validates all documents from outside with pydantic.
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

from opendrs.config.schema_types import require_unique
from opendrs.model import LoadState
from opendrs.ports import Outcome
from opendrs.ports import RequestState as RequestState

REQUEST_PATH = "/api/v1/requests/{id}"
SAMPLES_PATH = "/api/v1/guests/{guest}/samples"
HEALTH_PATH = "/api/v1/health"
OPENAPI_PATH = "/api/v1/openapi.json"
MAX_BODY_BYTES = 4 * 2**20  # bytes: some 500 guests of 400 samples each
MAX_SEQUENCE = 2**63 - 1  # largest integer of SQLite
MAX_NAME_LENGTH = 255
MAX_INTERVAL = 86_400  # seconds
MAX_CORES = 1_000_000  # of one node
MAX_SAMPLES = 1000  # of one guest
MAX_TOTAL_SAMPLES = 400_000  # of one request; about 15 MiB of memory
MAX_GUESTS = 10_000  # on one node


def _to_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise PydanticCustomError("moment", "expected a time in UTC range") from None


UtcTime = Annotated[AwareDatetime, AfterValidator(_to_utc)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]
Cores = Annotated[float, Field(ge=0, le=MAX_CORES)]
History = Annotated[list[Cores], Field(max_length=MAX_SAMPLES)]


class _RequestModel(BaseModel):
    """Base class of request bodies: strict, without other fields."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False
    )


class _ResponseModel(BaseModel):
    """Base class of response bodies: unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


def request_path(name: UUID | str) -> str:
    """Return the path of the request with the id *name*."""
    return REQUEST_PATH.replace("{id}", str(name))


class UsageSamples(_RequestModel):
    """CPU usage of the guests of a node, and of the node outside its guests.

    Histories start with the oldest sample. The last sample of each history was taken
    at the time of the request. Histories may differ in length. They have at most
    400,000 samples together.
    """

    interval: Annotated[
        float,
        Field(
            gt=0,
            le=MAX_INTERVAL,
            description="Seconds between two samples.",
        ),
    ]
    guests: Annotated[
        dict[Name, History],
        Field(
            max_length=MAX_GUESTS,
            description="CPU usage of each guest of the node, in cores. "
            "A guest without a current measurement is absent.",
        ),
    ]
    host_overhead: Annotated[
        History,
        Field(description="CPU usage of the node outside its guests, in cores."),
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
    """Request of a host agent: load state, guests to evict, and samples.

    The agent sends one in each interval, also with the load state normal: the request
    carries the samples and shows that the agent is running.
    """

    id: Annotated[
        UUID,
        Field(description="That of the path, chosen by the agent."),
    ]
    node: Annotated[Name, Field(description="Node of the agent.")]
    sequence: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_SEQUENCE,
            description="Increases with each request of the node, also over restarts.",
        ),
    ]
    taken_at: Annotated[UtcTime, Field(description="Time of the newest samples.")]
    load_state: Annotated[LoadState, Field(description="Load state of the node.")]
    evict: Annotated[
        list[Name],
        AfterValidator(require_unique),
        Field(
            max_length=MAX_GUESTS,
            description="Guests to evict from an overloaded node, in order of "
            "preference; empty for other load states.",
            json_schema_extra={"uniqueItems": True},
        ),
    ] = []
    samples: UsageSamples

    @model_validator(mode="after")
    def _require_overload_to_evict(self) -> Self:
        if self.evict and self.load_state is not LoadState.OVERLOADED:
            raise PydanticCustomError(
                "evict", "expected no guests to evict unless load_state is overloaded"
            )
        return self


class ActionBody(_ResponseModel):
    """Action of a step; a power action has only a target."""

    kind: Literal["live-migration", "cold-migration", "power-on", "power-off"]
    guest: str | None = None
    source: str | None = None
    target: str


class StepOutcome(_ResponseModel):
    """One step that results from a request, with its outcome."""

    id: Annotated[str, Field(description="Id of the step in the plan.")]
    action: Annotated[ActionBody, Field(description="Action of the step.")]
    outcome: Annotated[
        Outcome | None, Field(description="Outcome; null while the step has none.")
    ] = None
    detail: Annotated[str, Field(description="Reason, for the operator.")] = ""


class RequestStatus(_ResponseModel):
    """Status of a request."""

    id: Annotated[UUID, Field(description="Id of the request.")]
    state: Annotated[
        RequestState,
        Field(
            description="queued: recorded; evaluating: being evaluated; executing: "
            "its steps are running; done: nothing is left to do; rejected: not, or not "
            "completely, possible; superseded: a newer request of the node arrived "
            "before the evaluation; failed: a step failed."
        ),
    ]
    detail: Annotated[str, Field(description="Reason, for the operator.")] = ""
    steps: Annotated[
        list[StepOutcome], Field(description="Steps that result from the request.")
    ] = []


class GuestSamples(_ResponseModel):
    """Current history of a guest, from any node."""

    interval: Annotated[float, Field(description="Seconds between two samples.")]
    taken_at: Annotated[AwareDatetime, Field(description="Time of the newest sample.")]
    samples: Annotated[
        list[float], Field(description="CPU usage in cores, oldest first.")
    ]


class ReceivedProblem(_ResponseModel):
    """Members of a problem response (RFC 9457) that a client uses."""

    detail: str
    last_sequence: int | None = None
