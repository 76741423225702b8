"""The client that sends a request, and the roles that routes require."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import Depends
from starlette.requests import HTTPConnection

from opendrs.api.problems import ProblemError
from opendrs.api.schema.common import ApiProblem
from opendrs.controller.operator_commands import Actor
from opendrs.ports import ActionOrigin, Role

PRINCIPAL_KEY = "opendrs.principal"  # in the scope of an authenticated request


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated client.

    Attributes:
        user: Name of the token.
        role: Its role.
        token: Its id.
        address: Network address of the client.
        expires_at: End of the session, or of the token without one.
        session: SHA-256 of the cookie of its session; None without one.
    """

    user: str
    role: Role
    token: str
    address: str
    expires_at: datetime
    session: str | None = None

    @property
    def actor(self) -> Actor:
        """Return the client as the audit records it."""
        return Actor(
            user=self.user,
            origin=ActionOrigin.API,
            address=self.address,
            token=self.token,
        )


def require_role(role: Role) -> Any:  # noqa: ANN401 - what FastAPI calls a dependency
    """Return a dependency: the `Principal`, whose role includes *role*."""
    return Depends(_guard(role))


def _guard(role: Role) -> Callable[[HTTPConnection], Principal]:
    def guard(connection: HTTPConnection) -> Principal:
        principal: Principal = connection.scope[PRINCIPAL_KEY]
        if not principal.role.includes(role):
            raise ProblemError(
                ApiProblem.FORBIDDEN,
                f"{principal.user}: has the role {principal.role}, {role} is required",
            )
        return principal

    return guard


viewer: Any = require_role(Role.VIEWER)
operator: Any = require_role(Role.OPERATOR)
admin: Any = require_role(Role.ADMIN)
