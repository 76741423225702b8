"""ProblemDocument responses of the operator API (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from starlette.responses import Response

from opendrs.api.schema.common import ApiProblem, FieldError, ProblemDocument

MEDIA_TYPE = "application/problem+json"
STATUS: Mapping[ApiProblem, HTTPStatus] = {
    ApiProblem.BODY_INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    ApiProblem.BODY_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ApiProblem.BODY_TIMEOUT: HTTPStatus.REQUEST_TIMEOUT,
    ApiProblem.CROSS_SITE: HTTPStatus.FORBIDDEN,
    ApiProblem.FORBIDDEN: HTTPStatus.FORBIDDEN,
    ApiProblem.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    ApiProblem.ISSUER_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ApiProblem.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
    ApiProblem.NO_ROLE: HTTPStatus.FORBIDDEN,
    ApiProblem.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ApiProblem.OUT_OF_RANGE: HTTPStatus.UNPROCESSABLE_ENTITY,
    ApiProblem.PLAN_CHANGED: HTTPStatus.PRECONDITION_FAILED,
    ApiProblem.PRECONDITION_REQUIRED: HTTPStatus.PRECONDITION_REQUIRED,
    ApiProblem.RATE_LIMITED: HTTPStatus.TOO_MANY_REQUESTS,
    ApiProblem.SIGN_IN_REJECTED: HTTPStatus.UNAUTHORIZED,
    ApiProblem.STATE_CONFLICT: HTTPStatus.CONFLICT,
    ApiProblem.STORE_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ApiProblem.TOO_MANY_CLIENTS: HTTPStatus.SERVICE_UNAVAILABLE,
    ApiProblem.UNAUTHORIZED: HTTPStatus.UNAUTHORIZED,
}
TITLES: Mapping[ApiProblem, str] = {
    ApiProblem.BODY_INVALID: "The request is not valid",
    ApiProblem.BODY_TOO_LARGE: "The body is too large",
    ApiProblem.BODY_TIMEOUT: "The body was not received in time",
    ApiProblem.CROSS_SITE: "The request comes from another site",
    ApiProblem.FORBIDDEN: "The role does not allow it",
    ApiProblem.INTERNAL_ERROR: "Internal error",
    ApiProblem.ISSUER_UNAVAILABLE: "The identity provider is not available",
    ApiProblem.METHOD_NOT_ALLOWED: "The path does not have this method",
    ApiProblem.NO_ROLE: "The user has no role",
    ApiProblem.NOT_FOUND: "Not found",
    ApiProblem.OUT_OF_RANGE: "A value is out of range",
    ApiProblem.PLAN_CHANGED: "The plan has changed",
    ApiProblem.PRECONDITION_REQUIRED: "If-Match is required",
    ApiProblem.RATE_LIMITED: "Too many requests",
    ApiProblem.SIGN_IN_REJECTED: "The sign-in was rejected",
    ApiProblem.STATE_CONFLICT: "The state does not allow it",
    ApiProblem.STORE_UNAVAILABLE: "The store is not available",
    ApiProblem.TOO_MANY_CLIENTS: "Too many clients",
    ApiProblem.UNAUTHORIZED: "Sign in, or send a token",
}


class ProblemError(Exception):
    """Error that ends a request with a problem response.

    Args:
        code: Code of the problem.
        detail: What is wrong, for the operator.
        errors: The places that are wrong.
        headers: Further headers of the response.
    """

    def __init__(
        self,
        code: ApiProblem,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})


def problem_response(error: ProblemError) -> Response:
    """Return the response for *error*."""
    status = STATUS[error.code]
    problem = ProblemDocument(
        type=f"/problems/{error.code}",
        title=TITLES[error.code],
        status=int(status),
        code=error.code,
        detail=error.detail,
        errors=list(error.errors),
    )
    headers = dict(error.headers)
    if status is HTTPStatus.UNAUTHORIZED:
        headers.setdefault("WWW-Authenticate", 'Bearer realm="opendrs"')
    return Response(
        problem.model_dump_json(), status, media_type=MEDIA_TYPE, headers=headers
    )
