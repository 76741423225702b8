"""Login by API token or by ticket."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    UnexpectedResponseError,
)
from opendrs.platforms.proxmox.settings import ProxmoxSettings, is_token
from opendrs.transport.secrets import read_located_secret

TICKET_PATH = "/access/ticket"
_RENEWAL_AGE = 3600.0  # seconds; Proxmox VE accepts a ticket for two hours

SendForm = Callable[[str, Mapping[str, str]], object]


class Login(Protocol):
    """Source of the headers that authenticate a request."""

    @property
    def user(self) -> str:
        """Return the user `NAME@REALM`."""

    @property
    def token_id(self) -> str | None:
        """Return the id of the API token; None without one."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the secrets that must not appear in messages."""

    def headers(self, method: str, send: SendForm) -> dict[str, str]:
        """Return the headers of a request; log in first with *send* if necessary."""

    def expire(self) -> None:
        """Log in again before the next request."""


def read_login(subject: str, settings: ProxmoxSettings) -> Login:
    """Return the login of *settings*.

    Args:
        subject: Part of the configuration that they are, for error messages.
        settings: The settings.

    Raises:
        ConfigurationError: A secret cannot be read, or is no API token.
    """
    if settings.user is not None:
        password = read_located_secret(f"{subject}: ", "password", settings)
        return TicketLogin(settings.user, password)
    token = read_located_secret(f"{subject}: ", "token", settings).strip()
    if not is_token(token):
        raise ConfigurationError(
            f"{subject}: token: expected USER@REALM!ID=SECRET, such as "
            "drs@pve!opendrs=...; the secret alone is not enough"
        )
    return TokenLogin(token)


@dataclass(frozen=True)
class TokenLogin:
    """Login by an API token, sent with each request."""

    token: str

    def __repr__(self) -> str:
        return f"TokenLogin({self.token.partition('=')[0]!r})"

    @property
    def user(self) -> str:
        """Return the owner of the token."""
        return self.token.partition("!")[0]

    @property
    def token_id(self) -> str | None:
        """Return the id of the token."""
        return self.token.partition("!")[2].partition("=")[0]

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the secret of the token, and the token."""
        return (self.token, self.token.partition("=")[2])

    def headers(self, method: str, send: SendForm) -> dict[str, str]:
        """Return the header with the token."""
        del method, send
        return {"Authorization": f"PVEAPIToken={self.token}"}

    def expire(self) -> None:
        """Do nothing: a token is sent with each request."""


class TicketLogin:
    """Login by user and password for a ticket, renewed before it expires."""

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self.token_id: str | None = None
        self._password = password
        self._lock = Lock()
        self._ticket = ""
        self._csrf_token = ""
        self._created_at = 0.0

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the password and the current ticket."""
        return tuple(filter(None, (self._password, self._ticket, self._csrf_token)))

    def headers(self, method: str, send: SendForm) -> dict[str, str]:
        """Return the ticket as a cookie; with the CSRF token for a write.

        Raises:
            PermissionDeniedError: The password is wrong, or a second factor is needed.
            PlatformError: The login failed.
        """
        with self._lock:
            age = time.monotonic() - self._created_at
            if not self._ticket or age > _RENEWAL_AGE:
                self._log_in(send)
            headers = {"Cookie": f"PVEAuthCookie={self._ticket}"}
            if method != "GET":
                headers["CSRFPreventionToken"] = self._csrf_token
            return headers

    def expire(self) -> None:
        """Log in again before the next request."""
        with self._lock:
            self._ticket = ""

    def _log_in(self, send: SendForm) -> None:
        form = {"username": self.user, "password": self._password}
        data = send(TICKET_PATH, form)
        if not isinstance(data, dict) or not isinstance(data.get("ticket"), str):
            raise UnexpectedResponseError(f"{TICKET_PATH}: no ticket in the response")
        if data.get("NeedTFA"):
            raise PermissionDeniedError(
                f"user: {self.user} needs a second factor; use an API token instead"
            )
        self._ticket = data["ticket"]
        self._csrf_token = str(data.get("CSRFPreventionToken") or "")
        self._created_at = time.monotonic()
