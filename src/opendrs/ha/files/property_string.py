"""Proxmox VE's property strings: names and values with commas between them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TypeVar

FLAGS: Mapping[str, bool] = MappingProxyType(
    dict.fromkeys(("1", "on", "yes", "true"), True)
    | dict.fromkeys(("0", "off", "no", "false"), False)
)
NUMBER = re.compile(r"\d{1,18}(\.\d{1,400})?", re.ASCII)

ValueT = TypeVar("ValueT")


class PropertyString:
    """A property string that is read bit by bit.

    Args:
        text: Such as ``ha=static,ha-rebalance-on-start=1``.
        place: Where it stands, for complaints.
        whole: How much of a share makes up the whole: 1, or 100 for percent.
    """

    def __init__(self, text: str, place: str, whole: int = 1) -> None:
        self._place = place
        self._whole = whole
        self._said: dict[str, str] = {}
        self._asked: set[str] = set()
        self._wrong: list[str] = []
        for entry in filter(None, map(str.strip, text.split(","))):
            self._take(entry)

    def word(self, name: str, usual: str, known: Collection[str]) -> str:
        """Return the option *name*, or *usual*; one of the *known* words."""
        said = self._ask(name)
        if said is None:
            return usual
        return said if said in known else self._refused(name, said, usual)

    def flag(self, name: str, *, usual: bool) -> bool:
        """Return the option *name*, or *usual*."""
        said = self._ask(name)
        if said is None:
            return usual
        known = FLAGS.get(said.lower())
        return self._refused(name, said, usual) if known is None else known

    def number(self, name: str, usual: float) -> float:
        """Return the option *name*, which is 0 or more, or *usual*."""
        return self._part(name, usual, 1)

    def share(self, name: str, usual: float) -> float:
        """Return the option *name* as a fraction, or *usual*."""
        return self._part(name, usual, self._whole)

    def complaints(self) -> Iterator[str]:
        """Yield what is wrong; what nobody asked for is, too."""
        for what in self._wrong:
            yield f"{self._place}: {what}"
        for name in self._said:
            if name not in self._asked:
                yield f"{self._place}: unknown property {name}"

    def _take(self, entry: str) -> None:
        name, has_value, value = (part.strip() for part in entry.partition("="))
        if not has_value:
            self._wrong.append(f"ignored: {entry}")
        elif name in self._said:
            self._wrong.append(f"duplicate attribute {name}")
        else:
            self._said[name] = value

    def _ask(self, name: str) -> str | None:
        self._asked.add(name)
        return self._said.get(name)

    def _part(self, name: str, usual: float, whole: int) -> float:
        said = self._ask(name)
        if said is None:
            return usual
        number = Decimal(said) if NUMBER.fullmatch(said) else None
        if number is None or (whole > 1 and number > whole):
            return self._refused(name, said, usual)
        return float(number / whole)

    def _refused(self, name: str, said: str, usual: ValueT) -> ValueT:
        self._wrong.append(f"bad value of {name}: {said}")
        return usual
