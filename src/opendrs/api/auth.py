"""Requests that are let in: those with the token of a node, if they are not too large.

An answer that is given before the request was read ends the connection. So does every
answer to a peer without a token.
"""

from __future__ import annotations

import logging
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opendrs.api.connections import ClientAddress, Connections
from opendrs.api.schema import HEALTH_PATH, OPENAPI_PATH, ProblemDetails
from opendrs.api.tokens import TokenTable
from opendrs.controller.events import LogRateLimiter, log_event

NODE_KEY = "opendrs.node"  # where the scope of a request holds whose token it bears
RETRY_AFTER = 1  # seconds after which a request may be sent again
_PUBLIC_PATHS = frozenset({HEALTH_PATH, OPENAPI_PATH})


class AuthMiddleware:
    """Lets requests with a known token through, and notes whose it is.

    Args:
        app: What answers them.
        tokens: The tokens that are known.
        connections: The connections that are open; None if they are not counted here.
    """

    def __init__(
        self, app: ASGIApp, tokens: TokenTable, connections: Connections | None
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._connections = connections or Connections(0)
        self._rate_limiter = LogRateLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 401 or 429."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client: ClientAddress = tuple(scope["client"] or ("unknown", 0))[:2]
        token = bearer_token(scope)
        node = scope[NODE_KEY] = None if token is None else self._tokens.owner(token)
        if node is None and scope["path"] in _PUBLIC_PATHS:
            await self._app(scope, receive, _send_and_close(send))
        elif node is None:
            self._log_unauthorized(client[0])
            await _unauthorized_response()(scope, receive, send)
        elif self._connections.begin_request(client, node):
            try:
                await self._app(scope, receive, send)
            finally:
                self._connections.end_request(client)
        else:
            detail = f"{node}: too many requests at the same time; try again"
            response = busy_response(HTTPStatus.TOO_MANY_REQUESTS, detail)
            await response(scope, receive, send)

    def _log_unauthorized(self, address: str) -> None:
        if self._rate_limiter.allows(address):
            log_event(
                "request-unauthorized",
                f"{address} showed no token that is known",
                level=logging.WARNING,
                address=address,
            )


def _send_and_close(send: Send) -> Send:
    """Return *send* for a connection that ends with the answer."""

    async def send_last(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)

    return send_last


def bearer_token(scope: Scope) -> str | None:
    """Return the token that a request bears, if it bears one."""
    header = Headers(scope=scope).get("authorization", "")
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def problem_response(status: HTTPStatus | int, detail: str) -> JSONResponse:
    """Return an answer that says why not."""
    return JSONResponse(ProblemDetails(detail=detail).model_dump(), status)


def closing_response(status: HTTPStatus | int, detail: str) -> JSONResponse:
    """Return an answer to a request that was not read to its end."""
    response = problem_response(status, detail)
    response.headers["Connection"] = "close"
    return response


def busy_response(status: HTTPStatus, detail: str) -> JSONResponse:
    """Return an answer to a request that may be sent again in a moment."""
    response = closing_response(status, detail)
    response.headers["Retry-After"] = str(RETRY_AFTER)
    return response


def _unauthorized_response() -> JSONResponse:
    response = closing_response(HTTPStatus.UNAUTHORIZED, "show the token of a node")
    response.headers["WWW-Authenticate"] = "Bearer"
    return response
