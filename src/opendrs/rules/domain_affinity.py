"""Choice of the domain of guests that belong in one, such as a rack.

Guests in one domain stay there. The domains of guests in several are chosen jointly, so
that the other rules can hold, and otherwise by what keeps guests where they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product
from math import prod

from opendrs.model import (
    DOMAIN_ORIGIN,
    AntiAffinity,
    DomainAffinity,
    Guest,
    GuestId,
    Mobility,
    Node,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
)
from opendrs.rules.compilation import immovable_guests, stated_contradictions
from opendrs.rules.domain_choices import (
    DomainOptions,
    choose_jointly,
    coupled,
    domain_nodes,
)

MAX_COMBINATIONS = 64  # choices of domains that are returned
NO_NODES: frozenset[NodeId] = frozenset()


def with_domain_rules(
    rules: Sequence[Rule], snapshot: Snapshot, closed: Collection[NodeId] = NO_NODES
) -> tuple[Rule, ...]:
    """Return *rules* with one that keeps the guests of each affinity in a domain.

    It follows the affinity. It replaces the one that was there. There is none for fewer
    than two active guests.

    Args:
        rules: The rules.
        snapshot: The cluster.
        closed: Nodes whose guests need another one.
    """
    if not any(isinstance(rule, DomainAffinity) for rule in rules):
        return tuple(rules)
    own = tuple(rule for rule in rules if rule.origin != DOMAIN_ORIGIN)
    placed = replace(snapshot, rules=own)
    excluded = immovable_guests(placed).keys()
    candidates = {
        index: _Candidates(rule, placed, frozenset(closed), excluded)
        for index, rule in enumerate(own)
        if isinstance(rule, DomainAffinity)
    }
    bound = {index: each for index, each in candidates.items() if each.is_binding}
    chosen = _chosen_domains(bound, placed)
    return tuple(
        each
        for index, rule in enumerate(own)
        for each in ((rule, chosen[index]) if index in chosen else (rule,))
    )


def is_choice(
    rule: Rule, snapshot: Snapshot, closed: Collection[NodeId] = NO_NODES
) -> bool:
    """Return whether *rule* binds guests to one of several domains by choice.

    Otherwise it binds them to the domain in which all of them are. What cannot be done
    with a choice may be possible with another one.

    Args:
        rule: The rule.
        snapshot: The cluster.
        closed: Nodes whose guests need another one.
    """
    if not (isinstance(rule, NodeAffinity) and rule.strict and rule.domain):
        return False
    if len(domain_nodes(snapshot, rule.domain)) < 2:
        return False
    occupied = {
        name
        for guest in rule.guests
        if guest in snapshot.guests and snapshot.guests[guest].is_active
        for name in snapshot.guests[guest].occupied_nodes
        if name not in closed
    }
    return not occupied or not occupied <= rule.nodes.keys()


def _chosen_domains(
    bound: Mapping[int, _Candidates], snapshot: Snapshot
) -> dict[int, NodeAffinity]:
    """Return the rule that keeps the guests of each affinity in a domain.

    Domains of strict affinities come first, those that depend on each other at once.
    """
    chosen: dict[int, NodeAffinity] = {}
    strict = [index for index, each in bound.items() if each.rule.strict]
    soft = [index for index, each in bound.items() if not each.rule.strict]
    options = [bound[index].options() for index in strict]
    for guests, members in coupled(options, snapshot.rules).items():
        dependent = [options[member] for member in members]
        found = choose_jointly(dependent, guests, snapshot, stated_contradictions)
        for member, rule in zip(members, found.chosen, strict=True):
            chosen[strict[member]] = rule
    ruled = replace(snapshot, rules=(*snapshot.rules, *chosen.values()))
    for index in soft:
        single = bound[index].options()
        (guests,) = coupled([single], snapshot.rules)
        found = choose_jointly([single], guests, ruled, stated_contradictions)
        weight = bound[index].rule.weight
        chosen[index] = replace(found.chosen[0], strict=False, weight=weight)
    return chosen


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Domains for the guests of one affinity.

    Attributes:
        rule: The affinity, with the guests that it chooses.
        snapshot: The cluster.
        closed: Nodes whose guests need another one.
        excluded: Guests that a rule excludes from migration.
    """

    rule: DomainAffinity
    snapshot: Snapshot
    closed: frozenset[NodeId]
    excluded: Collection[GuestId]

    @property
    def is_binding(self) -> bool:
        """Return whether at least two of the guests are active."""
        return len(self._guests) > 1

    @property
    def _guests(self) -> list[Guest]:
        """The active guests."""
        found = (self.snapshot.guests.get(name) for name in sorted(self.rule.guests))
        return [guest for guest in found if guest is not None and guest.is_active]

    def options(self) -> DomainOptions:
        """Return the domains, the preferred first; one if all guests are in it."""
        nodes_in = domain_nodes(self.snapshot, self.rule.domain)
        every = [name for names in nodes_in.values() for name in names]
        names = self._ranked(nodes_in)
        return DomainOptions(
            tuple(self._within(name, nodes_in.get(name, [])) for name in names),
            self._within("", every),
        )

    def _within(self, domain: str, nodes: Sequence[NodeId]) -> NodeAffinity:
        """Return the strict rule that binds the guests to *nodes* of *domain*."""
        existing = self.rule.guests & self.snapshot.guests.keys()
        return NodeAffinity(
            guests=existing,
            nodes=dict.fromkeys(nodes, 0),
            name=f"{self.rule}: {self.rule.domain} {domain or 'unknown'}",
            origin=DOMAIN_ORIGIN,
            domain=self.rule.domain,
        )

    def _ranked(self, nodes_in: Mapping[str, Sequence[NodeId]]) -> list[str]:
        """Return the domains of *nodes_in* in order; without any, the unknown one.

        First are those with the most guests that cannot migrate, then those whose free
        memory holds the guests that are elsewhere, then those with the most guests that
        no other rule separates on their node, then those with the most guests.
        """
        guests = self._guests
        immovable = {each.id for each in guests if self._is_immovable(each)}
        separated = self._separated()
        located = [g for g in guests if not self.closed.issuperset(g.occupied_nodes)]

        def inside(domain: str) -> list[Guest]:
            there = frozenset(nodes_in[domain])
            return [g for g in located if not there.isdisjoint(g.occupied_nodes)]

        def rank(domain: str) -> tuple[int, bool, int, int, str]:
            there = {guest.id for guest in inside(domain)}
            outside = (guest for guest in guests if guest.id not in there)
            needed = sum(guest.usage.memory or 0 for guest in outside)
            return (
                -len(there & immovable),
                needed > sum(self._free_memory(nodes_in[domain])),
                -len(there - separated),
                -len(there),
                domain,
            )

        ranked = sorted(nodes_in, key=rank)
        common = [name for name in ranked if len(inside(name)) == len(located)]
        if located and common:
            return common[:1]
        return ranked or [""]

    def _separated(self) -> set[GuestId]:
        """Return the guests that share a node in spite of a strict anti-affinity."""
        found: set[GuestId] = set()
        for rule in self.snapshot.rules:
            if not (
                isinstance(rule, AntiAffinity) and rule.strict and rule.is_pairwise
            ):
                continue
            if rule.guests.isdisjoint(self.rule.guests):
                continue
            there: defaultdict[NodeId, set[GuestId]] = defaultdict(set)
            for name in rule.guests & self.snapshot.guests.keys():
                guest = self.snapshot.guests[name]
                if guest.is_active:
                    there[guest.node].add(name)
            found.update(*(each for each in there.values() if len(each) > 1))
        return found

    def _is_immovable(self, guest: Guest) -> bool:
        if guest.effective_mobility is Mobility.NONE or guest.managed_by is not None:
            return True
        return guest.id in self.excluded

    def _free_memory(self, names: Sequence[NodeId]) -> Iterator[int]:
        """Yield the unused memory of those of *names* that receive guests."""
        for name in names:
            node: Node = self.snapshot.nodes[name]
            is_open = node.online and name not in self.closed
            if is_open and node.capacity and node.usage.memory is not None:
                yield max(0, node.capacity.memory - node.usage.memory)


