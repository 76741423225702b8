"""Problem responses of the HTTP API (RFC 9457)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from starlette.responses import Response

from opendrs.api.schema.common import ApiProblem, FieldError, ProblemDocument

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = 1  # seconds until a client retries
STATUS: Mapping[ApiProblem, HTTPStatus] = {
    ApiProblem.BODY_INCOMPLETE: HTTPStatus.BAD_REQUEST,
    ApiProblem.BODY_INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    ApiProblem.BODY_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ApiProblem.BODY_TIMEOUT: HTTPStatus.REQUEST_TIMEOUT,
    ApiProblem.CLOCK_AHEAD: HTTPStatus.PRECONDITION_FAILED,
    ApiProblem.CROSS_SITE: HTTPStatus.FORBIDDEN,
    ApiProblem.ENCODING_NOT_SUPPORTED: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ApiProblem.FORBIDDEN: HTTPStatus.FORBIDDEN,
    ApiProblem.ID_CONFLICT: HTTPStatus.CONFLICT,
    ApiProblem.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    ApiProblem.ISSUER_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ApiProblem.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
    ApiProblem.NODE_BUSY: HTTPStatus.TOO_MANY_REQUESTS,
    ApiProblem.NO_ROLE: HTTPStatus.FORBIDDEN,
    ApiProblem.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ApiProblem.OUT_OF_RANGE: HTTPStatus.UNPROCESSABLE_ENTITY,
    ApiProblem.PLAN_CHANGED: HTTPStatus.PRECONDITION_FAILED,
    ApiProblem.PRECONDITION_REQUIRED: HTTPStatus.PRECONDITION_REQUIRED,
    ApiProblem.RATE_LIMITED: HTTPStatus.TOO_MANY_REQUESTS,
    ApiProblem.REQUEST_MALFORMED: HTTPStatus.BAD_REQUEST,
    ApiProblem.REQUEST_STALE: HTTPStatus.PRECONDITION_FAILED,
    ApiProblem.SAMPLES_TOO_OLD: HTTPStatus.PRECONDITION_FAILED,
    ApiProblem.SERVER_BUSY: HTTPStatus.SERVICE_UNAVAILABLE,
    ApiProblem.SIGN_IN_REJECTED: HTTPStatus.UNAUTHORIZED,
    ApiProblem.STATE_CONFLICT: HTTPStatus.CONFLICT,
    ApiProblem.STORE_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ApiProblem.TOKEN_IN_NAME: HTTPStatus.UNPROCESSABLE_ENTITY,
    ApiProblem.TOKEN_MISMATCH: HTTPStatus.FORBIDDEN,
    ApiProblem.TOO_MANY_CLIENTS: HTTPStatus.SERVICE_UNAVAILABLE,
    ApiProblem.UNAUTHORIZED: HTTPStatus.UNAUTHORIZED,
}
TITLES: Mapping[ApiProblem, str] = {
    ApiProblem.BODY_INCOMPLETE: "The body is incomplete",
    ApiProblem.BODY_INVALID: "The request is not valid",
    ApiProblem.BODY_TOO_LARGE: "The body is too large",
    ApiProblem.BODY_TIMEOUT: "The body was not received in time",
    ApiProblem.CLOCK_AHEAD: "The clock of the agent is ahead",
    ApiProblem.CROSS_SITE: "The request comes from another site",
    ApiProblem.ENCODING_NOT_SUPPORTED: "The body is compressed",
    ApiProblem.FORBIDDEN: "The role does not allow it",
    ApiProblem.ID_CONFLICT: "The id is in use",
    ApiProblem.INTERNAL_ERROR: "Internal error",
    ApiProblem.ISSUER_UNAVAILABLE: "The identity provider is not available",
    ApiProblem.METHOD_NOT_ALLOWED: "The path does not have this method",
    ApiProblem.NODE_BUSY: "Other requests of the node are being processed",
    ApiProblem.NO_ROLE: "The user has no role",
    ApiProblem.NOT_FOUND: "Not found",
    ApiProblem.OUT_OF_RANGE: "A value is out of range",
    ApiProblem.PLAN_CHANGED: "The plan has changed",
    ApiProblem.PRECONDITION_REQUIRED: "If-Match is required",
    ApiProblem.RATE_LIMITED: "Too many requests",
    ApiProblem.REQUEST_MALFORMED: "The request is not valid HTTP",
    ApiProblem.REQUEST_STALE: "The request is stale",
    ApiProblem.SAMPLES_TOO_OLD: "The samples are too old",
    ApiProblem.SERVER_BUSY: "Other requests use all memory for bodies",
    ApiProblem.SIGN_IN_REJECTED: "The sign-in was rejected",
    ApiProblem.STATE_CONFLICT: "The state does not allow it",
    ApiProblem.STORE_UNAVAILABLE: "The store is not available",
    ApiProblem.TOKEN_IN_NAME: "A name contains a token",
    ApiProblem.TOKEN_MISMATCH: "The token belongs to another node",
    ApiProblem.TOO_MANY_CLIENTS: "Too many clients",
    ApiProblem.UNAUTHORIZED: "Sign in, or send a token",
}


class ProblemError(Exception):
    """Error that ends a request with a problem response.

    Args:
        code: Code of the problem.
        detail: What is wrong, for the operator.
        errors: The places that are wrong.
        last_sequence: See `ProblemDocument`.
        headers: Further headers of the response.
    """

    def __init__(
        self,
        code: ApiProblem,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        last_sequence: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.last_sequence = last_sequence
        self.headers = dict(headers or {})

    @property
    def document(self) -> ProblemDocument:
        """Return the body of the response."""
        return ProblemDocument(
            type=f"/problems/{self.code}",
            title=TITLES[self.code],
            status=int(STATUS[self.code]),
            code=self.code,
            detail=self.detail,
            errors=list(self.errors),
            last_sequence=self.last_sequence,
        )


def unknown_cursor(cursor: str) -> ProblemError:
    """Return the problem of a *cursor* that is not `next` of a page of the list."""
    detail = f"cursor: expected next of another page of the list, got {cursor}"
    return ProblemError(ApiProblem.OUT_OF_RANGE, detail)


def problem_response(error: ProblemError) -> Response:
    """Return the response for *error*."""
    headers = dict(error.headers)
    if STATUS[error.code] is HTTPStatus.UNAUTHORIZED:
        headers.setdefault("WWW-Authenticate", 'Bearer realm="opendrs"')
    return Response(
        error.document.model_dump_json(exclude_none=True),
        STATUS[error.code],
        media_type=MEDIA_TYPE,
        headers=headers,
    )


def closing_response(
    code: ApiProblem, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response that closes the connection: the request was not read.

    Args:
        code: Code of the problem.
        detail: What is wrong, for the operator.
        headers: Further headers of the response.
    """
    closing = {"Connection": "close", **(headers or {})}
    return problem_response(ProblemError(code, detail, headers=closing))


def busy_response(
    code: ApiProblem, detail: str, seconds: float = RETRY_AFTER
) -> Response:
    """Return a closing response; the client retries after *seconds*."""
    return closing_response(code, detail, {"Retry-After": str(math.ceil(seconds))})
