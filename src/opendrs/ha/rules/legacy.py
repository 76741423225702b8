"""HA groups, which came before rules, and the rules they amount to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.rules.reading import comment, flag, node_priorities
from opendrs.ha.rules.rule import NodeAffinityRule, Rule, RuleSet
from opendrs.ha.rules.sections import Kind, SectionType, read_sections
from opendrs.model import NodeId

TYPES: Mapping[str, SectionType] = MappingProxyType(
    {
        "group": SectionType(
            {
                "nodes": Kind.NODES,
                "restricted": Kind.FLAG,
                "nofailback": Kind.FLAG,
                "comment": Kind.TEXT,
            },
            mandatory=("nodes",),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes, for the services that name the group.

    Attributes:
        nodes: The priority of each node; more is better.
        restricted: Whether no other node will do; None when it does not say.
        failback: Whether services go to a better node once there is one.
        comment: The operator's words.
    """

    nodes: Mapping[NodeId, int]
    restricted: bool | None = None
    failback: bool = True
    comment: str | None = None


def read_groups(text: str) -> dict[str, Group]:
    """Return the groups of *text*, in order; what is wrong is left out."""
    return {
        section.name: Group(
            nodes=node_priorities(section.properties["nodes"]),
            restricted=flag(section.properties, "restricted"),
            failback=not flag(section.properties, "nofailback"),
            comment=comment(section.properties),
        )
        for section in read_sections(text, TYPES).sections
        if section.properties is not None
    }


def group_rules(
    rules: RuleSet,
    groups: Mapping[str, Group],
    group_of: Mapping[ServiceId, str],
) -> RuleSet:
    """Return *rules* and a rule for each of *groups* that a service names.

    Args:
        rules: The rules there are.
        groups: The groups there are.
        group_of: The group of each service that names one.
    """
    members: dict[str, set[ServiceId]] = {}
    for service, name in group_of.items():
        if name in groups:
            members.setdefault(name, set()).add(service)
    for name, services in sorted(members.items()):
        added: Rule = NodeAffinityRule(
            resources=frozenset(services),
            nodes=groups[name].nodes,
            strict=groups[name].restricted,
            comment=groups[name].comment or f"Generated from HA group '{name}'.",
        )
        rules = replace(
            rules,
            rules={**rules.rules, f"ha-group-{name}": added},
            order={**rules.order, f"ha-group-{name}": rules.next_order},
        )
    return rules