def chooses_domain(snapshot: Snapshot, closed: Collection[NodeId] = NO_NODES) -> bool:
    """Return whether a rule of *snapshot* binds guests to a domain by choice.

    Args:
        snapshot: The cluster.
        closed: Nodes whose guests need another one.
    """
    return any(is_choice(rule, snapshot, closed) for rule in snapshot.rules)


def other_domains(
    snapshot: Snapshot, closed: Collection[NodeId]
) -> tuple[Snapshot, ...] | None:
    """Return *snapshot* with each other choice of domains; None if they are too many.

    Args:
        snapshot: The cluster, with rules that bind guests to chosen domains.
        closed: Nodes whose guests need another one.
    """
    rows = [tuple(_alternatives(rule, snapshot, closed)) for rule in snapshot.rules]
    if prod(map(len, rows)) > MAX_COMBINATIONS:
        return None
    return tuple(
        replace(snapshot, rules=rules)
        for rules in product(*rows)
        if rules != snapshot.rules
    )


def ranked_choices(
    snapshot: Snapshot, guests: Collection[GuestId], most: int
) -> tuple[Snapshot, ...]:
    """Return *snapshot* with other choices of domains, the most promising first.

    Those of rules about *guests* are varied, all together if there are few
    combinations, otherwise one by one. The order of the domains is that in which they
    are chosen.

    Args:
        snapshot: The cluster, with rules that bind guests to chosen domains.
        guests: Guests of the rules whose domains are varied.
        most: Most snapshots to return.
    """
    rules = snapshot.rules
    own = tuple(rule for rule in rules if rule.origin != DOMAIN_ORIGIN)
    placed = replace(snapshot, rules=own)
    excluded = immovable_guests(placed).keys()
    options: dict[int, list[NodeAffinity]] = {}
    for index, (affinity, chosen) in enumerate(pairwise(rules), start=1):
        if isinstance(affinity, DomainAffinity) and isinstance(chosen, NodeAffinity):
            varies = not chosen.guests.isdisjoint(guests)
            if varies and is_choice(chosen, snapshot):
                found = _Candidates(affinity, placed, NO_NODES, excluded).options()
                others = [x for x in found.options if x.nodes != chosen.nodes]
                options[index] = [chosen, *others]
    return tuple(
        replace(
            snapshot,
            rules=tuple(changed.get(index, rule) for index, rule in enumerate(rules)),
        )
        for changed in islice(_changes(options), most)
    )


