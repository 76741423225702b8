"""Sessions, tokens, and the audit of the commands of operators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from opendrs.api.access_control import create_token, revoke_token, token_document
from opendrs.api.context import ApiContext
from opendrs.api.cookies import clear_cookie, set_cookie
from opendrs.api.operator_requests import perform
from opendrs.api.principal import Principal, admin, viewer
from opendrs.api.problems import ProblemError
from opendrs.api.responses import described
from opendrs.api.schema.access import (
    CreatedToken,
    SessionDocument,
    SessionRequest,
    TokenList,
    TokenRequest,
)
from opendrs.api.schema.common import MAX_NAME, PRINTABLE, ApiProblem
from opendrs.api.schema.operator import AuditList
from opendrs.model import format_timestamp
from opendrs.ports import OperatorAction

MAX_ACTIONS = 500  # in one response
TokenId = Annotated[str, Path(min_length=1, max_length=MAX_NAME, pattern=PRINTABLE)]


def routes(context: ApiContext) -> APIRouter:
    """Return the routes of sessions, tokens and the audit."""
    router = APIRouter(tags=["access"])
    _add_session_routes(router, context)
    _add_token_routes(router, context)
    _add_revocation(router, context)

    @router.get("/audit", response_model=AuditList, summary="List operator actions")
    def get_audit(
        cursor: Annotated[int | None, Query(ge=1, le=2**62)] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_ACTIONS)] = 100,
        principal: Principal = admin,
    ) -> dict[str, object]:
        """List the commands of operators, the newest first."""
        del principal
        found = context.stores.operators.audit(limit + 1, cursor)
        page = found[:limit]
        return {
            "actions": [_action_document(number, each) for number, each in page],
            "next": str(page[-1][0]) if len(found) > limit else None,
        }

    return router


def _add_session_routes(router: APIRouter, context: ApiContext) -> None:
    @router.put(
        "/session",
        response_model=SessionDocument,
        responses=described(401),
        summary="Sign in",
    )
    def sign_in(http: Request, body: SessionRequest) -> Response:
        """Start a browser session with a token, or with the code of a link."""
        address = http.client.host if http.client else ""
        found = context.access.sign_in(body.token, address)
        if found is None:
            raise ProblemError(
                ApiProblem.UNAUTHORIZED, "the token is unknown, expired, or was used"
            )
        cookie, principal = found
        response = JSONResponse(session_document(principal))
        set_cookie(response, http, cookie)
        return response

    @router.get("/session", response_model=SessionDocument, summary="Who is signed in")
    def get_session(principal: Principal = viewer) -> dict[str, object]:
        """Get name and role of the client."""
        return session_document(principal)

    @router.delete("/session", status_code=204, summary="Sign out")
    def sign_out(http: Request, principal: Principal = viewer) -> Response:
        """End the browser session."""
        context.access.sign_out(principal)
        response = Response(status_code=204)
        clear_cookie(response, http)
        return response


def _add_token_routes(router: APIRouter, context: ApiContext) -> None:
    @router.get("/tokens", response_model=TokenList, summary="List tokens")
    def list_tokens(principal: Principal = admin) -> dict[str, object]:
        """List the tokens, without their secrets."""
        del principal
        tokens = context.stores.access.tokens()
        return {"tokens": [token_document(each) for each in tokens]}

    @router.post(
        "/tokens",
        status_code=201,
        response_model=CreatedToken,
        summary="Create a token",
    )
    def add_token(body: TokenRequest, principal: Principal = admin) -> Response:
        """Create a token. Its secret is in this response only."""
        arguments = {"name": body.name, "role": body.role.value}
        with perform(context, principal, "access create", arguments):
            created = create_token(
                context.stores.access,
                context.clock,
                principal.actor,
                name=body.name,
                role=body.role,
                seconds=body.seconds,
            )
        document = {**token_document(created.record), "secret": created.secret}
        headers = {
            "Location": f"/api/v1/tokens/{created.record.id}",
            "Cache-Control": "no-store",
        }
        return JSONResponse(document, 201, headers=headers)


def _add_revocation(router: APIRouter, context: ApiContext) -> None:
    @router.delete(
        "/tokens/{id}",
        status_code=204,
        responses=described(404),
        summary="Revoke a token",
    )
    def remove_token(id: TokenId, principal: Principal = admin) -> Response:  # noqa: A002 - as in the path
        """Revoke a token, and end its sessions."""
        with perform(context, principal, "access revoke", {"id": id}):
            is_revoked = revoke_token(
                context.stores.access, context.clock, principal.actor, id
            )
            if not is_revoked and context.stores.access.token(id) is None:
                raise ProblemError(ApiProblem.NOT_FOUND, f"{id}: no such token")
        return Response(status_code=204)


def session_document(principal: Principal) -> dict[str, object]:
    """Return the session of *principal* as JSON."""
    return {
        "user": principal.user,
        "role": principal.role.value,
        "token": principal.token,
        "expires_at": format_timestamp(principal.expires_at),
    }


def _action_document(number: int, action: OperatorAction) -> dict[str, object]:
    return {
        "id": number,
        "at": format_timestamp(action.at),
        "user": action.user,
        "command": action.command,
        "arguments": dict(action.arguments),
        "origin": action.origin.value,
        "address": action.address,
        "token": action.token,
        "result": action.result,
    }
