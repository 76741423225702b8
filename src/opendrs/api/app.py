"""The interface for agents: HTTP in front of the desk.

Imported only where it is served: it takes a while.
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
from opendrs.api import schema
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
from opendrs.controller.events import LogRateLimiter, log_event
from opendrs.errors import StoreError
from opendrs.model import GuestId, NodeId

_Id = Annotated[UUID, Path(description="The request.", examples=[EXAMPLE_ID])]
_Guest = Annotated[
    str,
    Path(
        description="The guest.",
        examples=["vm:101"],
        min_length=1,
        max_length=schema.MAX_NAME_LENGTH,
    ),
]


def create_app(
    service: RequestService, tokens: TokenTable, connections: Connections | None = None
) -> FastAPI:
    """Return the application that answers agents.

    Args:
        service: Where requests are taken.
        tokens: Whose agent it is that speaks.
        connections: The connections that are open; None if somebody else keeps them.
    """
    app = FastAPI(
        title="OpenDRS requests",
        description=API_DESCRIPTION,
        version=__version__,
        openapi_url=schema.OPENAPI_PATH,
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
        schema.REQUESTS_PATH,
        summary="Ask for relief, or say that all is calm",
        status_code=HTTPStatus.ACCEPTED,
        response_model=schema.RequestStatus,
        responses=SUBMIT_RESPONSES,
        openapi_extra={"requestBody": REQUEST_BODY},
    )
    async def submit_request(http: HttpRequest) -> JSONResponse:
        """Send what the agent of a node finds.

        It is written down before it is answered. The same request may be sent
        again, and is then told how it stands.
        """
        node: NodeId = http.scope[NODE_KEY]
        process = partial(_process, service, tokens, node)
        response = await _receive(http, limits, process)
        status = response.status_code
        if status >= HTTPStatus.BAD_REQUEST and rate_limiter.allows(f"{node} {status}"):
            log_event(
                "request-rejected",
                f"a request of {node} was answered with {status}",
                level=logging.WARNING,
                node=node,
                status=status,
            )
        return response

    @app.get(
        schema.REQUEST_PATH,
        summary="See how a request stands",
        response_model=schema.RequestStatus,
        responses=STATUS_RESPONSES,
    )
    def get_request(id: _Id, http: HttpRequest) -> JSONResponse:  # noqa: A002 - its name in the path
        """See how a request stands, and what came of the steps that follow from it."""
        return _json_response(service.get_status(str(id), http.scope[NODE_KEY]))

    @app.get(
        schema.SAMPLES_PATH.replace("{guest}", "{guest:path}"),
        summary="Get what a guest has used",
        response_model=schema.GuestSamples,
        responses=SAMPLES_RESPONSES,
    )
    def get_samples(guest: _Guest) -> JSONResponse:
        """Get the history of a guest that counts, on whichever node it was measured."""
        return _json_response(service.get_samples(GuestId(guest)))

    @app.get(schema.HEALTH_PATH, summary="See whether the controller answers")
    async def get_health() -> schema.Health:
        """See whether the controller answers; needs no token."""
        return schema.Health()


async def _receive(
    http: HttpRequest, limits: BodyLimits, process: Callable[[bytearray], JSONResponse]
) -> JSONResponse:
    """Return what *process* answers to the body, or why that is not received."""
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
        detail = f"{node}: another request is being processed; try again"
        return busy_response(HTTPStatus.TOO_MANY_REQUESTS, detail)
    except MemoryBusyError:
        detail = "too many large requests at the same time; try again"
        return busy_response(HTTPStatus.SERVICE_UNAVAILABLE, detail)


def _process(
    service: RequestService, tokens: TokenTable, node: NodeId, body: bytearray
) -> JSONResponse:
    try:
        request = parse_request(body, tokens.mask)
    except InvalidBodyError as error:
        return problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
    rejected = _reject_token_names(request, tokens, node)
    return rejected or _json_response(service.submit(request, node))


def _reject_token_names(
    request: schema.RequestBody, tokens: TokenTable, node: NodeId
) -> JSONResponse | None:
    """Return the answer to a request that would write a token into the record."""
    named = {
        "node": [request.node],
        "evict": request.evict,
        "samples.guests": request.samples.guests,
    }
    for field, names in named.items():
        if tokens.contains_token(names, node):
            detail = f"{field}: a name contains a token; replace this token"
            return problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    return None


def _json_response(response: ServiceResponse) -> JSONResponse:
    return JSONResponse(response.body.model_dump(mode="json"), response.status)


def _store_failed(http: HttpRequest, error: Exception) -> JSONResponse:
    del http
    log_event("request-store-failed", str(error), level=logging.ERROR)
    detail = "it cannot be kept now; send it again"
    response = problem_response(HTTPStatus.SERVICE_UNAVAILABLE, detail)
    response.headers["Retry-After"] = str(RETRY_AFTER)
    return response


def _no_route(http: HttpRequest, error: Exception) -> JSONResponse:
    """Answer what no route takes: 404, or 405 with the methods that are possible."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "another method")
        detail = f"{http.method}: not possible here; use {allowed}"
    elif error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"no such path; {schema.OPENAPI_PATH} has all that there are"
    else:
        detail = str(error.detail)
    response = closing_response(error.status_code, detail)
    response.headers.update(error.headers or {})
    return response


def _invalid_path(http: HttpRequest, error: Exception) -> JSONResponse:
    del http, error
    return problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, "the path does not fit")


def _internal_error(http: HttpRequest, error: Exception) -> JSONResponse:
    del http, error  # which is logged where it is raised again
    return problem_response(
        HTTPStatus.INTERNAL_SERVER_ERROR, "this is a bug in opendrs; its log says more"
    )
