"""Rules by the services they bind, for quick questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.rules.rule import Affinity, NodeAffinityRule, RuleSet, Services
from opendrs.model import NodeId

NOBODY: Services = frozenset()
ANYWHERE_ELSE = -1  # priority of the nodes a rule does not name


@dataclass(frozen=True, slots=True)
class CompiledRules:
    """What rules mean for each service. One that no rule binds is absent.

    Attributes:
        nodes: The priority of each node it may be on. Services of one rule
            share one mapping.
        together: The services it must share a node with.
        apart: The services it must not share a node with.
    """

    nodes: Mapping[ServiceId, Mapping[NodeId, int]] = field(default_factory=dict)
    together: Mapping[ServiceId, Services] = field(default_factory=dict)
    apart: Mapping[ServiceId, Services] = field(default_factory=dict)


NO_RULES = CompiledRules()


def compiled(rules: RuleSet, nodes: Iterable[NodeId]) -> CompiledRules:
    """Return *rules* by service.

    Args:
        rules: Rules that were checked and transformed.
        nodes: All nodes of the cluster, whatever their state.
    """
    known = sorted(nodes)
    places: dict[ServiceId, Mapping[NodeId, int]] = {}
    for rule in rules.node_affinities().values():
        places.update(dict.fromkeys(rule.resources, _priorities(rule, known)))
    return CompiledRules(
        nodes=places,
        together=_companions(rules, Affinity.POSITIVE),
        apart=_companions(rules, Affinity.NEGATIVE),
    )


def _priorities(rule: NodeAffinityRule, known: Iterable[NodeId]) -> dict[NodeId, int]:
    if rule.strict:
        return dict(rule.nodes)
    return {**dict.fromkeys(known, ANYWHERE_ELSE), **rule.nodes}


def _companions(rules: RuleSet, affinity: Affinity) -> dict[ServiceId, Services]:
    companions: dict[ServiceId, Services] = {}
    for rule in rules.affinities(affinity).values():
        for service in rule.resources:
            others = rule.resources - {service}
            companions[service] = companions.get(service, NOBODY) | others
    return companions
