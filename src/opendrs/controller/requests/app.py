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
from opendrs.controller.requests import wire
from opendrs.controller.requests.body_limits import (
    BodyLimits,
    MemoryBusyError,
    NodeBusyError,
)
from opendrs.controller.requests.connections import Connections
from opendrs.controller.requests.desk import Answer, Desk
from opendrs.controller.requests.documentation import (
    ABOUT,
    BODY,
    EXAMPLE_ID,
    LOOK_UP_ANSWERS,
    SAMPLES_ANSWERS,
    TAKE_ANSWERS,
    document,
)
from opendrs.controller.requests.gate import (
    NODE,
    RETRY_AFTER,
    Gate,
    body_of,
    busy,
    declared_size,
    problem,
    rejected_by_its_head,
    rejection,
)
from opendrs.controller.requests.reading import BodyError, read_request
from opendrs.controller.requests.seldom import Seldom
from opendrs.controller.requests.tokens import Tokens
from opendrs.controller.telling import tell
from opendrs.errors import StoreError
from opendrs.model import GuestId, NodeId

_Id = Annotated[UUID, Path(description="The request.", examples=[EXAMPLE_ID])]
_Guest = Annotated[
    str,
    Path(
        description="The guest.",
        examples=["vm:101"],
        min_length=1,
        max_length=wire.LONGEST_NAME,
    ),
]


def interface(
    desk: Desk, tokens: Tokens, connections: Connections | None = None
) -> FastAPI:
    """Return the application that answers agents.

    Args:
        desk: Where requests are taken.
        tokens: Whose agent it is that speaks.
        connections: The connections that are open; None if somebody else keeps them.
    """
    app = FastAPI(
        title="OpenDRS requests",
        description=ABOUT,
        version=__version__,
        openapi_url=wire.OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_routes(app, desk, tokens)
    app.add_exception_handler(StoreError, _not_kept)
    app.add_exception_handler(RequestValidationError, _misaddressed)
    app.add_exception_handler(HTTPException, _not_there)
    app.add_exception_handler(Exception, _broken)
    app.add_middleware(Gate, tokens=tokens, connections=connections)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]  # as FastAPI has it
    return app


def _add_routes(app: FastAPI, desk: Desk, tokens: Tokens) -> None:
    limits, seldom = BodyLimits(), Seldom()

    @app.post(
        wire.REQUESTS,
        summary="Ask for relief, or say that all is calm",
        status_code=HTTPStatus.ACCEPTED,
        response_model=wire.Standing,
        responses=TAKE_ANSWERS,
        openapi_extra={"requestBody": BODY},
    )
    async def take(http: HttpRequest) -> JSONResponse:
        """Send what the agent of a node finds.

        It is written down before it is answered. The same request may be sent
        again, and is then told how it stands.
        """
        node: NodeId = http.scope[NODE]
        process = partial(_processed, desk, tokens, node)
        answer = await _received(http, limits, process)
        status = answer.status_code
        if status >= HTTPStatus.BAD_REQUEST and seldom.may(f"{node} {status}"):
            tell(
                "request-refused",
                f"a request of {node} was answered with {status}",
                level=logging.WARNING,
                node=node,
                status=status,
            )
        return answer

    @app.get(
        wire.REQUEST,
        summary="See how a request stands",
        response_model=wire.Standing,
        responses=LOOK_UP_ANSWERS,
    )
    def look_up(id: _Id, http: HttpRequest) -> JSONResponse:  # noqa: A002 - its name in the path
        """See how a request stands, and what came of the steps that follow from it."""
        return _response(desk.look_up(str(id), http.scope[NODE]))

    @app.get(
        wire.SAMPLES.replace("{guest}", "{guest:path}"),
        summary="Get what a guest has used",
        response_model=wire.GuestSamples,
        responses=SAMPLES_ANSWERS,
    )
    def samples(guest: _Guest) -> JSONResponse:
        """Get the history of a guest that counts, on whichever node it was measured."""
        return _response(desk.samples(GuestId(guest)))

    @app.get(wire.HEALTH, summary="See whether the controller answers")
    async def health() -> wire.Health:
        """See whether the controller answers; needs no token."""
        return wire.Health()


async def _received(
    http: HttpRequest, limits: BodyLimits, process: Callable[[bytearray], JSONResponse]
) -> JSONResponse:
    """Return what *process* answers to the body, or why that is not received."""
    rejected = rejected_by_its_head(http)
    if rejected is not None:
        return rejected
    node: NodeId = http.scope[NODE]
    try:
        with limits.reserved(node, declared_size(http)):
            body = await body_of(http)
            if isinstance(body, JSONResponse):
                return body
            return await limits.run(process, body)
    except NodeBusyError:
        detail = f"{node}: another request is being processed; try again"
        return busy(HTTPStatus.TOO_MANY_REQUESTS, detail)
    except MemoryBusyError:
        detail = "too many large requests at the same time; try again"
        return busy(HTTPStatus.SERVICE_UNAVAILABLE, detail)


def _processed(
    desk: Desk, tokens: Tokens, node: NodeId, body: bytearray
) -> JSONResponse:
    try:
        request = read_request(body, tokens.mask)
    except BodyError as error:
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
    rejected = _named_like_a_token(request, tokens, node)
    return rejected or _response(desk.take(request, node))


def _named_like_a_token(
    request: wire.Request, tokens: Tokens, node: NodeId
) -> JSONResponse | None:
    """Return the answer to a request that would write a token into the record."""
    named = {
        "node": [request.node],
        "leaving": request.leaving,
        "samples.guests": request.samples.guests,
    }
    for field, names in named.items():
        if tokens.any_in(names, node):
            detail = f"{field}: a name contains a token; replace this token"
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    return None


def _response(answer: Answer) -> JSONResponse:
    return JSONResponse(answer.body.model_dump(mode="json"), answer.status)


def _not_kept(http: HttpRequest, error: Exception) -> JSONResponse:
    del http
    tell("request-not-kept", str(error), level=logging.ERROR)
    detail = "it cannot be kept now; send it again"
    answer = problem(HTTPStatus.SERVICE_UNAVAILABLE, detail)
    answer.headers["Retry-After"] = str(RETRY_AFTER)
    return answer


def _not_there(http: HttpRequest, error: Exception) -> JSONResponse:
    """Answer what no route takes: 404, or 405 with the methods that are possible."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "another method")
        detail = f"{http.method}: not possible here; use {allowed}"
    elif error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"no such path; {wire.OPENAPI} has all that there are"
    else:
        detail = str(error.detail)
    answer = rejection(error.status_code, detail)
    answer.headers.update(error.headers or {})
    return answer


def _misaddressed(http: HttpRequest, error: Exception) -> JSONResponse:
    del http, error
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "the path does not fit")


def _broken(http: HttpRequest, error: Exception) -> JSONResponse:
    del http, error  # which is logged where it is raised again
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR, "this is a bug in opendrs; its log says more"
    )
