"""The interface for agents: HTTP in front of the desk.

Imported only where it is served: it takes a while.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import FastAPI, Path
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.requests import Request as HttpRequest

from opendrs import __version__
from opendrs.controller.requests import wire
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
from opendrs.controller.requests.gate import NODE, Gate, body_of, problem, token_of
from opendrs.controller.requests.tokens import Tokens
from opendrs.controller.telling import tell
from opendrs.errors import StoreError
from opendrs.model import GuestId, NodeId
from opendrs.platforms.file.complaints import dotted

MOST_COMPLAINTS = 5

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


def interface(desk: Desk, tokens: Tokens) -> FastAPI:
    """Return the application that answers agents.

    Args:
        desk: Where requests are taken.
        tokens: Whose agent it is that speaks.
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
    _add_routes(app, desk)
    app.add_exception_handler(StoreError, _not_kept)
    app.add_exception_handler(RequestValidationError, _misaddressed)
    app.add_exception_handler(Exception, _broken)
    app.add_middleware(Gate, tokens=tokens)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]  # as FastAPI has it
    return app


def _add_routes(app: FastAPI, desk: Desk) -> None:
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
        body = await body_of(http)
        if isinstance(body, JSONResponse):
            return body
        return await run_in_threadpool(_taken, desk, body, http)

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
    def health() -> wire.Health:
        """See whether the controller answers; needs no token."""
        return wire.Health()


def _taken(desk: Desk, body: bytes, http: HttpRequest) -> JSONResponse:
    node: NodeId = http.scope[NODE]
    try:
        request = wire.Request.model_validate_json(body)
    except ValidationError as error:
        answer = problem(HTTPStatus.UNPROCESSABLE_ENTITY, _misfits(error, http))
    else:
        answer = _response(desk.take(request, node))
    if answer.status_code >= HTTPStatus.BAD_REQUEST:
        tell(
            "request-refused",
            f"a request of {node} was answered with {answer.status_code}",
            level=logging.WARNING,
            node=node,
            status=answer.status_code,
        )
    return answer


def _misfits(error: ValidationError, http: HttpRequest) -> str:
    """Return what does not fit, without the values that were found."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{dotted(each['loc'])}: {each['msg']}" for each in found]
    rest = [f"and {len(lines) - MOST_COMPLAINTS} more"][: len(lines) > MOST_COMPLAINTS]
    told = "; ".join([*lines[:MOST_COMPLAINTS], *rest])
    # Who puts a token where a name belongs must not find it in a log.
    token = token_of(http.scope)
    return told.replace(token, "...") if token else told


def _response(answer: Answer) -> JSONResponse:
    return JSONResponse(answer.body.model_dump(mode="json"), answer.status)


def _not_kept(http: HttpRequest, error: Exception) -> JSONResponse:
    del http
    tell("request-not-kept", str(error), level=logging.ERROR)
    detail = "it cannot be kept now; send it again"
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail)


def _misaddressed(http: HttpRequest, error: Exception) -> JSONResponse:
    del http, error
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "the path does not fit")


def _broken(http: HttpRequest, error: Exception) -> JSONResponse:
    del http, error  # which is logged where it is raised again
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR, "this is a bug in opendrs; its log says more"
    )
