"""From rules to the text of rules.cfg."""

from __future__ import annotations

from collections.abc import Iterator

from opendrs.ha.rules.reading import NODE_AFFINITY, RESOURCE_AFFINITY
from opendrs.ha.rules.rule import NodeAffinityRule, Rule, RuleSet

PLAIN = frozenset(chr(code) for code in range(0x20, 0x7F)) - {":", "%"}


def rules_text(rules: RuleSet) -> str:
    """Return *rules* as the text of a file, in their order."""
    named = sorted(rules.rules, key=lambda name: (rules.order[name], name))
    return "".join(
        f"{_kind(rule)}: {name}\n"
        + "".join(f"\t{line}\n" for line in _properties(rule))
        + "\n"
        for name in named
        if (rule := rules.rules[name]) is not None
    )


def _kind(rule: Rule) -> str:
    return NODE_AFFINITY if isinstance(rule, NodeAffinityRule) else RESOURCE_AFFINITY


def _properties(rule: Rule) -> Iterator[str]:
    if rule.comment is not None:
        yield f"comment {_escaped(rule.comment)}"
    if rule.disable:
        yield "disable"
    if isinstance(rule, NodeAffinityRule):
        yield f"nodes {','.join(_nodes(rule))}"
    else:
        yield f"affinity {rule.affinity}"
    yield f"resources {','.join(sorted(rule.resources))}"
    if isinstance(rule, NodeAffinityRule) and rule.strict is not None:
        yield f"strict {int(rule.strict)}"


def _nodes(rule: NodeAffinityRule) -> Iterator[str]:
    for node, priority in sorted(rule.nodes.items()):
        yield f"{node}:{priority}" if priority else node


def _escaped(comment: str) -> str:
    return "".join(
        letter
        if letter in PLAIN
        else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in comment
    )
