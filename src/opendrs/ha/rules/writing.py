"""From rules to the text of rules.cfg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opendrs.ha.rules.reading import NODE_AFFINITY, RESOURCE_AFFINITY
from opendrs.ha.rules.rule import NodeAffinityRule, Rule, RuleSet
from opendrs.ha.rules.sections import escaped, section_text
from opendrs.model import NodeId


def rules_text(rules: RuleSet) -> str:
    """Return *rules* as the text of a file, in their order."""
    named = sorted(rules.rules, key=lambda name: (rules.order[name], name))
    return "".join(
        section_text(_kind(rule), name, _properties(rule))
        for name in named
        if (rule := rules.rules[name]) is not None
    )


def _kind(rule: Rule) -> str:
    return NODE_AFFINITY if isinstance(rule, NodeAffinityRule) else RESOURCE_AFFINITY


def _properties(rule: Rule) -> Iterator[str]:
    if rule.comment is not None:
        yield f"comment {escaped(rule.comment)}"
    if rule.disable:
        yield "disable"
    if isinstance(rule, NodeAffinityRule):
        yield f"nodes {nodes_text(rule.nodes)}"
    else:
        yield f"affinity {rule.affinity}"
    yield f"resources {','.join(sorted(rule.resources))}"
    if isinstance(rule, NodeAffinityRule) and rule.strict is not None:
        yield f"strict {int(rule.strict)}"


def nodes_text(priorities: Mapping[NodeId, int]) -> str:
    """Return nodes and their *priorities* as a list such as ``node1:2,node2``."""
    return ",".join(
        f"{node}:{priority}" if priority else node
        for node, priority in sorted(priorities.items())
    )
