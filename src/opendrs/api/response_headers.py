"""Headers of every response, of the API and the dashboard."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Message, Send

_API_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
_TLS_HEADERS = {"strict-transport-security": "max-age=31536000"}


def send_with_headers(connection: HTTPConnection, send: Send) -> Send:
    """Return *send* with the headers of every response to *connection*."""
    common = dict(_HEADERS)
    if connection.scope["scheme"] == "https":
        common |= _TLS_HEADERS
    if connection.url.path.startswith("/api/"):
        common |= _API_HEADERS

    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            present = {name.lower() for name, _ in headers}
            further = [
                (name.encode(), value.encode())
                for name, value in common.items()
                if name.encode() not in present
            ]
            message = {**message, "headers": [*headers, *further]}
        await send(message)

    return send_more
