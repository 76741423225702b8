"""Where units may stand, and what it costs: the problem a search is given.

One form for clusters of virtual machines and for machine reassignment (Google
ROADEF/EURO challenge 2012): G units stand on N nodes, each takes some of R
resources, and a search moves units so that the cost becomes less. All amounts are
float64; costs of whole numbers are exact below 2^53.

An assignment (the node of each unit) is *feasible* when

* each unit stands on its origin, or where its class is allowed;
* a node that has taken in a unit holds no more than its capacity; a node that has
  only given units away may still hold more, as it did at the origin;
* units of a strict group stand apart, but for those of them that stand on their
  common origin;
* a group stands in as many locations, and each group near what it needs, as asked;
* no budget is exceeded.

So the origin is feasible whatever is wrong with it, and what is wrong there is mended
for what `overload_weight`, `place_cost` and `apart_weight` say it is worth.

Source:
    Google ROADEF/EURO challenge 2012, problem statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from opendrs.policies.optimising.groups import Floats, Groups, Indices, Mask


def _floats(*shape: int) -> Floats:
    return np.zeros(shape)


def _indices(*values: int) -> Indices:
    return np.array(values, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Free amounts of two resources wanted in a proportion, on each node.

    Costs `weight * max(0, target * free(first) - free(second))`, where free is
    capacity less load.
    """

    first: int
    second: int
    target: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A placement to be improved, and what everything costs.

    The load of a node is its base and the demand of the units on it. It holds
    more: of transient resources also the demand of the units that have left it.
    Capacities bound what is held; load is what costs.

    Attributes:
        capacity: What each node holds at most; shape (N, R).
        demand: What each unit takes; shape (G, R), not negative.
        origin: The node each unit stands on now; shape (G,).
        class_of: The class of each unit; shape (G,). Units of a class may go to the
            same nodes.
        allowed: Where units of each class may go; shape (C, N).
        base: What is taken of each node in any case; shape (N, R).
        transient: Resources a unit that moves takes at its origin too; shape (R,).
        groups: Groups of units that stand apart, spread, or near others.
        location: The location of each node, from 0; shape (N,).
        neighbourhood: The neighbourhood of each node, from 0; shape (N,).
        overload_weight: Cost of a unit of load over capacity; shape (R,).
        safety: The load from which excess costs; shape (N, R).
        excess_weight: Cost of a unit of load over safety; shape (N, R).
        even_target: The fraction of capacity all nodes should have as load; (R,).
        even_weight: Cost of the square of the distance to it; shape (R,).
        balances: Proportions of free amounts.
        use_cost: Cost of a node on which any unit stands; shape (N,).
        place_cost: Cost of a unit of each class on each node; shape (C, N), or None.
        move_cost: Cost of moving each unit away from its origin; shape (G,).
        pair_cost: Cost of a move from a node to a node; shape (N, N), or None.
        group_move_weight: Cost of each moved unit of the group with most moved.
        measures: What budgets count of each unit that is moved; shape (B, G).
        budgets: The most that may be moved of each measure; shape (B,).

    Raises:
        ValueError: A shape does not fit, or a number is not one.
    """

    capacity: Floats
    demand: Floats
    origin: Indices
    class_of: Indices
    allowed: Mask
    base: Floats = field(default_factory=lambda: _floats(0, 0))
    transient: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    groups: Groups = field(default_factory=lambda: Groups.apart([]))
    location: Indices = field(default_factory=_indices)
    neighbourhood: Indices = field(default_factory=_indices)
    overload_weight: Floats = field(default_factory=lambda: _floats(0))
    safety: Floats = field(default_factory=lambda: _floats(0, 0))
    excess_weight: Floats = field(default_factory=lambda: _floats(0, 0))
    even_target: Floats = field(default_factory=lambda: _floats(0))
    even_weight: Floats = field(default_factory=lambda: _floats(0))
    balances: tuple[Balance, ...] = ()
    use_cost: Floats = field(default_factory=lambda: _floats(0))
    place_cost: Floats | None = None
    move_cost: Floats = field(default_factory=lambda: _floats(0))
    pair_cost: Floats | None = None
    group_move_weight: float = 0.0
    measures: Floats = field(default_factory=lambda: _floats(0, 0))
    budgets: Floats = field(default_factory=lambda: _floats(0))

    def __post_init__(self) -> None:
        for name, shape in self._shapes().items():
            self._fit(name, shape)
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray) and np.isnan(value).any():
                raise ValueError(f"{each.name} has a value that is not a number")
        _within("origin", self.origin, self.nodes)
        _within("class_of", self.class_of, len(self.allowed))
        _within("groups.members", self.groups.members.items, self.units)
        _within("groups.needs", self.groups.needs.items, len(self.groups))
        if (self.demand < 0).any():
            raise ValueError("demand has a value below 0")

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.capacity)

    @property
    def resources(self) -> int:
        """How many resources there are."""
        return int(self.capacity.shape[1])

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.demand)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        nodes, resources, units = self.nodes, self.resources, self.units
        classes = len(self.allowed)
        return {
            "demand": (units, resources),
            "origin": (units,),
            "class_of": (units,),
            "allowed": (classes, nodes),
            "base": (nodes, resources),
            "transient": (resources,),
            "location": (nodes,),
            "neighbourhood": (nodes,),
            "overload_weight": (resources,),
            "safety": (nodes, resources),
            "excess_weight": (nodes, resources),
            "even_target": (resources,),
            "even_weight": (resources,),
            "use_cost": (nodes,),
            "place_cost": (classes, nodes),
            "move_cost": (units,),
            "pair_cost": (nodes, nodes),
            "measures": (len(self.budgets), units),
        }

    def _fit(self, name: str, shape: tuple[int, ...]) -> None:
        """Fill in zeros where *name* was left out, and check its shape."""
        value = getattr(self, name)
        if value is None or value.shape == shape:
            return
        if value.size:
            raise ValueError(f"{name} has the shape {value.shape}, not {shape}")
        object.__setattr__(self, name, np.zeros(shape, dtype=value.dtype))


def _within(name: str, indices: Indices, count: int) -> None:
    """Raise ValueError unless all *indices* are in [0, count)."""
    if len(indices) and not (indices.min() >= 0 and indices.max() < count):
        raise ValueError(f"{name} has an index outside [0, {count})")
