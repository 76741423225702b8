"""HA groups, the predecessor of rules, and their conversion to rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from opendrs.config.diagnostics import Diagnostic
from opendrs.model import NodeId
from opendrs.pve_ha.config.rules.rule import NodeAffinityRule, PveRule, RuleSet
from opendrs.pve_ha.config.rules.rule_file import (
    format_node_priorities,
    parse_node_priorities,
)
from opendrs.pve_ha.config.section_config import (
    PropertyKind,
    SectionType,
    escape_comment,
    format_section,
    parse_comment,
    parse_flag,
    read_sections,
)
from opendrs.pve_ha.states import ServiceId

TYPES: Mapping[str, SectionType] = MappingProxyType(
    {
        "group": SectionType(
            {
                "nodes": PropertyKind.NODES,
                "restricted": PropertyKind.FLAG,
                "nofailback": PropertyKind.FLAG,
                "comment": PropertyKind.TEXT,
            },
            mandatory=("nodes",),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes for the services that refer to the group.

    Attributes:
        nodes: Priority of each node; larger is better.
        restricted: True if no other node is allowed; None if not set.
        failback: Services return to a preferred node once one is available.
        comment: Comment of the operator.
    """

    nodes: Mapping[NodeId, int]
    restricted: bool | None = None
    failback: bool = True
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class GroupFile:
    """The groups of a file by name, and warnings about skipped content."""

    groups: Mapping[str, Group]
    warnings: tuple[Diagnostic, ...] = ()


def read_groups(text: str) -> GroupFile:
    """Return the groups of *text*, in order. Invalid content is skipped."""
    file = read_sections(text, TYPES)
    groups = {
        section.name: Group(
            nodes=parse_node_priorities(section.properties["nodes"]),
            restricted=parse_flag(section.properties, "restricted"),
            failback=not parse_flag(section.properties, "nofailback"),
            comment=parse_comment(section.properties),
        )
        for section in file.sections
        if section.properties is not None
    }
    return GroupFile(groups, tuple(file.warnings))


def format_groups(groups: Mapping[str, Group]) -> str:
    """Return *groups* as the text of a file, in their order."""
    return "".join(
        format_section("group", name, _properties(group))
        for name, group in groups.items()
    )


def _properties(group: Group) -> Iterator[str]:
    if group.comment:
        yield f"comment {escape_comment(group.comment)}"
    yield f"nodes {format_node_priorities(group.nodes)}"
    if not group.failback:
        yield "nofailback 1"
    if group.restricted is not None:
        yield f"restricted {int(group.restricted)}"


def add_group_rules(
    rules: RuleSet,
    groups: Mapping[str, Group],
    group_of: Mapping[ServiceId, str],
) -> RuleSet:
    """Return *rules* with a rule for each group that a service refers to.

    Args:
        rules: Existing rules.
        groups: Existing groups.
        group_of: Group of each service that refers to one.
    """
    members: dict[str, set[ServiceId]] = {}
    for service, name in group_of.items():
        if name in groups:
            members.setdefault(name, set()).add(service)
    for name, services in sorted(members.items()):
        rule: PveRule = NodeAffinityRule(
            resources=frozenset(services),
            nodes=groups[name].nodes,
            strict=groups[name].restricted,
            comment=groups[name].comment or f"Generated from HA group '{name}'.",
        )
        rules = replace(
            rules,
            rules={**rules.rules, f"ha-group-{name}": rule},
            order={**rules.order, f"ha-group-{name}": rules.next_order},
        )
    return rules
