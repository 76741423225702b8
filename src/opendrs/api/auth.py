"""Authentication of requests by the token of a node.

A response that is sent before the request was read closes the connection. So does
every response to a client without a token.
"""

from __future__ import annotations

import logging
import time

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opendrs.api.connections import ClientAddress, Connections
from opendrs.api.problems import busy_response, closing_response
from opendrs.api.rate_limits import request_limiter
from opendrs.api.response_headers import send_with_headers
from opendrs.api.schema.common import ApiProblem
from opendrs.api.tokens import TokenTable
from opendrs.config.api_schema import HEALTH_PATH, OPENAPI_PATH
from opendrs.controller.events import LogEventCode, LogRateLimiter, log_event

NODE_KEY = "opendrs.node"  # key of the ASGI scope: node of the token
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
        self._by_node = request_limiter(time.monotonic)
        self._rate_limiter = LogRateLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or respond with 401 or 429."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = send_with_headers(HTTPConnection(scope), send)
        client: ClientAddress = tuple(scope["client"] or ("unknown", 0))[:2]
        token = bearer_token(scope)
        node = scope[NODE_KEY] = None if token is None else self._tokens.owner(token)
        if node is None and scope["path"] in _PUBLIC_PATHS:
            await self._app(scope, receive, _send_and_close(send))
        elif node is None:
            self._log_unauthorized(client[0])
            detail = "token missing or unknown; send the token of a node"
            response = closing_response(ApiProblem.UNAUTHORIZED, detail)
            await response(scope, receive, send)
        elif (seconds := self._by_node.wait_time(node)) > 0:
            detail = f"{node}: too many requests; retry in {seconds:.1f} s"
            response = busy_response(ApiProblem.RATE_LIMITED, detail, seconds)
            await response(scope, receive, send)
        elif self._connections.begin_request(client, node):
            try:
                await self._app(scope, receive, send)
            finally:
                self._connections.end_request(client)
        else:
            detail = f"{node}: too many requests at the same time; retry"
            response = busy_response(ApiProblem.NODE_BUSY, detail)
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
