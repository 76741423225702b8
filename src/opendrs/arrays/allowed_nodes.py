"""Allowed nodes of move groups, given the moves so far."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from functools import cached_property

import numpy as np

from opendrs.arrays.cluster import ClusterArrays, Indices
from opendrs.arrays.domain_occupancy import DomainCounts
from opendrs.arrays.move_groups import MoveGroup
from opendrs.arrays.placement_classes import Mask
from opendrs.model import GuestId
from opendrs.rules import NO_GUESTS

NO_NODES = 0  # class of the groups without an allowed node


class AllowedNodes:
    """Nodes that rules, hardware and other guests allow for each move group.

    Only groups with affinity or anti-affinity depend on other guests. The nodes of
    these guests are kept by guest and by node: all nodes of a group are compared with
    them at once, and after a move only the two nodes that it changes. The entry of the
    node of the group itself has no meaning.

    Args:
        cluster: The cluster before the moves.
    """

    def __init__(self, cluster: ClusterArrays) -> None:
        self._cluster, rules = cluster, cluster.rules
        self._relations = (rules.apart, rules.soft_apart, rules.soft_together)
        self._in_domains = DomainCounts(cluster.snapshot, rules)
        guests, index = cluster.snapshot.guests, cluster.index
        self._nodes_of: dict[GuestId, tuple[int, ...]] = {
            name: tuple(index[n] for n in guests[name].occupied_nodes if n in index)
            for relation in self._relations
            for name in relation
        }
        self._guests_on: list[set[GuestId]] = [set() for _ in cluster.node_ids]
        for name, nodes in self._nodes_of.items():
            for node in nodes:
                self._guests_on[node].add(name)

    def allowed_targets(self, group: int) -> Mask:
        """Return the nodes to which *group* may migrate, regardless of memory."""
        cluster, members = self._cluster, self._cluster.groups[group]
        rules, ids = cluster.rules, {guest.id for guest in members}
        allowed = cluster.classes.compatible(members)
        if not self._depends_on_others(members):
            return allowed
        allowed, home = allowed.copy(), int(self._node_of[group])
        if self._is_limited(members):
            nodes = cluster.node_ids
            allowed &= self._in_domains.allowed(members, nodes[home], nodes)
        for guest in ids:
            allowed[self._nodes_with(rules.apart.get(guest, NO_GUESTS))] = False
            others = rules.soft_apart.get(guest, NO_GUESTS)
            if others:
                count = self._count_on_nodes(others)
                allowed &= count <= count[home]
            others = rules.soft_together.get(guest, NO_GUESTS) - ids
            if others:
                count = self._count_on_nodes(others)
                allowed &= count >= count[home]
        return allowed

    def update_targets(self, group: int, row: Mask, changed: Iterable[int]) -> None:
        """Update *row*, the allowed nodes of *group*, after a move of another group.

        Args:
            group: Index of the group.
            row: Its allowed nodes before the move; shape (N,).
            changed: Source and target of the move.
        """
        cluster, members = self._cluster, self._cluster.groups[group]
        if self._is_limited(members) or any(
            self._has_soft_relation(guest.id) for guest in members
        ):
            row[:] = self.allowed_targets(group)
            return
        compatible, apart = cluster.classes.compatible(members), cluster.rules.apart
        for node in changed:
            row[node] = compatible[node] and all(
                self._guests_on[node].isdisjoint(apart.get(guest.id, NO_GUESTS))
                for guest in members
            )

    def record_move(self, group: int, target: int) -> None:
        """Record that *group* is on *target* now."""
        members, node_ids = self._cluster.groups[group], self._cluster.node_ids
        source = node_ids[self._node_of[group]]
        self._in_domains.move(members, source, node_ids[target])
        self._node_of[group] = target
        for guest in members:
            if guest.id in self._nodes_of:
                for node in self._nodes_of[guest.id]:
                    self._guests_on[node].discard(guest.id)
                self._nodes_of[guest.id] = (target,)
                self._guests_on[target].add(guest.id)

    def related_groups(self, group: int) -> set[int]:
        """Return the groups with a rule about neighbors in common with *group*."""
        group_of, rules = self._cluster.group_of, self._cluster.rules
        members = self._cluster.groups[group]
        related = self._related_guests(members)
        for guest in members:
            for index in rules.limits_of.get(guest.id, ()):
                related |= rules.domain_limits[index].guests - {guest.id}
        return {group_of[guest] for guest in related if guest in group_of}

    def by_class(self) -> tuple[Mask, Indices]:
        """Return the allowed nodes of each class, and the class of each group.

        The first class is `NO_NODES`. Groups whose allowed nodes do not depend on other
        guests share their placement class, and single guests with strict anti-affinity
        to the same guests as well. Others have a class of their own. The shapes are
        (C, N) and (G,).
        """
        rows = [np.zeros(len(self._cluster.node_ids), np.bool_)]
        number: dict[Hashable, int] = {}
        class_of = []
        for group, members in enumerate(self._cluster.groups):
            key = self._class_key(group, members)
            if key not in number:
                number[key] = len(rows)
                rows.append(self.allowed_targets(group))
            class_of.append(number[key])
        return np.array(rows), np.array(class_of, np.intp)

    def _class_key(self, group: int, members: MoveGroup) -> Hashable:
        """Return a value that groups with the same allowed nodes share."""
        placement = self._cluster.classes.class_of(members)
        if not self._depends_on_others(members):
            return placement
        name = members[0].id
        if (
            len(members) > 1
            or self._is_limited(members)
            or self._has_soft_relation(name)
        ):
            return group
        return placement, self._cluster.rules.apart[name]

    @cached_property
    def _node_of(self) -> Indices:
        """Node of each group now; shape (G,)."""
        return self._cluster.node_of.copy()

    def _depends_on_others(self, group: MoveGroup) -> bool:
        """Return True if the placement of other guests affects its allowed nodes."""
        ids = {guest.id for guest in group}
        return self._is_limited(group) or any(
            not relation.get(name, NO_GUESTS) <= ids
            for name in ids
            for relation in self._relations
        )

    def _is_limited(self, group: MoveGroup) -> bool:
        return any(guest.id in self._cluster.rules.limits_of for guest in group)

    def _has_soft_relation(self, guest: GuestId) -> bool:
        rules = self._cluster.rules
        return guest in rules.soft_apart or guest in rules.soft_together

    def _nodes_with(self, guests: Collection[GuestId]) -> list[int]:
        """Return the nodes of each of *guests*, one after the other."""
        nodes_of = self._nodes_of
        return [node for guest in guests for node in nodes_of[guest]]

    def _count_on_nodes(self, guests: Collection[GuestId]) -> Indices:
        """Return the number of *guests* on each node; shape (N,)."""
        count = len(self._cluster.node_ids)
        return np.bincount(np.array(self._nodes_with(guests), np.intp), minlength=count)

    def _related_guests(self, group: MoveGroup) -> set[GuestId]:
        """Return the guests with an affinity or anti-affinity to *group*."""
        return {
            other
            for guest in group
            for relation in self._relations
            for other in relation.get(guest.id, NO_GUESTS)
        } - {guest.id for guest in group}
