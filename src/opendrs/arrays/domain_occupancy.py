"""Guests of rules in failure domains, while groups move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.arrays.placement_classes import Mask
from opendrs.model import Guest, GuestId, NodeId, Snapshot
from opendrs.rules import CompiledRules, DomainLimit, excess

Domain = tuple[int, str]  # index of a limit in the compiled rules, and its domain


@dataclass(frozen=True, slots=True)
class DomainChange:
    """Change of the guests in domains when guests migrate to one node.

    Attributes:
        arrivals: Number of guests that join each domain.
        departures: Guests that leave each domain.
    """

    arrivals: dict[Domain, int]
    departures: dict[Domain, tuple[GuestId, ...]]


def domain_change(
    rules: CompiledRules, guests: Iterable[Guest], target: NodeId
) -> DomainChange:
    """Return the change of strict limits when *guests* migrate to *target*.

    A guest that migrates within a domain stays in it.
    """
    arrivals: dict[Domain, int] = {}
    departures: dict[Domain, tuple[GuestId, ...]] = {}
    for guest in guests:
        for index in rules.limits_of.get(guest.id, ()):
            limit = rules.domain_limits[index]
            source, there = limit.domain_of[guest.node], limit.domain_of[target]
            if limit.rule.strict and source != there:
                arrivals[index, there] = arrivals.get((index, there), 0) + 1
                left = departures.get((index, source), ())
                departures[index, source] = (*left, guest.id)
    return DomainChange(arrivals, departures)


def free_places(snapshot: Snapshot, rules: CompiledRules) -> dict[Domain, int]:
    """Return how many further guests each domain of a strict limit may hold.

    It is negative if the domain already holds too many.
    """
    counts = DomainCounts(snapshot, rules)
    return {
        (index, domain): limit.rule.max_guests - counts.count(index, domain)
        for index, limit in enumerate(rules.domain_limits)
        if limit.rule.strict
        for domain in limit.nodes_in
    }


class DomainCounts:
    """Number of guests of each domain limit in each domain.

    A migrating guest counts in the domains of both nodes.

    Args:
        snapshot: The cluster.
        rules: Its compiled rules.
    """

    def __init__(self, snapshot: Snapshot, rules: CompiledRules) -> None:
        self._rules = rules
        self._counts = [_count_guests(snapshot, each) for each in rules.domain_limits]

    def count(self, index: int, domain: str) -> int:
        """Return the number of guests of the limit *index* in *domain*."""
        return self._counts[index].get(domain, 0)

    def allowed(
        self, group: Sequence[Guest], home: NodeId, nodes: Sequence[NodeId]
    ) -> Mask:
        """Return which of *nodes* the limits allow for *group*, now on *home*."""
        mask = np.ones(len(nodes), np.bool_)
        for index in self._limits_of(group):
            limit = self._rules.domain_limits[index]
            size = sum(guest.id in limit.guests for guest in group)
            open_ = {
                domain: self._may_join(index, size, limit.domain_of[home], domain)
                for domain in limit.nodes_in
            }
            mask &= [open_[limit.domain_of[node]] for node in nodes]
        return mask

    def move(self, group: Sequence[Guest], source: NodeId, target: NodeId) -> None:
        """Move *group* from *source* to *target*."""
        for index in self._limits_of(group):
            limit, counts = self._rules.domain_limits[index], self._counts[index]
            size = sum(guest.id in limit.guests for guest in group)
            counts[limit.domain_of[source]] -= size
            there = limit.domain_of[target]
            counts[there] = counts.get(there, 0) + size

    def _may_join(self, index: int, size: int, home: str, domain: str) -> bool:
        if domain == home:
            return True
        rule = self._rules.domain_limits[index].rule
        there, most = self.count(index, domain), rule.max_guests
        more = excess(there + size, most) - excess(there, most)
        if not rule.strict:
            here = self.count(index, home)
            more -= excess(here, most) - excess(here - size, most)
        return more <= 0

    def _limits_of(self, group: Sequence[Guest]) -> list[int]:
        limits_of = self._rules.limits_of
        return sorted({each for guest in group for each in limits_of.get(guest.id, ())})


def _count_guests(snapshot: Snapshot, limit: DomainLimit) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in limit.guests:
        occupied = snapshot.guests[name].occupied_nodes
        for domain in {limit.domain_of[node] for node in occupied}:
            counts[domain] = counts.get(domain, 0) + 1
    return counts
