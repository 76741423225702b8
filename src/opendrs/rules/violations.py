"""Violations of the rules in a snapshot.

Each rule is evaluated as the operator wrote it. This module shares no code with rule
compilation and feasibility, so that each can be checked against the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, compress, product
from operator import is_not, itemgetter

from opendrs.model import (
    DOMAIN_ORIGIN,
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
    format_list,
    rule_guests,
)
from opendrs.rules.maintenance import drain_rules, is_drain


@dataclass(frozen=True, slots=True)
class Violation:
    """Rule that does not hold, with the guests and nodes that violate it.

    Attributes:
        rule: The rule.
        guests: Guests that violate it.
        nodes: Nodes on which they violate it.
    """

    rule: Rule
    guests: frozenset[GuestId]
    nodes: frozenset[NodeId]

    @property
    def strict(self) -> bool:
        """Return whether the rule is strict."""
        return getattr(self.rule, "strict", True)

    @property
    def weight(self) -> float:
        """Return the weight of the rule, relative to other soft rules."""
        return float(getattr(self.rule, "weight", 1.0))

    def __str__(self) -> str:
        guests, nodes = (
            format_list(sorted(self.guests)),
            format_list(sorted(self.nodes)),
        )
        return f"{self.rule}: {guests} on {nodes}"


_VIOLABLE = (Affinity, AntiAffinity, MutualAntiAffinity, NodeAffinity)
"""Rules about placements. A tuple is faster than a union, which is built each time."""


def violations(snapshot: Snapshot) -> tuple[Violation, ...]:
    """Return the violations, in the order of the rules.

    A migrating guest counts on both nodes, a stopped one on none. An anti-affinity rule
    gives one violation per pair of guests on one node, with two sides one per pair of
    both; with a domain or more than one guest, one per domain. An affinity rule gives
    one for all of its guests, a node affinity one per guest. An affinity within a
    domain gives one per guest outside of the chosen domain, unless all are in one. Pins
    and tag exclusions concern migrations, not placements, and are never violated. A
    guest on a node in maintenance violates the rule that drains it.
    """
    return _violations_of((*snapshot.rules, *drain_rules(snapshot)), snapshot)


def _violations_of(rules: Iterable[Rule], snapshot: Snapshot) -> tuple[Violation, ...]:
    result: list[Violation] = []
    for rule in rules:
        if isinstance(rule, AntiAffinity) and not rule.is_pairwise:
            result += _domain_violations(rule, snapshot)
        elif isinstance(rule, AntiAffinity):
            result += _anti_affinity_violations(rule, snapshot)
        elif isinstance(rule, MutualAntiAffinity):
            result += _mutual_violations(rule, snapshot)
        elif isinstance(rule, Affinity):
            result += _affinity_violations(rule, snapshot)
        elif isinstance(rule, NodeAffinity):
            result += _node_affinity_violations(rule, snapshot)
    return tuple(result)


@dataclass(frozen=True, slots=True)
class ViolationCount:
    """Number of violated strict rules, and of their violations.

    As text it is the number of rules, with that of violations if it differs: a rule
    about many guests may be violated many times.

    Attributes:
        rules: Number of rules.
        violations: Number of violations.
    """

    rules: int
    violations: int

    def __str__(self) -> str:
        return f"{self.rules}{self.suffix}"

    @property
    def suffix(self) -> str:
        """Return the number of violations in parentheses; empty if it is the same."""
        is_same = self.rules == self.violations
        return "" if is_same else f" ({self.violations} violations)"


def count_strict(violations: Iterable[Violation]) -> ViolationCount:
    """Return the number of strict rules among *violations*, found in one snapshot."""
    strict = [violation for violation in violations if violation.strict]
    rules = {id(violation.rule) for violation in strict}
    return ViolationCount(len(rules), len(strict))


def split_drains(
    violations: Iterable[Violation],
) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
    """Return the violations of other rules, and the guests on nodes in maintenance."""
    rules: list[Violation] = []
    drains: list[Violation] = []
    for each in violations:
        (drains if is_drain(each.rule) else rules).append(each)
    return tuple(rules), tuple(drains)


def strict_rules(snapshot: Snapshot) -> int:
    """Return the number of strict rules of *snapshot*, with those that drain nodes."""
    rules = (*snapshot.rules, *drain_rules(snapshot))
    return sum(
        getattr(rule, "strict", True) and rule.origin != DOMAIN_ORIGIN for rule in rules
    )


@dataclass(frozen=True, slots=True)
class ViolationChange:
    """Violations of one cluster before and after a plan.

    Attributes:
        before: Violations of strict and soft rules before the plan.
        after: Violations of strict and soft rules after the plan.
    """

    before: tuple[Violation, ...]
    after: tuple[Violation, ...]

    @property
    def strict_before(self) -> tuple[Violation, ...]:
        """Return the violations of strict rules before the plan."""
        return tuple(violation for violation in self.before if violation.strict)

    @property
    def strict_after(self) -> tuple[Violation, ...]:
        """Return the violations of strict rules after the plan."""
        return tuple(violation for violation in self.after if violation.strict)

    @property
    def repaired(self) -> tuple[Violation, ...]:
        """Return the violations of strict rules that the plan removes."""
        remaining = {_signature(violation) for violation in self.strict_after}
        shrunk = [each for each in self.strict_after if _may_shrink(each.rule)]
        return tuple(
            violation
            for violation in self.strict_before
            if _signature(violation) not in remaining
            and not any(
                _constraint(each.rule) == _constraint(violation.rule)
                and each.guests < violation.guests
                for each in shrunk
            )
        )


def violation_change(before: Snapshot, after: Snapshot) -> ViolationChange:
    """Return the violations *before* and *after* a plan."""
    return ViolationChange(violations(before), violations(after))


def new_violations(before: Snapshot, after: Snapshot) -> tuple[Violation, ...]:
    """Return the strict violations of *after* that are not in *before*.

    Violations are compared by rule and guests. A guest that already violates a rule may
    violate it on another node, and fewer guests may violate it than before. Nodes in
    maintenance are those of *before*.
    """
    drained = drain_rules(before) or drain_rules(after)
    rules = (*_affected_rules(before, after), *drained)
    violated = [each for each in _violations_of(rules, after) if each.strict]
    if not violated:
        return ()
    known: defaultdict[object, set[frozenset[GuestId]]] = defaultdict(set)
    for each in violations(before):
        if each.strict:
            known[_constraint(each.rule)].add(each.guests)
    return tuple(
        each
        for each in violated
        if each.guests not in (former := known[_constraint(each.rule)])
        and not (_may_shrink(each.rule) and any(each.guests < one for one in former))
    )


def _affected_rules(before: Snapshot, after: Snapshot) -> Iterable[Rule]:
    """Return the rules of *after* with guests that differ from those in *before*.

    All violations of the other rules are in *before* as well.
    """
    if before.rules is not after.rules or len(before.guests) != len(after.guests):
        return after.rules
    differs = [*map(is_not, before.guests.values(), after.guests.values())]
    changed = {*compress(before.guests, differs), *compress(after.guests, differs)}
    return (
        rule
        for rule in after.rules
        if isinstance(rule, _VIOLABLE) and not rule_guests(rule).isdisjoint(changed)
    )


def _signature(violation: Violation) -> tuple[object, ...]:
    """Return the identity of a violation: equivalent rules have the same signature."""
    return _constraint(violation.rule), violation.guests


def _constraint(rule: Rule) -> object:
    """Return what *rule* demands of its guests."""
    if isinstance(rule, NodeAffinity):
        return NodeAffinity, frozenset(rule.nodes)
    if isinstance(rule, MutualAntiAffinity):
        return AntiAffinity, "", 1
    if isinstance(rule, AntiAffinity):
        return AntiAffinity, rule.domain, rule.max_guests
    return type(rule)


def _may_shrink(rule: Rule) -> bool:
    """Return whether a violation of *rule* is about any number of guests."""
    return isinstance(rule, AntiAffinity) and not rule.is_pairwise


def _active_guests(
    rule: Affinity | AntiAffinity | MutualAntiAffinity | NodeAffinity,
    snapshot: Snapshot,
) -> list[Guest]:
    known = (snapshot.guests.get(name) for name in sorted(rule_guests(rule)))
    return [guest for guest in known if guest is not None and guest.is_active]


def _anti_affinity_violations(
    rule: AntiAffinity, snapshot: Snapshot
) -> list[Violation]:
    guests = _active_guests(rule, snapshot)
    places: defaultdict[NodeId, list[int]] = defaultdict(list)
    for place, guest in enumerate(guests):
        for node in guest.occupied_nodes:
            places[node].append(place)
    shared: defaultdict[tuple[int, int], set[NodeId]] = defaultdict(set)
    for node, there in places.items():
        for pair in combinations(there, 2):
            shared[pair].add(node)
    return [
        Violation(rule, frozenset({guests[one].id, guests[other].id}), frozenset(nodes))
        for (one, other), nodes in sorted(shared.items(), key=itemgetter(0))
    ]


def _mutual_violations(rule: MutualAntiAffinity, snapshot: Snapshot) -> list[Violation]:
    sides: tuple[defaultdict[NodeId, list[GuestId]], ...]
    sides = defaultdict(list), defaultdict(list)
    for guest in _active_guests(rule, snapshot):
        for node in guest.occupied_nodes:
            sides[guest.id in rule.other_guests][node].append(guest.id)
    shared: defaultdict[tuple[GuestId, GuestId], set[NodeId]] = defaultdict(set)
    for node in sides[0].keys() & sides[1].keys():
        for pair in product(sides[0][node], sides[1][node]):
            shared[pair].add(node)
    return [
        Violation(rule, frozenset(pair), frozenset(nodes))
        for pair, nodes in sorted(shared.items(), key=itemgetter(0))
    ]


def _domain_violations(rule: AntiAffinity, snapshot: Snapshot) -> list[Violation]:
    """Return one violation for each domain with more guests than the rule allows."""
    present: defaultdict[str, dict[GuestId, set[NodeId]]] = defaultdict(dict)
    for guest in _active_guests(rule, snapshot):
        for name in guest.occupied_nodes:
            domain: str = name
            if rule.domain:
                domain = snapshot.nodes[name].domain(rule.domain) or ""
            present[domain].setdefault(guest.id, set()).add(name)
    return [
        Violation(rule, frozenset(there), frozenset[NodeId]().union(*there.values()))
        for _, there in sorted(present.items())
        if len(there) > rule.max_guests
    ]


def _affinity_violations(rule: Affinity, snapshot: Snapshot) -> list[Violation]:
    guests = _active_guests(rule, snapshot)
    if not guests or set.intersection(*(set(guest.occupied_nodes) for guest in guests)):
        return []
    nodes = frozenset(node for guest in guests for node in guest.occupied_nodes)
    return [Violation(rule, frozenset(guest.id for guest in guests), nodes)]


def _node_affinity_violations(
    rule: NodeAffinity, snapshot: Snapshot
) -> list[Violation]:
    found = [
        Violation(rule, frozenset({guest.id}), frozenset(wrong))
        for guest in _active_guests(rule, snapshot)
        if (wrong := [name for name in guest.occupied_nodes if name not in rule.nodes])
    ]
    return [] if found and _is_in_one_domain(rule, snapshot) else found


def _is_in_one_domain(rule: NodeAffinity, snapshot: Snapshot) -> bool:
    """Return whether *rule* demands a domain, and all of its guests are in any one."""
    if not rule.domain:
        return False
    guests = _active_guests(rule, snapshot)
    nodes = {name for guest in guests for name in guest.occupied_nodes}
    domains = {snapshot.nodes[name].domain(rule.domain) for name in nodes}
    return len(domains) == 1 and None not in domains
