"""Which rules cannot be kept, and why: they are dropped before they bind anyone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.rules.gatherings import Gathering, Overlaps, gatherings
from opendrs.ha.rules.rule import (
    Affinity,
    NodeAffinityRule,
    ResourceAffinityRule,
    RuleSet,
)

USED_TWICE = "resource '{}' is already used in another node affinity rule"
TOO_FEW = "rule is ineffective as there are less than two resources"
TOO_MANY = "rule defines more resources than available nodes"
TOGETHER_AND_APART = (
    "rule shares two or more resources with a negative resource affinity rule"
)
APART_AND_TOGETHER = (
    "rule shares two or more resources with a positive resource affinity rule"
)
PRIORITIES = (
    "resources are in a resource affinity rule and cannot be in a node affinity rule "
    "with multiple priorities"
)
WITH_PRIORITIES = "resources are in node affinity rules with multiple priorities"
SEVERAL_PLACES = "resources are in multiple node affinity rules"
OTHER_PLACE = (
    "at least one resource is in a positive resource affinity rule and there are "
    "other resources in at least one other node affinity rule already"
)
TOO_NARROW = (
    "two or more resources are restricted to less nodes than available to the resources"
)
NARROWS = (
    "at least one resource is in a negative resource affinity rule and this rule "
    "would restrict these to less nodes than available to the resources"
)

Conflict = tuple[str, str]
"""The name of a rule, and why it cannot be kept."""


class _Case:
    """The enabled rules, by kind, and the number of nodes there are."""

    def __init__(self, rules: RuleSet, nodes: int) -> None:
        self.nodes = nodes
        self.places = rules.node_affinities()
        self.affinities = rules.affinities()
        self.apart = rules.affinities(Affinity.NEGATIVE)
        self.gatherings = gatherings(_not_empty(rules))
        self._overlapping_places = Overlaps(self.places)

    def places_of(self, rule: ResourceAffinityRule | Gathering) -> list[str]:
        """Return the node affinity rules that bind services of *rule*."""
        services = rule.services if isinstance(rule, Gathering) else rule.resources
        return self._overlapping_places.of(services)


def _not_empty(rules: RuleSet) -> dict[str, ResourceAffinityRule]:
    together = rules.affinities(Affinity.POSITIVE)
    return {name: rule for name, rule in together.items() if rule.resources}


def _used_twice(case: _Case) -> Iterator[Conflict]:
    uses = Counter(s for rule in case.places.values() for s in rule.resources)
    for name, rule in case.places.items():
        for service in sorted(rule.resources):
            if uses[service] > 1:
                yield name, USED_TWICE.format(service)


def _too_few(case: _Case) -> Iterator[Conflict]:
    for name, rule in case.affinities.items():
        if len(rule.resources) < 2:
            yield name, TOO_FEW


def _too_many(case: _Case) -> Iterator[Conflict]:
    for name, rule in case.apart.items():
        if len(rule.resources) > case.nodes:
            yield name, TOO_MANY


def _torn(case: _Case) -> Iterator[Conflict]:
    gathered: dict[ServiceId, list[int]] = {}
    for index, gathering in enumerate(case.gatherings):
        for service in gathering.services:
            gathered.setdefault(service, []).append(index)
    for name, rule in case.apart.items():
        shared = Counter(i for s in rule.resources for i in gathered.get(s, ()))
        for index, count in shared.items():
            if count > 1:
                yield name, APART_AND_TOGETHER
                for other in case.gatherings[index].names:
                    yield other, TOGETHER_AND_APART


def _with_priorities(case: _Case) -> Iterator[Conflict]:
    for name, rule in case.affinities.items():
        places = case.places_of(rule)
        if any(case.places[place].has_priorities for place in places):
            yield name, WITH_PRIORITIES
            for place in places:
                yield place, PRIORITIES


def _several_places(case: _Case) -> Iterator[Conflict]:
    for gathering in case.gatherings:
        places = case.places_of(gathering)
        if len(places) > 1:
            yield from ((name, SEVERAL_PLACES) for name in gathering.names)
            yield from ((place, OTHER_PLACE) for place in places)


def _too_narrow(case: _Case) -> Iterator[Conflict]:
    for name, rule in case.apart.items():
        places = [(place, case.places[place]) for place in case.places_of(rule)]
        if _room(places) < len(_bound(rule, places)):
            yield name, TOO_NARROW
            yield from ((place, NARROWS) for place, _ in places)


def _room(places: Sequence[tuple[str, NodeAffinityRule]]) -> int:
    return len({node for _, place in places for node in place.nodes})


def _bound(
    rule: ResourceAffinityRule, places: Sequence[tuple[str, NodeAffinityRule]]
) -> set[ServiceId]:
    return {s for _, place in places for s in place.resources & rule.resources}


_CHECKS: Sequence[Callable[[_Case], Iterator[Conflict]]] = (
    _used_twice,
    _too_few,
    _too_many,
    _torn,
    _with_priorities,
    _several_places,
    _too_narrow,
)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A rule that was dropped.

    Attributes:
        rule: Its name.
        why: What is wrong with it.
    """

    rule: str
    why: str

    def __str__(self) -> str:
        return f"Drop rule '{self.rule}', because {self.why}."


def checked(rules: RuleSet, nodes: int) -> tuple[RuleSet, tuple[Dropped, ...]]:
    """Return *rules* without those that cannot be kept, and what these were.

    All checks see the same rules: that one rule goes does not save another.

    Args:
        rules: The rules of a configuration.
        nodes: How many nodes the cluster has.
    """
    case = _Case(rules, nodes)
    conflicts = [conflict for check in _CHECKS for conflict in check(case)]
    # Stable: what is wrong with one rule stays in the order of the checks.
    dropped = tuple(Dropped(*c) for c in sorted(conflicts, key=lambda c: c[0]))
    names = {each.rule for each in dropped}
    kept = replace(
        rules,
        rules={name: rule for name, rule in rules.rules.items() if name not in names},
        order={name: at for name, at in rules.order.items() if name not in names},
    )
    return kept, dropped
