"""Amounts of CPU, memory and further loads, and pressure stall information (PSI)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from opendrs.errors import ModelError

GIB = 1 << 30
MAX_AMOUNT = 10**18  # an exabyte; sums of squares of more lose precision


def require_amount(name: str, value: float) -> None:
    """Check that *value* is a number from 0 to `MAX_AMOUNT`.

    Raises:
        ModelError: The value is out of range; the message begins with *name*.
    """
    if not math.isfinite(value) or value < 0:
        raise ModelError(f"{name}: expected a finite number of at least 0, got {value}")
    if value > MAX_AMOUNT:
        raise ModelError(f"{name}: expected at most {MAX_AMOUNT:.0e}, got {value}")


@dataclass(frozen=True, slots=True)
class Resources:
    """Known amounts of CPU and memory.

    Attributes:
        cpu: CPU in cores; 1.5 is one and a half busy cores. As the limit of a guest, 0
            means unlimited.
        memory: Memory in bytes.

    Raises:
        ModelError: An amount is negative or not finite.
    """

    cpu: float
    memory: int

    def __post_init__(self) -> None:
        # One comparison each: a snapshot has tens of thousands of them.
        if not (0 <= self.cpu <= MAX_AMOUNT and 0 <= self.memory <= MAX_AMOUNT):
            require_amount("cpu", self.cpu)
            require_amount("memory", self.memory)

    def plus(self, other: Resources) -> Resources:
        """Return the sum, with each amount at most `MAX_AMOUNT`."""
        return Resources(
            min(self.cpu + other.cpu, MAX_AMOUNT),
            min(self.memory + other.memory, MAX_AMOUNT),
        )

    def minus(self, other: Resources) -> Resources:
        """Return the difference, with each amount at least 0.

        A node and its guests are sampled at slightly different instants, so a guest may
        seem to use more than its node.
        """
        return Resources(
            max(0.0, self.cpu - other.cpu),
            max(0, self.memory - other.memory),
        )


NO_RESOURCES = Resources(0.0, 0)

LoadAmounts = Mapping[str, float]
"""Amounts of further loads by name, such as network; those that are absent are unknown.

All amounts of one load have the same unit, and those of the guests of a node are part
of that of the node.
"""
NO_LOADS: LoadAmounts = {}
OTHER_LOADS = ("cpu", "memory")  # loads that are no further ones


def no_loads() -> LoadAmounts:
    """Return no amounts: every further load is unknown."""
    return NO_LOADS


def require_loads(name: str, amounts: LoadAmounts) -> None:
    """Check that all *amounts* are at least 0, and the names of the loads.

    Raises:
        ModelError: An amount or a name is invalid; the message begins with *name*.
    """
    for load, amount in amounts.items():
        require_load_name(name, load)
        require_amount(f"{name}: {load}", amount)


def require_load_name(name: str, load: str) -> None:
    """Check that *load* is the name of a further load.

    Raises:
        ModelError: It is not; the message begins with *name*.
    """
    if not load or load in OTHER_LOADS:
        expected = f"a name other than {' and '.join(OTHER_LOADS)}"
        raise ModelError(f"{name}: expected {expected}, got {load!r}")


def resource_pair(amount: Resources) -> tuple[float, float]:
    """Return cores and bytes of *amount*, as a row of an array."""
    return amount.cpu, float(amount.memory)


def max_plausible_cpu(capacity: Resources) -> float:
    """Return the most busy cores that can be measured on a node with *capacity*.

    The bound exceeds the capacity, because nodes and guests are sampled at different
    instants.
    """
    return 1.5 * capacity.cpu + 1


def max_plausible_memory(capacity: Resources) -> float:
    """Return the most memory in use, in bytes, that can be measured on a node."""
    return 1.1 * capacity.memory


@dataclass(frozen=True, slots=True)
class Usage:
    """Measured use of each resource; None if not measured.

    Attributes:
        cpu: Busy cores.
        memory: Memory in use, in bytes.

    Raises:
        ModelError: An amount is negative or not finite.
    """

    cpu: float | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        cpu, memory = self.cpu or 0, self.memory or 0
        if not (0 <= cpu <= MAX_AMOUNT and 0 <= memory <= MAX_AMOUNT):
            require_amount("cpu", cpu)
            require_amount("memory", memory)

    @property
    def resources(self) -> Resources | None:
        """Return both amounts, or None unless both were measured."""
        if self.cpu is None or self.memory is None:
            return None
        return Resources(self.cpu, self.memory)

    @classmethod
    def of(cls, resources: Resources) -> Usage:
        """Return *resources* as a complete measurement."""
        return cls(resources.cpu, resources.memory)


UNKNOWN_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Mean use over the horizon of a policy, from former use.

    Attributes:
        expected: Expected use; None for each resource that is not forecast.
        upper: Use that is not exceeded in nine cases of ten; at least the expected one.

    Raises:
        ModelError: Only one of both is known, or the expected use is the larger one.
    """

    expected: Usage = UNKNOWN_USAGE
    upper: Usage = UNKNOWN_USAGE

    def __post_init__(self) -> None:
        for name in ("cpu", "memory"):
            expected, upper = getattr(self.expected, name), getattr(self.upper, name)
            if (expected is None) != (upper is None):
                raise ModelError(f"forecast: expected both or no bound of {name}")
            if expected is not None and upper < expected:
                raise ModelError(
                    f"forecast: upper {name}: expected at least {expected}, got {upper}"
                )


@dataclass(frozen=True, slots=True)
class Stall:
    """Fraction of time in which tasks were stalled for one resource.

    Attributes:
        some: Fraction of time in [0, 1] in which at least one task was stalled; None if
            unknown.
        full: Fraction of time in [0, 1] in which all tasks were stalled; None if
            unknown.

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
                raise ModelError(f"{name}: expected a fraction in [0, 1], got {value}")


@dataclass(frozen=True, slots=True)
class Pressure:
    """Stalls of a node or a guest, per resource."""

    cpu: Stall = Stall()
    memory: Stall = Stall()
    io: Stall = Stall()


UNKNOWN_PRESSURE = Pressure()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Limits of the platform on what it allocates to the guests of a node.

    Attributes:
        cpu_ratio: Most virtual cores per core, such as 16 for Nova; None if unknown.
        memory_ratio: Most allocated memory per memory; None if unknown.
        reserved_cpu: Cores that guests do not get; None if unknown.
        reserved_memory: Bytes of memory that guests do not get; None if unknown.

    Raises:
        ModelError: A value is negative or not finite.

    Source:
        OpenStack Placement: `allocation_ratio` and `reserved` of an inventory.
    """

    cpu_ratio: float | None = None
    memory_ratio: float | None = None
    reserved_cpu: float | None = None
    reserved_memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("cpu_ratio", "memory_ratio", "reserved_cpu", "reserved_memory"):
            value = getattr(self, name)
            if value is not None:
                require_amount(name, value)


UNKNOWN_ALLOCATION = Allocation()