def _changes(
    options: Mapping[int, Sequence[NodeAffinity]],
) -> Iterator[Mapping[int, NodeAffinity]]:
    """Yield choices of *options*, by index, that differ from the first ones.

    The sum of their positions increases.
    """
    rows = [[*enumerate(each)] for each in options.values()]
    found: Iterable[tuple[tuple[int, NodeAffinity], ...]]
    if prod(map(len, rows)) <= MAX_COMBINATIONS:
        found = product(*rows)
    else:
        first = [row[0] for row in rows]
        found = (
            (*first[:place], option, *first[place + 1 :])
            for place, row in enumerate(rows)
            for option in row[1:]
        )
    ordered = sorted(found, key=lambda each: sum(position for position, _ in each))
    for each in ordered:
        if any(position for position, _ in each):
            yield {index: rule for index, (_, rule) in zip(options, each, strict=True)}


def _alternatives(
    rule: Rule, snapshot: Snapshot, closed: Collection[NodeId]
) -> Iterator[Rule]:
    """Yield *rule*, or one for each domain that it might choose."""
    if not (isinstance(rule, NodeAffinity) and is_choice(rule, snapshot, closed)):
        yield rule
        return
    for names in domain_nodes(snapshot, rule.domain).values():
        yield replace(rule, nodes=dict.fromkeys(names, 0))


def without_choices(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* without the rules that bind guests to a domain by choice.

    What is impossible in it is impossible with every choice.
    """
    if not chooses_domain(snapshot):
        return snapshot
    kept = (rule for rule in snapshot.rules if not is_choice(rule, snapshot))
    return replace(snapshot, rules=tuple(kept))
