"""The cookie of a browser session."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.responses import Response

_PLAIN_NAME = "opendrs"
_TLS_NAME = "__Host-opendrs"  # browsers accept it only over TLS and for the whole host


def cookie_name(connection: HTTPConnection) -> str:
    """Return the name of the cookie: another one over TLS than on loopback."""
    return _TLS_NAME if is_tls(connection) else _PLAIN_NAME


def is_tls(connection: HTTPConnection) -> bool:
    """Return True if *connection* uses TLS."""
    return str(connection.scope["scheme"]) == "https"


def session_cookie(connection: HTTPConnection) -> str | None:
    """Return the cookie that *connection* has sent; None without one."""
    return connection.cookies.get(cookie_name(connection))


def set_cookie(response: Response, connection: HTTPConnection, value: str) -> None:
    """Let *response* set the cookie, which no script can read."""
    response.set_cookie(
        cookie_name(connection),
        value,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_tls(connection),
    )


def clear_cookie(response: Response, connection: HTTPConnection) -> None:
    """Let *response* delete the cookie."""
    response.delete_cookie(
        cookie_name(connection),
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_tls(connection),
    )
