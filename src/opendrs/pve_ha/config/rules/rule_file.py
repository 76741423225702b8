"""Reader and writer of rules.cfg."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from opendrs.model import NodeId
from opendrs.pve_ha.config.rules.rule import (
    NodeAffinityRule,
    PveAffinity,
    PveRule,
    ResourceAffinityRule,
    RuleSet,
)
from opendrs.pve_ha.config.section_config import (
    PropertyKind,
    Section,
    SectionType,
    escape_comment,
    format_section,
    parse_comment,
    parse_flag,
    read_sections,
    split_list,
)
from opendrs.pve_ha.states import ServiceId

NODE_AFFINITY = "node-affinity"
RESOURCE_AFFINITY = "resource-affinity"

TYPES: Mapping[str, SectionType] = MappingProxyType(
    {
        NODE_AFFINITY: SectionType(
            {
                "resources": PropertyKind.SERVICES,
                "nodes": PropertyKind.NODES,
                "strict": PropertyKind.FLAG,
                "disable": PropertyKind.FLAG,
                "comment": PropertyKind.TEXT,
            },
            mandatory=("resources", "nodes"),
        ),
        RESOURCE_AFFINITY: SectionType(
            {
                "resources": PropertyKind.SERVICES,
                "affinity": PropertyKind.AFFINITY,
                "disable": PropertyKind.FLAG,
                "comment": PropertyKind.TEXT,
            },
            mandatory=("resources", "affinity"),
        ),
    }
)


def read_rules(text: str) -> RuleSet:
    """Return the rules of *text*. Invalid content is skipped with a warning.

    If a name occurs twice, the later rule counts.
    """
    file = read_sections(text, TYPES)
    return RuleSet(
        rules={section.name: _rule(section) for section in file.sections},
        order={section.name: at for at, section in enumerate(file.sections, start=1)},
        digest=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(),
        warnings=tuple(file.warnings),
    )


def parse_node_priorities(value: str) -> dict[NodeId, int]:
    """Return the priority of each node in a list such as ``node1:2,node2``."""
    pairs = (entry.partition(":") for entry in split_list(value))
    return {NodeId(name): int(priority or 0) for name, _, priority in pairs}


def _rule(section: Section) -> PveRule | None:
    properties = section.properties
    if properties is None:
        return None
    resources = frozenset(
        ServiceId(entry) for entry in split_list(properties["resources"])
    )
    if section.kind == NODE_AFFINITY:
        return NodeAffinityRule(
            resources=resources,
            nodes=parse_node_priorities(properties["nodes"]),
            strict=parse_flag(properties, "strict"),
            disable=parse_flag(properties, "disable"),
            comment=parse_comment(properties),
        )
    return ResourceAffinityRule(
        resources=resources,
        affinity=PveAffinity(properties["affinity"]),
        disable=parse_flag(properties, "disable"),
        comment=parse_comment(properties),
    )


def format_rules(rules: RuleSet) -> str:
    """Return *rules* as the text of a file, in their order."""
    names = sorted(rules.rules, key=lambda name: (rules.order[name], name))
    return "".join(
        format_section(_kind(rule), name, _properties(rule))
        for name in names
        if (rule := rules.rules[name]) is not None
    )


def _kind(rule: PveRule) -> str:
    return NODE_AFFINITY if isinstance(rule, NodeAffinityRule) else RESOURCE_AFFINITY


def _properties(rule: PveRule) -> Iterator[str]:
    if rule.comment is not None:
        yield f"comment {escape_comment(rule.comment)}"
    if rule.disable:
        yield "disable"
    if isinstance(rule, NodeAffinityRule):
        yield f"nodes {format_node_priorities(rule.nodes)}"
    else:
        yield f"affinity {rule.affinity}"
    yield f"resources {','.join(sorted(rule.resources))}"
    if isinstance(rule, NodeAffinityRule) and rule.strict is not None:
        yield f"strict {int(rule.strict)}"


def format_node_priorities(priorities: Mapping[NodeId, int]) -> str:
    """Return nodes and *priorities* as a list such as ``node1:2,node2``."""
    return ",".join(
        f"{node}:{priority}" if priority else node
        for node, priority in sorted(priorities.items())
    )
