"""FastAPI application of the API: routes and error responses.

The import is slow; it is imported only where the API is served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import FastAPI, Path
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest

from opendrs import __version__
from opendrs.api.auth import (
    NODE_KEY,
    RETRY_AFTER,
    AuthMiddleware,
    busy_response,
    closing_response,
    problem_response,
)
from opendrs.api.body_limits import (
    BodyLimits,
    MemoryBusyError,
    NodeBusyError,
    check_headers,
    declared_size,
    read_body,
)
from opendrs.api.connections import Connections
from opendrs.api.openapi import (
    API_DESCRIPTION,
    EXAMPLE_ID,
    REQUEST_BODY,
    SAMPLES_RESPONSES,
    STATUS_RESPONSES,
    SUBMIT_RESPONSES,
    openapi_document,
)
from opendrs.api.request_parser import InvalidBodyError, parse_request
from opendrs.api.service import RequestService, ServiceResponse
from opendrs.api.tokens import TokenTable
from opendrs.config import api_schema
from opendrs.config.api_schema import ProblemCode
from opendrs.controller.events import LogEventCode, LogRateLimiter, log_event
from opendrs.errors import StoreError
from opendrs.model import GuestId, NodeId

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
        title="OpenDRS requests",
        description=API_DESCRIPTION,
        version=__version__,
        openapi_url=api_schema.OPENAPI_PATH,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_routes(app, service, tokens)
    app.add_exception_handler(StoreError, _store_failed)
    app.add_exception_handler(RequestValidationError, _invalid_path)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _internal_error)
    app.add_middleware(AuthMiddleware, tokens=tokens, connections=connections)
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign]  # as FastAPI has it
    return app


def _add_routes(app: FastAPI, service: RequestService, tokens: TokenTable) -> None:
    limits, rate_limiter = BodyLimits(), LogRateLimiter()

    @app.post(
        api_schema.REQUESTS_PATH,
        summary="Submit the load state and samples of a node",
        status_code=HTTPStatus.ACCEPTED,
        response_model=api_schema.RequestStatus,
        responses=SUBMIT_RESPONSES,
        openapi_extra={"requestBody": REQUEST_BODY},
    )
    async def submit_request(http: HttpRequest) -> JSONResponse:
        """Submit the request of a host agent.

        It is recorded before the response. A repeated request has no effect and
        returns the status.
        """
        node: NodeId = http.scope[NODE_KEY]
        process = partial(_process, service, tokens, node)
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
    def get_request(id: _Id, http: HttpRequest) -> JSONResponse:  # noqa: A002 - as in the path
        """Get the status of a request, with the outcomes of the resulting steps."""
        return _json_response(service.get_status(str(id), http.scope[NODE_KEY]))

    @app.get(
        api_schema.SAMPLES_PATH.replace("{guest}", "{guest:path}"),
        summary="Get the sample history of a guest",
        response_model=api_schema.GuestSamples,
        responses=SAMPLES_RESPONSES,
    )
    def get_samples(guest: _Guest) -> JSONResponse:
        """Get the current sample history of a guest, from any node."""
        return _json_response(service.get_samples(GuestId(guest)))

    @app.get(api_schema.HEALTH_PATH, summary="Check that the controller is running")
    async def get_health() -> api_schema.Health:
        """Check that the controller is running; requires no token."""
        return api_schema.Health()


async def _receive(
    http: HttpRequest, limits: BodyLimits, process: Callable[[bytearray], JSONResponse]
) -> JSONResponse:
    """Return the response of *process* to the body, or that the body is rejected."""
    rejected = check_headers(http)
    if rejected is not None:
        return rejected
    node: NodeId = http.scope[NODE_KEY]
    try:
        with limits.reserve(node, declared_size(http)):
            body = await read_body(http)
            if isinstance(body, JSONResponse):
                return body
            return await limits.run(process, body)
    except NodeBusyError:
        detail = f"{node}: another request is being processed; retry"
        return busy_response(ProblemCode.NODE_BUSY, detail)
    except MemoryBusyError:
        return busy_response(ProblemCode.SERVER_BUSY)


def _process(
    service: RequestService, tokens: TokenTable, node: NodeId, body: bytearray
) -> JSONResponse:
    try:
        request = parse_request(body, tokens.mask)
    except InvalidBodyError as error:
        return problem_response(ProblemCode.REQUEST_INVALID, str(error))
    rejected = _reject_token_names(request, tokens, node)
    return rejected or _json_response(service.submit(request, node))


def _reject_token_names(
    request: api_schema.RequestBody, tokens: TokenTable, node: NodeId
) -> JSONResponse | None:
    """Return the response to a request that would write a token into the store."""
    named = {
        "node": [request.node],
        "evict": request.evict,
        "samples.guests": request.samples.guests,
    }
    for field, names in named.items():
        if tokens.contains_token(names, node):
            detail = f"{field}: a name contains a token; replace this token"
            return problem_response(ProblemCode.TOKEN_IN_NAME, detail)
    return None


def _json_response(response: ServiceResponse) -> JSONResponse:
    return JSONResponse(response.body.model_dump(mode="json"), response.status)


def _store_failed(http: HttpRequest, error: Exception) -> JSONResponse:
    del http
    log_event(LogEventCode.REQUEST_STORE_FAILED, str(error), level=logging.ERROR)
    response = problem_response(ProblemCode.STORE_FAILED)
    response.headers["Retry-After"] = str(RETRY_AFTER)
    return response


def _no_route(http: HttpRequest, error: Exception) -> JSONResponse:
    """Return 404 for an unknown path, or 405 with the methods of the path."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "another method")
        detail = f"{http.method}: method not allowed; use {allowed}"
        response = closing_response(ProblemCode.METHOD_NOT_ALLOWED, detail)
    elif error.status_code == HTTPStatus.NOT_FOUND:
        response = closing_response(ProblemCode.PATH_UNKNOWN)
    else:
        response = closing_response(ProblemCode.REQUEST_MALFORMED, str(error.detail))
        response.status_code = error.status_code
    response.headers.update(error.headers or {})
    return response


def _invalid_path(http: HttpRequest, error: Exception) -> JSONResponse:
    del http, error
    return problem_response(ProblemCode.PATH_INVALID)


def _internal_error(http: HttpRequest, error: Exception) -> JSONResponse:
    del http, error  # logged by the server, which raises it again
    return problem_response(ProblemCode.INTERNAL_ERROR)
