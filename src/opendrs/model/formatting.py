"""Lists of names, counts and memory sizes in messages."""

from __future__ import annotations

from collections.abc import Sequence

from opendrs.model.resources import GIB

MAX_LISTED = 3  # guests, nodes or rules in one list


def format_count(count: int, noun: str) -> str:
    """Return as many of *noun* as there are, as in `1 guest` and `2 guests`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_list(
    names: Sequence[str], max_items: int = MAX_LISTED, separator: str = ", "
) -> str:
    """Return the first of *names*, and how many more there are.

    Args:
        names: The names, in their order.
        max_items: How many are named.
        separator: What is between the names where all are named.
    """
    if len(names) <= max_items:
        return separator.join(names)
    return f"{', '.join(names[:max_items])} and {len(names) - max_items} more"


def format_gib(amount: float) -> str:
    """Return an amount of memory, in bytes, as people read it."""
    return f"{amount / GIB:.1f} GiB"
