"""Positive affinity rules that share services, and the rules they imply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from opendrs.pve_ha.config.rules.rule import (
    PveAffinity,
    PveRule,
    ResourceAffinityRule,
    RuleSet,
)
from opendrs.pve_ha.states import ServiceId


@dataclass(slots=True)
class AffinityComponent:
    """Positive affinity rules with common services.

    Attributes:
        names: Names of the rules, in the order in which they were added.
        services: All their services.
    """

    names: list[str]
    services: set[ServiceId]


def affinity_components(
    rules: Mapping[str, ResourceAffinityRule],
) -> list[AffinityComponent]:
    """Group positive affinity *rules* by common services.

    Rules are added in the order of their smallest service, each to the first component
    that it overlaps. A rule that overlaps two components does not merge them, because
    Proxmox VE iterates the rules only once.
    """
    result: list[AffinityComponent] = []
    component_of: dict[ServiceId, int] = {}
    for name in sorted(rules, key=lambda name: (min(rules[name].resources), name)):
        services = rules[name].resources
        index = min(
            (component_of[s] for s in services if s in component_of),
            default=len(result),
        )
        if index == len(result):
            result.append(AffinityComponent([], set()))
        result[index].names.append(name)
        result[index].services |= services
        for service in services:
            component_of[service] = min(index, component_of.get(service, index))
    return result


class RuleIndex:
    """Index from services to rules."""

    def __init__(self, rules: Mapping[str, PveRule]) -> None:
        self._by_service: dict[ServiceId, list[str]] = {}
        for name, rule in rules.items():
            for service in rule.resources:
                self._by_service.setdefault(service, []).append(name)

    def rules_of(self, services: Iterable[ServiceId]) -> list[str]:
        """Return the names of the rules that contain any of *services*, sorted."""
        by_service = self._by_service
        return sorted({n for service in services for n in by_service.get(service, ())})


def add_implied_rules(rules: RuleSet) -> RuleSet:
    """Return *rules* with the rules that they imply.

    Args:
        rules: Rules without conflicts.
    """
    return _extend_node_affinity(_add_implied_anti_affinity(_merge_components(rules)))


def _merge_components(rules: RuleSet) -> RuleSet:
    """Return *rules* with one rule for each component of several rules."""
    rules_by_name, order = dict(rules.rules), dict(rules.order)
    for component in affinity_components(rules.affinities(PveAffinity.POSITIVE)):
        if len(component.names) < 2:
            continue
        merged = f"_merged-{'-'.join(component.names)}"
        order[merged] = order[component.names[0]]
        rules_by_name[merged] = ResourceAffinityRule(
            resources=frozenset(component.services), affinity=PveAffinity.POSITIVE
        )
        for name in component.names:
            del rules_by_name[name], order[name]
    return replace(rules, rules=rules_by_name, order=order)


def _add_implied_anti_affinity(rules: RuleSet) -> RuleSet:
    """Return *rules* with negative affinity extended to affine services.

    A service that must not share a node with another one must also not share a node
    with the services that share a node with that one.
    """
    apart = _anti_affine_services(rules)
    added: dict[str, PveRule] = {}
    for name, rule in rules.affinities(PveAffinity.POSITIVE).items():
        anti_affine_services = {
            o for member in rule.resources for o in apart.get(member, ())
        }
        for member in rule.resources:
            for anti_affine_service in (
                anti_affine_services - apart.get(member, set()) - {member}
            ):
                added[f"_implicit-negative-{name}-{member}-{anti_affine_service}"] = (
                    ResourceAffinityRule(
                        resources=frozenset({member, anti_affine_service}),
                        affinity=PveAffinity.NEGATIVE,
                    )
                )
    return replace(
        rules,
        rules={**rules.rules, **added},
        order={**rules.order, **dict.fromkeys(sorted(added), rules.next_order)},
    )


def _anti_affine_services(rules: RuleSet) -> dict[ServiceId, set[ServiceId]]:
    apart: dict[ServiceId, set[ServiceId]] = {}
    for rule in rules.affinities(PveAffinity.NEGATIVE).values():
        for service in rule.resources:
            apart.setdefault(service, set()).update(rule.resources - {service})
    return apart


def _extend_node_affinity(rules: RuleSet) -> RuleSet:
    """Return *rules* with node affinity extended to affine services."""
    rules_by_name = dict(rules.rules)
    node_rules = rules.node_affinities()
    index = RuleIndex(node_rules)
    for rule in rules.affinities(PveAffinity.POSITIVE).values():
        for name in index.rules_of(rule.resources)[:1]:
            node_rules[name] = replace(
                node_rules[name], resources=node_rules[name].resources | rule.resources
            )
            rules_by_name[name] = node_rules[name]
    return replace(rules, rules=rules_by_name)
