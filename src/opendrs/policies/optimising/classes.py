"""Which nodes guests may go to, and which they had better: one row for each kind."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from opendrs.model import Guest, GuestId, NodeId, Snapshot
from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.units import Unit
from opendrs.rules import NOBODY, CompiledRules
from opendrs.rules.targets import UNLISTED

CLOSED = 0  # the class of units that may go nowhere


class Classes:
    """Rows of nodes, each for the units to which the same rules apply.

    Attributes:
        allowed: Where units of each class may go; shape (C, N).
        misplaced: How badly units of each class stand on each node: 1 where a
            strict rule forbids it, for what it says of the node or of a guest there
            that stays; shape (C, N).
        dispreferred: How far each node is from the best that soft rules and
            priorities leave, in [0, 1]; shape (C, N).

    Args:
        snapshot: The cluster.
        rules: Its rules.
        nodes: The nodes, in the order of the columns.
        closed: Nodes that take in nobody; shape (N,).
        staying: Guests that are not moved, by name.
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
        self._index = {name: place for place, name in enumerate(nodes)}
        self._staying = staying
        self._open = ~closed
        self._architecture = [snapshot.nodes[name].architecture for name in nodes]
        self._models = [snapshot.nodes[name].cpu_model for name in nodes]
        self._class_of: dict[Hashable, int] = {}
        self._suitable: dict[Hashable, Mask] = {}
        nobody = np.zeros(len(nodes), np.bool_)
        self._rows: list[tuple[Mask, Mask, Floats | None]] = [(nobody, nobody, None)]

    def of(self, unit: Unit) -> int:
        """Return the class of *unit*, made if there is none yet."""
        leader = unit[0].id
        avoided = self._avoided(unit)
        rankings = self._rules.rankings.get(leader, ())
        key = (
            self._hardware(unit),
            self._rules.nodes.get(leader),
            tuple(id(rule) for rule in rankings),
            avoided,
        )
        if key not in self._class_of:
            self._class_of[key] = len(self._rows)
            self._rows.append(self._row(unit, avoided))
        return self._class_of[key]

    @property
    def allowed(self) -> Mask:
        """Where units of each class may go; shape (C, N)."""
        return np.array([row[0] for row in self._rows])

    def place_cost(self, broken: float, soft: float) -> Floats | None:
        """Return what it costs that a unit of each class is on each node.

        None where no rule says anything that costs; shape (C, N) otherwise.
        """
        if not any(row[1].any() or row[2] is not None for row in self._rows):
            return None
        cost = np.array([row[1] for row in self._rows]) * broken
        for place, (_, _, dispreferred) in enumerate(self._rows):
            if dispreferred is not None:
                cost[place] += soft * dispreferred
        return cost

    def _hardware(self, unit: Unit) -> tuple[str | None, frozenset[str | None]]:
        models = frozenset(guest.cpu_model for guest in unit) - {None}
        return self._snapshot.nodes[unit[0].node].architecture, models

    def _row(
        self, unit: Unit, avoided: frozenset[int]
    ) -> tuple[Mask, Mask, Floats | None]:
        permitted = self._permitted(unit)
        permitted[list(avoided)] = False
        allowed = self._fitting(unit) & permitted
        return allowed, ~permitted, self._dispreferred(unit[0].id, allowed)

    def _fitting(self, unit: Unit) -> Mask:
        """Return the open nodes whose processors suit *unit*."""
        architecture, models = key = self._hardware(unit)
        if key not in self._suitable:
            same = [architecture in (None, a) or a is None for a in self._architecture]
            able = [models <= {model} for model in self._models]
            self._suitable[key] = self._open & np.array(same) & np.array(able)
        return self._suitable[key].copy()

    def _permitted(self, unit: Unit) -> Mask:
        """Return the nodes that strict rules permit to *unit*."""
        listed = self._rules.nodes.get(unit[0].id)
        if listed is None:
            return np.ones(len(self._index), np.bool_)
        row = np.zeros(len(self._index), np.bool_)
        row[self._places(listed)] = True
        return row

    def _places(self, names: Iterable[NodeId]) -> Indices:
        known = [self._index[name] for name in names if name in self._index]
        return np.array(known, np.int64)

    def _avoided(self, unit: Unit) -> frozenset[int]:
        """Return the nodes of those from whom *unit* must be apart, and who stay."""
        others = NOBODY.union(
            *(self._rules.apart.get(guest.id, NOBODY) for guest in unit)
        )
        return frozenset(
            self._index[where]
            for name in others
            if name in self._staying
            for where in self._staying[name].locations
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
