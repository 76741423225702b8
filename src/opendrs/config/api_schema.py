"""Schema of version 1 of the API between agents and the controller.

Requests are validated strictly and must not contain other fields. A response may
contain further fields in a later version; clients ignore them.

`api` and `agent` do not import each other, so the schema is in a package below both:
in `config`, which validates all documents from outside with pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
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

from opendrs.config.snapshot_schema import require_unique
from opendrs.model import LoadState
from opendrs.ports import Outcome
from opendrs.ports import RequestState as RequestState

REQUESTS_PATH = "/v1/requests"
REQUEST_PATH = "/v1/requests/{id}"
SAMPLES_PATH = "/v1/guests/{guest}/samples"
HEALTH_PATH = "/v1/health"
OPENAPI_PATH = "/v1/openapi.json"
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
        Field(description="Chosen by the agent. A repeated request has no effect."),
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


class Health(_ResponseModel):
    """Response of a controller that is running."""

    status: Literal["ok"] = "ok"


class ProblemCode(StrEnum):
    """Code of a problem response. The values are stable."""

    TOKEN_UNKNOWN = "token-unknown"  # noqa: S105 - a code
    """The request has no token, or an unknown one."""
    TOKEN_MISMATCH = "token-mismatch"  # noqa: S105 - a code
    """The token belongs to another node."""
    TOKEN_IN_NAME = "token-in-name"  # noqa: S105 - a code
    """A name in the request contains a token. Replace this token."""
    REQUEST_STALE = "request-stale"
    """The sequence is not above that of the last accepted request of the node."""
    REQUEST_INVALID = "request-invalid"
    """The body is not a valid request. The detail names up to five problems."""
    REQUEST_MALFORMED = "request-malformed"
    """The request is not valid HTTP."""
    REQUEST_UNKNOWN = "request-unknown"
    """There is no request with this id, or it is not kept any more."""
    ID_CONFLICT = "id-conflict"
    """The id belongs to a request with other content."""
    SAMPLES_TOO_OLD = "samples-too-old"
    """The samples are older than api.max_sample_age."""
    SAMPLES_UNKNOWN = "samples-unknown"
    """There are no samples of this guest."""
    CLOCK_AHEAD = "clock-ahead"
    """The clock of the agent is ahead by more than api.max_clock_skew."""
    PATH_UNKNOWN = "path-unknown"
    """The path does not exist."""
    PATH_INVALID = "path-invalid"
    """A parameter in the path is not valid."""
    METHOD_NOT_ALLOWED = "method-not-allowed"
    """The path does not support this method. The header Allow lists the methods."""
    BODY_INCOMPLETE = "body-incomplete"
    """The client closed the connection before the end of the body."""
    BODY_TIMEOUT = "body-timeout"
    """The body was not received in time."""
    BODY_TOO_LARGE = "body-too-large"
    """The body is too large."""
    ENCODING_NOT_SUPPORTED = "encoding-not-supported"
    """The body is compressed."""
    NODE_BUSY = "node-busy"
    """Other requests of the node are being processed. Retry."""
    SERVER_BUSY = "server-busy"
    """Other requests use all memory for bodies. Retry."""
    STORE_FAILED = "store-failed"
    """The request could not be recorded. Retry."""
    INTERNAL_ERROR = "internal-error"
    """Internal error of the controller. Its log has the details."""

    @property
    def status(self) -> HTTPStatus:
        """HTTP status of a response with this code."""
        return _STATUS[self]


_STATUS: Mapping[ProblemCode, HTTPStatus] = {
    ProblemCode.TOKEN_UNKNOWN: HTTPStatus.UNAUTHORIZED,
    ProblemCode.TOKEN_MISMATCH: HTTPStatus.FORBIDDEN,
    ProblemCode.TOKEN_IN_NAME: HTTPStatus.UNPROCESSABLE_ENTITY,
    ProblemCode.REQUEST_STALE: HTTPStatus.PRECONDITION_FAILED,
    ProblemCode.REQUEST_INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    ProblemCode.REQUEST_MALFORMED: HTTPStatus.BAD_REQUEST,
    ProblemCode.REQUEST_UNKNOWN: HTTPStatus.NOT_FOUND,
    ProblemCode.ID_CONFLICT: HTTPStatus.CONFLICT,
    ProblemCode.SAMPLES_TOO_OLD: HTTPStatus.PRECONDITION_FAILED,
    ProblemCode.SAMPLES_UNKNOWN: HTTPStatus.NOT_FOUND,
    ProblemCode.CLOCK_AHEAD: HTTPStatus.PRECONDITION_FAILED,
    ProblemCode.PATH_UNKNOWN: HTTPStatus.NOT_FOUND,
    ProblemCode.PATH_INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    ProblemCode.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
    ProblemCode.BODY_INCOMPLETE: HTTPStatus.BAD_REQUEST,
    ProblemCode.BODY_TIMEOUT: HTTPStatus.REQUEST_TIMEOUT,
    ProblemCode.BODY_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ProblemCode.ENCODING_NOT_SUPPORTED: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ProblemCode.NODE_BUSY: HTTPStatus.TOO_MANY_REQUESTS,
    ProblemCode.SERVER_BUSY: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemCode.STORE_FAILED: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemCode.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}


class ProblemDetails(_ResponseModel):
    """Body of a response that is not 2xx."""

    # Empty only in a response that does not come from a controller.
    code: Annotated[
        ProblemCode | str,
        Field(
            union_mode="left_to_right",
            description="Code of the problem. A later version may have further codes.",
        ),
    ] = ""
    detail: Annotated[str, Field(description="Reason, for the operator.")]
    last_sequence: Annotated[
        int | None,
        Field(
            description="Sequence of the last accepted request of the node, if the "
            "request was rejected because its sequence is not above it; null otherwise."
        ),
    ] = None
