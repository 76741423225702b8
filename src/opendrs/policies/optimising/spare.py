"""Room for the guests of nodes that fail."""

from __future__ import annotations

from collections.abc import Sequence

from opendrs.model import GIB


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


def no_room(loads: Sequence[tuple[float, float]], spare: int) -> str:
    """Return in words that *spare* nodes cannot be lost; as of `fill_for`."""
    capacity = sorted((each for each, _ in loads), reverse=True)
    used = sum(used for _, used in loads) / GIB
    left = sum(capacity[spare:]) / GIB
    lost = "a node" if spare == 1 else f"{spare} nodes"
    return (
        f"there is no room for the loss of {lost} of {len(capacity)}: {used:.1f} GiB "
        f"are in use, and the others might have {left:.1f} GiB"
    )
