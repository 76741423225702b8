"""Room for the guests of nodes that fail."""

from __future__ import annotations

from collections.abc import Sequence


def fill_for(loads: Sequence[tuple[float, float]], spare: int) -> float | None:
    """Return to what part nodes may be filled, so that *spare* of them can be lost.

    Args:
        loads: Capacity and use of each node's memory.
        spare: How many nodes may be lost at once.

    Returns:
        The part of the capacity; None where what runs is more than that already.
    """
    if spare == 0:
        return 1.0
    capacity = sorted((each for each, _ in loads), reverse=True)
    total = sum(capacity)
    left = sum(capacity[spare:])
    if total <= 0 or sum(used for _, used in loads) > left:
        return None
    return left / total
