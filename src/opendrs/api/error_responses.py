"""Responses to errors that no route handles."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from opendrs.api.problems import ProblemError, problem_response
from opendrs.api.schema.common import ApiProblem, FieldError, json_pointer


def invalid_response(http: Request, error: Exception) -> Response:
    """Respond to a request that is not valid."""
    del http
    assert isinstance(error, RequestValidationError)  # noqa: S101 - it is registered for these
    errors = [
        FieldError(pointer=_pointer(each["loc"]), detail=str(each["msg"]))
        for each in error.errors()
    ]
    detail = "; ".join(f"{each.pointer}: {each.detail}" for each in errors[:5])
    return problem_response(
        ProblemError(ApiProblem.BODY_INVALID, detail, errors=errors)
    )


def _pointer(location: Sequence[int | str]) -> str:
    """Return a JSON pointer into the body, or the name of a parameter."""
    place, *parts = location
    if place != "body":
        return ".".join(map(str, parts))
    return json_pointer(parts)


def no_route_response(http: Request, error: Exception) -> Response:
    """Respond to an unknown path, or to a method that the path does not have."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these
    if error.status_code == 405:
        detail = f"{http.method}: method not allowed"
        headers = {"Allow": ", ".join(_allowed_methods(http, error))}
        problem = ProblemError(ApiProblem.METHOD_NOT_ALLOWED, detail, headers=headers)
    elif error.status_code == 404:
        problem = ProblemError(ApiProblem.NOT_FOUND, "no such path")
    else:
        problem = ProblemError(ApiProblem.BODY_INVALID, str(error.detail))
    return problem_response(problem)


def _allowed_methods(http: Request, error: HTTPException) -> list[str]:
    """Return the methods of the path: those of all its routes.

    *error* has those of the first route that matches.
    """
    found = set((error.headers or {}).get("Allow", "").split(", "))
    for path, methods in http.app.openapi()["paths"].items():
        if compile_path(path)[0].match(http.url.path):
            found |= {method.upper() for method in methods}
    return sorted(found - {""})


def internal_error_response(http: Request, error: Exception) -> Response:
    """Respond after a defect."""
    del http, error  # logged by the server, which raises it again
    detail = "internal error; see the log of the server"
    return problem_response(ProblemError(ApiProblem.INTERNAL_ERROR, detail))
