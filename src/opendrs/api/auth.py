"""Authentication of requests by the token of a node.

A response that is sent before the request was read closes the connection. So does
every response to a client without a token.
"""

from __future__ import annotations

import logging

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opendrs.api.connections import ClientAddress, Connections
from opendrs.api.messages import DETAILS
from opendrs.api.tokens import TokenTable
from opendrs.config.api_schema import (
    HEALTH_PATH,
    OPENAPI_PATH,
    ProblemCode,
    ProblemDetails,
)
from opendrs.controller.events import LogEventCode, LogRateLimiter, log_event

NODE_KEY = "opendrs.node"  # key of the ASGI scope: node of the token
RETRY_AFTER = 1  # seconds until a retry
_PUBLIC_PATHS = frozenset({HEALTH_PATH, OPENAPI_PATH})


class AuthMiddleware:
    """Middleware that passes on requests with a known token, with the node.

    Args:
        app: Application that receives the requests.
        tokens: Known tokens.
        connections: Open connections; None if they are not limited.
    """

    def __init__(
        self, app: ASGIApp, tokens: TokenTable, connections: Connections | None
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._connections = connections or Connections(0)
        self._rate_limiter = LogRateLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or respond with 401 or 429."""
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
            detail = f"{node}: too many requests at the same time; retry"
            response = busy_response(ProblemCode.NODE_BUSY, detail)
            await response(scope, receive, send)

    def _log_unauthorized(self, address: str) -> None:
        if self._rate_limiter.allows(address):
            log_event(
                LogEventCode.REQUEST_UNAUTHORIZED,
                f"{address}: missing or unknown token",
                level=logging.WARNING,
                address=address,
            )


def _send_and_close(send: Send) -> Send:
    """Return *send* with the header that closes the connection."""

    async def send_last(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)

    return send_last


def bearer_token(scope: Scope) -> str | None:
    """Return the bearer token of a request, or None."""
    header = Headers(scope=scope).get("authorization", "")
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def problem_response(code: ProblemCode, detail: str = "") -> JSONResponse:
    """Return a response with `ProblemDetails`.

    Args:
        code: Code of the problem.
        detail: Reason for the operator; empty for that in `messages.DETAILS`.
    """
    body = ProblemDetails(code=code, detail=detail or DETAILS[code])
    return JSONResponse(body.model_dump(), code.status)


def closing_response(code: ProblemCode, detail: str = "") -> JSONResponse:
    """Return a response that closes the connection: the request was not read."""
    response = problem_response(code, detail)
    response.headers["Connection"] = "close"
    return response


def busy_response(code: ProblemCode, detail: str = "") -> JSONResponse:
    """Return a response with the delay after which the client should retry."""
    response = closing_response(code, detail)
    response.headers["Retry-After"] = str(RETRY_AFTER)
    return response


def _unauthorized_response() -> JSONResponse:
    response = closing_response(ProblemCode.TOKEN_UNKNOWN)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response
