"""Kinds of values that the fields of a drill file have."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from opendrs.model.quantities import SIZE, TIME
from opendrs.model.resources import LARGEST_AMOUNT

LATEST = 10**7  # seconds; four months are enough for a drill
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Lax = Field(strict=False)
Name = Annotated[str, Field(min_length=1)]
Names = Annotated[list[Name], BeforeValidator(_listed), Field(min_length=1)]
Several = Annotated[list[Name], Field(min_length=2)]
Count = Annotated[int, Field(ge=0, le=LATEST)]
Seconds = Annotated[int, Field(ge=0, le=LATEST), TIME]
Cores = Annotated[float, Field(ge=0, le=LARGEST_AMOUNT)]
Bytes = Annotated[int, Field(ge=0, le=LARGEST_AMOUNT), SIZE]
Fraction = Annotated[float, Field(ge=0, le=1)]
Switch = Literal["on", "off"]
