"""What follows from rules, made explicit as rules."""

from __future__ import annotations

from dataclasses import replace

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.rules.gatherings import Overlaps, gatherings
from opendrs.ha.rules.rule import Affinity, ResourceAffinityRule, Rule, RuleSet


def transformed(rules: RuleSet) -> RuleSet:
    """Return *rules* with what follows from them.

    Args:
        rules: Rules that were checked.
    """
    return _with_shared_places(_with_shared_separations(_merged(rules)))


def _merged(rules: RuleSet) -> RuleSet:
    """Return *rules* with one rule for each gathering of several."""
    named, order = dict(rules.rules), dict(rules.order)
    for gathering in gatherings(rules.affinities(Affinity.POSITIVE)):
        if len(gathering.names) < 2:
            continue
        merged = f"_merged-{'-'.join(gathering.names)}"
        order[merged] = order[gathering.names[0]]
        named[merged] = ResourceAffinityRule(
            resources=frozenset(gathering.services), affinity=Affinity.POSITIVE
        )
        for name in gathering.names:
            del named[name], order[name]
    return replace(rules, rules=named, order=order)


def _with_shared_separations(rules: RuleSet) -> RuleSet:
    """Return *rules*, where who must be apart from one is apart from its group."""
    apart = _separations(rules)
    added: dict[str, Rule] = {}
    for name, rule in rules.affinities(Affinity.POSITIVE).items():
        outsiders = {o for member in rule.resources for o in apart.get(member, ())}
        for member in rule.resources:
            for outsider in outsiders - apart.get(member, set()) - {member}:
                added[f"_implicit-negative-{name}-{member}-{outsider}"] = (
                    ResourceAffinityRule(
                        resources=frozenset({member, outsider}),
                        affinity=Affinity.NEGATIVE,
                    )
                )
    return replace(
        rules,
        rules={**rules.rules, **added},
        order={**rules.order, **dict.fromkeys(sorted(added), rules.next_order)},
    )


def _separations(rules: RuleSet) -> dict[ServiceId, set[ServiceId]]:
    apart: dict[ServiceId, set[ServiceId]] = {}
    for rule in rules.affinities(Affinity.NEGATIVE).values():
        for service in rule.resources:
            apart.setdefault(service, set()).update(rule.resources - {service})
    return apart


def _with_shared_places(rules: RuleSet) -> RuleSet:
    """Return *rules*, where the nodes of one are the nodes of its group."""
    named = dict(rules.rules)
    places = rules.node_affinities()
    overlaps = Overlaps(places)
    for rule in rules.affinities(Affinity.POSITIVE).values():
        for name in overlaps.of(rule.resources)[:1]:
            places[name] = replace(
                places[name], resources=places[name].resources | rule.resources
            )
            named[name] = places[name]
    return replace(rules, rules=named)
