"""Limits of the guests of a rule in each failure domain, such as a rack.

They are the anti-affinity rules that are not about pairs of guests on one node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from opendrs.model import AntiAffinity, Guest, GuestId, NodeId, Snapshot
from opendrs.rules.affinity_groups import GuestSet, existing_guests, maximum_matching

NO_DOMAIN = ""  # common domain of the nodes whose domain is unknown


@dataclass(frozen=True, slots=True)
class DomainLimit:
    """Most guests of a rule in each of its domains.

    Attributes:
        rule: The rule.
        guests: Guests of the rule that exist.
        domain_of: Domain of each node.
        nodes_in: Nodes of each domain.
    """

    rule: AntiAffinity
    guests: GuestSet
    domain_of: Mapping[NodeId, str]
    nodes_in: Mapping[str, Collection[NodeId]]

    def conflict(
        self,
        group: Sequence[Guest],
        node: NodeId,
        present: Mapping[NodeId, AbstractSet[GuestId]],
    ) -> str | None:
        """Return why *group* must not migrate to *node*, or None.

        A strict rule allows no arrival in a domain that is full then. A soft one allows
        it if there are not more guests too many than before.

        Args:
            group: Guests that migrate as one.
            node: Node to which they would migrate.
            present: Guests on each node.
        """
        target, most = self.domain_of[node], self.rule.max_guests
        arriving = [
            guest
            for guest in group
            if guest.id in self.guests and self.domain_of[guest.node] != target
        ]
        if not arriving:
            return None
        there = len(self._guests_in(target, present))
        more = excess(there + len(arriving), most) - excess(there, most)
        if not self.rule.strict:
            for source in {self.domain_of[guest.node] for guest in arriving}:
                count = len(self._guests_in(source, present))
                departing = sum(self.domain_of[g.node] == source for g in arriving)
                more -= excess(count, most) - excess(count - departing, most)
        if more <= 0:
            return None
        soft = "" if self.rule.strict else "soft "
        where = f" in {target or 'no'} {self.rule.domain}" if self.rule.domain else ""
        return f'{soft}limit of {most}{where} by the rule "{self.rule}"'

    def _guests_in(
        self, domain: str, present: Mapping[NodeId, AbstractSet[GuestId]]
    ) -> GuestSet:
        none: GuestSet = frozenset()
        return none.union(
            *(self.guests & present.get(node, none) for node in self.nodes_in[domain])
        )


def excess(count: int, most: int) -> int:
    """Return how many of *count* guests are above *most*."""
    return max(0, count - most)


def domain_limits(snapshot: Snapshot) -> tuple[DomainLimit, ...]:
    """Return the limits of the rules that can be violated, in their order."""
    found: list[DomainLimit] = []
    for rule in snapshot.rules:
        if not isinstance(rule, AntiAffinity) or rule.is_pairwise:
            continue
        guests = existing_guests(rule.guests, snapshot)
        if len(guests) > rule.max_guests:
            domain_of = domains(snapshot, rule.domain)
            nodes_in: defaultdict[str, set[NodeId]] = defaultdict(set)
            for node, domain in domain_of.items():
                nodes_in[domain].add(node)
            found.append(DomainLimit(rule, guests, domain_of, nodes_in))
    return tuple(found)


def domains(snapshot: Snapshot, key: str) -> dict[NodeId, str]:
    """Return the domain of each node; without a *key*, each node is its own.

    The nodes whose domain is unknown have the domain `NO_DOMAIN`.
    """
    if not key:
        return {name: str(name) for name in snapshot.nodes}
    return {
        name: node.domain(key) or NO_DOMAIN for name, node in snapshot.nodes.items()
    }


def limits_of_guests(
    limits: Iterable[DomainLimit],
) -> dict[GuestId, tuple[int, ...]]:
    """Return the indices of the limits that count each guest."""
    found: defaultdict[GuestId, list[int]] = defaultdict(list)
    for index, limit in enumerate(limits):
        for guest in limit.guests:
            found[guest].append(index)
    return {guest: tuple(indices) for guest, indices in found.items()}


def most_in_domains(
    rule: AntiAffinity,
    snapshot: Snapshot,
    nodes_of: Mapping[GuestId, Collection[NodeId]],
) -> int:
    """Return the most guests that can be placed within the limit of *rule*.

    Args:
        rule: The rule.
        snapshot: The cluster.
        nodes_of: Nodes that each guest may be on.
    """
    domain_of, count = domains(snapshot, rule.domain), len(nodes_of)
    domains_of = {
        guest: frozenset(domain_of[node] for node in nodes)
        for guest, nodes in nodes_of.items()
    }
    distinct = {*domains_of.values()}
    if len(distinct) <= 1:
        return min(count, rule.max_guests * sum(map(len, distinct)))
    places = range(min(rule.max_guests, count))
    return maximum_matching(
        {
            guest: frozenset(
                NodeId(f"{each} {place}") for each in names for place in places
            )
            for guest, names in domains_of.items()
        }
    )
