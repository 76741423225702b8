"""Placement rules as data; what they mean is in `opendrs.rules`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from opendrs.errors import ModelError
from opendrs.model.formatting import MAX_LISTED, format_list
from opendrs.model.identifiers import GuestId, NodeId


def _format_names(names: frozenset[str], max_names: int | None) -> str:
    return format_list(sorted(names), len(names) if max_names is None else max_names)


class _NamedRule:
    """Words for a rule: its name, or else what it asks for."""

    __slots__ = ()

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or what it asks for of whom.

        Args:
            max_names: How many guests and nodes are named; all of them when None.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        return self.describe(MAX_LISTED)


def _require_names(names: frozenset[str], minimum: int, subject: str) -> None:
    if len(names) < minimum:
        raise ModelError(f"{subject} must name at least {minimum}, not {len(names)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinity(_NamedRule):
    """Each of *guests* belongs on one of *nodes*.

    Attributes:
        guests: Whom the rule binds.
        nodes: Priority of each node; the higher, the better.
        strict: Whether other nodes are forbidden or only worse.
        name: What the operator calls the rule.
    """

    guests: frozenset[GuestId]
    nodes: Mapping[NodeId, int]
    strict: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        _require_names(self.guests, 1, "the guests of a node-affinity rule")
        _require_names(frozenset(self.nodes), 1, "the nodes of a node-affinity rule")
        object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or what it asks for."""
        nodes = _format_names(frozenset(self.nodes), max_names)
        verb = "belongs" if len(self.guests) == 1 else "belong"
        return self.name or f"{_format_names(self.guests, max_names)} {verb} on {nodes}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity(_NamedRule):
    """All of *guests* share a node."""

    guests: frozenset[GuestId]
    strict: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        _require_names(self.guests, 2, "the guests of an affinity rule")

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or what it asks for."""
        return self.name or f"keep {_format_names(self.guests, max_names)} together"


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiAffinity(_NamedRule):
    """No two of *guests* share a node."""

    guests: frozenset[GuestId]
    strict: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        _require_names(self.guests, 2, "the guests of an anti-affinity rule")

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or what it asks for."""
        return self.name or f"keep {_format_names(self.guests, max_names)} apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin(_NamedRule):
    """None of *guests* is ever moved."""

    guests: frozenset[GuestId]
    name: str = ""

    def __post_init__(self) -> None:
        _require_names(self.guests, 1, "the guests of a pin")

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or what it asks for."""
        where = "where it is" if len(self.guests) == 1 else "where they are"
        return self.name or f"leave {_format_names(self.guests, max_names)} {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagExclusion(_NamedRule):
    """No guest that bears one of *tags* is ever moved."""

    tags: frozenset[str]
    name: str = ""

    def __post_init__(self) -> None:
        _require_names(self.tags, 1, "the tags of an exclusion")

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or what it asks for."""
        return (
            self.name
            or f"leave guests tagged {_format_names(self.tags, max_names)} alone"
        )


Rule = NodeAffinity | Affinity | AntiAffinity | Pin | TagExclusion
