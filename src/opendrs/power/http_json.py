"""HTTP requests to management controllers, with checked and limited responses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx2

from opendrs.errors import UnexpectedResponseError

MAX_BODY_SIZE = 1 << 20  # bytes of a response
_MAX_MESSAGE_LENGTH = 200  # characters of an error message of the controller


def send_request(
    client: httpx2.Client, method: str, path: str, json: object, body_timeout: float
) -> httpx2.Response:
    """Return the complete response to one request.

    Args:
        client: The HTTP client.
        method: The HTTP method, such as GET.
        path: The path of the resource.
        json: The body to send; None for no body.
        body_timeout: Timeout for the body of the response, in seconds.

    Raises:
        UnexpectedResponseError: *path* is invalid, or the body is too long or takes
            too long.
        HTTPError: The controller is unreachable, or does not speak HTTP.
    """
    try:
        with client.stream(method, path, json=json) as response:
            deadline, body = time.monotonic() + body_timeout, bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_BODY_SIZE or time.monotonic() > deadline:
                    raise UnexpectedResponseError("response too long")
            return httpx2.Response(
                response.status_code, content=bytes(body), request=response.request
            )
    except (httpx2.InvalidURL, UnicodeError):
        raise UnexpectedResponseError("invalid URL in response") from None


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


def error_message(response: httpx2.Response) -> str:
    """Return the message of a Redfish error response as `: MESSAGE`, or nothing."""
    try:
        error = get_mapping(parse_json_body(response), "error")
    except UnexpectedResponseError:
        return ""
    extended_info = error.get("@Message.ExtendedInfo")
    first = (
        extended_info[0] if isinstance(extended_info, list) and extended_info else {}
    )
    message = get_mapping(first).get("Message") or error.get("message")
    return f": {single_line(message)}" if isinstance(message, str) else ""


def single_line(text: str) -> str:
    """Return *text* on one line, truncated to 200 characters."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return (
        printable
        if len(printable) <= _MAX_MESSAGE_LENGTH
        else f"{printable[:_MAX_MESSAGE_LENGTH]}..."
    )
