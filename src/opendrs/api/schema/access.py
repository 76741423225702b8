"""Tokens and sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, StrictFloat, StrictInt

from opendrs.api.schema.common import PRINTABLE, Document, RequestDocument
from opendrs.ports import Role

MAX_TOKEN_SECONDS = 10 * 366 * 86_400  # seconds of life of a token


class HealthDocument(Document):
    """The server responds."""

    status: Annotated[str, Field(examples=["ok"])]
    version: str


class SessionRequest(RequestDocument):
    """Start of a browser session."""

    token: Annotated[str, Field(min_length=1, max_length=200)]


class SessionDocument(Document):
    """The client that is signed in."""

    user: str
    role: Role
    token: Annotated[str, Field(description="Id of the token.")]
    expires_at: datetime


class TokenDocument(Document):
    """A token, without its secret."""

    id: str
    name: str
    role: Role
    created_at: datetime
    created_by: str
    expires_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    single_use: bool


class TokenList(Document):
    """The tokens, the oldest first."""

    tokens: list[TokenDocument]


class TokenRequest(RequestDocument):
    """Creation of a token."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=PRINTABLE)]
    role: Annotated[Role, Field(strict=False)] = Role.VIEWER
    seconds: Annotated[
        StrictFloat | StrictInt,
        Field(gt=0, le=MAX_TOKEN_SECONDS, description="Its lifetime."),
    ] = 90 * 86_400


class CreatedToken(TokenDocument):
    """A new token. The secret is not shown again."""

    secret: str
