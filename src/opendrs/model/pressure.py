"""Pressure stall information (PSI): how much work waits for a resource."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.errors import ModelError


@dataclass(frozen=True, slots=True)
class Stall:
    """The share of time in which work waited for one resource.

    Attributes:
        some: Fraction of time in [0, 1] in which at least one task waited.
        full: Fraction of time in [0, 1] in which all tasks waited.

    Raises:
        ModelError: A fraction is outside [0, 1].

    Source:
        Linux kernel, Documentation/accounting/psi.rst; there in percent.
    """

    some: float | None = None
    full: float | None = None

    def __post_init__(self) -> None:
        for name in ("some", "full"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ModelError(f"{name} must be in [0, 1], not {value}")


@dataclass(frozen=True, slots=True)
class Pressure:
    """The stalls of a node or a guest for each resource."""

    cpu: Stall = Stall()
    memory: Stall = Stall()
    io: Stall = Stall()


NO_PRESSURE_KNOWN = Pressure()
