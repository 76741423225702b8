"""Responses with JSON that may be large: with an entity tag, compressed if accepted."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import Annotated, Any

from fastapi import Depends, Header
from starlette.responses import Response

from opendrs.api.etags import matches

_COMPRESSED_SIZE = 1_000  # bytes from which on a response is compressed
_COMPRESSION = 5  # of gzip


class Conditions:
    """Headers of a request that determine the form of its response.

    Args:
        if_none_match: Entity tags of what the client has.
        accept_encoding: Encodings that it understands.
    """

    def __init__(
        self,
        if_none_match: Annotated[str, Header()] = "",
        accept_encoding: Annotated[str, Header()] = "",
    ) -> None:
        self._if_none_match = if_none_match
        self._accept_encoding = accept_encoding

    def response(self, document: object) -> Response:
        """Return *document* as JSON; 304 if the client has it."""
        text = json.dumps(
            document, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        body = text.encode()
        etag = hashlib.sha256(body).hexdigest()[:32]
        headers = {
            "ETag": f'"{etag}"',
            "Vary": "Accept-Encoding",
            "Cache-Control": "no-cache",
        }
        if matches(self._if_none_match, etag):
            return Response(status_code=304, headers=headers)
        if "gzip" in self._accept_encoding and len(body) >= _COMPRESSED_SIZE:
            body = gzip.compress(body, _COMPRESSION, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return Response(body, media_type="application/json", headers=headers)


conditions: Any = Depends(Conditions)
