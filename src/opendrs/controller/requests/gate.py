"""Requests that are let in: those with the token of a node, if they are not too large.

An answer that is given before the request was read ends the connection. So does every
answer to a peer without a token.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opendrs.controller.requests.connections import Client, Connections
from opendrs.controller.requests.seldom import Seldom
from opendrs.controller.requests.tokens import Tokens
from opendrs.controller.requests.wire import (
    HEALTH,
    LARGEST_BODY,
    OPENAPI,
    Problem,
)
from opendrs.controller.telling import tell

NODE = "opendrs.node"  # where the scope of a request holds whose token it bears
LONGEST_BODY = 20.0  # seconds in which the body has to be there
RETRY_AFTER = 1  # seconds after which a request may be sent again
_OPEN = frozenset({HEALTH, OPENAPI})


class Gate:
    """Lets requests with a known token through, and notes whose it is.

    Args:
        app: What answers them.
        tokens: The tokens that are known.
        connections: The connections that are open; None if they are not counted here.
    """

    def __init__(
        self, app: ASGIApp, tokens: Tokens, connections: Connections | None
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._connections = connections or Connections(0)
        self._told = Seldom()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 401 or 429."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client: Client = tuple(scope["client"] or ("unknown", 0))[:2]
        token = token_of(scope)
        node = scope[NODE] = None if token is None else self._tokens.owner(token)
        if node is None and scope["path"] in _OPEN:
            await self._app(scope, receive, _closing(send))
        elif node is None:
            self._tell_unauthorized(client[0])
            await _unauthorised()(scope, receive, send)
        elif self._connections.begin(client, node):
            try:
                await self._app(scope, receive, send)
            finally:
                self._connections.end(client)
        else:
            detail = f"{node}: too many requests at the same time; try again"
            answer = busy(HTTPStatus.TOO_MANY_REQUESTS, detail)
            await answer(scope, receive, send)

    def _tell_unauthorized(self, address: str) -> None:
        if self._told.may(address):
            tell(
                "request-unauthorised",
                f"{address} showed no token that is known",
                level=logging.WARNING,
                address=address,
            )


def _closing(send: Send) -> Send:
    """Return *send* for a connection that ends with the answer."""

    async def last(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)

    return last


def token_of(scope: Scope) -> str | None:
    """Return the token that a request bears, if it bears one."""
    shown = Headers(scope=scope).get("authorization", "")
    scheme, _, token = shown.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def problem(status: HTTPStatus | int, detail: str) -> JSONResponse:
    """Return an answer that says why not."""
    return JSONResponse(Problem(detail=detail).model_dump(), status)


def rejection(status: HTTPStatus | int, detail: str) -> JSONResponse:
    """Return an answer to a request that was not read to its end."""
    answer = problem(status, detail)
    answer.headers["Connection"] = "close"
    return answer


def busy(status: HTTPStatus, detail: str) -> JSONResponse:
    """Return an answer to a request that may be sent again in a moment."""
    answer = rejection(status, detail)
    answer.headers["Retry-After"] = str(RETRY_AFTER)
    return answer


def _unauthorised() -> JSONResponse:
    answer = rejection(HTTPStatus.UNAUTHORIZED, "show the token of a node")
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def rejected_by_its_head(request: Request) -> JSONResponse | None:
    """Return the answer to a body that need not be received, or None."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        answer = rejection(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "Content-Encoding: not supported; send plain JSON",
        )
        answer.headers["Accept-Encoding"] = "identity"
        return answer
    return _too_large() if declared_size(request) > LARGEST_BODY else None


def declared_size(request: Request) -> int:
    """Return the size of the body that *request* announces, or the largest one."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isdecimal() else LARGEST_BODY


def _too_large() -> JSONResponse:
    detail = f"a request has at most {LARGEST_BODY} bytes"
    return rejection(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)


async def body_of(request: Request) -> bytearray | JSONResponse:
    """Return the body of *request*, or the answer when it is too large or too slow."""
    body = bytearray()
    try:
        async with asyncio.timeout(LONGEST_BODY):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    return _too_large()
    except TimeoutError:
        detail = "the request did not come in time"
        return rejection(HTTPStatus.REQUEST_TIMEOUT, detail)
    except ClientDisconnect:
        return rejection(HTTPStatus.BAD_REQUEST, "the request ended too early")
    return body
