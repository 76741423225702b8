"""Protocol of the access of operators: tokens, their roles, and browser sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from opendrs.ports.store import OperatorAction


class Role(StrEnum):
    """Role of a token. Each role includes those before. The values are stable."""

    VIEWER = "viewer"
    """Reads everything but the audit and the tokens."""
    OPERATOR = "operator"
    """Approves plans, sets the mode, pauses, drains, and resets circuit breakers."""
    ADMIN = "admin"
    """Reads the audit; creates and revokes tokens."""

    @property
    def level(self) -> int:
        """Return the position in the order of the roles."""
        return list(Role).index(self)

    def includes(self, other: Role) -> bool:
        """Return True if this role allows what *other* allows."""
        return self.level >= other.level


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """Token of an operator or a program; the token itself is not stored.

    Attributes:
        id: Short public part of the token.
        name: Name of its owner, which the audit records as the user.
        role: Its role.
        sha256: SHA-256 of the whole token, in hexadecimal digits.
        created_at: Time of its creation.
        created_by: User that created it.
        expires_at: Time from which it is rejected.
        single_use: It starts one browser session, and is not accepted otherwise.
        last_used_at: Time of its last use, at most some minutes late; None before.
        revoked_at: Time from which it is rejected for another reason; None if it was
            not revoked.
    """

    id: str
    name: str
    role: Role
    sha256: str
    created_at: datetime
    created_by: str
    expires_at: datetime
    single_use: bool = False
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Return True unless the token has expired or was revoked."""
        return self.revoked_at is None and now < self.expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Session of a browser; its cookie is not stored.

    Attributes:
        sha256: SHA-256 of the cookie, in hexadecimal digits.
        token: Id of the token that started it.
        created_at: Time of its start.
        expires_at: Time of its end.
    """

    sha256: str
    token: str
    created_at: datetime
    expires_at: datetime


class AccessStore(Protocol):
    """Tokens and sessions. Methods may raise `StoreError`."""

    def add_token(self, token: AccessToken, action: OperatorAction) -> bool:
        """Add *token*, in one transaction with the audit.

        Returns:
            False if its id is in use; nothing has changed then.
        """

    def token(self, name: str) -> AccessToken | None:
        """Return the token with the id *name*, or None."""

    def tokens(self) -> tuple[AccessToken, ...]:
        """Return all tokens, the oldest first."""

    def revoke(self, name: str, action: OperatorAction) -> bool:
        """Revoke the token *name* and end its sessions, in one transaction.

        Returns:
            False if there is no such token, or it was revoked before.
        """

    def record_use(self, name: str, at: datetime) -> None:
        """Record the last use of the token *name*."""

    def start_session(self, session: Session) -> bool:
        """Add *session*; delete those that have ended.

        Single-use tokens that have expired and have no session are deleted too.

        Returns:
            False if its token can be used once, and was used before.
        """

    def session(self, sha256: str) -> Session | None:
        """Return the session with this SHA-256, or None."""

    def end_session(self, sha256: str) -> None:
        """Delete the session with this SHA-256, if it exists."""
