"""Placement classes: allowed and preferred nodes, one row per class."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from opendrs.arrays import MoveGroup
from opendrs.model import Guest, GuestId, NodeId, Snapshot
from opendrs.optimizer import Floats, Indices, Mask
from opendrs.rules import NO_GUESTS, UNLISTED, CompiledRules

NO_TARGETS = 0  # class of groups that may not leave their home


class PlacementClasses:
    """Rows of nodes for move groups with the same rules and hardware.

    Attributes:
        allowed: Allowed nodes of each class; shape (C, N).

    Args:
        snapshot: Cluster.
        rules: Compiled rules.
        nodes: Nodes in the order of the columns.
        closed: Nodes that receive no guest; shape (N,).
        staying: Guests that do not migrate, by name.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        nodes: Sequence[NodeId],
        closed: Mask,
        staying: Mapping[GuestId, Guest],
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._index = {name: index for index, name in enumerate(nodes)}
        self._staying = staying
        self._can_receive = ~closed
        self._architecture = [snapshot.nodes[name].architecture for name in nodes]
        self._models = [snapshot.nodes[name].cpu_model for name in nodes]
        self._class_of: dict[Hashable, int] = {}
        self._suitable: dict[Hashable, Mask] = {}
        empty = np.zeros(len(nodes), np.bool_)
        self._rows: list[tuple[Mask, Mask, Floats | None]] = [(empty, empty, None)]

    def class_of(self, group: MoveGroup) -> int:
        """Return the class of *group*; create it if necessary."""
        leader = group[0].id
        avoided = self._avoided(group)
        rankings = self._rules.rankings.get(leader, ())
        key = (
            self._hardware(group),
            self._rules.nodes.get(leader),
            tuple(id(rule) for rule in rankings),
            avoided,
        )
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
        node by soft rules, in [0, 1], costs *soft_rule*. None if no rule has a cost.
        """
        if not any(row[1].any() or row[2] is not None for row in self._rows):
            return None
        cost = np.array([row[1] for row in self._rows]) * violation
        for index, (_, _, dispreferred) in enumerate(self._rows):
            if dispreferred is not None:
                cost[index] += soft_rule * dispreferred
        return cost

    def _hardware(self, group: MoveGroup) -> tuple[str | None, frozenset[str | None]]:
        models = frozenset(guest.cpu_model for guest in group) - {None}
        return self._snapshot.nodes[group[0].node].architecture, models

    def _row(
        self, group: MoveGroup, avoided: frozenset[int]
    ) -> tuple[Mask, Mask, Floats | None]:
        permitted = self._permitted(group)
        permitted[list(avoided)] = False
        allowed = self._compatible(group) & permitted
        return allowed, ~permitted, self._dispreferred(group[0].id, allowed)

    def _compatible(self, group: MoveGroup) -> Mask:
        """Return the open nodes with hardware that is compatible with *group*."""
        architecture, models = key = self._hardware(group)
        if key not in self._suitable:
            same = [architecture in (None, a) or a is None for a in self._architecture]
            able = [models <= {model} for model in self._models]
            self._suitable[key] = self._can_receive & np.array(same) & np.array(able)
        return self._suitable[key].copy()

    def _permitted(self, group: MoveGroup) -> Mask:
        """Return the nodes that strict rules allow for *group*."""
        listed = self._rules.nodes.get(group[0].id)
        if listed is None:
            return np.ones(len(self._index), np.bool_)
        row = np.zeros(len(self._index), np.bool_)
        row[self._indices(listed)] = True
        return row

    def _indices(self, names: Iterable[NodeId]) -> Indices:
        known = [self._index[name] for name in names if name in self._index]
        return np.array(known, np.int64)

    def _avoided(self, group: MoveGroup) -> frozenset[int]:
        """Return the nodes of staying guests with anti-affinity to *group*."""
        others = NO_GUESTS.union(
            *(self._rules.apart.get(guest.id, NO_GUESTS) for guest in group)
        )
        return frozenset(
            self._index[where]
            for name in others
            if name in self._staying
            for where in self._staying[name].occupied_nodes
            if where in self._index
        )

    def _dispreferred(self, leader: GuestId, allowed: Mask) -> Floats | None:
        rankings = self._rules.rankings.get(leader)
        if rankings is None or not allowed.any():
            return None
        priority = np.array(
            [
                float(sum(rule.nodes.get(name, UNLISTED) for rule in rankings))
                for name in self._index
            ]
        )
        best = priority[allowed].max()
        span = best - priority.min()
        if span <= 0:
            return None
        away: Floats = np.clip((best - priority) / span, 0.0, 1.0)
        return away
