"""What is derived from counters before an algorithm sees it."""

from __future__ import annotations

from collections.abc import Iterable

NANOSECONDS = 1_000_000_000


def cpu_used(core: float, before: tuple[float, int], now: tuple[float, int]) -> float:
    """Return the CPU that a guest used between two readings of its counter.

    Args:
        core: Speed of one core, in the unit of the answer.
        before: Time of the earlier reading in seconds, and CPU time in
            nanoseconds.
        now: The same of the later reading.
    """
    return core * (now[1] - before[1]) / ((now[0] - before[0]) * NANOSECONDS)


def migration_time(memory: Iterable[float], bandwidth: float) -> float:
    """Return how many seconds it takes on average to move one of some guests.

    Args:
        memory: Memory of each guest; at least one.
        bandwidth: Memory that is transferred in a second, in the same unit.
    """
    sizes = list(memory)
    return sum(sizes) / len(sizes) / bandwidth
