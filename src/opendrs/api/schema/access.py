"""Tokens and sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, StrictFloat, StrictInt

from opendrs.api.schema.common import PRINTABLE, Document, RequestDocument
from opendrs.ports import Role

MAX_USER = 100  # characters of the name of a token or a user
MAX_STATE = 100  # characters of the state of a sign-in
MAX_CODE = 3_000  # characters of an authorization code
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


class OidcDocument(Document):
    """Sign-in by OpenID Connect."""

    name: Annotated[str, Field(description="Name of the issuer.")]
    location: Annotated[
        str, Field(description="Page of the dashboard that begins a sign-in.")
    ]


class SignInDocument(Document):
    """Ways to sign in besides a token."""

    oidc: Annotated[
        OidcDocument | None, Field(description="Null if it is not configured.")
    ]


class OidcLocation(Document):
    """Begin of a sign-in by OpenID Connect."""

    location: Annotated[
        str, Field(description="Address at the issuer to which the browser goes.")
    ]


class OidcRequest(RequestDocument):
    """Response of the issuer, which the browser brings back."""

    state: Annotated[str, Field(min_length=1, max_length=MAX_STATE)]
    code: Annotated[str, Field(min_length=1, max_length=MAX_CODE, pattern=PRINTABLE)]


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

    name: Annotated[str, Field(min_length=1, max_length=MAX_USER, pattern=PRINTABLE)]
    role: Annotated[Role, Field(strict=False)] = Role.VIEWER
    seconds: Annotated[
        StrictFloat | StrictInt,
        Field(gt=0, le=MAX_TOKEN_SECONDS, description="Its lifetime."),
    ] = 90 * 86_400


class CreatedToken(TokenDocument):
    """A new token. The secret is not shown again."""

    secret: str
