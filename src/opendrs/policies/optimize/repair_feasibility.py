"""Decision whether any plan could repair a violation of a strict rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from opendrs.arrays import MoveGroup
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Rule,
)
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.movable_groups import MovableGroups, units_of
from opendrs.policies.optimize.small_cluster import SmallCluster
from opendrs.rules import (
    AvailableMemory,
    Violation,
    domain_nodes,
    domains,
    is_choice,
    required_memory,
    usable_memory,
    without_choices,
)


class RepairFeasibility:
    """Decision whether a plan could repair a violation of a strict rule.

    In a small cluster, all placements that safe moves reach are examined. In a larger
    one, a plan may first move other guests away: a node can receive a guest if the
    hardware and the rules of this guest allow it, the memory suffices after all movable
    guests have left, and no guest with anti-affinity stays there.

    Args:
        cluster: Cluster before a plan.
        groups: Groups that may migrate, and skipped guests.
    """

    def __init__(self, cluster: EncodedCluster, groups: MovableGroups) -> None:
        self._cluster = cluster
        self._groups = groups
        self._snapshot = cluster.snapshot
        self._free = without_choices(cluster.snapshot)
        self._targets = cluster.feasibility
        self._fixed = groups.fixed

    @cached_property
    def small(self) -> SmallCluster | None:
        """All placements; None if they are too many."""
        return SmallCluster.of(self._cluster, self._groups)

    @cached_property
    def _domains_by_key(self) -> dict[str, Mapping[NodeId, str]]:
        """Domain of each node, by the key of anti-affinity rules."""
        return {
            rule.domain: domains(self._snapshot, rule.domain)
            for rule in self._snapshot.rules
            if isinstance(rule, AntiAffinity)
        }

    @cached_property
    def _unit_of(self) -> dict[GuestId, MoveGroup]:
        units = units_of(self._snapshot)
        return {guest.id: unit for unit in units for guest in unit}

    def is_repairable(self, violation: Violation) -> bool:
        """Return True if a plan could repair *violation*.

        Where guests may gather in one of several domains, each is considered.
        """
        if is_choice(violation.rule, self._snapshot):
            return self._can_share_domain(violation.rule)
        if self._free is self._snapshot and self.small is not None:
            return self.small.repairs(violation)
        if isinstance(violation.rule, Affinity):
            names = sorted(violation.guests)
            guests = [self._snapshot.guests[name] for name in names]
            return any(self._can_gather(guests, node) for node in self._snapshot.nodes)
        return any(
            self._can_leave(name, violation.rule) for name in sorted(violation.guests)
        )

    def _can_share_domain(self, rule: Rule) -> bool:
        """Return True if the guests that stay are in one of the domains of *rule*."""
        if not isinstance(rule, NodeAffinity):
            return False
        staying = {
            name
            for each in rule.guests & self._fixed
            if each in self._snapshot.guests and self._snapshot.guests[each].is_active
            for name in self._snapshot.guests[each].occupied_nodes
        }
        domains_of = domain_nodes(self._snapshot, rule.domain).values()
        return any(staying <= set(names) for names in domains_of)

    def _can_gather(self, guests: Sequence[Guest], node: NodeId) -> bool:
        displaced = [guest for guest in guests if guest.node != node]
        if any(guest.id in self._fixed for guest in displaced):
            return False
        movable = [guest for guest in guests if guest.id not in self._fixed]
        left = self._vacated[node].minus(required_memory(movable))
        known = (left.measured, left.committed, left.millicores)
        fits = min(each or 0.0 for each in known) >= 0
        return fits and all(self._can_receive(guest, node) for guest in displaced)

    def _can_leave(self, name: GuestId, rule: Rule) -> bool:
        unit = self._unit_of[name]
        nodes = rule.nodes if isinstance(rule, NodeAffinity) else self._snapshot.nodes
        others = [node for node in nodes if node in self._snapshot.nodes]
        if isinstance(rule, AntiAffinity):
            domain_of = self._domains_by_key[rule.domain]
            home = domain_of[unit[0].node]
            others = [node for node in others if domain_of[node] != home]
        return any(
            self._can_gather(unit, node) for node in others if node != unit[0].node
        )

    def _can_receive(self, guest: Guest, node: NodeId) -> bool:
        """Return True if *guest* could migrate to *node* after others have left it."""
        if not self._targets.is_suited(guest, self._snapshot.nodes[node]):
            return False
        for rule in self._free.rules:
            if not getattr(rule, "strict", False):
                continue
            if isinstance(rule, NodeAffinity) and guest.id in rule.guests:
                if guest.node in rule.nodes and node not in rule.nodes:
                    return False
            elif (
                isinstance(rule, AntiAffinity)
                and guest.id in rule.guests
                and not self._has_place(rule, guest, node)
            ) or (
                isinstance(rule, MutualAntiAffinity)
                and self._stays_opposite(rule, guest, node)
            ):
                return False
        return True

    def _stays_opposite(
        self, rule: MutualAntiAffinity, guest: Guest, node: NodeId
    ) -> bool:
        """Return True if a guest of the side opposite to *guest* stays on *node*."""
        opposite: frozenset[GuestId] = frozenset()
        if guest.id in rule.guests:
            opposite = rule.other_guests
        elif guest.id in rule.other_guests:
            opposite = rule.guests
        fixed = opposite & self._fixed
        others = (self._snapshot.guests.get(each) for each in fixed)
        return any(
            other is not None and node in other.occupied_nodes for other in others
        )

    def _has_place(self, rule: AntiAffinity, guest: Guest, node: NodeId) -> bool:
        """Return True if the guests that stay leave *guest* a place on *node*."""
        domain_of = self._domains_by_key[rule.domain]
        domain = domain_of[node]
        if rule.domain and domain_of[guest.node] == domain:
            return True
        others = (self._snapshot.guests.get(each) for each in rule.guests)
        staying = sum(
            other is not None
            and other.id != guest.id
            and other.id in self._fixed
            and domain in {domain_of[each] for each in other.occupied_nodes}
            for other in others
        )
        return staying < rule.max_guests

    @cached_property
    def _vacated(self) -> dict[NodeId, AvailableMemory]:
        """Memory of each node after all movable guests have left."""
        departing: defaultdict[NodeId, list[Guest]] = defaultdict(list)
        for guest in self._snapshot.guests.values():
            if guest.is_active and guest.id not in self._fixed:
                departing[guest.node].append(guest)
        return {
            name: left.plus(
                required_memory(departing[name]),
                usable_memory(self._snapshot.nodes[name], self._cluster.limits),
            )
            for name, left in self._targets.available_memory.items()
        }
