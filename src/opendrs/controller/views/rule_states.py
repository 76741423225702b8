"""The rules of a cluster: bound guests, state, origin, contradictions, and repair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any

from opendrs.controller.views.remedies import remedy
from opendrs.model import (
    DOMAIN_ORIGIN,
    RULE_KINDS,
    GuestId,
    GuestPriority,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
    TagExclusion,
    format_list,
    rule_guests,
)
from opendrs.rules import Contradiction, Violation, compile_rules, violations
from opendrs.rules.maintenance import ORIGIN as NODE_STATE_ORIGIN
from opendrs.rules.maintenance import drain_rules

Plain = Mapping[str, Any]
Document = dict[str, Any]

MAX_REASONS = 3  # reasons why guests that violate a rule stay, that are listed


class RuleState(StrEnum):
    """State of a rule in a cluster. The values are stable."""

    KEPT = "kept"
    """The rule holds."""
    VIOLATED = "violated"
    """The rule does not hold now."""
    CONTRADICTORY = "contradictory"
    """The rule cannot hold together with others; its guests are not migrated."""
    UNMATCHED = "unmatched"
    """The cluster has no guest that the rule binds."""


def rule_documents(snapshot: Snapshot, decision: Plain) -> list[Document]:
    """Return the rules of *snapshot*, and the one that drains nodes in maintenance.

    Args:
        snapshot: The cluster that was evaluated.
        decision: The decision about it as plain values.

    Returns:
        For each rule `rule` (its name, or a description), `name`, `kind`, `strict`,
        `origin`, `guests` that it binds, `nodes` that it names or keeps them on,
        `state` (`RuleState`), `detail`, `violating_guests`, `violating_nodes`, and
        `repair`: what repairs it; None if nothing is to be repaired.
    """
    rules = [rule for rule in snapshot.rules if rule.origin != DOMAIN_ORIGIN]
    keeps = _domain_rules(snapshot)
    listed = {id(rule): id(rule) for rule in rules}
    listed.update((id(rule), affinity) for affinity, rule in keeps.items())
    violated: dict[int | str, list[Violation]] = {}
    for each in violations(snapshot):
        key = listed.get(id(each.rule), NODE_STATE_ORIGIN)
        violated.setdefault(key, []).append(each)
    contradictions = compile_rules(snapshot).contradictions
    documents = [
        _document(rule, snapshot, decision, violated.get(id(rule), ()), contradictions)
        for rule in rules
    ]
    for rule, document in zip(rules, documents, strict=True):
        document["nodes"] = _named_nodes(keeps.get(id(rule), rule))
    drains = violated.get(NODE_STATE_ORIGIN, ())
    documents += [
        _document(rule, snapshot, decision, drains, ())
        for rule in drain_rules(snapshot)
    ]
    return documents


def _domain_rules(snapshot: Snapshot) -> dict[int, Rule]:
    """Return the rule that keeps guests in a domain, by the id of their affinity."""
    return {
        id(affinity): rule
        for affinity, rule in pairwise(snapshot.rules)
        if rule.origin == DOMAIN_ORIGIN
    }


def _named_nodes(rule: Rule) -> list[NodeId]:
    return sorted(rule.nodes) if isinstance(rule, NodeAffinity) else []


def rules_of(
    documents: Iterable[Document], guest: str | None = None, node: str | None = None
) -> list[Document]:
    """Return those of *documents* that bind *guest* or name *node*."""
    return [
        each
        for each in documents
        if guest in each["guests"]
        or node in each["nodes"]
        or node in each["violating_nodes"]
    ]


def _document(
    rule: Rule,
    snapshot: Snapshot,
    decision: Plain,
    violated: Sequence[Violation],
    contradictions: Sequence[Contradiction],
) -> Document:
    bound = _bound_guests(rule, snapshot)
    guests = sorted(frozenset[GuestId]().union(*(each.guests for each in violated)))
    nodes = sorted(frozenset[NodeId]().union(*(each.nodes for each in violated)))
    against = [
        each for each in contradictions if any(rule is one for one in each.rules)
    ]
    state, detail, repair = RuleState.KEPT, "", None
    if against:
        state, detail = RuleState.CONTRADICTORY, "; ".join(map(str, against))
        repair = remedy("contradictory-rules")
    elif violated:
        state = RuleState.VIOLATED
        detail = f"{format_list(guests)} on {format_list(nodes)}"
        repair = _repair(guests, decision)
    elif not bound:
        state, detail = RuleState.UNMATCHED, "no such guest in the cluster"
    is_drain = rule.origin == NODE_STATE_ORIGIN
    return {
        "rule": str(rule),
        "name": rule.name,
        "kind": RULE_KINDS[type(rule)],
        "strict": getattr(rule, "strict", True),
        "origin": rule.origin,
        "guests": guests if is_drain else bound,
        "nodes": _named_nodes(rule),
        "state": state.value,
        "detail": detail,
        "violating_guests": guests,
        "violating_nodes": nodes,
        "repair": repair,
    }


def _bound_guests(rule: Rule, snapshot: Snapshot) -> list[GuestId]:
    """Return the guests of *snapshot* that *rule* binds, in order of name."""
    if isinstance(rule, TagExclusion | GuestPriority):
        return sorted(
            name for name, guest in snapshot.guests.items() if rule.applies_to(guest)
        )
    return sorted(name for name in rule_guests(rule) if name in snapshot.guests)


def _repair(guests: Iterable[str], decision: Plain) -> str:
    """Return what the decision does about *guests* that violate a rule, or what may."""
    chosen = set(guests)
    steps = [
        step
        for step in decision["steps"]
        if step["guest"] in chosen and not step.get("disk")
    ]
    if steps:
        moves = [
            f"step {step['id']} moves {step['guest']} to {step['target']}"
            for step in steps
        ]
        return f"planned: {format_list(moves, separator='; ')}"
    reasons = [
        f"{format_list(sorted(chosen.intersection(group['guests'])))}: "
        f"{group['detail']}; {remedy(group['reason']) or group['reason']}"
        for group in decision["skipped"]
        if chosen.intersection(group["guests"])
    ]
    if reasons:
        return " | ".join(reasons[:MAX_REASONS])
    detail = f"{decision['reason']}: {decision['detail']}".removesuffix(": ")
    return f"no plan repairs it: {detail}"
