"""Entity tags of RFC 9110, sections 8.8.3, 13.1.1 and 13.1.2."""

from __future__ import annotations

import re

_TAG = re.compile(r'(?:W/)?"([^"]*)"')


def matches(header: str, etag: str, *, weak: bool = True) -> bool:
    """Return True if the list of entity tags in *header* contains *etag*, or is `*`.

    Args:
        header: Value of `If-Match` or `If-None-Match`.
        etag: The entity tag, without quotation marks.
        weak: Ignore that a tag is weak, as `If-None-Match` does.
    """
    if header.strip() == "*":
        return True
    return any(
        found.group(1) == etag and (weak or not found.group(0).startswith("W/"))
        for found in _TAG.finditer(header)
    )
