"""Allowed nodes of move groups, given the moves so far."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from opendrs.arrays.cluster import ClusterArrays, Indices
from opendrs.arrays.move_groups import MoveGroup
from opendrs.arrays.placement_classes import Mask
from opendrs.model import GuestId
from opendrs.rules import NO_GUESTS, affinity_conflict

NO_NODES = 0  # class of the groups without an allowed node


class AllowedNodes:
    """Nodes that rules, hardware and other guests allow for each move group.

    Only groups with affinity or anti-affinity depend on other guests, and only nodes
    with such guests can differ from the rest. So a large cluster is not checked node
    by node. The entry of the node of the group itself has no meaning.

    Args:
        cluster: The cluster before the moves.
    """

    def __init__(self, cluster: ClusterArrays) -> None:
        self._cluster, rules = cluster, cluster.rules
        self._relations = (rules.apart, rules.soft_apart, rules.soft_together)
        guests = cluster.snapshot.guests
        self._guests = {
            name: guests[name] for relation in self._relations for name in relation
        }

    def allowed_targets(self, group: int) -> Mask:
        """Return the nodes to which *group* may migrate, regardless of memory."""
        cluster, members = self._cluster, self._cluster.groups[group]
        compatible = cluster.classes.compatible(members)
        related = self._related_guests(members)
        if not related:
            return compatible
        current = tuple(self._guests.get(each.id, each) for each in members)
        contested = {
            cluster.index[node]
            for name in related
            for node in self._guests[name].occupied_nodes
            if node in cluster.index
        }
        allowed = compatible.copy()
        uncontested = compatible.copy()
        uncontested[[*contested, cluster.index[current[0].node]]] = False
        if uncontested.any():
            allowed[uncontested] = self._keeps_rules(
                current, int(np.argmax(uncontested))
            )
        for node in contested:
            allowed[node] = compatible[node] and self._keeps_rules(current, node)
        return allowed

    def record_move(self, group: int, target: int) -> None:
        """Record that *group* is on *target* now."""
        name = self._cluster.node_ids[target]
        for each in self._cluster.groups[group]:
            if each.id in self._guests:
                self._guests[each.id] = replace(each, node=name)

    def related_groups(self, group: int) -> set[int]:
        """Return the groups with an affinity or anti-affinity to *group*."""
        group_of = self._cluster.group_of
        related = self._related_guests(self._cluster.groups[group])
        return {group_of[guest] for guest in related if guest in group_of}

    def by_class(self) -> tuple[Mask, Indices]:
        """Return the allowed nodes of each class, and the class of each group.

        The first class is `NO_NODES`. A group has a class of its own if the placement
        of other guests affects its allowed nodes. The others share their placement
        class. The shapes are (C, N) and (G,).
        """
        rows = [np.zeros(len(self._cluster.node_ids), np.bool_)]
        number: dict[Hashable, int] = {}
        class_of = []
        for group, members in enumerate(self._cluster.groups):
            key = (
                group
                if self._related_guests(members)
                else self._cluster.classes.class_of(members)
            )
            if key not in number:
                number[key] = len(rows)
                rows.append(self.allowed_targets(group))
            class_of.append(number[key])
        return np.array(rows), np.array(class_of, np.intp)

    def _keeps_rules(self, group: MoveGroup, node: int) -> bool:
        name = self._cluster.node_ids[node]
        conflict = affinity_conflict(group, name, self._guests, self._cluster.rules)
        return conflict is None

    def _related_guests(self, group: MoveGroup) -> set[GuestId]:
        """Return the guests with an affinity or anti-affinity to *group*."""
        return {
            other
            for guest in group
            for relation in self._relations
            for other in relation.get(guest.id, NO_GUESTS)
        } - {guest.id for guest in group}
