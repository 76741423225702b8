"""Who is let in: whoever shows the token of a node, with no more than fits."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from opendrs.controller.requests.seldom import Seldom
from opendrs.controller.requests.tokens import Tokens
from opendrs.controller.requests.wire import (
    HEALTH,
    LARGEST_BODY,
    OPENAPI,
    Problem,
)
from opendrs.controller.telling import tell
from opendrs.model import NodeId

NODE = "opendrs.node"  # where the scope of a request holds whose token it bears
LONGEST_BODY = 20.0  # seconds in which the body has to be there
_OPEN = frozenset({HEALTH, OPENAPI})


class Gate:
    """Lets requests with a known token through, and notes whose it is.

    Args:
        app: To whom.
        tokens: The tokens that are known.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens
        self._told = Seldom()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 401."""
        if scope["type"] == "http" and scope["path"] not in _OPEN:
            scope[NODE] = self._node(scope)
            if scope[NODE] is None:
                await _unauthorised()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _node(self, scope: Scope) -> NodeId | None:
        token = token_of(scope)
        node = None if token is None else self._tokens.owner(token)
        address = (scope.get("client") or ["somebody"])[0]
        if node is None and self._told.may(address):
            tell(
                "request-unauthorised",
                f"{address} showed no token that is known",
                level=logging.WARNING,
                address=address,
            )
        return node


def token_of(scope: Scope) -> str | None:
    """Return the token that a request bears, if it bears one."""
    shown = Headers(scope=scope).get("authorization", "")
    scheme, _, token = shown.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def problem(status: HTTPStatus, detail: str) -> JSONResponse:
    """Return an answer that says why not."""
    return JSONResponse(Problem(detail=detail).model_dump(), status)


def _unauthorised() -> JSONResponse:
    answer = problem(HTTPStatus.UNAUTHORIZED, "show the token of a node")
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


async def body_of(request: Request) -> bytes | JSONResponse:
    """Return the body of *request*, or the answer when it is too large or too slow."""
    too_large = problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"a request has at most {LARGEST_BODY} bytes",
    )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > LARGEST_BODY:
        return too_large
    body = bytearray()
    try:
        async with asyncio.timeout(LONGEST_BODY):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    return too_large
    except TimeoutError:
        return problem(HTTPStatus.REQUEST_TIMEOUT, "the request did not come in time")
    except ClientDisconnect:
        return problem(HTTPStatus.BAD_REQUEST, "the request ended too early")
    return bytes(body)
