"""Which of two searches plans a large cluster.

The compiled search finds better plans, but has to be compiled once on a machine. The
plain search needs no compiler. Small clusters are always planned by the plain one.

Whether compiled code is at hand is not looked up here: a program registers a function
that knows. Without one, the compiled search is used, and compiled when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

Provision = Callable[[bool], bool]
_provisions: list[Provision] = []


class SearchKind(StrEnum):
    """Which search to use."""

    AUTO = "auto"
    COMPILED = "compiled"
    PLAIN = "plain"


def register(provision: Provision | None) -> None:
    """Let *provision* make compiled code available; None: the process compiles.

    Args:
        provision: Called before each large search. Its argument says whether compiled
            code is required; it returns whether it is available.
    """
    _provisions[:] = [] if provision is None else [provision]


def is_registered() -> bool:
    """Return whether a provision was registered."""
    return bool(_provisions)


def chosen_search(kind: SearchKind) -> SearchKind:
    """Return which search plans a large cluster now: compiled or plain."""
    if kind is SearchKind.PLAIN:
        return kind
    required = kind is SearchKind.COMPILED
    available = all(provision(required) for provision in _provisions)
    return SearchKind.COMPILED if required or available else SearchKind.PLAIN
