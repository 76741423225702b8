"""Base classes of the documents, and the problems of RFC 9457."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

MAX_TEXT = 1_000  # characters of a reason that an operator gives
MAX_NAME = 255  # characters of an identifier
_ISO_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]")
PRINTABLE = r"^[^\u0000-\u001f\u007f]*$"  # text on one line


def _require_iso_time(value: object) -> object:
    """Return *value* if it is a time as text; numbers would be seconds since 1970."""
    if isinstance(value, str) and not _ISO_TIME.match(value):
        raise PydanticCustomError("time", "expected a time such as 2026-11-24T06:00Z")
    return value


IsoTime = Annotated[datetime, BeforeValidator(_require_iso_time)]

Cursor = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_NAME,
        pattern=PRINTABLE,
        description="`next` of another page of the list.",
    ),
]


class Document(BaseModel):
    """Base class of responses. A later version may add fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MovedDiskDocument(Document):
    """Disk that a step of the kind `disk-move` moves; its guest stays on its node."""

    name: str
    source: Annotated[str, Field(description="Storage that it leaves.")]
    target: Annotated[str, Field(description="Storage that it is moved to.")]


class RequestDocument(BaseModel):
    """Base class of request bodies: strict, without other fields."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False
    )


class ApiProblem(StrEnum):
    """Code of a problem of the HTTP API. The values are stable."""

    BODY_INCOMPLETE = "body-incomplete"
    """The client closed the connection before the end of the body."""
    BODY_INVALID = "body-invalid"
    """The body or a parameter is not as described; `errors` has each place."""
    BODY_TOO_LARGE = "body-too-large"
    """The body has too many bytes."""
    BODY_TIMEOUT = "body-timeout"
    """The body was not received in time."""
    CLOCK_AHEAD = "clock-ahead"
    """The clock of the agent is ahead by more than api.max_clock_skew."""
    CROSS_SITE = "cross-site"
    """The request comes from a page of another origin."""
    ENCODING_NOT_SUPPORTED = "encoding-not-supported"
    """The body is compressed."""
    FORBIDDEN = "forbidden"
    """The role of the token does not allow it."""
    ID_CONFLICT = "id-conflict"
    """The id belongs to a request with other content."""
    INTERNAL_ERROR = "internal-error"
    """A defect; the log of the server has the details."""
    ISSUER_UNAVAILABLE = "issuer-unavailable"
    """The issuer of `[web.oidc]` does not respond as expected; use a token."""
    METHOD_NOT_ALLOWED = "method-not-allowed"
    """The path does not have this method."""
    NODE_BUSY = "node-busy"
    """Other requests of the node are being processed; retry."""
    NO_ROLE = "no-role"
    """The issuer has authenticated the user, but no claim gives a role."""
    NOT_FOUND = "not-found"
    """There is no such path, plan, node, guest, job, token or request."""
    OUT_OF_RANGE = "out-of-range"
    """A value is outside its allowed range."""
    PLAN_CHANGED = "plan-changed"
    """The plan is not the one that was shown: `If-Match` has another digest."""
    PRECONDITION_REQUIRED = "precondition-required"
    """The header `If-Match` is missing: the digest of the plan that was shown."""
    RATE_LIMITED = "rate-limited"
    """Too many requests; `Retry-After` has the seconds to wait."""
    REQUEST_MALFORMED = "request-malformed"
    """The request is not valid HTTP."""
    REQUEST_STALE = "request-stale"
    """The sequence is not above that of the last accepted request of the node."""
    SAMPLES_TOO_OLD = "samples-too-old"
    """The samples are older than api.max_sample_age."""
    SERVER_BUSY = "server-busy"
    """Other requests use all memory for bodies; retry."""
    SIGN_IN_REJECTED = "sign-in-rejected"
    """The state, the code or the ID token of a sign-in is not valid; sign in again."""
    STATE_CONFLICT = "state-conflict"
    """The present state does not allow the action."""
    STORE_UNAVAILABLE = "store-unavailable"
    """The store cannot be read or written; retry."""
    TOKEN_IN_NAME = "token-in-name"  # noqa: S105 - a code
    """A name in the request contains a token. Replace this token."""
    TOKEN_MISMATCH = "token-mismatch"  # noqa: S105 - a code
    """The token belongs to another node."""
    TOO_MANY_CLIENTS = "too-many-clients"
    """Too many clients follow the events at the same time."""
    UNAUTHORIZED = "unauthorized"
    """Token or session is missing, unknown, expired or revoked."""


def json_pointer(parts: Iterable[int | str]) -> str:
    """Return the JSON pointer of RFC 6901 with *parts*."""
    steps = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
    return "".join(f"/{step}" for step in steps)


class FieldError(Document):
    """Error in one place of a request."""

    pointer: Annotated[
        str, Field(description="JSON pointer into the body, or name of a parameter.")
    ]
    detail: str


class ProblemDocument(Document):
    """Problem details of RFC 9457 (`application/problem+json`)."""

    type: Annotated[str, Field(examples=["/problems/plan-changed"])]
    title: str
    status: int
    code: ApiProblem
    detail: str
    errors: list[FieldError] = []
    last_sequence: Annotated[
        int | None,
        Field(
            description="Sequence of the last accepted request of the node; only with "
            "`request-stale`, otherwise absent."
        ),
    ] = None
