"""Amounts of bytes and seconds as operators write them: 68719476736, or "64 GiB"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any

# GB and its like are left out: some mean 1000 by them, and others 1024.
BYTES: Mapping[str, float] = MappingProxyType(
    {
        "B": 1.0,
        "KiB": 2.0**10,
        "MiB": 2.0**20,
        "GiB": 2.0**30,
        "TiB": 2.0**40,
    }
)
SECONDS: Mapping[str, float] = MappingProxyType(
    {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
)
RATES: Mapping[str, float] = MappingProxyType(
    {f"{unit}/s": size for unit, size in BYTES.items()}
    | {"kbit/s": 125.0, "Mbit/s": 125e3, "Gbit/s": 125e6}
)
_AMOUNT = re.compile(
    r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*([a-z/]+)", re.IGNORECASE
)
_MAX_LENGTH = 50  # characters


class QuantityError(ValueError):
    """A text is no amount of what is asked for; the message says what is."""


def parse_amount(text: str, units: Mapping[str, float]) -> float | None:
    """Return the amount that *text* is, infinite if too large, or None if it is none.

    Args:
        text: A number and a unit, in capital or small letters.
        units: The size of each unit.
    """
    match = _AMOUNT.fullmatch(text.strip()) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return None
    sizes = {name.lower(): size for name, size in units.items()}
    size = sizes.get(match[2].lower())
    return None if size is None else float(match[1]) * size


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a field is an amount of: an annotation that pydantic understands.

    A number stays as it is and counts in the usual unit; a text with a number and a
    unit becomes such a number.

    Attributes:
        name: What a number counts, for messages.
        example: A text that is such an amount.
        units: The size of each unit.
        base_unit: The size of what a number counts.
        integer: Whether parts of it are rounded.
    """

    name: str
    example: str
    units: Mapping[str, float] = field(hash=False)
    base_unit: float = 1.0
    integer: bool = False

    def parse(self, value: object) -> object:
        """Return the number that *value* is; anything but a text as it is.

        Raises:
            QuantityError: It is a text, and no such amount.
        """
        if not isinstance(value, str):
            return value
        amount = parse_amount(value, self.units)
        if amount is None or math.isinf(amount):
            units = ", ".join(self.units)
            raise QuantityError(
                f'a number of {self.name}, or a text such as "{self.example}" '
                f"(units: {units})"
            )
        scaled = amount / self.base_unit
        return round(scaled) if self.integer or scaled.is_integer() else scaled

    def __get_pydantic_core_schema__(
        self,
        source: Any,  # noqa: ANN401 - pydantic's
        handler: Callable[[Any], Any],
    ) -> dict[str, Any]:
        """Return how pydantic checks it: `number` first."""
        function = {"type": "no-info", "function": self.parse}
        return {
            "type": "function-before",
            "function": function,
            "schema": handler(source),
        }

    def __get_pydantic_json_schema__(
        self,
        schema: Any,  # noqa: ANN401 - pydantic's
        handler: Callable[[Any], dict[str, Any]],
    ) -> dict[str, Any]:
        """Return its JSON Schema: a number, or a text with one of the units."""
        units = "|".join(self.units)
        pattern = rf"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*({units})\s*$"
        return {"anyOf": [handler(schema), {"type": "string", "pattern": pattern}]}


SIZE = Quantity("bytes", "64 GiB", BYTES, integer=True)
TIME = Quantity("seconds", "10 min", SECONDS)
RATE = Quantity("bytes a second", "1 Gbit/s", RATES, integer=True)
_MIB = 2.0**20
MEBIBYTES = Quantity("MB", "64 GiB", BYTES, base_unit=_MIB)

Seconds = Annotated[float, TIME]
BytesPerSecond = Annotated[float, RATE]
Megabytes = Annotated[float, MEBIBYTES]
MegabytesPerSecond = Annotated[
    float, Quantity("MB a second", "1 Gbit/s", RATES, base_unit=_MIB)
]
