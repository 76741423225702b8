"""Placement rules as data; `opendrs.rules` defines their meaning."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from opendrs.errors import ModelError
from opendrs.model.formatting import MAX_LISTED, format_list
from opendrs.model.guest import Guest
from opendrs.model.identifiers import GuestId, NodeId

NORMAL_PRIORITY = 1.0
PRIORITIES: Mapping[str, float] = {"low": 0.5, "normal": NORMAL_PRIORITY, "high": 2.0}
"""Priorities by name.

Source:
    VMware vSphere Resource Management: shares low, normal and high are 1 : 2 : 4.
"""
MIN_PRIORITY, MAX_PRIORITY = 0.01, 100.0

EXCLUSIVE_ORIGIN = "exclusive nodes"  # of the rules that keep other guests off
DOMAIN_ORIGIN = "affinity within a domain"  # of the rules that keep guests in it
DERIVED_ORIGINS = (EXCLUSIVE_ORIGIN, DOMAIN_ORIGIN)
"""Origins of the rules that `opendrs.rules.with_chosen` adds."""
NO_NAMES: frozenset[str] = frozenset()


def _format_names(names: frozenset[str], max_names: int | None) -> str:
    return format_list(sorted(names), len(names) if max_names is None else max_names)


def _format_chosen(
    names: frozenset[str], max_names: int | None, **chosen_by: frozenset[str]
) -> str:
    """Return *names*, and the words that choose them: `n1 and n2 (label ssd)`."""
    words = [f"{kind} {each}" for kind in chosen_by for each in sorted(chosen_by[kind])]
    if not names or not words:
        return _format_names(names, max_names) if names else format_list(words)
    return f"{_format_names(names, max_names)} ({format_list(words)})"


class _NamedRule:
    """Text form of a rule: its name, or a description if it has none."""

    __slots__ = ()

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or a description with its guests and nodes.

        Args:
            max_names: Number of guests and nodes that are listed; all of them if None.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        return self.describe(MAX_LISTED)


def _require_weight(kind: str, weight: float, *, strict: bool) -> None:
    if strict and weight != 1:
        raise ModelError(f"{kind} rule: weight: expected strict = false as well")
    if not MIN_PRIORITY <= weight <= MAX_PRIORITY:
        raise ModelError(
            f"{kind} rule: weight: expected a number from {MIN_PRIORITY:g} to "
            f"{MAX_PRIORITY:g}, got {weight:g}"
        )


def _require_names(names: Collection[str], minimum: int, subject: str) -> None:
    if len(names) < minimum:
        raise ModelError(f"{subject}: expected at least {minimum}, got {len(names)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinity(_NamedRule):
    """Placement of each of *guests* on one of *nodes*.

    Attributes:
        guests: Guests that the rule applies to.
        nodes: Priority of each node; higher is better.
        strict: Whether other nodes are forbidden, or only not preferred.
        name: Name given by the operator; empty if none.
        origin: Where the rule is defined, such as an HA rule of Proxmox VE or a tag;
            empty if unknown.
        tags: Tags of further guests. `opendrs.rules.with_chosen` adds these guests.
        labels: Labels of further nodes, also added, with the priority 0.
        groups: Groups of further nodes, also added, with the priority 0.
        exclusive: Whether all other guests keep off these nodes.
        weight: Weight of a soft rule, relative to other soft rules.
        domain: Key of the domain whose nodes these are, of a rule that keeps the guests
            of a `DomainAffinity` in it; otherwise empty.
    """

    guests: frozenset[GuestId] = frozenset()
    nodes: Mapping[NodeId, int] = field(default_factory=dict)
    strict: bool = True
    name: str = ""
    origin: str = ""
    tags: frozenset[str] = NO_NAMES
    labels: frozenset[str] = NO_NAMES
    groups: frozenset[str] = NO_NAMES
    exclusive: bool = False
    weight: float = 1.0
    domain: str = ""

    def __post_init__(self) -> None:
        _require_weight("node-affinity", self.weight, strict=self.strict)
        _require_names(self.guests | self.tags, 1, "node-affinity rule: guests")
        if self.origin not in DERIVED_ORIGINS:  # these may leave no node
            names = self.nodes or self.labels or self.groups
            _require_names(names, 1, "node-affinity rule: nodes")
        if not isinstance(self.nodes, MappingProxyType):  # rules share read-only ones
            object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or a description."""
        if self.name:
            return self.name  # of all guests and nodes, the description takes long
        guests = _format_chosen(self.guests, max_names, tag=self.tags)
        names = frozenset[str](self.nodes)
        nodes = _format_chosen(names, max_names, label=self.labels, group=self.groups)
        kind = "exclusive node affinity" if self.exclusive else "node affinity"
        return f"{kind} of {guests} to {nodes or 'no node'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity(_NamedRule):
    """Placement of all *guests* on the same node.

    Attributes:
        guests: Guests that the rule applies to.
        strict: Whether the rule must hold, or is only preferred.
        name: Name given by the operator; empty if none.
        origin: Where the rule is defined; empty if unknown.
        tags: Tags of further guests, as for `NodeAffinity`.
        weight: Weight of a soft rule, relative to other soft rules.
    """

    guests: frozenset[GuestId] = frozenset()
    strict: bool = True
    name: str = ""
    origin: str = ""
    tags: frozenset[str] = NO_NAMES
    weight: float = 1.0

    def __post_init__(self) -> None:
        _require_weight("affinity", self.weight, strict=self.strict)
        if not self.tags:
            _require_names(self.guests, 2, "affinity rule: guests")

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or a description."""
        guests = _format_chosen(self.guests, max_names, tag=self.tags)
        return self.name or f"affinity of {guests}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainAffinity(_NamedRule):
    """Placement of all *guests* in one failure domain.

    `opendrs.rules.with_chosen` adds the rule that keeps them on the nodes of the domain
    that suits best; a snapshot without that rule is not bound.

    Attributes:
        domain: Key of the node labels that name the domains, as for `AntiAffinity`. The
            nodes without such a label are in no domain.
        guests: Guests that the rule applies to.
        strict: Whether the rule must hold, or is only preferred.
        name: Name given by the operator; empty if none.
        origin: Where the rule is defined; empty if unknown.
        tags: Tags of further guests, as for `NodeAffinity`.
        weight: Weight of a soft rule, relative to other soft rules.
    """

    domain: str
    guests: frozenset[GuestId] = frozenset()
    strict: bool = True
    name: str = ""
    origin: str = ""
    tags: frozenset[str] = NO_NAMES
    weight: float = 1.0

    def __post_init__(self) -> None:
        _require_weight("affinity", self.weight, strict=self.strict)
        _require_names(frozenset({self.domain} - {""}), 1, "affinity rule: domain")
        if not self.tags:
            _require_names(self.guests, 2, "affinity rule: guests")

    @property
    def limit(self) -> str:
        """Return where the guests are, in words."""
        return f"within one {self.domain}"

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or a description."""
        guests = _format_chosen(self.guests, max_names, tag=self.tags)
        return self.name or f"affinity {self.limit} of {guests}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiAffinity(_NamedRule):
    """Placement of all *guests* on different nodes, or in different failure domains.

    Attributes:
        guests: Guests that the rule applies to.
        strict: Whether the rule must hold, or is only preferred.
        name: Name given by the operator; empty if none.
        origin: Where the rule is defined; empty if unknown.
        domain: Key of the node labels `KEY=VALUE` that name the domains, as for
            `Node.domain`; empty if each node is a domain. The nodes without such a
            label are one domain: nothing shows that they are several.
        max_guests: Most of the guests in one domain.
        tags: Tags of further guests, as for `NodeAffinity`.
        weight: Weight of a soft rule, relative to other soft rules.
    """

    guests: frozenset[GuestId] = frozenset()
    strict: bool = True
    name: str = ""
    origin: str = ""
    domain: str = ""
    max_guests: int = 1
    tags: frozenset[str] = NO_NAMES
    weight: float = 1.0

    def __post_init__(self) -> None:
        _require_weight("anti-affinity", self.weight, strict=self.strict)
        if not self.tags:
            _require_names(self.guests, 2, "anti-affinity rule: guests")
        if self.max_guests < 1:
            raise ModelError(
                "anti-affinity rule: max_guests: expected at least 1, got "
                f"{self.max_guests}"
            )

    @property
    def is_pairwise(self) -> bool:
        """Return whether it is about pairs of guests that share a node."""
        return not self.domain and self.max_guests == 1

    @property
    def limit(self) -> str:
        """Return the most guests in a domain, in words."""
        return f"at most {self.max_guests} per {self.domain or 'node'}"

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or a description."""
        kind = "anti-affinity" if self.is_pairwise else self.limit
        guests = _format_chosen(self.guests, max_names, tag=self.tags)
        return self.name or f"{kind} of {guests}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MutualAntiAffinity(_NamedRule):
    """Placement of all *guests* on other nodes than all *other_guests*.

    Guests of the same side may share a node.

    Attributes:
        guests: Guests of one side.
        other_guests: Guests of the other side.
        strict, name, origin, weight: As for `AntiAffinity`.
        tags: Tags of further guests of one side, as for `NodeAffinity`.
        other_tags: Tags of further guests of the other side, without those of the
            first.
    """

    guests: frozenset[GuestId] = frozenset()
    other_guests: frozenset[GuestId] = frozenset()
    strict: bool = True
    name: str = ""
    origin: str = ""
    tags: frozenset[str] = NO_NAMES
    other_tags: frozenset[str] = NO_NAMES
    weight: float = 1.0

    def __post_init__(self) -> None:
        _require_weight("anti-affinity", self.weight, strict=self.strict)
        others = self.other_guests | self.other_tags
        _require_names(self.guests | self.tags, 1, "anti-affinity rule: guests")
        _require_names(others, 1, "anti-affinity rule: other_guests")
        if both := self.guests & self.other_guests:
            raise ModelError(
                "anti-affinity rule: other_guests: expected none of guests, got "
                f"{format_list(sorted(both))}"
            )

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or a description."""
        guests = _format_chosen(self.guests, max_names, tag=self.tags)
        others = _format_chosen(self.other_guests, max_names, tag=self.other_tags)
        return self.name or f"anti-affinity of {guests} to {others}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin(_NamedRule):
    """Exclusion of *guests* from migration."""

    guests: frozenset[GuestId]
    name: str = ""
    origin: str = ""

    def __post_init__(self) -> None:
        _require_names(self.guests, 1, "pin rule: guests")

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or a description."""
        return self.name or f"pin of {_format_names(self.guests, max_names)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagExclusion(_NamedRule):
    """Exclusion of all guests with one of *tags* from migration."""

    tags: frozenset[str]
    name: str = ""
    origin: str = ""

    def __post_init__(self) -> None:
        _require_names(self.tags, 1, "tag-exclusion rule: tags")

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or a description."""
        return self.name or f"exclusion of tag {_format_names(self.tags, max_names)}"

    def applies_to(self, guest: Guest) -> bool:
        """Return True if *guest* has one of the tags."""
        return not self.tags.isdisjoint(guest.tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestPriority(_NamedRule):
    """Priority of *guests*, and of the guests with one of *tags*.

    It forbids no placement. Of several for one guest, the last one without an origin
    counts, or the last one if all have an origin.

    Attributes:
        value: Weight of the contention of each guest and of the cost of its migrations,
            relative to a guest without such a rule, which has 1.
        guests: Guests that the rule applies to.
        tags: Tags of further guests that the rule applies to.
        name: Name given by the operator; empty if none.
        origin: Where the rule is defined; empty if unknown.

    Raises:
        ModelError: The value is out of range, or there are neither guests nor tags.
    """

    strict: ClassVar[bool] = False  # a preference
    value: float
    guests: frozenset[GuestId] = frozenset()
    tags: frozenset[str] = frozenset()
    name: str = ""
    origin: str = ""

    def __post_init__(self) -> None:
        _require_names(
            self.guests | self.tags, 1, "priority rule: guests and tags together"
        )
        if not MIN_PRIORITY <= self.value <= MAX_PRIORITY:
            raise ModelError(
                f"priority rule: value: expected a number from {MIN_PRIORITY:g} to "
                f"{MAX_PRIORITY:g}, got {self.value:g}"
            )

    def applies_to(self, guest: Guest) -> bool:
        """Return True if *guest* has this priority."""
        return guest.id in self.guests or not self.tags.isdisjoint(guest.tags)

    def describe(self, max_names: int | None = None) -> str:
        """Return the name of the rule, or a description."""
        members = [f"tag {tag}" for tag in sorted(self.tags)]
        if self.guests:
            members.insert(0, _format_names(self.guests, max_names))
        return self.name or f"priority {self.value:g} of {' and '.join(members)}"


Rule = (
    NodeAffinity
    | Affinity
    | DomainAffinity
    | AntiAffinity
    | MutualAntiAffinity
    | Pin
    | TagExclusion
    | GuestPriority
)


def rule_guests(rule: Rule) -> frozenset[GuestId]:
    """Return the guests that *rule* names; empty for a rule about tags alone."""
    if isinstance(rule, TagExclusion):
        return frozenset()
    if isinstance(rule, MutualAntiAffinity):
        return rule.guests | rule.other_guests
    return rule.guests
