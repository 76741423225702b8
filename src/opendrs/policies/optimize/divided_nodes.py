"""Division of the nodes between the two sides of a large anti-affinity.

The search keeps the two sides of a rule apart pair by pair. Where the pairs are too
many, it divides the nodes between the sides instead: a guest goes to no node of the
other side, and has a reason to leave one. A node belongs to the side with most guests
on it; one without any, to the side with more guests per node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from opendrs.arrays import MoveGroup
from opendrs.model import GuestId, MutualAntiAffinity
from opendrs.policies.optimize.encoding import EncodedCluster

MAX_PAIRS = 10_000  # of move groups of one rule; more are not considered one by one

Closed = frozenset[int]


@dataclass(frozen=True, slots=True)
class _Division:
    """A rule, and the nodes that are closed to each of its sides."""

    rule: MutualAntiAffinity
    to_guests: Closed
    to_others: Closed


class DividedNodes:
    """Nodes of the other side of the rules with too many pairs.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: EncodedCluster) -> None:
        self._cluster = cluster

    @staticmethod
    def applies_to(rule: MutualAntiAffinity, cluster: EncodedCluster) -> bool:
        """Return whether the nodes are divided between the sides of *rule*."""
        sides = (
            {cluster.group_of[name] for name in side if name in cluster.group_of}
            for side in (rule.guests, rule.other_guests)
        )
        one, other = map(len, sides)
        return one * other > MAX_PAIRS

    @property
    def is_strict(self) -> bool:
        """Return whether strict rules divide the nodes."""
        return any(each.rule.strict for each in self._divisions)

    def closed(self, group: MoveGroup) -> Closed:
        """Return the nodes that strict rules close to *group*."""
        found: set[int] = set()
        for each in self._divisions:
            if each.rule.strict:
                found |= _closed_to(group, each)
        return frozenset(found)

    def unwanted(self, group: MoveGroup) -> tuple[tuple[Closed, float], ...]:
        """Return the nodes that each soft rule closes to *group*, with its weight."""
        return tuple(
            (closed, each.rule.weight)
            for each in self._divisions
            if not each.rule.strict and (closed := _closed_to(group, each))
        )

    @cached_property
    def _divisions(self) -> tuple[_Division, ...]:
        return tuple(
            self._divide(rule)
            for rule in self._cluster.snapshot.rules
            if isinstance(rule, MutualAntiAffinity)
            and self.applies_to(rule, self._cluster)
        )

    def _divide(self, rule: MutualAntiAffinity) -> _Division:
        ours, theirs = self._count(rule.guests), self._count(rule.other_guests)
        has_more = ours.total() * len(theirs) > theirs.total() * len(ours)
        own = {
            node
            for node in range(len(self._cluster.node_ids))
            if ours[node] > theirs[node] or (has_more and ours[node] == theirs[node])
        }
        every = range(len(self._cluster.node_ids))
        return _Division(rule, frozenset(every) - own, frozenset(own))

    def _count(self, names: Iterable[GuestId]) -> Counter[int]:
        """Return the number of guests on each node that has any."""
        index, guests = self._cluster.arrays.index, self._cluster.snapshot.guests
        found = (guests[name] for name in names if name in guests)
        active = (guest for guest in found if guest.is_active)
        return Counter(
            index[node]
            for guest in active
            for node in guest.occupied_nodes
            if node in index
        )


def _closed_to(group: MoveGroup, division: _Division) -> Closed:
    names = {guest.id for guest in group}
    if not names.isdisjoint(division.rule.guests):
        return division.to_guests
    if not names.isdisjoint(division.rule.other_guests):
        return division.to_others
    return frozenset()
