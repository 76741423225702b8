"""Conflicts between rules. Conflicting rules are dropped before compilation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from opendrs.pve_ha.config.rules.affinity_components import (
    AffinityComponent,
    RuleIndex,
    affinity_components,
)
from opendrs.pve_ha.config.rules.rule import (
    NodeAffinityRule,
    PveAffinity,
    ResourceAffinityRule,
    RuleSet,
)
from opendrs.pve_ha.states import ServiceId

USED_TWICE = "resource '{}' is already used in another node affinity rule"
TOO_FEW = "rule is ineffective as there are less than two resources"
TOO_MANY = "rule defines more resources than available nodes"
TOGETHER_AND_APART = (
    "rule shares two or more resources with a negative resource affinity rule"
)
APART_AND_TOGETHER = (
    "rule shares two or more resources with a positive resource affinity rule"
)
PRIORITIES = (
    "resources are in a resource affinity rule and cannot be in a node affinity rule "
    "with multiple priorities"
)
WITH_PRIORITIES = "resources are in node affinity rules with multiple priorities"
MULTIPLE_NODE_RULES = "resources are in multiple node affinity rules"
OTHER_NODE_RULE = (
    "at least one resource is in a positive resource affinity rule and there are "
    "other resources in at least one other node affinity rule already"
)
TOO_FEW_NODES = (
    "two or more resources are restricted to less nodes than available to the resources"
)
RESTRICTS_NODES = (
    "at least one resource is in a negative resource affinity rule and this rule "
    "would restrict these to less nodes than available to the resources"
)

RuleConflict = tuple[str, str]
"""Name of a rule, and the reason for which it is dropped."""


class _ConflictContext:
    """The enabled rules by kind, and the number of nodes."""

    def __init__(self, rules: RuleSet, node_count: int) -> None:
        self.node_count = node_count
        self.node_rules = rules.node_affinities()
        self.affinity_rules = rules.affinities()
        self.anti_affinity_rules = rules.affinities(PveAffinity.NEGATIVE)
        self.components = affinity_components(_non_empty_positive_rules(rules))
        self._node_rule_index = RuleIndex(self.node_rules)

    def node_rules_of(
        self, rule: ResourceAffinityRule | AffinityComponent
    ) -> list[str]:
        """Return the node affinity rules that share services with *rule*."""
        services = (
            rule.services if isinstance(rule, AffinityComponent) else rule.resources
        )
        return self._node_rule_index.rules_of(services)


def _non_empty_positive_rules(rules: RuleSet) -> dict[str, ResourceAffinityRule]:
    together = rules.affinities(PveAffinity.POSITIVE)
    return {name: rule for name, rule in together.items() if rule.resources}


def _used_twice(context: _ConflictContext) -> Iterator[RuleConflict]:
    uses = Counter(s for rule in context.node_rules.values() for s in rule.resources)
    for name, rule in context.node_rules.items():
        for service in sorted(rule.resources):
            if uses[service] > 1:
                yield name, USED_TWICE.format(service)


def _too_few(context: _ConflictContext) -> Iterator[RuleConflict]:
    for name, rule in context.affinity_rules.items():
        if len(rule.resources) < 2:
            yield name, TOO_FEW


def _too_many(context: _ConflictContext) -> Iterator[RuleConflict]:
    for name, rule in context.anti_affinity_rules.items():
        if len(rule.resources) > context.node_count:
            yield name, TOO_MANY


def _positive_and_negative(context: _ConflictContext) -> Iterator[RuleConflict]:
    components_of: dict[ServiceId, list[int]] = {}
    for index, component in enumerate(context.components):
        for service in component.services:
            components_of.setdefault(service, []).append(index)
    for name, rule in context.anti_affinity_rules.items():
        shared = Counter(i for s in rule.resources for i in components_of.get(s, ()))
        for index, count in shared.items():
            if count > 1:
                yield name, APART_AND_TOGETHER
                for other in context.components[index].names:
                    yield other, TOGETHER_AND_APART


def _with_priorities(context: _ConflictContext) -> Iterator[RuleConflict]:
    for name, rule in context.affinity_rules.items():
        node_rules = context.node_rules_of(rule)
        if any(
            context.node_rules[node_rule].has_priorities for node_rule in node_rules
        ):
            yield name, WITH_PRIORITIES
            for node_rule in node_rules:
                yield node_rule, PRIORITIES


def _multiple_node_rules(context: _ConflictContext) -> Iterator[RuleConflict]:
    for component in context.components:
        node_rules = context.node_rules_of(component)
        if len(node_rules) > 1:
            yield from ((name, MULTIPLE_NODE_RULES) for name in component.names)
            yield from ((node_rule, OTHER_NODE_RULE) for node_rule in node_rules)


def _too_few_nodes(context: _ConflictContext) -> Iterator[RuleConflict]:
    for name, rule in context.anti_affinity_rules.items():
        node_rules = [
            (name_of_node_rule, context.node_rules[name_of_node_rule])
            for name_of_node_rule in context.node_rules_of(rule)
        ]
        if _count_nodes(node_rules) < len(_restricted_services(rule, node_rules)):
            yield name, TOO_FEW_NODES
            yield from (
                (name_of_node_rule, RESTRICTS_NODES)
                for name_of_node_rule, _ in node_rules
            )


def _count_nodes(node_rules: Sequence[tuple[str, NodeAffinityRule]]) -> int:
    return len({node for _, node_rule in node_rules for node in node_rule.nodes})


def _restricted_services(
    rule: ResourceAffinityRule, node_rules: Sequence[tuple[str, NodeAffinityRule]]
) -> set[ServiceId]:
    return {
        s for _, node_rule in node_rules for s in node_rule.resources & rule.resources
    }


_CHECKS: Sequence[Callable[[_ConflictContext], Iterator[RuleConflict]]] = (
    _used_twice,
    _too_few,
    _too_many,
    _positive_and_negative,
    _with_priorities,
    _multiple_node_rules,
    _too_few_nodes,
)


@dataclass(frozen=True, slots=True)
class DroppedRule:
    """A rule that was dropped.

    Attributes:
        rule: Its name.
        detail: Reason, in the words of Proxmox VE.
    """

    rule: str
    detail: str

    def __str__(self) -> str:
        return f"Drop rule '{self.rule}', because {self.detail}."


def drop_conflicting_rules(
    rules: RuleSet, nodes: int
) -> tuple[RuleSet, tuple[DroppedRule, ...]]:
    """Return *rules* without those in conflict, and the dropped rules.

    All checks use the same rules: dropping one rule does not save another.

    Args:
        rules: Rules of a configuration.
        nodes: Number of nodes in the cluster.
    """
    context = _ConflictContext(rules, nodes)
    conflicts = [conflict for check in _CHECKS for conflict in check(context)]
    # A stable sort keeps the reasons of one rule in the order of the checks.
    dropped = tuple(DroppedRule(*c) for c in sorted(conflicts, key=lambda c: c[0]))
    names = {dropped_rule.rule for dropped_rule in dropped}
    kept = replace(
        rules,
        rules={name: rule for name, rule in rules.rules.items() if name not in names},
        order={name: at for name, at in rules.order.items() if name not in names},
    )
    return kept, dropped
