"""The rules of one configuration, and the same rules compiled by service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from opendrs.model import NodeId
from opendrs.pve_ha.states import ServiceId

ServiceSet = frozenset[ServiceId]


class PveAffinity(StrEnum):
    """Whether services are to be together or apart."""

    POSITIVE = "positive"
    NEGATIVE = "negative"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinityRule:
    """The nodes some services are to be on.

    Attributes:
        resources: The services it binds.
        nodes: The priority of each node; more is better.
        strict: Whether no other node will do; None when the rule does not say.
        disable: What the rule says of being disabled. That it says anything at
            all disables it, even 0: so does Proxmox VE.
        comment: The operator's words.
    """

    resources: ServiceSet
    nodes: Mapping[NodeId, int]
    strict: bool | None = None
    disable: bool | None = None
    comment: str | None = None

    @property
    def has_priorities(self) -> bool:
        """Return whether some of its nodes are better than others."""
        return len(set(self.nodes.values())) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAffinityRule:
    """Services that are to be together, or apart.

    Attributes:
        resources: The services it binds.
        affinity: Which of both.
        disable: As for `NodeAffinityRule`.
        comment: The operator's words.
    """

    resources: ServiceSet
    affinity: PveAffinity
    disable: bool | None = None
    comment: str | None = None


PveRule = NodeAffinityRule | ResourceAffinityRule


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules of a configuration.

    Attributes:
        rules: The rules by their names; None for a name whose rule could not
            be understood and binds nobody.
        order: The place of each name in the file, from 1.
        digest: The SHA-1 of the text it was read from, in hexadecimal.
        warnings: What was passed over while reading.
    """

    rules: Mapping[str, PveRule | None] = field(default_factory=dict)
    order: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    warnings: tuple[str, ...] = ()

    def node_affinities(self) -> dict[str, NodeAffinityRule]:
        """Return the enabled node affinity rules, by name in order of name."""
        return {
            name: rule
            for name, rule in self._enabled()
            if isinstance(rule, NodeAffinityRule)
        }

    def affinities(
        self, affinity: PveAffinity | None = None
    ) -> dict[str, ResourceAffinityRule]:
        """Return the enabled rules about services together, apart, or both."""
        return {
            name: rule
            for name, rule in self._enabled()
            if isinstance(rule, ResourceAffinityRule)
            and affinity in (None, rule.affinity)
        }

    @property
    def next_order(self) -> int:
        """Return the place of a rule that is added.

        One more than the smallest, as in Proxmox VE; so it need not be unique.
        """
        return min(self.order.values(), default=0) + 1

    def _enabled(self) -> Iterator[tuple[str, PveRule]]:
        for name, rule in sorted(self.rules.items()):
            if rule is not None and rule.disable is None:
                yield name, rule


NO_SERVICES: ServiceSet = frozenset()
OTHER_NODES_PRIORITY = -1  # priority of the nodes a rule does not name


@dataclass(frozen=True, slots=True)
class PveCompiledRules:
    """What rules mean for each service. One that no rule binds is absent.

    Attributes:
        nodes: The priority of each node it may be on. Services of one rule
            share one mapping.
        together: The services it must share a node with.
        apart: The services it must not share a node with.
    """

    nodes: Mapping[ServiceId, Mapping[NodeId, int]] = field(default_factory=dict)
    together: Mapping[ServiceId, ServiceSet] = field(default_factory=dict)
    apart: Mapping[ServiceId, ServiceSet] = field(default_factory=dict)


NO_RULES = PveCompiledRules()


def compile_rules(rules: RuleSet, nodes: Iterable[NodeId]) -> PveCompiledRules:
    """Return *rules* by service.

    Args:
        rules: Rules that were checked and transformed.
        nodes: All nodes of the cluster, whatever their state.
    """
    known_nodes = sorted(nodes)
    priorities: dict[ServiceId, Mapping[NodeId, int]] = {}
    for rule in rules.node_affinities().values():
        priorities.update(dict.fromkeys(rule.resources, _priorities(rule, known_nodes)))
    return PveCompiledRules(
        nodes=priorities,
        together=_related_services(rules, PveAffinity.POSITIVE),
        apart=_related_services(rules, PveAffinity.NEGATIVE),
    )


def _priorities(rule: NodeAffinityRule, known: Iterable[NodeId]) -> dict[NodeId, int]:
    if rule.strict:
        return dict(rule.nodes)
    return {**dict.fromkeys(known, OTHER_NODES_PRIORITY), **rule.nodes}


def _related_services(
    rules: RuleSet, affinity: PveAffinity
) -> dict[ServiceId, ServiceSet]:
    related: dict[ServiceId, ServiceSet] = {}
    for rule in rules.affinities(affinity).values():
        for service in rule.resources:
            others = rule.resources - {service}
            related[service] = related.get(service, NO_SERVICES) | others
    return related
