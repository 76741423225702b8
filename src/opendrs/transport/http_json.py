"""HTTP requests with a deadline and a limit on the size of the response."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from typing import Any

import httpx2

from opendrs.errors import (
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)

_MAX_MESSAGE_LENGTH = 200  # characters of an error message of the controller


def send_request(  # noqa: PLR0913 - what a request has, and its limits
    client: httpx2.Client,
    method: str,
    path: str,
    *,
    timeout: float,
    max_size: int,
    json: object = None,
    data: Mapping[str, str] | None = None,
) -> httpx2.Response:
    """Return the complete response to one request.

    Args:
        client: HTTP client.
        method: HTTP method, such as GET.
        path: Path of the resource.
        timeout: Seconds in which the body of the response must arrive.
        max_size: Largest allowed size of the body, in bytes.
        json: Body to send as JSON; None for none.
        data: Body to send as a form; None for none.

    Raises:
        UnexpectedResponseError: *path* is invalid, or the body is too long or takes
            too long.
        HTTPError: The server is unreachable, or does not speak HTTP.
    """
    try:
        with client.stream(method, path, json=json, data=data) as response:
            deadline, body = time.monotonic() + timeout, bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > max_size or time.monotonic() > deadline:
                    raise UnexpectedResponseError("response too long")
            return httpx2.Response(
                response.status_code, content=bytes(body), request=response.request
            )
    except (httpx2.InvalidURL, UnicodeError):
        raise UnexpectedResponseError("invalid URL in response") from None


def exchange(  # noqa: PLR0913 - what a request has, and its limits
    client: httpx2.Client,
    server: str,
    method: str,
    path: str,
    *,
    timeout: float,
    max_size: int,
    json: object = None,
    data: Mapping[str, str] | None = None,
) -> httpx2.Response:
    """Return the complete response to one request, whatever its status.

    Args:
        client: HTTP client.
        server: Name of the server in error messages.
        method: HTTP method, such as GET.
        path: Path of the resource.
        timeout: Seconds in which the server must respond; in messages, and for the
            body. The client has the timeouts of the connection.
        max_size: Largest allowed size of the body, in bytes.
        json: Body to send as JSON; None for none.
        data: Body to send as a form; None for none.

    Raises:
        PlatformUnavailableError: The server is unreachable, or does not respond in
            time.
        PlatformError: Its certificate is not trusted.
        UnexpectedResponseError: *path* is invalid, or the body is too long or takes
            too long.
    """
    try:
        return send_request(
            client,
            method,
            path,
            timeout=timeout,
            max_size=max_size,
            json=json,
            data=data,
        )
    except UnexpectedResponseError as error:
        raise UnexpectedResponseError(f"{server}: {error}") from None
    except httpx2.TimeoutException:
        raise PlatformUnavailableError(
            f"{server}: timeout after {timeout:g} s"
        ) from None
    except httpx2.HTTPError as error:
        if (reason := verification_error(error)) is not None:
            raise PlatformError(
                f"{server}: certificate not trusted: {reason}; set ca to a file with "
                "this certificate or that of its issuer"
            ) from None
        raise PlatformUnavailableError(
            f"{server}: unreachable: {single_line(str(error))}"
        ) from None


def parse_json_body(response: httpx2.Response) -> object:
    """Return the parsed body of *response*.

    Raises:
        UnexpectedResponseError: The body is not JSON.
    """
    try:
        return response.json()
    except (ValueError, RecursionError):
        raise UnexpectedResponseError("response is not JSON") from None


def get_mapping(value: object, *keys: str) -> Mapping[str, Any]:
    """Return the object at the path *keys* of *value*; empty if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def single_line(text: str) -> str:
    """Return *text* on one line, truncated to 200 characters."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return (
        printable
        if len(printable) <= _MAX_MESSAGE_LENGTH
        else f"{printable[:_MAX_MESSAGE_LENGTH]}..."
    )


def verification_error(error: BaseException | None) -> str | None:
    """Return why a certificate was not trusted; None if that is not the cause."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return None
