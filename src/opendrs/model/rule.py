"""Placement rules as data; what they mean is in `opendrs.rules`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from opendrs.errors import ModelError
from opendrs.model.identifiers import GuestId, NodeId


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _require_some(names: frozenset[str], least: int, what: str) -> None:
    if len(names) < least:
        raise ModelError(f"{what} must name at least {least}, not {len(names)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinity:
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

    def __str__(self) -> str:
        where = _listed(frozenset(self.nodes))
        verb = "belongs" if len(self.guests) == 1 else "belong"
        return self.name or f"{_listed(self.guests)} {verb} on {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """All of *guests* share a node."""

    guests: frozenset[GuestId]
    strict: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        _require_some(self.guests, 2, "the guests of an affinity rule")

    def __str__(self) -> str:
        return self.name or f"keep {_listed(self.guests)} together"


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiAffinity:
    """No two of *guests* share a node."""

    guests: frozenset[GuestId]
    strict: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        _require_some(self.guests, 2, "the guests of an anti-affinity rule")

    def __str__(self) -> str:
        return self.name or f"keep {_listed(self.guests)} apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """None of *guests* is ever moved."""

    guests: frozenset[GuestId]
    name: str = ""

    def __post_init__(self) -> None:
        _require_some(self.guests, 1, "the guests of a pin")

    def __str__(self) -> str:
        where = "where it is" if len(self.guests) == 1 else "where they are"
        return self.name or f"leave {_listed(self.guests)} {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """No guest that bears one of *tags* is ever moved."""

    tags: frozenset[str]
    name: str = ""

    def __post_init__(self) -> None:
        _require_some(self.tags, 1, "the tags of an exclusion")

    def __str__(self) -> str:
        return self.name or f"leave guests tagged {_listed(self.tags)} alone"


Rule = NodeAffinity | Affinity | AntiAffinity | Pin | Exclusion
