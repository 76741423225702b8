"""Format lists of names, counts and memory sizes for messages."""

from __future__ import annotations

from collections.abc import Sequence

from opendrs.model.resources import GIB

GIB_PER_TIB = 1024
MAX_LISTED = 3  # guests, nodes or rules in one list


def format_count(count: int, noun: str) -> str:
    """Return the count with its noun, such as `1 guest` or `2 guests`."""
    return f"{count} {pluralize(count, noun)}"


def pluralize(count: int, noun: str) -> str:
    """Return *noun* in the number that *count* requires."""
    return noun if count == 1 else f"{noun}s"


def format_list(
    names: Sequence[str], max_items: int = MAX_LISTED, separator: str = ", "
) -> str:
    """Return the first of *names*, and the number of the others.

    Args:
        names: The names, in order.
        max_items: Number of names that are listed.
        separator: Text between the names if all of them are listed.
    """
    if len(names) <= max_items:
        return separator.join(names)
    return f"{', '.join(names[:max_items])} and {len(names) - max_items} more"


def format_memory(amount: float) -> str:
    """Return an amount of memory, in bytes, in GiB or TiB with one decimal."""
    gib = amount / GIB
    return (
        f"{gib:.1f} GiB" if abs(gib) < GIB_PER_TIB else f"{gib / GIB_PER_TIB:.1f} TiB"
    )
