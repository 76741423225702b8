"""Placement problem: move groups on nodes, constraints and costs.

G move groups run on N nodes and use R resources. A search moves groups to reduce the
cost. The same form serves clusters of virtual machines and the machine reassignment
problem of the ROADEF/EURO challenge 2012. All amounts are float64; sums of whole
numbers are exact below 2^53.

An assignment (the node of each group) is *feasible* when all of these hold:

* Each group is on its origin or on a node that its placement class allows.
* A node that received a group holds at most its capacity. A node that only lost groups
  may still hold more, as it did at the origin.
* The groups of a strict set are on different nodes, except those that share their
  origin.
* Each set covers the required number of locations and has the sets that it needs in the
  same neighborhoods.
* No budget is exceeded.

The origin is therefore always feasible. `overload_weight`, `placement_cost` and
`anti_affinity_weight` determine how much a repair of its violations is worth.

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
    """K lists of indices in one array.

    Attributes:
        start: First position of each list in `items`, and the total; shape (K + 1,).
        items: The lists, one after another; shape (start[K],).
    """

    start: Indices
    items: Indices

    @classmethod
    def of(cls, lists: list[list[int]]) -> IndexLists:
        """Return *lists* in this form."""
        ends = np.cumsum([0] + [len(each) for each in lists], dtype=np.int64)
        flat = [item for each in lists for item in each]
        return cls(start=ends, items=np.array(flat, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, index: int) -> Indices:
        return self.items[self.start[index] : self.start[index + 1]]

    @property
    def owners(self) -> Indices:
        """Return the list that contains each of `items`; shape (start[K],)."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    def inverse(self, count: int) -> IndexLists:
        """Return for each of *count* items the lists that contain it."""
        owner = self.owners
        start = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.items, minlength=count), out=start[1:])
        return IndexLists(
            start=start, items=owner[np.argsort(self.items, kind="stable")]
        )


