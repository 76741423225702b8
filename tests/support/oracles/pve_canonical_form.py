"""Rules of a configuration in the canonical form of the tests of Proxmox VE."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from opendrs.model import NodeId
from opendrs.pve_ha.config.rules import (
    NodeAffinityRule,
    PveRule,
    RuleSet,
    add_implied_rules,
    compile_rules,
    drop_conflicting_rules,
    read_rules,
)
from opendrs.pve_ha.config.rules.rule import ServiceSet
from opendrs.pve_ha.config.rules.rule_file import NODE_AFFINITY, RESOURCE_AFFINITY
from opendrs.pve_ha.states import ServiceId

Json = Mapping[str, "Json"] | int | str | None


def canonical_form(text: str, nodes: Iterable[NodeId]) -> str:
    """Return what becomes of the rules in *text* in a cluster of *nodes*.

    Three parts: the rules that were dropped, the rules with all that follows
    from them, and what they mean for each service.
    """
    known_nodes = sorted(nodes)
    kept, dropped = drop_conflicting_rules(read_rules(text), len(known_nodes))
    rules = add_implied_rules(kept)
    return "".join(
        (
            "--- Log ---\n",
            *(f"{conflict}\n" for conflict in dropped),
            "--- Config ---\n",
            _to_json(_configuration(rules)),
            "--- Compiled Config ---\n",
            _to_json(_compiled_configuration(rules, known_nodes)),
        )
    )


def _to_json(value: Json) -> str:
    text = json.dumps(
        value, indent=3, sort_keys=True, separators=(",", " : "), ensure_ascii=False
    )
    return f"{text}\n"


def _configuration(rules: RuleSet) -> Json:
    return {
        "digest": rules.digest,
        "ids": {
            name: None if (rule := rules.rules.get(name)) is None else _rule(rule)
            for name in rules.order
        },
        "order": rules.order,
    }


def _rule(rule: PveRule) -> Json:
    fields: dict[str, Json] = {"resources": _set(rule.resources)}
    if isinstance(rule, NodeAffinityRule):
        fields |= {"type": NODE_AFFINITY, "nodes": _priorities(rule.nodes)}
        if rule.strict is not None:
            fields["strict"] = int(rule.strict)
    else:
        fields |= {"type": RESOURCE_AFFINITY, "affinity": rule.affinity.value}
    if rule.disable is not None:
        fields["disable"] = int(rule.disable)
    if rule.comment is not None:
        fields["comment"] = rule.comment
    return fields


def _compiled_configuration(rules: RuleSet, nodes: Iterable[NodeId]) -> Json:
    compiled = compile_rules(rules, nodes)
    return {
        "node-affinity": {
            service: {"nodes": _priorities(priorities)}
            for service, priorities in compiled.nodes.items()
        },
        "resource-affinity": {
            "negative": _sets(compiled.apart),
            "positive": _sets(compiled.together),
        },
    }


def _priorities(nodes: Mapping[NodeId, int]) -> Json:
    return {node: {"priority": priority} for node, priority in nodes.items()}


def _sets(services: Mapping[ServiceId, ServiceSet]) -> Json:
    return {service: _set(others) for service, others in services.items()}


def _set(services: ServiceSet) -> Json:
    return dict.fromkeys(services, 1)
