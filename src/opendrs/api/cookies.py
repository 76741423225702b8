"""The cookies of a browser session, and of a sign-in that has begun."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.responses import Response

_PLAIN_NAME = "opendrs"
_TLS_PREFIX = "__Host-"  # browsers accept it only over TLS and for the whole host
_SIGN_IN = "-sign-in"  # suffix of the cookie of a sign-in by OpenID Connect


def cookie_name(connection: HTTPConnection) -> str:
    """Return the name of the cookie: another one over TLS than on loopback."""
    return f"{_TLS_PREFIX}{_PLAIN_NAME}" if is_tls(connection) else _PLAIN_NAME


def is_tls(connection: HTTPConnection) -> bool:
    """Return True if *connection* uses TLS."""
    return str(connection.scope["scheme"]) == "https"


def session_cookie(connection: HTTPConnection) -> str | None:
    """Return the cookie that *connection* has sent; None without one."""
    return connection.cookies.get(cookie_name(connection))


def set_cookie(response: Response, connection: HTTPConnection, value: str) -> None:
    """Let *response* set the cookie, which no script can read."""
    _set(response, connection, cookie_name(connection), value, None)


def clear_cookie(response: Response, connection: HTTPConnection) -> None:
    """Let *response* delete the cookie."""
    _clear(response, connection, cookie_name(connection))


def sign_in_cookie(connection: HTTPConnection) -> str | None:
    """Return the cookie of a sign-in that has begun; None without one."""
    return connection.cookies.get(f"{cookie_name(connection)}{_SIGN_IN}")


def set_sign_in_cookie(
    response: Response, connection: HTTPConnection, value: str, seconds: int
) -> None:
    """Let *response* set the cookie of a sign-in that has begun, for *seconds*."""
    name = f"{cookie_name(connection)}{_SIGN_IN}"
    _set(response, connection, name, value, seconds)


def clear_sign_in_cookie(response: Response, connection: HTTPConnection) -> None:
    """Let *response* delete the cookie of a sign-in."""
    _clear(response, connection, f"{cookie_name(connection)}{_SIGN_IN}")


def _set(
    response: Response,
    connection: HTTPConnection,
    name: str,
    value: str,
    seconds: int | None,
) -> None:
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_tls(connection),
    )


def _clear(response: Response, connection: HTTPConnection, name: str) -> None:
    response.delete_cookie(
        name,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_tls(connection),
    )
