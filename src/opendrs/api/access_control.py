"""Tokens and sessions of operators: creation, and who a request comes from.

A token is `odrs_ID_SECRET`. The secret has 256 random bits, so that its SHA-256 is
enough to store: nothing can be gained from the hash. The prefix lets programs that
search for leaked secrets find it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from opendrs.api.principal import Principal
from opendrs.controller.operator_commands import Actor
from opendrs.model import format_timestamp
from opendrs.ports import AccessStore, AccessToken, ActionOrigin, Clock, Role, Session

LOGIN_TIME = 600.0  # seconds in which a link to sign in can be used
USE_INTERVAL = timedelta(minutes=1)  # between two records of the last use of a token
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"  # without characters that look alike
_ID_LENGTH = 8
_SECRET_LENGTH = 43  # of 256 bits in base 62
_TOKEN = re.compile(rf"odrs_([{_ID_ALPHABET}]{{{_ID_LENGTH}}})_[0-9A-Za-z]{{43}}")


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just created.

    Attributes:
        record: The token without its secret.
        secret: The token itself, which is shown once.
    """

    record: AccessToken
    secret: str


def sha256_of(text: str) -> str:
    """Return the SHA-256 of *text* in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def create_token(  # noqa: PLR0913 - what a token consists of
    store: AccessStore,
    clock: Clock,
    actor: Actor,
    *,
    name: str,
    role: Role,
    seconds: float,
    single_use: bool = False,
    command: str = "access create",
    details: Mapping[str, object] | None = None,
) -> NewToken:
    """Create a token.

    Args:
        store: The tokens.
        clock: The time.
        actor: Who creates it.
        name: Name of its owner.
        role: Its role.
        seconds: Its lifetime.
        single_use: It only starts one browser session.
        command: Name of the command in the audit.
        details: Further arguments of the command in the audit.

    Raises:
        StoreError: The store cannot be written.
    """
    now = clock.now()
    while True:
        token_id = _random(_ID_ALPHABET, _ID_LENGTH)
        secret = f"odrs_{token_id}_{_random(_ALPHABET, _SECRET_LENGTH)}"
        record = AccessToken(
            id=token_id,
            name=name,
            role=role,
            sha256=sha256_of(secret),
            created_at=now,
            created_by=actor.user,
            expires_at=now + timedelta(seconds=seconds),
            single_use=single_use,
        )
        arguments = {
            "id": token_id,
            "name": name,
            "role": role.value,
            "expires_at": format_timestamp(record.expires_at),
            **(details or {}),
        }
        action = actor.action(clock, command, arguments)
        if store.add_token(record, action):
            return NewToken(record, secret)


def revoke_token(store: AccessStore, clock: Clock, actor: Actor, name: str) -> bool:
    """Revoke the token with the id *name*, and end its sessions.

    Returns:
        False if there is no such token, or it was revoked before.

    Raises:
        StoreError: The store cannot be written.
    """
    return store.revoke(name, actor.action(clock, "access revoke", {"id": name}))


def token_document(token: AccessToken) -> dict[str, object]:
    """Return *token* as JSON, without its secret."""
    used, revoked = token.last_used_at, token.revoked_at
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role.value,
        "created_at": format_timestamp(token.created_at),
        "created_by": token.created_by,
        "expires_at": format_timestamp(token.expires_at),
        "last_used_at": None if used is None else format_timestamp(used),
        "revoked_at": None if revoked is None else format_timestamp(revoked),
        "single_use": token.single_use,
    }


def _random(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


class AccessControl:
    """Decides who a request comes from. Threads may share it.

    Args:
        store: Tokens and sessions.
        clock: The time.
        session_time: Seconds of a browser session.
    """

    def __init__(self, store: AccessStore, clock: Clock, session_time: float) -> None:
        self._store = store
        self._clock = clock
        self._session_time = timedelta(seconds=session_time)

    def by_token(self, text: str, address: str) -> Principal | None:
        """Return the client that sends the token *text*; None if it is not valid.

        Raises:
            StoreError: The store cannot be read or written.
        """
        token = self._valid_token(text)
        if token is None or token.single_use:
            return None
        self._record_use(token)
        return _principal(token, address)

    def by_session(self, cookie: str, address: str) -> Principal | None:
        """Return the client whose session has the *cookie*; None if it has ended.

        Raises:
            StoreError: The store cannot be read or written.
        """
        now = self._clock.now()
        session = self._store.session(sha256_of(cookie))
        if session is None or now >= session.expires_at:
            return None
        token = self._store.token(session.token)
        if token is None or token.revoked_at is not None:
            return None
        if not token.single_use:
            if now >= token.expires_at:
                return None
            self._record_use(token)
        principal = _principal(token, address)
        return replace(principal, session=session.sha256, expires_at=session.expires_at)

    def sign_in(self, text: str, address: str) -> tuple[str, Principal] | None:
        """Start a session with the token *text*; return its cookie and the client.

        Returns:
            None if the token is not valid, or can be used once and was used before.

        Raises:
            StoreError: The store cannot be read or written.
        """
        token = self._valid_token(text)
        return None if token is None else self._start_session(token, address)

    def sign_in_user(
        self,
        user: str,
        role: Role,
        address: str,
        *,
        command: str,
        details: Mapping[str, object],
    ) -> tuple[str, Principal] | None:
        """Start a session of a user who was authenticated elsewhere.

        The session belongs to a token of its own that no program can use. It ends with
        the session, is listed, and can be revoked, as any other.

        Args:
            user: Name for the audit.
            role: Role of the session.
            address: Network address of the client.
            command: Name of the command in the audit.
            details: Further arguments of the command in the audit.

        Returns:
            The cookie, and the client; None if it was revoked at the same time.

        Raises:
            StoreError: The store cannot be written.
        """
        created = create_token(
            self._store,
            self._clock,
            Actor(user=user, origin=ActionOrigin.API, address=address),
            name=user,
            role=role,
            seconds=self._session_time.total_seconds(),
            single_use=True,
            command=command,
            details=details,
        )
        return self._start_session(created.record, address)

    def sign_out(self, principal: Principal) -> None:
        """End the session of *principal*, if it has one.

        Raises:
            StoreError: The store cannot be written.
        """
        if principal.session is not None:
            self._store.end_session(principal.session)

    def is_current(self, principal: Principal) -> bool:
        """Return False if the access of *principal* has ended.

        Raises:
            StoreError: The store cannot be read.
        """
        if self._clock.now() >= principal.expires_at:
            return False
        if principal.session and self._store.session(principal.session) is None:
            return False
        token = self._store.token(principal.token)
        return token is not None and token.revoked_at is None

    def _start_session(
        self, token: AccessToken, address: str
    ) -> tuple[str, Principal] | None:
        """Start a session with the valid *token*; None if it was used before."""
        now = self._clock.now()
        ends = now + self._session_time
        cookie = _random(_ALPHABET, _SECRET_LENGTH)
        session = Session(
            sha256=sha256_of(cookie),
            token=token.id,
            created_at=now,
            expires_at=ends if token.single_use else min(ends, token.expires_at),
        )
        if not self._store.start_session(session):
            return None
        principal = _principal(token, address)
        return cookie, replace(
            principal, session=session.sha256, expires_at=session.expires_at
        )

    def _valid_token(self, text: str) -> AccessToken | None:
        found = _TOKEN.fullmatch(text)
        token = None if found is None else self._store.token(found.group(1))
        expected = sha256_of("") if token is None else token.sha256
        is_equal = hmac.compare_digest(expected, sha256_of(text))
        if token is None or not is_equal or not token.is_valid(self._clock.now()):
            return None
        return token

    def _record_use(self, token: AccessToken) -> None:
        now = self._clock.now()
        if token.last_used_at is None or now - token.last_used_at >= USE_INTERVAL:
            self._store.record_use(token.id, now)


def _principal(token: AccessToken, address: str) -> Principal:
    return Principal(
        user=token.name,
        role=token.role,
        token=token.id,
        address=address,
        expires_at=token.expires_at,
    )
