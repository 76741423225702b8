"""Allowed nodes of the move groups, and the costs of rules that prefer others."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from opendrs.arrays import MoveGroup
from opendrs.model import GuestId
from opendrs.optimizer import Floats, Mask
from opendrs.policies.optimize.divided_nodes import DividedNodes
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.rules import NO_GUESTS, node_priority

NO_TARGETS = 0  # class of groups that may not leave their home


class PlacementCosts:
    """Rows of nodes for move groups of one placement class.

    Groups of one class here also have the same nodes of guests that do not migrate and
    with which they must not share a node. A node whose memory is unknown receives no
    guest.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: EncodedCluster) -> None:
        arrays = cluster.arrays
        self._index, self._classes = arrays.index, arrays.classes
        self._rules = cluster.rules
        self._staying = {
            name: guest
            for name, guest in cluster.snapshot.guests.items()
            if guest.is_active and name not in cluster.group_of
        }
        self._divided = DividedNodes(cluster)
        self._names = frozenset(self._staying)
        self._can_receive = np.asarray(np.isfinite(arrays.available).all(axis=1))
        self._class_of: dict[Hashable, int] = {}
        empty = np.zeros(len(cluster.node_ids), np.bool_)
        self._rows: list[tuple[Mask, Mask, Floats | None]] = [(empty, empty, None)]

    def class_of(self, group: MoveGroup) -> int:
        """Return the class of *group*; create it if necessary."""
        avoided = self._avoided(group) | self._divided.closed(group)
        key = self._classes.class_of(group), avoided, self._divided.unwanted(group)
        if key not in self._class_of:
            self._class_of[key] = len(self._rows)
            self._rows.append(self._row(group, avoided))
        return self._class_of[key]

    @property
    def allowed(self) -> Mask:
        """Allowed nodes of each class; shape (C, N)."""
        return np.array([row[0] for row in self._rows])

    def placement_cost(self, violation: float, soft_rule: float) -> Floats | None:
        """Return the cost of each class on each node; shape (C, N).

        A node that strict rules forbid costs *violation*. The distance from the best
        node by soft rules, at most their weight, costs *soft_rule*. None if no rule has
        a cost.
        """
        if not any(row[1].any() or row[2] is not None for row in self._rows):
            return None
        cost = np.array([row[1] for row in self._rows]) * violation
        for index, (_, _, dispreferred) in enumerate(self._rows):
            if dispreferred is not None:
                cost[index] += soft_rule * dispreferred
        return cost

    def soft_costs(self, group: MoveGroup) -> Floats | None:
        """Return the distance of each node from the best one by soft rules; (N,).

        It is from 0 to their weight; None if no soft rule prefers a node for *group*.
        """
        return self._rows[self.class_of(group)][2]

    def _row(
        self, group: MoveGroup, avoided: frozenset[int]
    ) -> tuple[Mask, Mask, Floats | None]:
        """Return the allowed nodes, the forbidden ones and the dispreferred ones."""
        permitted = self._classes.permitted(group)
        permitted[list(avoided)] = False
        allowed = self._can_receive & self._classes.suited(group) & permitted
        dispreferred = self.dispreferred(group[0].id, allowed)
        for nodes, weight in self._divided.unwanted(group):
            if dispreferred is None:
                dispreferred = np.zeros(len(allowed))
            dispreferred[list(nodes)] += weight
        return allowed, ~permitted, dispreferred

    def _avoided(self, group: MoveGroup) -> frozenset[int]:
        """Return the nodes of staying guests with anti-affinity to *group*."""
        apart = [self._rules.apart.get(guest.id, NO_GUESTS) for guest in group]
        return frozenset(
            self._index[where]
            for names in apart
            if names
            for name in names & self._names
            for where in self._staying[name].occupied_nodes
            if where in self._index
        )

    def dispreferred(self, leader: GuestId, allowed: Mask) -> Floats | None:
        """Return the distance of each node from the best of the *allowed* ones.

        It is from 0 to the largest weight of a rule; None if no rule ranks nodes for
        the guest *leader*. Shape (N,).
        """
        rankings = self._rules.rankings.get(leader)
        if rankings is None or not allowed.any():
            return None
        priority = np.array([node_priority(rankings, name) for name in self._index])
        best = priority[allowed].max()
        span = best - priority.min()
        if span <= 0:
            return None
        away: Floats = np.clip((best - priority) / span, 0.0, 1.0)
        return away * max(rule.weight for rule in rankings)
