"""Tokens and sessions in the tables `api_tokens` and `sessions`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from opendrs.model import decoding, require_type
from opendrs.ports import AccessToken, OperatorAction, Role, Session
from opendrs.store.database import DatabaseStore, add_new
from opendrs.store.plans import record_action
from opendrs.store.tables import API_TOKENS, SESSIONS, time_from_column


class DatabaseAccessStore:
    """Implementation of `opendrs.ports.AccessStore` in the database of a store.

    Args:
        store: The open store.
        reader: The same store, to read with another connection; None for *store*.
    """

    def __init__(
        self, store: DatabaseStore, *, reader: DatabaseStore | None = None
    ) -> None:
        self._store = store
        self._reader = reader or store

    def add_token(self, token: AccessToken, action: OperatorAction) -> bool:
        """Add *token* with the audit; return False if its id is in use."""
        row = {name: getattr(token, name) for name in API_TOKENS.columns.keys()}  # noqa: SIM118 - no dictionary
        row["role"] = token.role.value
        with self._store.transaction() as connection:
            is_added = add_new(connection, API_TOKENS, API_TOKENS.c.id, row)
            if is_added:
                record_action(connection, action)
            return is_added

    def token(self, name: str) -> AccessToken | None:
        """Return the token with the id *name*, or None."""
        query = select(API_TOKENS).where(API_TOKENS.c.id == name)
        found = self._reader.read(query, _token)
        return found[0] if found else None

    def tokens(self) -> tuple[AccessToken, ...]:
        """Return all tokens, the oldest first."""
        ordered = select(API_TOKENS).order_by(API_TOKENS.c.created_at, API_TOKENS.c.id)
        return self._reader.read(ordered, _token)

    def revoke(self, name: str, action: OperatorAction) -> bool:
        """Revoke the token *name* with the audit, and end its sessions."""
        valid = API_TOKENS.c.id == name, API_TOKENS.c.revoked_at.is_(None)
        statement = update(API_TOKENS).where(*valid).values(revoked_at=action.at)
        with self._store.transaction() as connection:
            if connection.execute(statement).rowcount != 1:
                return False
            connection.execute(delete(SESSIONS).where(SESSIONS.c.token == name))
            record_action(connection, action)
            return True

    def record_use(self, name: str, at: datetime) -> None:
        """Record the last use of the token *name*."""
        this = API_TOKENS.c.id == name
        with self._store.transaction() as connection:
            connection.execute(update(API_TOKENS).where(this).values(last_used_at=at))

    def start_session(self, session: Session) -> bool:
        """Add *session*; return False if its token was used and cannot be again.

        Sessions that have ended are deleted, with single-use tokens that have expired
        and have no session any more: the audit has them.
        """
        unused = API_TOKENS.c.last_used_at.is_(None)
        usable = (
            API_TOKENS.c.id == session.token,
            API_TOKENS.c.revoked_at.is_(None),
            ~API_TOKENS.c.single_use | unused,
        )
        used = update(API_TOKENS).where(*usable).values(last_used_at=session.created_at)
        ended = SESSIONS.c.expires_at <= session.created_at
        unusable = (
            API_TOKENS.c.single_use,
            API_TOKENS.c.expires_at <= session.created_at,
            API_TOKENS.c.id != session.token,
            API_TOKENS.c.id.not_in(select(SESSIONS.c.token)),
        )
        with self._store.transaction() as connection:
            if connection.execute(used).rowcount != 1:
                return False
            connection.execute(delete(SESSIONS).where(ended))
            connection.execute(delete(API_TOKENS).where(*unusable))
            row = {
                "sha256": session.sha256,
                "token": session.token,
                "created_at": session.created_at,
                "expires_at": session.expires_at,
            }
            connection.execute(insert(SESSIONS).values(row))
            return True

    def session(self, sha256: str) -> Session | None:
        """Return the session with this SHA-256, or None."""
        query = select(SESSIONS).where(SESSIONS.c.sha256 == sha256)
        found = self._reader.read(query, _session)
        return found[0] if found else None

    def end_session(self, sha256: str) -> None:
        """Delete the session with this SHA-256, if it exists."""
        with self._store.transaction() as connection:
            connection.execute(delete(SESSIONS).where(SESSIONS.c.sha256 == sha256))


def _token(row: Row[Any]) -> AccessToken:
    with decoding("a token", row.id):
        require_type(str, [row.id, row.name, row.sha256, row.created_by])
        return AccessToken(
            id=row.id,
            name=row.name,
            role=Role(row.role),
            sha256=row.sha256,
            created_at=time_from_column(row.created_at),
            created_by=row.created_by,
            expires_at=time_from_column(row.expires_at),
            single_use=bool(row.single_use),
            last_used_at=_optional_time(row.last_used_at),
            revoked_at=_optional_time(row.revoked_at),
        )


def _optional_time(value: object) -> datetime | None:
    return None if value is None else time_from_column(value)


def _session(row: Row[Any]) -> Session:
    with decoding("a session", row.token):
        require_type(str, [row.sha256, row.token])
        return Session(
            sha256=row.sha256,
            token=row.token,
            created_at=time_from_column(row.created_at),
            expires_at=time_from_column(row.expires_at),
        )
