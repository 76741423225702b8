"""Names in a sentence, a few of them and how many more there are; and counts."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NAMED = 3  # guests, nodes or rules in one list


def counted(count: int, noun: str) -> str:
    """Return as many of *noun* as there are, as in `1 guest` and `2 guests`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def first_few(names: Sequence[str], most: int = MOST_NAMED, joint: str = ", ") -> str:
    """Return the first of *names*, and how many more there are.

    Args:
        names: The names, in their order.
        most: How many are named.
        joint: What is between the names where all are named.
    """
    if len(names) <= most:
        return joint.join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
