"""Guests that rules choose by tag, and nodes that they choose by label or group.

The rules of a snapshot name these guests and nodes. They are chosen again with each
observation, so that a new guest with a tag, or a new node with a label, joins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

from opendrs.model import (
    DERIVED_ORIGINS,
    EXCLUSIVE_ORIGIN,
    Affinity,
    AntiAffinity,
    DomainAffinity,
    GuestId,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
)
from opendrs.rules.domain_affinity import with_domain_rules

ChoosingRule = (
    Affinity | DomainAffinity | AntiAffinity | MutualAntiAffinity | NodeAffinity
)


def with_chosen(snapshot: Snapshot, closed: Collection[NodeId] = ()) -> Snapshot:
    """Return *snapshot* whose rules name the guests and nodes that they choose.

    A snapshot without such rules is returned unchanged.

    Args:
        snapshot: The cluster.
        closed: Nodes whose guests need another one, in any domain.
    """
    rules = choose(snapshot.rules, snapshot, closed)
    return snapshot if rules is snapshot.rules else replace(snapshot, rules=rules)


def with_rules(snapshot: Snapshot, rules: Iterable[Rule]) -> Snapshot:
    """Return *snapshot* with those of *rules* that it does not have yet."""
    chosen = _choose_names(tuple(rules), snapshot)
    added = [rule for rule in chosen if rule not in snapshot.rules]
    every = with_domain_rules((*snapshot.rules, *added), snapshot)
    return replace(snapshot, rules=every)


def choose(
    rules: tuple[Rule, ...], snapshot: Snapshot, closed: Collection[NodeId] = ()
) -> tuple[Rule, ...]:
    """Return *rules* with the guests and nodes of *snapshot* that they choose.

    After an exclusive rule follows the one that keeps all other guests off its nodes,
    and after an affinity within a domain the one that keeps its guests in a domain. The
    result is the same for rules that were returned before.

    Args:
        rules: The rules.
        snapshot: Guests and nodes among which they choose.
        closed: Nodes whose guests need another one, in any domain.
    """
    return with_domain_rules(_choose_names(rules, snapshot), snapshot, closed)


def _choose_names(rules: tuple[Rule, ...], snapshot: Snapshot) -> tuple[Rule, ...]:
    """Return *rules* with the names that they choose; themselves if none choose."""
    if not any(_chooses(rule) or rule.origin in DERIVED_ORIGINS for rule in rules):
        return rules
    return tuple(_chosen(rules, snapshot))


def _chooses(rule: Rule) -> bool:
    if isinstance(rule, NodeAffinity):
        return bool(rule.tags or rule.labels or rule.groups or rule.exclusive)
    if isinstance(rule, MutualAntiAffinity):
        return bool(rule.tags or rule.other_tags)
    kinds = Affinity | DomainAffinity | AntiAffinity
    return isinstance(rule, kinds) and bool(rule.tags)


class Choices:
    """Guests that rules choose by tag, and nodes by label or group.

    Args:
        snapshot: Guests and nodes among which they choose.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._nodes: dict[object, Mapping[NodeId, int]] = {}

    def guests(self, tags: frozenset[str]) -> frozenset[GuestId]:
        """Return the guests with one of *tags*."""
        return frozenset[GuestId]().union(*(self._by_tag.get(tag, ()) for tag in tags))

    def nodes(self, rule: NodeAffinity) -> Mapping[NodeId, int]:
        """Return the nodes that *rule* chooses, in order of name, each with priority 0.

        Rules with the same labels and groups share one mapping.
        """
        key = rule.labels, rule.groups
        if key not in self._nodes:
            chosen = sorted(
                name
                for name, node in self._snapshot.nodes.items()
                if not rule.labels.isdisjoint(node.labels)
                or not rule.groups.isdisjoint(node.groups)
            )
            self._nodes[key] = MappingProxyType(dict.fromkeys(chosen, 0))
        return self._nodes[key]

    @cached_property
    def _by_tag(self) -> Mapping[str, Sequence[GuestId]]:
        found: defaultdict[str, list[GuestId]] = defaultdict(list)
        for guest in self._snapshot.guests.values():
            for tag in guest.tags:
                found[tag].append(guest.id)
        return found


def _chosen(rules: Iterable[Rule], snapshot: Snapshot) -> Iterator[Rule]:
    choices = Choices(snapshot)
    for rule in rules:
        if rule.origin in DERIVED_ORIGINS:
            continue
        if not isinstance(rule, ChoosingRule) or not _chooses(rule):
            yield rule
            continue
        guests = rule.guests | choices.guests(rule.tags)
        if isinstance(rule, MutualAntiAffinity):
            guests -= rule.other_guests
            others = choices.guests(rule.other_tags) - guests
            yield replace(rule, guests=guests, other_guests=rule.other_guests | others)
            continue
        if not isinstance(rule, NodeAffinity):
            yield replace(rule, guests=guests)
            continue
        nodes = choices.nodes(rule)
        if rule.nodes and rule.nodes != nodes:  # equal if they were chosen before
            nodes = {**nodes, **rule.nodes}
        whole = replace(rule, guests=guests, nodes=nodes)
        yield whole
        if rule.exclusive:
            yield from _keep_off(whole, snapshot)


def _keep_off(rule: NodeAffinity, snapshot: Snapshot) -> Iterator[NodeAffinity]:
    """Yield the rule that the guests without *rule* are on none of its nodes."""
    others = frozenset(snapshot.guests.keys() - rule.guests)
    if others and rule.nodes.keys() & snapshot.nodes.keys():
        free = sorted(snapshot.nodes.keys() - rule.nodes.keys())
        yield NodeAffinity(
            guests=others,
            nodes=dict.fromkeys(free, 0),
            strict=rule.strict,
            weight=rule.weight,
            name=f"other guests keep off the nodes of {rule}",
            origin=EXCLUSIVE_ORIGIN,
        )