def _no_indices() -> Indices:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSets:
    """K sets of move groups with common constraints. Sets may overlap.

    Attributes:
        members: Move groups of each set, each once.
        strict: True if the members must run on different nodes; shape (K,).
        anti_affinity_weight: Cost of each member that shares a node with an earlier
            member of the set: members minus distinct nodes. With a limit, cost of each
            member above it in a domain. Shape (K,).
        spread: Least number of locations that the members must cover; shape (K,).
        needs: Sets that must have a member in each neighborhood in which this set has
            one.
        partition: Row of `Problem.domains` in which the members are counted; 0, also if
            empty, for single nodes; shape (K,).
        most: Members that share a domain without a cost; 1 if empty; shape (K,).
        fixed: Domain of each further member of each set, which does not move; none if
            empty.
    """

    members: IndexLists
    strict: Mask
    anti_affinity_weight: Floats
    spread: Indices
    needs: IndexLists
    partition: Indices = field(default_factory=_no_indices)
    most: Indices = field(default_factory=_no_indices)
    fixed: IndexLists = field(default_factory=lambda: IndexLists.of([]))

    def __post_init__(self) -> None:
        count = len(self.strict)
        if len(self.partition) != count:
            object.__setattr__(self, "partition", np.zeros(count, np.int64))
        if len(self.most) != count:
            object.__setattr__(self, "most", np.ones(count, np.int64))
        if len(self.fixed) != count:
            object.__setattr__(self, "fixed", IndexLists.of([[]] * count))

    @property
    def is_limited(self) -> Mask:
        """Return the sets with domains, or more than one member per node; shape (K,).

        They are not strict. What exceeds the limit of a domain has a cost.
        """
        fixed = np.diff(self.fixed.start) > 0
        limited: Mask = (self.partition > 0) | (self.most > 1) | fixed
        return limited

    @classmethod
    def anti_affine(
        cls, sets: list[list[int]], *, strict: bool = True, weight: float = 0.0
    ) -> GroupSets:
        """Return *sets* of groups with anti-affinity, strict or with a cost."""
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
    """Target ratio between the free amounts of two resources of each node.

    The cost of a node is `weight * max(0, target * free(first) - free(second))`, where
    free is capacity minus load.
    """

    first: int
    second: int
    target: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A placement to improve, with constraints and costs.

    The load of a node is its base load plus the demand of its groups. For transient
    resources a node also holds the demand of the groups that have left it. Capacities
    limit what a node holds; costs depend on the load.

    Attributes:
        capacity: Most that each node holds; shape (N, R).
        demand: Demand of each group; shape (G, R), not negative.
        origin: Current node of each group; shape (G,).
        class_of: Placement class of each group; shape (G,). Groups of a class have the
            same allowed nodes.
        allowed: Allowed nodes of each class; shape (C, N).
        base_load: Load of each node that no move changes; shape (N, R).
        transient: Resources that a displaced group also uses at its origin; shape (R,).
        group_sets: Sets of groups with anti-affinity, spread or dependencies.
        domains: Domain of each node in each partition, from 0. In the first, each node
            is alone. Shape (P, N).
        location: Location of each node, from 0; shape (N,).
        neighborhood: Neighborhood of each node, from 0; shape (N,).
        overload_weight: Cost per unit of load above capacity; shape (R,).
        safety_capacity: Load above which a node has an excess; shape (N, R).
        excess_weight: Cost per unit of load above the safety capacity; shape (N, R).
        target_load: Fraction of its capacity that each node is to be loaded; shape
            (R,).
        imbalance_weight: Cost of the squared deviation from the target; shape (R,).
        ratio_terms: Target ratios between free amounts.
        use_cost: Cost of each node with at least one group; shape (N,).
        placement_cost: Cost of a group of each class on each node; shape (C, N), or
            None.
        move_cost: Cost of each group that is not at its origin; shape (G,).
        pair_cost: Cost of a move from one node to another; shape (N, N), or None.
        set_move_weight: Cost of each displaced member of the set with most of them.
        budget_weights: Use of each budget by each displaced group; shape (B, G).
        budgets: Limit of each budget, inf for none; shape (B,).
        counts_moves: True for budgets that count moves, not amounts; shape (B,).

    Raises:
        ValueError: A shape does not match, an index is out of range, a demand is
            negative, or a value is NaN.
    """

    capacity: Floats
    demand: Floats
    origin: Indices
    class_of: Indices
    allowed: Mask
    base_load: Floats = field(default_factory=lambda: _floats(0, 0))
    transient: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    group_sets: GroupSets = field(default_factory=lambda: GroupSets.anti_affine([]))
    domains: Indices = field(default_factory=lambda: np.zeros((0, 0), np.int64))
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
    counts_moves: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def __post_init__(self) -> None:
        if not len(self.domains):
            object.__setattr__(self, "domains", np.arange(self.node_count)[None])
        for name, shape in self._expected_shapes().items():
            self._fill_or_check(name, shape)
        if not np.array_equal(self.domains[0], np.arange(self.node_count)):
            raise ValueError("domains[0]: expected each node alone")
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray) and np.isnan(value).any():
                raise ValueError(f"{each.name}: expected numbers, got NaN")
        _require_in_range("origin", self.origin, self.node_count)
        _require_in_range("class_of", self.class_of, len(self.allowed))
        _require_in_range(
            "group_sets.members", self.group_sets.members.items, self.group_count
        )
        _require_in_range(
            "group_sets.partition", self.group_sets.partition, len(self.domains)
        )
        _require_in_range(
            "group_sets.needs", self.group_sets.needs.items, len(self.group_sets)
        )
        if (self.demand < 0).any():
            raise ValueError(
                f"demand: expected at least 0, got {float(self.demand.min()):g}"
            )

    @property
    def node_count(self) -> int:
        """Number of nodes, N."""
        return len(self.capacity)

    @property
    def resource_count(self) -> int:
        """Number of resources, R."""
        return int(self.capacity.shape[1])

    @property
    def group_count(self) -> int:
        """Number of move groups, G."""
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
            "domains": (len(self.domains), nodes),
            "placement_cost": (classes, nodes),
            "move_cost": (groups,),
            "pair_cost": (nodes, nodes),
            "budget_weights": (len(self.budgets), groups),
            "counts_moves": (len(self.budgets),),
        }

    def _fill_or_check(self, name: str, shape: tuple[int, ...]) -> None:
        """Replace an omitted *name* by zeros, or check its shape."""
        value = getattr(self, name)
        if value is None or value.shape == shape:
            return
        if value.size:
            raise ValueError(f"{name}: expected shape {shape}, got {value.shape}")
        object.__setattr__(self, name, np.zeros(shape, dtype=value.dtype))


def _require_in_range(name: str, indices: Indices, count: int) -> None:
    """Raise ValueError unless all *indices* are in [0, count)."""
    if len(indices) and not (indices.min() >= 0 and indices.max() < count):
        raise ValueError(
            f"{name}: expected indices in [0, {count}), "
            f"got {int(indices.min())} to {int(indices.max())}"
        )


def freeze_groups(problem: Problem, groups: Sequence[int]) -> Problem:
    """Return *problem* with *groups* fixed at their origin."""
    chosen = list(groups)
    if not chosen:
        return problem
    class_of = problem.class_of.copy()
    classes = class_of[chosen]
    # Each gets a class of its own, which keeps its placement cost.
    class_of[chosen] = len(problem.allowed) + np.arange(len(chosen))
    nowhere = np.zeros((len(chosen), problem.node_count), np.bool_)
    allowed = np.concatenate([problem.allowed, nowhere])
    placement_cost = problem.placement_cost
    if placement_cost is not None:
        placement_cost = np.concatenate([placement_cost, placement_cost[classes]])
    return replace(
        problem, class_of=class_of, allowed=allowed, placement_cost=placement_cost
    )


def forbid_nodes(
    problem: Problem, groups: Sequence[int], nodes: Sequence[int] | Indices
) -> Problem:
    """Return *problem* in which each of *groups* may not move to its one of *nodes*.

    A group may stay at its origin.
    """
    chosen = list(groups)
    class_of = problem.class_of.copy()
    classes = class_of[chosen]
    class_of[chosen] = len(problem.allowed) + np.arange(len(chosen))
    rows = problem.allowed[classes]
    rows[np.arange(len(chosen)), nodes] = False
    allowed = np.concatenate([problem.allowed, rows])
    placement_cost = problem.placement_cost
    if placement_cost is not None:
        placement_cost = np.concatenate([placement_cost, placement_cost[classes]])
    return replace(
        problem, class_of=class_of, allowed=allowed, placement_cost=placement_cost
    )


def select_budgets(problem: Problem, rows: Indices) -> Problem:
    """Return *problem* with only the budgets *rows*."""
    return replace(
        problem,
        budget_weights=problem.budget_weights[rows],
        budgets=problem.budgets[rows],
        counts_moves=problem.counts_moves[rows],
    )


def without_unlimited_budgets(problem: Problem) -> Problem:
    """Return *problem* with only the budgets that have a limit."""
    finite = np.isfinite(problem.budgets)
    if finite.all():
        return problem
    return select_budgets(problem, np.flatnonzero(finite))
