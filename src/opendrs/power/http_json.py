"""What a management controller answers, however odd it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx

from opendrs.errors import UnexpectedResponseError

MAX_BODY_SIZE = 1 << 20  # bytes of an answer
_MAX_MESSAGE_LENGTH = 200  # characters of what it says that are repeated


def send_request(
    client: httpx.Client, method: str, path: str, json: object, body_timeout: float
) -> httpx.Response:
    """Return the answer to one request, read to its end.

    Args:
        client: Who asks.
        method: Such as GET.
        path: Of what.
        json: What is sent; None for nothing.
        body_timeout: Seconds that the body of the answer may take.

    Raises:
        UnexpectedResponseError: There can be nothing at *path*, or the answer has
            no end.
        HTTPError: It cannot be reached, or does not speak HTTP.
    """
    try:
        with client.stream(method, path, json=json) as response:
            deadline, body = time.monotonic() + body_timeout, bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_BODY_SIZE or time.monotonic() > deadline:
                    raise UnexpectedResponseError("answers without an end")
            return httpx.Response(
                response.status_code, content=bytes(body), request=response.request
            )
    except (httpx.InvalidURL, UnicodeError):
        raise UnexpectedResponseError("names a place that cannot be") from None


def parse_json_body(response: httpx.Response) -> object:
    """Return what *response* says in JSON.

    Raises:
        UnexpectedResponseError: It is not JSON.
    """
    try:
        return response.json()
    except (ValueError, RecursionError):
        raise UnexpectedResponseError("did not answer in JSON") from None


def get_mapping(value: object, *keys: str) -> Mapping[str, Any]:
    """Return the table below *keys*; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def error_message(response: httpx.Response) -> str:
    """Return what a refusal says, in the form of Redfish, on one line."""
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
    """Return *text* on one line, cut when it is long."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return (
        printable
        if len(printable) <= _MAX_MESSAGE_LENGTH
        else f"{printable[:_MAX_MESSAGE_LENGTH]}..."
    )
