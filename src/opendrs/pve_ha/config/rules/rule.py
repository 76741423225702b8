"""The rules of a configuration, and the same rules compiled by service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from opendrs.config.diagnostics import Diagnostic
from opendrs.model import NodeId
from opendrs.pve_ha.states import ServiceId

ServiceSet = frozenset[ServiceId]


class PveAffinity(StrEnum):
    """Kind of a resource affinity rule: share a node, or do not share one."""

    POSITIVE = "positive"
    NEGATIVE = "negative"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinityRule:
    """Nodes on which some services belong.

    Attributes:
        resources: Services of the rule.
        nodes: Priority of each node; larger is better.
        strict: True if no other node is allowed; None if not set.
        disable: Value of the property `disable`; None if not set. As in Proxmox VE, any
            value disables the rule, even 0.
        comment: Comment of the operator.
    """

    resources: ServiceSet
    nodes: Mapping[NodeId, int]
    strict: bool | None = None
    disable: bool | None = None
    comment: str | None = None

    @property
    def has_priorities(self) -> bool:
        """Return True if the priorities of the nodes differ."""
        return len(set(self.nodes.values())) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAffinityRule:
    """Services that share a node, or do not share one.

    Attributes:
        resources: Services of the rule.
        affinity: Kind of the rule.
        disable: As for `NodeAffinityRule`.
        comment: Comment of the operator.
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
        rules: Rules by name; None for a rule that is invalid and has no effect.
        order: Position of each name in the file, from 1.
        digest: SHA-1 of the text, in hexadecimal.
        warnings: Warnings about skipped content.
    """

    rules: Mapping[str, PveRule | None] = field(default_factory=dict)
    order: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    warnings: tuple[Diagnostic, ...] = ()

    def node_affinities(self) -> dict[str, NodeAffinityRule]:
        """Return the enabled node affinity rules by name, in order of name."""
        return {
            name: rule
            for name, rule in self._enabled()
            if isinstance(rule, NodeAffinityRule)
        }

    def affinities(
        self, affinity: PveAffinity | None = None
    ) -> dict[str, ResourceAffinityRule]:
        """Return the enabled resource affinity rules, all or of one kind."""
        return {
            name: rule
            for name, rule in self._enabled()
            if isinstance(rule, ResourceAffinityRule)
            and affinity in (None, rule.affinity)
        }

    @property
    def next_order(self) -> int:
        """Return the position of a rule that is added.

        As in Proxmox VE, it is the smallest position plus 1, so it is not unique.
        """
        return min(self.order.values(), default=0) + 1

    def _enabled(self) -> Iterator[tuple[str, PveRule]]:
        for name, rule in sorted(self.rules.items()):
            if rule is not None and rule.disable is None:
                yield name, rule


NO_SERVICES: ServiceSet = frozenset()
OTHER_NODES_PRIORITY = -1  # priority of nodes that a soft rule does not name


@dataclass(frozen=True, slots=True)
class PveCompiledRules:
    """Effect of the rules on each service. Services without rules are absent.

    Attributes:
        nodes: Priority of each allowed node. The services of one rule share one
            mapping.
        together: Services with which it must share a node.
        apart: Services with which it must not share a node.
    """

    nodes: Mapping[ServiceId, Mapping[NodeId, int]] = field(default_factory=dict)
    together: Mapping[ServiceId, ServiceSet] = field(default_factory=dict)
    apart: Mapping[ServiceId, ServiceSet] = field(default_factory=dict)


NO_RULES = PveCompiledRules()


def compile_rules(rules: RuleSet, nodes: Iterable[NodeId]) -> PveCompiledRules:
    """Return *rules* by service.

    Args:
        rules: Rules without conflicts, with the implied rules.
        nodes: All nodes of the cluster in any state.
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
