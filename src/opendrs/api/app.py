"""FastAPI application of the API for host agents.

It has the paths, the problems and the conventions of the HTTP API. The import is slow;
it is imported only where the API is served.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import FastAPI, Path
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from opendrs import __version__
from opendrs.api.auth import NODE_KEY, AuthMiddleware
from opendrs.api.body_limits import (
    BodyLimits,
    MemoryBusyError,
    NodeBusyError,
    check_headers,
    declared_size,
    read_body,
)
from opendrs.api.connections import Connections
from opendrs.api.error_responses import (
    internal_error_response,
    invalid_response,
    no_route_response,
)
from opendrs.api.openapi import (
    API_DESCRIPTION,
    EXAMPLE_ID,
    REQUEST_BODY,
    SAMPLES_RESPONSES,
    STATUS_RESPONSES,
    SUBMIT_RESPONSES,
    openapi_document,
)
from opendrs.api.problems import (
    RETRY_AFTER,
    ProblemError,
    busy_response,
    problem_response,
)
from opendrs.api.request_parser import InvalidBodyError, parse_request
from opendrs.api.schema.access import HealthDocument
from opendrs.api.schema.common import ApiProblem, FieldError
from opendrs.api.service import RequestService, ServiceResponse
from opendrs.api.tokens import TokenTable
from opendrs.config import api_schema
from opendrs.controller.events import LogEventCode, LogRateLimiter, log_event
from opendrs.errors import StoreError
from opendrs.model import GuestId, NodeId

ErrorHandler = Callable[[HttpRequest, Exception], Response]
_Id = Annotated[UUID, Path(description="Id of the request.", examples=[EXAMPLE_ID])]
_Guest = Annotated[
    str,
    Path(
        description="Id of the guest.",
        examples=["vm:101"],
        min_length=1,
        max_length=api_schema.MAX_NAME_LENGTH,
    ),
]


def create_app(
    service: RequestService, tokens: TokenTable, connections: Connections | None = None
) -> FastAPI:
    """Return the application that serves the host agents.

    Args:
        service: Accepts requests and reports their status.
        tokens: Tokens of the nodes.
        connections: Open connections; None if they are not limited.
    """
    app = FastAPI(
        title="OpenDRS host agents",
        description=API_DESCRIPTION,
        version="1",
        openapi_url=api_schema.OPENAPI_PATH,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_routes(app, service, tokens)
    app.add_exception_handler(StoreError, _store_failed)
    app.add_exception_handler(RequestValidationError, _closing(invalid_response))
    app.add_exception_handler(HTTPException, _closing(no_route_response))
    app.add_exception_handler(Exception, internal_error_response)
    app.add_middleware(AuthMiddleware, tokens=tokens, connections=connections)
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign]  # as FastAPI has it
    return app


def _add_routes(app: FastAPI, service: RequestService, tokens: TokenTable) -> None:
    limits, rate_limiter = BodyLimits(), LogRateLimiter()

    @app.put(
        api_schema.REQUEST_PATH,
        summary="Submit the load state and samples of a node",
        status_code=HTTPStatus.ACCEPTED,
        response_model=api_schema.RequestStatus,
        responses=SUBMIT_RESPONSES,
        openapi_extra={"requestBody": REQUEST_BODY},
    )
    async def submit_request(id: _Id, http: HttpRequest) -> Response:  # noqa: A002 - as in the path
        """Submit the request of a host agent.

        It is recorded before the response. A repeated request has no effect and
        returns the status.
        """
        node: NodeId = http.scope[NODE_KEY]
        process = partial(_process, service, tokens, node, id)
        response = await _receive(http, limits, process)
        status = response.status_code
        if status >= HTTPStatus.BAD_REQUEST and rate_limiter.allows(f"{node} {status}"):
            log_event(
                LogEventCode.REQUEST_REJECTED,
                f"{node}: request rejected: {status}",
                level=logging.WARNING,
                node=node,
                status=status,
            )
        return response

    @app.get(
        api_schema.REQUEST_PATH,
        summary="Get the status of a request",
        response_model=api_schema.RequestStatus,
        responses=STATUS_RESPONSES,
    )
    def get_request(id: _Id, http: HttpRequest) -> Response:  # noqa: A002 - as in the path
        """Get the status of a request, with the outcomes of the resulting steps."""
        return _json_response(service.get_status(str(id), http.scope[NODE_KEY]))

    @app.get(
        api_schema.SAMPLES_PATH.replace("{guest}", "{guest:path}"),
        summary="Get the sample history of a guest",
        response_model=api_schema.GuestSamples,
        responses=SAMPLES_RESPONSES,
    )
    def get_samples(guest: _Guest) -> Response:
        """Get the current sample history of a guest, from any node."""
        return _json_response(service.get_samples(GuestId(guest)))

    @app.get(
        api_schema.HEALTH_PATH,
        response_model=HealthDocument,
        tags=["state"],
        summary="Check that the server responds",
    )
    async def get_health() -> dict[str, str]:
        """Check that the server responds; requires no token."""
        return {"status": "ok", "version": __version__}


async def _receive(
    http: HttpRequest, limits: BodyLimits, process: Callable[[bytearray], Response]
) -> Response:
    """Return the response of *process* to the body, or that the body is rejected."""
    rejected = check_headers(http)
    if rejected is not None:
        return rejected
    node: NodeId = http.scope[NODE_KEY]
    try:
        with limits.reserve(node, declared_size(http)):
            body = await read_body(http)
            if isinstance(body, Response):
                return body
            return await limits.run(process, body)
    except NodeBusyError:
        detail = f"{node}: another request is being processed; retry"
        return busy_response(ApiProblem.NODE_BUSY, detail)
    except MemoryBusyError:
        detail = "too many large requests at the same time; retry"
        return busy_response(ApiProblem.SERVER_BUSY, detail)


def _process(
    service: RequestService,
    tokens: TokenTable,
    node: NodeId,
    name: UUID,
    body: bytearray,
) -> Response:
    try:
        request = parse_request(body, tokens.mask)
    except InvalidBodyError as error:
        return problem_response(
            ProblemError(ApiProblem.BODY_INVALID, str(error), errors=error.errors)
        )
    problem = _id_problem(request, name) or _name_problem(request, tokens, node)
    if problem is not None:
        return problem_response(problem)
    return _json_response(service.submit(request, node))


def _id_problem(request: api_schema.RequestBody, name: UUID) -> ProblemError | None:
    """Return the problem of a request whose id is not *name*, that of its path."""
    if request.id == name:
        return None
    detail = f"expected {name}, that of the path, got {request.id}"
    errors = [FieldError(pointer="/id", detail=detail)]
    return ProblemError(ApiProblem.BODY_INVALID, f"id: {detail}", errors=errors)


def _name_problem(
    request: api_schema.RequestBody, tokens: TokenTable, node: NodeId
) -> ProblemError | None:
    """Return the problem of a request that would write a token into the store."""
    named = {
        "node": [request.node],
        "evict": request.evict,
        "samples.guests": request.samples.guests,
    }
    for field, names in named.items():
        if tokens.contains_token(names, node):
            detail = f"{field}: a name contains a token; replace this token"
            return ProblemError(ApiProblem.TOKEN_IN_NAME, detail)
    return None


def _json_response(response: ServiceResponse) -> Response:
    if isinstance(response.body, ProblemError):
        return problem_response(response.body)
    return JSONResponse(response.body.model_dump(mode="json"), response.status)


def _store_failed(http: HttpRequest, error: Exception) -> Response:
    del http
    log_event(LogEventCode.REQUEST_STORE_FAILED, str(error), level=logging.ERROR)
    return problem_response(
        ProblemError(
            ApiProblem.STORE_UNAVAILABLE,
            "request could not be recorded; retry",
            headers={"Retry-After": str(RETRY_AFTER)},
        )
    )


def _closing(respond: ErrorHandler) -> ErrorHandler:
    """Return *respond*, which closes the connection: no body was read."""

    def respond_and_close(http: HttpRequest, error: Exception) -> Response:
        response = respond(http, error)
        response.headers["Connection"] = "close"
        return response

    return respond_and_close


def main() -> None:
    """Print the description, for docs/reference/openapi-agents.json."""
    document = openapi_document(create_app(cast("Any", None), TokenTable({})))
    text = json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
