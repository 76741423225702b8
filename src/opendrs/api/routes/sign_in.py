"""Sign-in by OpenID Connect."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from opendrs.api.context import ApiContext
from opendrs.api.cookies import (
    clear_sign_in_cookie,
    set_cookie,
    set_sign_in_cookie,
    sign_in_cookie,
)
from opendrs.api.oidc_claims import OidcUser
from opendrs.api.oidc_sign_in import PENDING_TIME, OidcSignIn
from opendrs.api.problems import ProblemError
from opendrs.api.responses import described
from opendrs.api.routes.access import session_document
from opendrs.api.schema.access import (
    OidcDocument,
    OidcLocation,
    OidcRequest,
    SessionDocument,
    SignInDocument,
)
from opendrs.api.schema.common import ApiProblem
from opendrs.controller.events import LogEventCode, LogRateLimiter, log_event
from opendrs.controller.operator_commands import Actor
from opendrs.errors import StoreError
from opendrs.ports import ActionOrigin

COMMAND = "access sign-in"  # as the audit names it
_LOGGED = (
    ApiProblem.ISSUER_UNAVAILABLE,
    ApiProblem.NO_ROLE,
    ApiProblem.SIGN_IN_REJECTED,
)


def routes(context: ApiContext) -> APIRouter:
    """Return the routes of the sign-in by OpenID Connect."""
    router = APIRouter(tags=["access"])

    @router.get(
        "/sign-in", response_model=SignInDocument, summary="Get the ways to sign in"
    )
    async def get_sign_in() -> SignInDocument:
        """Get the ways to sign in besides a token; requires no token."""
        if context.oidc is None:
            return SignInDocument(oidc=None)
        settings = context.oidc.settings
        return SignInDocument(
            oidc=OidcDocument(name=settings.label, location=settings.redirect_uri)
        )

    _add_oidc_routes(router, context, _FailureLog())
    return router


def _add_oidc_routes(
    router: APIRouter, context: ApiContext, failures: _FailureLog
) -> None:
    @router.put(
        "/sign-in/oidc",
        response_model=OidcLocation,
        responses=described(404),
        summary="Begin to sign in by OpenID Connect",
    )
    def begin_sign_in(http: Request) -> Response:
        """Begin a sign-in; the browser then goes to the location at the issuer."""
        try:
            begun = _configured(context).begin()
        except ProblemError as error:
            failures.log(error, _address(http))
            raise
        response = JSONResponse({"location": begun.location})
        set_sign_in_cookie(response, http, begun.cookie, int(PENDING_TIME))
        return response

    @router.put(
        "/session/oidc",
        response_model=SessionDocument,
        responses=described(404),
        summary="Sign in by OpenID Connect",
    )
    def complete_sign_in(http: Request, body: OidcRequest) -> Response:
        """Start a browser session with the response of the issuer."""
        oidc, address = _configured(context), _address(http)
        try:
            user = oidc.complete(body.state, body.code, sign_in_cookie(http))
            cookie, document = _start_session(context, user, address)
        except ProblemError as error:
            failures.log(error, address)
            raise
        response = JSONResponse(document)
        set_cookie(response, http, cookie)
        clear_sign_in_cookie(response, http)
        return response


class _FailureLog:
    """Log of sign-ins that fail; each message once in an interval."""

    def __init__(self) -> None:
        self._limiter = LogRateLimiter()

    def log(self, error: ProblemError, address: str) -> None:
        """Log *error* of a client at *address*."""
        message = f"{address}: sign-in failed: {error.detail}"
        if error.code in _LOGGED and self._limiter.allows(message):
            log_event(
                LogEventCode.SIGN_IN_FAILED,
                message,
                level=logging.WARNING,
                address=address,
                problem=error.code.value,
            )


def _configured(context: ApiContext) -> OidcSignIn:
    """Return the sign-in of *context*.

    Raises:
        ProblemError: It is not configured.
    """
    if context.oidc is None:
        raise ProblemError(ApiProblem.NOT_FOUND, "[web.oidc] is not configured")
    return context.oidc


def _start_session(
    context: ApiContext, user: OidcUser, address: str
) -> tuple[str, dict[str, object]]:
    """Start a session of *user*; return its cookie and its document.

    Raises:
        ProblemError: The user has no role; the audit has the attempt.
        StoreError: The store cannot be written.
    """
    assert context.oidc is not None  # noqa: S101 - it has returned the user
    origin = {"issuer": context.oidc.settings.issuer, "subject": user.subject}
    if user.role is None:
        actor = Actor(user=user.name, origin=ActionOrigin.API, address=address)
        action = actor.action(context.clock, COMMAND, origin)
        with suppress(StoreError):
            context.stores.operators.record(
                replace(action, result=ApiProblem.NO_ROLE.value)
            )
        claim = context.oidc.settings.role_claim
        raise ProblemError(
            ApiProblem.NO_ROLE,
            f"{user.name}: no value of the claim {claim} gives a role here; an "
            "administrator sets [web.oidc] or the groups at the issuer",
        )
    started = context.access.sign_in_user(
        user.name, user.role, address, command=COMMAND, details=origin
    )
    if started is None:
        raise ProblemError(ApiProblem.UNAUTHORIZED, "the session was revoked")
    cookie, principal = started
    return cookie, session_document(principal)


def _address(http: Request) -> str:
    return http.client.host if http.client else ""
