"""Amounts of bytes and seconds in configuration: 68719476736, or "64 GiB"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any

# GB and the like are not accepted: they are ambiguous (powers of 1000 or 1024).
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
    """Text that is not an amount of the expected quantity.

    The message is the expected form.
    """


def parse_amount(text: str, units: Mapping[str, float]) -> float | None:
    """Return the amount in base units, infinity if too large, or None if invalid.

    Args:
        text: A number and a unit; upper and lower case are equivalent.
        units: Size of each unit.
    """
    match = _AMOUNT.fullmatch(text.strip()) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return None
    sizes = {name.lower(): size for name, size in units.items()}
    size = sizes.get(match[2].lower())
    return None if size is None else float(match[1]) * size


@dataclass(frozen=True, slots=True)
class Quantity:
    """Quantity of a field, as an annotation for pydantic.

    A number is kept and counts in the base unit. A text with a number and a unit is
    converted to such a number.

    Attributes:
        name: Noun for the base unit in messages.
        example: Valid text.
        units: Size of each unit.
        base_unit: Size of the unit that a number counts in.
        integer: Whether amounts are rounded to integers.
    """

    name: str
    example: str
    units: Mapping[str, float] = field(hash=False)
    base_unit: float = 1.0
    integer: bool = False

    def parse(self, value: object) -> object:
        """Return the number for *value*; return a value that is not a text unchanged.

        Raises:
            QuantityError: The text is not an amount of this quantity.
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
        """Return the pydantic schema: `parse` first, then the schema of the type."""
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
        """Return the JSON Schema: a number, or a text with one of the units."""
        units = "|".join(self.units)
        pattern = rf"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*({units})\s*$"
        return {"anyOf": [handler(schema), {"type": "string", "pattern": pattern}]}


SIZE = Quantity("bytes", "64 GiB", BYTES, integer=True)
TIME = Quantity("seconds", "10 min", SECONDS)
RATE = Quantity("bytes per second", "1 Gbit/s", RATES, integer=True)
_MIB = 2.0**20
MEBIBYTES = Quantity("MB", "64 GiB", BYTES, base_unit=_MIB)

Bytes = Annotated[int, SIZE]
Seconds = Annotated[float, TIME]
BytesPerSecond = Annotated[float, RATE]
Megabytes = Annotated[float, MEBIBYTES]
MegabytesPerSecond = Annotated[
    float, Quantity("MB per second", "1 Gbit/s", RATES, base_unit=_MIB)
]
