"""Names, and how several of them are shown."""

from __future__ import annotations

from typing import NewType

ServiceId = NewType("ServiceId", str)
"""A service: its type and its number, as in ``vm:100``."""

VIRTUAL_MACHINE, CONTAINER, FAILING = "vm", "ct", "fa"


def kind_of(service: ServiceId) -> str:
    """Return the type of *service*: what stands before the colon."""
    return service.partition(":")[0]


class Names(tuple[str, ...]):
    """Names, shown with commas between them."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(self)


class Parameters(tuple[tuple[str, str], ...]):
    """What comes along with a change of state, shown behind it."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return ""
        return f"  ({', '.join(f'{name} = {value}' for name, value in self)})"
