"""Limits and authentication of requests, before they reach a route.

The order matters: nothing is read of a body before the client is known, and a client
without a token cannot occupy memory or the store.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opendrs.api.access_control import AccessControl
from opendrs.api.connections import network_of
from opendrs.api.cookies import session_cookie
from opendrs.api.operator_requests import problem_of
from opendrs.api.principal import PRINCIPAL_KEY, Principal
from opendrs.api.problems import ProblemError, problem_response
from opendrs.api.rate_limits import RateLimiter, request_limiter
from opendrs.api.response_headers import send_with_headers
from opendrs.api.schema.common import ApiProblem
from opendrs.errors import StoreError

PREFIX = "/api/"
PUBLIC_PATHS = ("/api/v1/health", "/api/v1/openapi.json", "/api/v1/sign-in")
OIDC_PATH = "/api/v1/sign-in/oidc"  # begins a sign-in by OpenID Connect
SIGN_IN_PATHS = ("/api/v1/session", "/api/v1/session/oidc", OIDC_PATH)
MAX_BODY = 2**20  # bytes
MAX_SIGN_IN_BODY = 4_096  # bytes; of a client that is not known yet
BODY_TIMEOUT = 10.0  # seconds to receive a body
FAILURE_COST = 20.0  # requests that a failed authentication counts as
SIGN_IN_COST = 20.0  # requests that a begun sign-in counts as: it is kept
SEND_TIMEOUT = 60.0  # seconds in which a client must read a part of a response
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_SAME_ORIGIN = ("same-origin", "none")


@dataclass(slots=True)
class Gateway:
    """ASGI application that limits and authenticates requests to another one.

    Args:
        app: Application of the API.
        dashboard: Application of the other paths.
        access: Tokens and sessions.
        monotonic: Returns seconds that never decrease.
    """

    app: ASGIApp
    dashboard: ASGIApp
    access: AccessControl
    monotonic: Callable[[], float]
    _by_address: RateLimiter = field(init=False)
    _by_token: RateLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._by_address = request_limiter(self.monotonic)
        self._by_token = request_limiter(self.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or respond with a problem."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        limited = send_with_headers(connection, _limited(send))
        try:
            await self._respond(connection, scope, receive, limited)
        except ProblemError as error:
            await problem_response(error)(scope, receive, limited)
        except TimeoutError:
            return  # the client does not read; the connection is closed

    async def _respond(
        self, connection: HTTPConnection, scope: Scope, receive: Receive, send: Send
    ) -> None:
        address = _address(connection)
        path = connection.url.path
        cost = SIGN_IN_COST if path == OIDC_PATH else 1.0
        _require_rate(self._by_address, network_of(address), cost)
        if not path.startswith(PREFIX):
            await self.dashboard(scope, receive, send)
            return
        limit = MAX_BODY
        if path in SIGN_IN_PATHS and scope["method"] == "PUT":
            _require_same_origin(connection)
            limit = MAX_SIGN_IN_BODY
        elif path not in PUBLIC_PATHS:
            principal = await self._authenticate(connection, address)
            _require_rate(self._by_token, principal.token)
            scope[PRINCIPAL_KEY] = principal
        if scope["method"] not in _SAFE_METHODS:
            receive = await _received(connection, receive, limit)
        await self.app(scope, receive, self._watched(send, address))

    async def _authenticate(
        self, connection: HTTPConnection, address: str
    ) -> Principal:
        """Return who sends the request.

        Raises:
            ProblemError: Token and session are missing or not valid, or the page that
                sends it has another origin.
        """
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        cookie = session_cookie(connection)
        principal = None
        try:
            if scheme.lower() == "bearer":
                principal = await run_in_threadpool(
                    self.access.by_token, token.strip(), address
                )
            elif cookie is not None:
                if connection.scope["method"] not in _SAFE_METHODS:
                    _require_same_origin(connection)
                principal = await run_in_threadpool(
                    self.access.by_session, cookie, address
                )
        except StoreError as error:
            raise problem_of(error) from error
        if principal is None:
            self._by_address.take(network_of(address), FAILURE_COST)
            raise ProblemError(
                ApiProblem.UNAUTHORIZED,
                "token or session is missing, unknown, expired or revoked",
            )
        return principal

    def _watched(self, send: Send, address: str) -> Send:
        """Return *send*, which counts a failed attempt to sign in."""

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                self._by_address.take(network_of(address), FAILURE_COST)
            await send(message)

        return watched


def _address(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client else ""


def _require_rate(limiter: RateLimiter, client: str, cost: float = 1.0) -> None:
    seconds = limiter.wait_time(client, cost)
    if seconds > 0:
        raise ProblemError(
            ApiProblem.RATE_LIMITED,
            f"too many requests; retry in {seconds:.1f} s",
            headers={"Retry-After": str(math.ceil(seconds))},
        )


def _require_same_origin(connection: HTTPConnection) -> None:
    """Check that a page of this origin sends the request.

    Raises:
        ProblemError: It is another origin, or unknown.

    Source:
        Fetch Metadata Request Headers (W3C); `Origin` of RFC 6454 for clients that do
        not send them.
    """
    headers = connection.headers
    site = headers.get("sec-fetch-site")
    if site is not None:
        is_same = site in _SAME_ORIGIN
    else:
        own = f"{connection.scope['scheme']}://{headers.get('host', '')}"
        is_same = headers.get("origin", "").lower() == own.lower()
    if not is_same:
        raise ProblemError(
            ApiProblem.CROSS_SITE,
            "expected Sec-Fetch-Site: same-origin, or Origin of this server; programs "
            "send Authorization: Bearer",
        )


async def _received(
    connection: HTTPConnection, receive: Receive, limit: int
) -> Receive:
    """Return a function that repeats the body, which was received completely.

    Raises:
        ProblemError: It is too large, or was not received in time.
    """
    too_large = ProblemError(
        ApiProblem.BODY_TOO_LARGE,
        f"expected at most {limit} bytes",
        headers={"Connection": "close"},
    )
    declared = connection.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    break
                body += message.get("body", b"")
                if len(body) > limit:
                    raise too_large
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise ProblemError(
            ApiProblem.BODY_TIMEOUT,
            f"expected the body within {BODY_TIMEOUT:g} s",
            headers={"Connection": "close"},
        ) from None
    messages = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def repeat() -> Message:
        return messages.pop() if messages else await receive()

    return repeat


def _limited(send: Send) -> Send:
    """Return *send* with a time limit."""

    async def limited(message: Message) -> None:
        async with asyncio.timeout(SEND_TIMEOUT):
            await send(message)

    return limited
