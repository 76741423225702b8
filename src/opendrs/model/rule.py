"""Placement rules as data; what they mean is in `opendrs.rules`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from opendrs.errors import ModelError
from opendrs.model.identifiers import GuestId, NodeId
from opendrs.model.listing import MOST_NAMED, first_few


def _listed(names: frozenset[str], most: int | None) -> str:
    return first_few(sorted(names), len(names) if most is None else most)


class _Described:
    """Words for a rule: its name, or else what it asks for."""

    __slots__ = ()

    def described(self, most: int | None = None) -> str:
        """Return the name of the rule, or what it asks for of whom.

        Args:
            most: How many guests and nodes are named; all of them when None.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        return self.described(MOST_NAMED)


def _require_some(names: frozenset[str], least: int, what: str) -> None:
    if len(names) < least:
        raise ModelError(f"{what} must name at least {least}, not {len(names)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinity(_Described):
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
        _require_some(self.guests, 1, "the guests of a node-affinity rule")
        _require_some(frozenset(self.nodes), 1, "the nodes of a node-affinity rule")
        object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))

    def described(self, most: int | None = None) -> str:
        """Return the name of the rule, or what it asks for."""
        where = _listed(frozenset(self.nodes), most)
        verb = "belongs" if len(self.guests) == 1 else "belong"
        return self.name or f"{_listed(self.guests, most)} {verb} on {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity(_Described):
    """All of *guests* share a node."""

    guests: frozenset[GuestId]
    strict: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        _require_some(self.guests, 2, "the guests of an affinity rule")

    def described(self, most: int | None = None) -> str:
        """Return the name of the rule, or what it asks for."""
        return self.name or f"keep {_listed(self.guests, most)} together"


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiAffinity(_Described):
    """No two of *guests* share a node."""

    guests: frozenset[GuestId]
    strict: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        _require_some(self.guests, 2, "the guests of an anti-affinity rule")

    def described(self, most: int | None = None) -> str:
        """Return the name of the rule, or what it asks for."""
        return self.name or f"keep {_listed(self.guests, most)} apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin(_Described):
    """None of *guests* is ever moved."""

    guests: frozenset[GuestId]
    name: str = ""

    def __post_init__(self) -> None:
        _require_some(self.guests, 1, "the guests of a pin")

    def described(self, most: int | None = None) -> str:
        """Return the name of the rule, or what it asks for."""
        where = "where it is" if len(self.guests) == 1 else "where they are"
        return self.name or f"leave {_listed(self.guests, most)} {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion(_Described):
    """No guest that bears one of *tags* is ever moved."""

    tags: frozenset[str]
    name: str = ""

    def __post_init__(self) -> None:
        _require_some(self.tags, 1, "the tags of an exclusion")

    def described(self, most: int | None = None) -> str:
        """Return the name of the rule, or what it asks for."""
        return self.name or f"leave guests tagged {_listed(self.tags, most)} alone"


Rule = NodeAffinity | Affinity | AntiAffinity | Pin | Exclusion
