"""HA groups, which came before rules, and the rules they amount to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.rules.reading import comment, flag, node_priorities
from opendrs.ha.rules.rule import NodeAffinityRule, Rule, RuleSet
from opendrs.ha.rules.sections import (
    Kind,
    SectionType,
    escaped,
    read_sections,
    section_text,
)
from opendrs.ha.rules.writing import nodes_text
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


@dataclass(frozen=True, slots=True)
class GroupFile:
    """The groups of a file, by name, and what was passed over in it."""

    groups: Mapping[str, Group]
    warnings: tuple[str, ...] = ()


def read_groups(text: str) -> GroupFile:
    """Return the groups of *text*, in order; what is wrong is left out."""
    found = read_sections(text, TYPES)
    groups = {
        section.name: Group(
            nodes=node_priorities(section.properties["nodes"]),
            restricted=flag(section.properties, "restricted"),
            failback=not flag(section.properties, "nofailback"),
            comment=comment(section.properties),
        )
        for section in found.sections
        if section.properties is not None
    }
    return GroupFile(groups, tuple(found.warnings))


def groups_text(groups: Mapping[str, Group]) -> str:
    """Return *groups* as the text of a file, in their order."""
    return "".join(
        section_text("group", name, _properties(group))
        for name, group in groups.items()
    )


def _properties(group: Group) -> Iterator[str]:
    if group.comment:
        yield f"comment {escaped(group.comment)}"
    yield f"nodes {nodes_text(group.nodes)}"
    if not group.failback:
        yield "nofailback 1"
    if group.restricted is not None:
        yield f"restricted {int(group.restricted)}"


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
