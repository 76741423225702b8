"""The files of the dashboard, served from memory."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opendrs.api.etags import matches

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
INDEX = "index.html"
_MISSING = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>OpenDRS</title></head>
<body><h1>OpenDRS</h1>
<p>The dashboard is not built. The HTTP API is at <code>/api/v1</code>; its description
is at <a href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p></body></html>
"""
_COMPRESSIBLE = ("text/", "application/javascript", "application/json", "image/svg")


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is sent."""

    media_type: str
    etag: str
    content: bytes
    compressed: bytes | None


class Dashboard:
    """ASGI application with the files of the package `opendrs.web`.

    A path without a file has the content of the page, which shows what the path names.
    Without a built dashboard, the page says so.
    """

    def __init__(self) -> None:
        self._files = _read_files()

    @property
    def is_built(self) -> bool:
        """Return True if the package contains a built dashboard."""
        return self._files[INDEX].content is not _MISSING

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a file."""
        response = self._response(Request(scope))
        await response(scope, receive, send)

    def _response(self, http: Request) -> Response:
        if http.method not in ("GET", "HEAD"):
            return Response(status_code=405, headers={"Allow": "GET, HEAD"})
        path = http.url.path.removeprefix("/")
        found = self._files.get(path)
        if found is None:
            if "." in path.rpartition("/")[2]:
                return Response("not found\n", 404, media_type="text/plain")
            found = self._files[INDEX]
        headers = {
            "ETag": f'"{found.etag}"',
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            "Content-Security-Policy": POLICY,
        }
        if matches(http.headers.get("if-none-match", ""), found.etag):
            return Response(status_code=304, headers=headers)
        content = found.content
        accepts = "gzip" in http.headers.get("accept-encoding", "")
        if accepts and found.compressed is not None:
            content, headers["Content-Encoding"] = found.compressed, "gzip"
        return Response(content, media_type=found.media_type, headers=headers)


def _read_files() -> Mapping[str, _File]:
    root = files("opendrs") / "web"
    found = dict(_walk(root, "")) if root.is_dir() else {}
    if INDEX not in found:
        found[INDEX] = _file(INDEX, _MISSING)
    return found


def _walk(directory: Traversable, prefix: str) -> Iterator[tuple[str, _File]]:
    for entry in directory.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{name}/")
        elif not entry.name.endswith(".py"):
            yield name, _file(name, entry.read_bytes())


def _file(name: str, content: bytes) -> _File:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    compresses = kind.startswith(_COMPRESSIBLE)
    return _File(
        kind,
        hashlib.sha256(content).hexdigest()[:32],
        content,
        gzip.compress(content, 9, mtime=0) if compresses else None,
    )
