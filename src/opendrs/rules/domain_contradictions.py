"""Contradictions that remain whatever domains guests are bound to.

An affinity within a domain leaves the choice of the domain open. Rules contradict each
other only if they do with every choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from opendrs.model import DomainAffinity, NodeAffinity, Rule, Snapshot
from opendrs.rules.contradictions import Contradiction
from opendrs.rules.domain_choices import (
    DomainOptions,
    FindContradictions,
    choose_jointly,
    coupled,
    domain_nodes,
)


def contradictions_in_all_domains(
    snapshot: Snapshot, find: FindContradictions
) -> tuple[Contradiction, ...]:
    """Return the contradictions of *snapshot* that no choice of domains avoids.

    Those that the chosen domains cause are among them only with a proof that every
    choice causes some.

    Args:
        snapshot: The cluster, with rules that bind guests to chosen domains.
        find: Function that returns the contradictions with the domains of a snapshot.
    """
    bound = {
        index: _options(rule, snapshot)
        for index, rule in enumerate(snapshot.rules)
        if isinstance(rule, NodeAffinity) and rule.strict and rule.domain
    }
    if not bound:
        return find(snapshot)
    relaxed = tuple(
        bound[index].any_domain if index in bound else rule
        for index, rule in enumerate(snapshot.rules)
    )
    found = find(replace(snapshot, rules=relaxed))
    known = {each.guests for each in found}
    stated = [each for each in find(snapshot) if each.guests not in known]
    if stated:
        found = (*found, *_proven(stated, bound, snapshot, find))
    origins = {
        id(rules[index]): rules[index - 1]
        for rules in (relaxed, snapshot.rules)
        for index in bound
        if index and isinstance(rules[index - 1], DomainAffinity)
    }
    return tuple(_as_written(each, origins) for each in found)


def _options(rule: NodeAffinity, snapshot: Snapshot) -> DomainOptions:
    """Return the rules that bind the guests of *rule* to each domain there is."""
    nodes_in = domain_nodes(snapshot, rule.domain)
    every = [name for names in nodes_in.values() for name in names]
    options = (replace(rule, nodes=dict.fromkeys(x, 0)) for x in nodes_in.values())
    any_domain = replace(rule, nodes=dict.fromkeys(every, 0))
    return DomainOptions(tuple(options) or (rule,), any_domain)


def _proven(
    stated: Sequence[Contradiction],
    bound: Mapping[int, DomainOptions],
    snapshot: Snapshot,
    find: FindContradictions,
) -> Iterator[Contradiction]:
    """Yield those of *stated* whose rules contradict each other in all domains."""
    others = (rule for index, rule in enumerate(snapshot.rules) if index not in bound)
    free = replace(snapshot, rules=tuple(others))
    choices = list(bound.values())
    for guests, members in coupled(choices, free.rules).items():
        affected = [each for each in stated if not guests.isdisjoint(each.guests)]
        dependent = [choices[member] for member in members]
        if affected and choose_jointly(dependent, guests, free, find).is_proof:
            for each in affected:
                detail = f"{each.detail}, and no other choice of domains avoids this"
                yield replace(each, detail=detail)


def _as_written(each: Contradiction, origins: Mapping[int, Rule]) -> Contradiction:
    """Return *each* with the affinities in place of the rules that realize them."""
    rules = {id(rule): rule for rule in (origins.get(id(x), x) for x in each.rules)}
    return replace(each, rules=tuple(rules.values()))
