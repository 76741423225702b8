"""Rules in the canonical form in which Proxmox VE compares them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.rules.checks import checked
from opendrs.ha.rules.compilation import compiled
from opendrs.ha.rules.reading import NODE_AFFINITY, RESOURCE_AFFINITY, read_rules
from opendrs.ha.rules.rule import NodeAffinityRule, Rule, RuleSet, Services
from opendrs.ha.rules.transforms import transformed
from opendrs.model import NodeId

Json = Mapping[str, "Json"] | int | str | None


def report(text: str, nodes: Iterable[NodeId]) -> str:
    """Return what becomes of the rules in *text* in a cluster of *nodes*.

    Three parts: the rules that were dropped, the rules with all that follows
    from them, and what they mean for each service.
    """
    known = sorted(nodes)
    kept, dropped = checked(read_rules(text), len(known))
    rules = transformed(kept)
    return "".join(
        (
            "--- Log ---\n",
            *(f"{each}\n" for each in dropped),
            "--- Config ---\n",
            _shown(_configuration(rules)),
            "--- Compiled Config ---\n",
            _shown(_meaning(rules, known)),
        )
    )


def _shown(value: Json) -> str:
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


def _rule(rule: Rule) -> Json:
    said: dict[str, Json] = {"resources": _set(rule.resources)}
    if isinstance(rule, NodeAffinityRule):
        said |= {"type": NODE_AFFINITY, "nodes": _places(rule.nodes)}
        if rule.strict is not None:
            said["strict"] = int(rule.strict)
    else:
        said |= {"type": RESOURCE_AFFINITY, "affinity": rule.affinity.value}
    if rule.disable is not None:
        said["disable"] = int(rule.disable)
    if rule.comment is not None:
        said["comment"] = rule.comment
    return said


def _meaning(rules: RuleSet, nodes: Iterable[NodeId]) -> Json:
    meaning = compiled(rules, nodes)
    return {
        "node-affinity": {
            service: {"nodes": _places(places)}
            for service, places in meaning.nodes.items()
        },
        "resource-affinity": {
            "negative": _sets(meaning.apart),
            "positive": _sets(meaning.together),
        },
    }


def _places(nodes: Mapping[NodeId, int]) -> Json:
    return {node: {"priority": priority} for node, priority in nodes.items()}


def _sets(services: Mapping[ServiceId, Services]) -> Json:
    return {service: _set(others) for service, others in services.items()}


def _set(services: Services) -> Json:
    return dict.fromkeys(services, 1)
