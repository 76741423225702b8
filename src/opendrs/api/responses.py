"""Descriptions of responses for the OpenAPI document."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from opendrs.api.problems import MEDIA_TYPE

_SCHEMA = {"$ref": "#/components/schemas/ProblemDocument"}


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of problem responses with *statuses*."""
    return {
        status: {"description": HTTPStatus(status).phrase}
        | ({"content": {MEDIA_TYPE: {"schema": _SCHEMA}}} if status >= 400 else {})
        for status in statuses
    }
