"""What a management controller answers, however odd it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx

from opendrs.errors import UnexpectedResponseError

LARGEST = 1 << 20  # bytes of an answer
_MOST = 200  # characters of what it says that are repeated


def asked(
    client: httpx.Client, method: str, path: str, json: object, lasting: float
) -> httpx.Response:
    """Return the answer to one request, read to its end.

    Args:
        client: Who asks.
        method: Such as GET.
        path: Of what.
        json: What is sent; None for nothing.
        lasting: Seconds that the body of the answer may take.

    Raises:
        UnexpectedResponseError: There can be nothing at *path*, or the answer has
            no end.
        HTTPError: It cannot be reached, or does not speak HTTP.
    """
    try:
        with client.stream(method, path, json=json) as answer:
            until, body = time.monotonic() + lasting, bytearray()
            for part in answer.iter_bytes():
                body += part
                if len(body) > LARGEST or time.monotonic() > until:
                    raise UnexpectedResponseError("answers without an end")
            return httpx.Response(
                answer.status_code, content=bytes(body), request=answer.request
            )
    except (httpx.InvalidURL, UnicodeError):
        raise UnexpectedResponseError("names a place that cannot be") from None


def plain(answer: httpx.Response) -> object:
    """Return what *answer* says in JSON.

    Raises:
        UnexpectedResponseError: It is not JSON.
    """
    try:
        return answer.json()
    except (ValueError, RecursionError):
        raise UnexpectedResponseError("did not answer in JSON") from None


def table(told: object, *keys: str) -> Mapping[str, Any]:
    """Return the table below *keys*; an empty one where there is none."""
    for key in keys:
        told = told.get(key) if isinstance(told, Mapping) else None
    return told if isinstance(told, Mapping) else {}


def said(answer: httpx.Response) -> str:
    """Return what a refusal says, in the form of Redfish, on one line."""
    try:
        error = table(plain(answer), "error")
    except UnexpectedResponseError:
        return ""
    further = error.get("@Message.ExtendedInfo")
    first = further[0] if isinstance(further, list) and further else {}
    message = table(first).get("Message") or error.get("message")
    return f": {short(message)}" if isinstance(message, str) else ""


def short(text: str) -> str:
    """Return *text* on one line, cut when it is long."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown if len(shown) <= _MOST else f"{shown[:_MOST]}..."
