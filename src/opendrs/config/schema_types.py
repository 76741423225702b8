"""Types of the fields of file formats, for pydantic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from opendrs.model import MAX_AMOUNT, SIZE

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)


def _parse_timestamp(value: object) -> datetime:
    """Return *value* as a time in UTC."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(time, datetime) and time.tzinfo is not None:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise PydanticCustomError(
        "moment", "expected a time with its time zone, such as 2026-11-21T12:00:00Z"
    )


def require_unique(names: list[str]) -> list[str]:
    """Return *names*; reject a name that occurs twice."""
    if len(set(names)) < len(names):
        raise PydanticCustomError("distinct", "expected each name only once")
    return names


_DATE_TIME = {"type": "string", "format": "date-time"}
_UNIQUE = Field(json_schema_extra={"uniqueItems": True})

Timestamp = Annotated[
    datetime, PlainValidator(_parse_timestamp), WithJsonSchema(_DATE_TIME)
]
Name = Annotated[str, Field(min_length=1)]
_FAIL_FAST = Field(fail_fast=True)  # one error instead of one for each of many members
_DISTINCT = AfterValidator(require_unique)
NameSet = Annotated[list[str], _FAIL_FAST, _DISTINCT, _UNIQUE]
NonEmptyNames = Annotated[
    list[Name], Field(min_length=1), _FAIL_FAST, _DISTINCT, _UNIQUE
]
TwoOrMoreNames = Annotated[
    list[Name], Field(min_length=2), _FAIL_FAST, _DISTINCT, _UNIQUE
]
Amount = Annotated[float, Field(ge=0, le=MAX_AMOUNT)]
Bytes = Annotated[int, Field(ge=0, le=MAX_AMOUNT), SIZE]
Fraction = Annotated[float, Field(ge=0, le=1)]
Coerced = Field(strict=False)
