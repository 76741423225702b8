"""From the text of rules.cfg to rules."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from types import MappingProxyType

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.rules.rule import (
    Affinity,
    NodeAffinityRule,
    ResourceAffinityRule,
    Rule,
    RuleSet,
)
from opendrs.ha.rules.sections import (
    Kind,
    Section,
    SectionType,
    listed,
    read_sections,
)
from opendrs.model import NodeId

NODE_AFFINITY = "node-affinity"
RESOURCE_AFFINITY = "resource-affinity"
TYPES: Mapping[str, SectionType] = MappingProxyType(
    {
        NODE_AFFINITY: SectionType(
            {
                "resources": Kind.SERVICES,
                "nodes": Kind.NODES,
                "strict": Kind.FLAG,
                "disable": Kind.FLAG,
                "comment": Kind.TEXT,
            },
            mandatory=("resources", "nodes"),
        ),
        RESOURCE_AFFINITY: SectionType(
            {
                "resources": Kind.SERVICES,
                "affinity": Kind.AFFINITY,
                "disable": Kind.FLAG,
                "comment": Kind.TEXT,
            },
            mandatory=("resources", "affinity"),
        ),
    }
)


def read_rules(text: str) -> RuleSet:
    """Return the rules of *text*; what cannot be understood is left out.

    A name that stands twice means the later rule.
    """
    found = read_sections(text, TYPES)
    return RuleSet(
        rules={section.name: _rule(section) for section in found.sections},
        order={section.name: at for at, section in enumerate(found.sections, start=1)},
        digest=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(),
        warnings=tuple(found.warnings),
    )


def node_priorities(value: str) -> dict[NodeId, int]:
    """Return the priority of each node of a list such as ``node1:2,node2``."""
    pairs = (entry.partition(":") for entry in listed(value))
    return {NodeId(name): int(priority or 0) for name, _, priority in pairs}


def flag(properties: Mapping[str, str], key: str) -> bool | None:
    """Return what *properties* say of *key*, None if nothing."""
    return properties[key] == "1" if key in properties else None


def comment(properties: Mapping[str, str]) -> str | None:
    """Return the comment among *properties*, as it was before it was escaped."""
    if "comment" not in properties:
        return None
    escaped = properties["comment"].encode()
    plain = re.sub(rb"%([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)]), escaped)
    return plain.decode(errors="replace")


def _rule(section: Section) -> Rule | None:
    said = section.properties
    if said is None:
        return None
    resources = frozenset(ServiceId(entry) for entry in listed(said["resources"]))
    if section.kind == NODE_AFFINITY:
        return NodeAffinityRule(
            resources=resources,
            nodes=node_priorities(said["nodes"]),
            strict=flag(said, "strict"),
            disable=flag(said, "disable"),
            comment=comment(said),
        )
    return ResourceAffinityRule(
        resources=resources,
        affinity=Affinity(said["affinity"]),
        disable=flag(said, "disable"),
        comment=comment(said),
    )
