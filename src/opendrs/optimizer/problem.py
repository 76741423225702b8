"""The placement problem: move groups on nodes, what is feasible, and what it costs.

G move groups run on N nodes, each takes some of R resources, and a search moves groups
so that the cost decreases. The same form serves clusters of virtual machines and machine
reassignment (Google ROADEF/EURO challenge 2012). All amounts are float64; costs of whole
numbers are exact below 2^53.

An assignment (the node of each group) is *feasible* when

* each group is on its origin, or on a node that its class allows;
* a node that received a group holds no more than its capacity; a node that only lost
groups may still hold more, as at the origin;
* groups of a strict set are on different nodes, except those of them that share their
origin;
* each set covers as many locations, and is near the sets it needs, as required;
* no budget is exceeded.

So the origin is always feasible; `overload_weight`, `placement_cost` and
`anti_affinity_weight` state how much the repair of what is wrong there is worth.

Source:
Google ROADEF/EURO challenge 2012, problem statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLists:
    """A list of indices for each of K things, one after another.

    Attributes:
        start: Where the list of each begins, and the end of the last; shape (K + 1,).
        items: The lists; shape (start[K],).
    """

    start: Indices
    items: Indices

    @classmethod
    def of(cls, lists: list[list[int]]) -> IndexLists:
        """Return *lists* as arrays."""
        ends = np.cumsum([0] + [len(each) for each in lists], dtype=np.int64)
        flat = [item for each in lists for item in each]
        return cls(start=ends, items=np.array(flat, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, index: int) -> Indices:
        return self.items[self.start[index] : self.start[index + 1]]

    def inverse(self, count: int) -> IndexLists:
        """Return for each of *count* items the lists it is in."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.start))
        start = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.items, minlength=count), out=start[1:])
        return IndexLists(
            start=start, items=owner[np.argsort(self.items, kind="stable")]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSets:
    """K groups of units with something in common; a unit may be in several.

    Attributes:
        members: The units of each group, each once.
        strict: Whether its units must stand on different nodes; shape (K,).
        anti_affinity_weight: Cost of each unit that shares a node with an earlier one of
            its group (units less distinct nodes); shape (K,).
        spread: In how many locations it must stand; shape (K,).
        needs: Groups of which one unit must stand in each neighbourhood in which
            the group has a unit.
    """

    members: IndexLists
    strict: Mask
    anti_affinity_weight: Floats
    spread: Indices
    needs: IndexLists

    @classmethod
    def anti_affine(
        cls, sets: list[list[int]], *, strict: bool = True, weight: float = 0.0
    ) -> GroupSets:
        """Return *sets* whose units are to stand on different nodes."""
        count = len(sets)
        return cls(
            members=IndexLists.of(sets),
            strict=np.full(count, strict),
            anti_affinity_weight=np.full(count, weight),
            spread=np.zeros(count, dtype=np.int64),
            needs=IndexLists.of([[]] * count),
        )

    def __len__(self) -> int:
        return len(self.strict)


def _floats(*shape: int) -> Floats:
    return np.zeros(shape)


def _indices(*values: int) -> Indices:
    return np.array(values, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioTerm:
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
        base_load: What is taken of each node in any case; shape (N, R).
        transient: Resources a unit that moves takes at its origin too; shape (R,).
        group_sets: Groups of units that stand apart, spread, or near others.
        location: The location of each node, from 0; shape (N,).
        neighborhood: The neighbourhood of each node, from 0; shape (N,).
        overload_weight: Cost of a unit of load over capacity; shape (R,).
        safety_capacity: The load from which excess costs; shape (N, R).
        excess_weight: Cost of a unit of load over safety; shape (N, R).
        target_load: The fraction of capacity all nodes should have as load; (R,).
        imbalance_weight: Cost of the square of the distance to it; shape (R,).
        ratio_terms: Proportions of free amounts.
        use_cost: Cost of a node on which any unit stands; shape (N,).
        placement_cost: Cost of a unit of each class on each node; shape (C, N), or None.
        move_cost: Cost of moving each unit away from its origin; shape (G,).
        pair_cost: Cost of a move from a node to a node; shape (N, N), or None.
        set_move_weight: Cost of each moved unit of the group with most moved.
        budget_weights: What budgets count of each unit that is moved; shape (B, G).
        budgets: The most that may be moved of each measure; shape (B,).

    Raises:
        ValueError: A shape does not fit, or a number is not one.
    """

    capacity: Floats
    demand: Floats
    origin: Indices
    class_of: Indices
    allowed: Mask
    base_load: Floats = field(default_factory=lambda: _floats(0, 0))
    transient: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    group_sets: GroupSets = field(default_factory=lambda: GroupSets.anti_affine([]))
    location: Indices = field(default_factory=_indices)
    neighborhood: Indices = field(default_factory=_indices)
    overload_weight: Floats = field(default_factory=lambda: _floats(0))
    safety_capacity: Floats = field(default_factory=lambda: _floats(0, 0))
    excess_weight: Floats = field(default_factory=lambda: _floats(0, 0))
    target_load: Floats = field(default_factory=lambda: _floats(0))
    imbalance_weight: Floats = field(default_factory=lambda: _floats(0))
    ratio_terms: tuple[RatioTerm, ...] = ()
    use_cost: Floats = field(default_factory=lambda: _floats(0))
    placement_cost: Floats | None = None
    move_cost: Floats = field(default_factory=lambda: _floats(0))
    pair_cost: Floats | None = None
    set_move_weight: float = 0.0
    budget_weights: Floats = field(default_factory=lambda: _floats(0, 0))
    budgets: Floats = field(default_factory=lambda: _floats(0))

    def __post_init__(self) -> None:
        for name, shape in self._expected_shapes().items():
            self._fill_or_check(name, shape)
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray) and np.isnan(value).any():
                raise ValueError(f"{each.name} has a value that is not a number")
        _require_in_range("origin", self.origin, self.node_count)
        _require_in_range("class_of", self.class_of, len(self.allowed))
        _require_in_range(
            "group_sets.members", self.group_sets.members.items, self.group_count
        )
        _require_in_range(
            "group_sets.needs", self.group_sets.needs.items, len(self.group_sets)
        )
        if (self.demand < 0).any():
            raise ValueError("demand has a value below 0")

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self.capacity)

    @property
    def resource_count(self) -> int:
        """How many resources there are."""
        return int(self.capacity.shape[1])

    @property
    def group_count(self) -> int:
        """How many units there are."""
        return len(self.demand)

    def _expected_shapes(self) -> dict[str, tuple[int, ...]]:
        nodes, resources, groups = (
            self.node_count,
            self.resource_count,
            self.group_count,
        )
        classes = len(self.allowed)
        return {
            "demand": (groups, resources),
            "origin": (groups,),
            "class_of": (groups,),
            "allowed": (classes, nodes),
            "base_load": (nodes, resources),
            "transient": (resources,),
            "location": (nodes,),
            "neighborhood": (nodes,),
            "overload_weight": (resources,),
            "safety_capacity": (nodes, resources),
            "excess_weight": (nodes, resources),
            "target_load": (resources,),
            "imbalance_weight": (resources,),
            "use_cost": (nodes,),
            "placement_cost": (classes, nodes),
            "move_cost": (groups,),
            "pair_cost": (nodes, nodes),
            "budget_weights": (len(self.budgets), groups),
        }

    def _fill_or_check(self, name: str, shape: tuple[int, ...]) -> None:
        """Fill in zeros where *name* was left out, and check its shape."""
        value = getattr(self, name)
        if value is None or value.shape == shape:
            return
        if value.size:
            raise ValueError(f"{name} has the shape {value.shape}, not {shape}")
        object.__setattr__(self, name, np.zeros(shape, dtype=value.dtype))


def _require_in_range(name: str, indices: Indices, count: int) -> None:
    """Raise ValueError unless all *indices* are in [0, count)."""
    if len(indices) and not (indices.min() >= 0 and indices.max() < count):
        raise ValueError(f"{name} has an index outside [0, {count})")


def freeze_groups(problem: Problem, groups: Sequence[int]) -> Problem:
    """Return *problem* with *groups* that stay at their origin."""
    chosen = list(groups)
    if not chosen:
        return problem
    class_of = problem.class_of.copy()
    classes = class_of[chosen]
    # A class of their own for each, so that what their place costs is kept.
    class_of[chosen] = len(problem.allowed) + np.arange(len(chosen))
    nowhere = np.zeros((len(chosen), problem.node_count), np.bool_)
    allowed = np.concatenate([problem.allowed, nowhere])
    placement_cost = problem.placement_cost
    if placement_cost is not None:
        placement_cost = np.concatenate([placement_cost, placement_cost[classes]])
    return replace(
        problem, class_of=class_of, allowed=allowed, placement_cost=placement_cost
    )
