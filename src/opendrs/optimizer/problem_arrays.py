"""Problem and solution state in the form that compiled functions read."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from opendrs.optimizer.problem import (
    Floats,
    GroupSets,
    IndexLists,
    Indices,
    Mask,
    Problem,
)

# Relative. The order of additions changes sums by less than this.
CAPACITY_SLACK = 1e-12

# Relative, larger: a false "does not fit" would exclude a node for good.
FIT_SLACK = 1e-9

# A value of type int64, not a literal: Numba compiles functions once per literal.
NONE = cast("int", np.int64(-1))
# Nodes times groups for which the fit table is built; one bit each.
MOST_PAIRS = 64_000_000


Bits = npt.NDArray[np.uint8]


class ProblemArrays(NamedTuple):
    """Constant data of a search.

    Fields that are not attributes of `Problem`:

    Attributes:
        limit: Capacity plus slack for rounding; shape (N, R).
        overfill_scale: Factor that makes amounts above the limit comparable; shape
            (R,).
        inverse_capacity: 1 / capacity, 0 without capacity; shape (N, R).
        demand, transient_demand, origin: With a last row for the group NONE.
        size_order: Groups by size, the smallest first; shape (G,).
        size_rank: Position of each group in `size_order`; shape (G,).
        swap_partners: Preferred partners for swaps of each group; shape (G, K), where K
            may be 0.
        movable: Groups that can run on a node other than their origin.
        fit_row: Row of each group in `fits`; shape (G,).
        fits: Nodes that can ever hold the groups of a row, eight in a byte, the first
            in its lowest bit: most reads are of another row, so the size matters.
        member_start, members: Groups of each set, as index lists.
        group_set_start, sets_of_group: Sets of each group, as index lists.
        domain: `Problem.domains`.
        partition, most: Row of `domain` and limit of each set.
        fixed_start, fixed: Domains of the fixed members of each set, as index lists.
        count_row: Row of each set in the counts of locations and neighborhoods, or
            NONE.
        need_start, needs: Sets that each set needs, as index lists.
        needed_start, needed_by: Inverse of `needs`, as index lists.
    """

    capacity: Floats
    base_load: Floats
    limit: Floats
    safety_capacity: Floats
    excess_weight: Floats
    overload_weight: Floats
    overfill_scale: Floats
    inverse_capacity: Floats
    target_load: Floats
    imbalance_weight: Floats
    ratio_first: Indices
    ratio_second: Indices
    ratio_target: Floats
    ratio_weight: Floats
    use_cost: Floats
    placement_cost: Floats
    pair_cost: Floats
    demand: Floats
    transient: Mask
    transient_demand: Floats
    size_order: Indices
    size_rank: Indices
    swap_partners: Indices
    origin: Indices
    class_of: Indices
    movable: Indices
    fit_row: Indices
    fits: Bits
    move_cost: Floats
    member_start: Indices
    members: Indices
    group_set_start: Indices
    sets_of_group: Indices
    strict: Mask
    anti_affinity_weight: Floats
    domain: Indices
    partition: Indices
    most: Indices
    fixed_start: Indices
    fixed: Indices
    spread: Indices
    count_row: Indices
    need_start: Indices
    needs: Indices
    needed_start: Indices
    needed_by: Indices
    location: Indices
    neighborhood: Indices
    budget_weights: Floats
    budgets: Floats
    set_move_weight: float
    has_load_cost: bool
    has_placement_cost: bool
    has_pair_cost: bool
    has_anti_affinity: bool


def problem_arrays(
    problem: Problem, swap_partners: Indices | None = None
) -> ProblemArrays:
    """Return *problem* as arrays, without preferred partners if they are None."""
    if swap_partners is None:
        swap_partners = np.zeros((problem.group_count, 0), dtype=np.int64)
    group_sets = problem.group_sets
    into = group_sets.members.inverse(problem.group_count)
    needed = group_sets.needs.inverse(len(group_sets))
    demand = np.vstack([problem.demand, np.zeros((1, problem.resource_count))])
    finite = np.where(np.isfinite(problem.capacity), problem.capacity, 0.0)
    mean = finite.mean(axis=0)
    scale = np.divide(1.0, mean, out=np.ones_like(mean), where=mean > 0)
    row, fits, elsewhere = _fit_table(problem)
    order = np.argsort(problem.demand @ scale, kind="stable")
    arrays = ProblemArrays(
        capacity=problem.capacity,
        base_load=problem.base_load,
        limit=problem.capacity + CAPACITY_SLACK * np.abs(problem.capacity),
        safety_capacity=problem.safety_capacity,
        excess_weight=problem.excess_weight,
        overload_weight=problem.overload_weight,
        overfill_scale=scale,
        inverse_capacity=_inverse(problem.capacity),
        target_load=problem.target_load,
        imbalance_weight=problem.imbalance_weight,
        ratio_first=_column([each.first for each in problem.ratio_terms]),
        ratio_second=_column([each.second for each in problem.ratio_terms]),
        ratio_target=np.array([each.target for each in problem.ratio_terms], float),
        ratio_weight=np.array([each.weight for each in problem.ratio_terms], float),
        use_cost=problem.use_cost,
        placement_cost=_or_zeros(problem.placement_cost),
        pair_cost=_or_zeros(problem.pair_cost),
        demand=demand,
        transient=problem.transient,
        transient_demand=demand * problem.transient,
        size_order=order,
        size_rank=np.argsort(order),
        swap_partners=swap_partners,
        origin=np.append(problem.origin, NONE),
        class_of=problem.class_of,
        movable=np.flatnonzero(elsewhere),
        fit_row=row,
        fits=fits,
        move_cost=problem.move_cost,
        member_start=group_sets.members.start,
        members=group_sets.members.items,
        group_set_start=into.start,
        sets_of_group=into.items,
        strict=group_sets.strict,
        anti_affinity_weight=group_sets.anti_affinity_weight,
        domain=problem.domains,
        partition=group_sets.partition,
        most=group_sets.most,
        fixed_start=group_sets.fixed.start,
        fixed=group_sets.fixed.items,
        spread=group_sets.spread,
        count_row=_count_rows(group_sets, needed),
        need_start=group_sets.needs.start,
        needs=group_sets.needs.items,
        needed_start=needed.start,
        needed_by=needed.items,
        location=problem.location,
        neighborhood=problem.neighborhood,
        budget_weights=problem.budget_weights,
        budgets=problem.budgets + CAPACITY_SLACK * np.abs(problem.budgets),
        set_move_weight=float(problem.set_move_weight),
        has_load_cost=bool(
            problem.overload_weight.any()
            or problem.imbalance_weight.any()
            or problem.ratio_terms
        ),
        has_placement_cost=problem.placement_cost is not None,
        has_pair_cost=problem.pair_cost is not None,
        has_anti_affinity=bool(group_sets.anti_affinity_weight.any()),
    )
    return ProblemArrays(*map(_c_contiguous, arrays))


def _c_contiguous(value: Any) -> Any:  # noqa: ANN401 - a field of the tables
    """Return an array in C order; other values unchanged."""
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value


def _column(values: list[int]) -> Indices:
    return np.array(values, dtype=np.int64)


def _or_zeros(values: Floats | None) -> Floats:
    return np.zeros((1, 1)) if values is None else values


def _inverse(capacity: Floats) -> Floats:
    return np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > 0)


def _fit_table(problem: Problem) -> tuple[Indices, Bits, Mask]:
    """Return the nodes that can ever hold each group.

    A displaced group keeps using transient resources at its origin. A node therefore
    never has more of them available than at the origin. In large problems there is one
    row per placement class.

    Returns:
        Row of each group; the nodes of each row as bits; True for the groups that can
        run on a node other than their origin.
    """
    class_of, allowed, origin = problem.class_of, problem.allowed, problem.origin
    bits = _pack_bits(allowed)
    elsewhere = allowed.sum(axis=1)[class_of] > allowed[class_of, origin]
    if problem.group_count * problem.node_count > MOST_PAIRS:
        return class_of, bits, elsewhere
    free = problem.capacity * (1 + FIT_SLACK) - problem.base_load
    held = np.where(problem.transient, problem.demand, 0.0)
    np.subtract.at(free, origin, held)
    # The others fit on every node, which is so for almost all groups.
    least = free.min(axis=0, initial=np.inf)
    large = np.flatnonzero((problem.demand > least).any(axis=1))
    fits = allowed[class_of[large]]
    for r in range(problem.resource_count):
        fits &= problem.demand[large, r, None] <= free[:, r]
    bits = bits[class_of]
    bits[large] = _pack_bits(fits)
    elsewhere[large] = fits.sum(axis=1) > fits[np.arange(len(large)), origin[large]]
    return np.arange(problem.group_count), bits, elsewhere


def _pack_bits(mask: Mask) -> Bits:
    return np.packbits(mask, axis=1, bitorder="little")


def _count_rows(group_sets: GroupSets, needed: IndexLists) -> Indices:
    """Return a row for each set whose locations are counted, else NONE."""
    counted = (group_sets.spread > 0) | (np.diff(group_sets.needs.start) > 0)
    counted |= np.diff(needed.start) > 0
    return np.where(counted, np.cumsum(counted) - 1, NONE)


Counts = npt.NDArray[np.int32]
COST = 0
MOST_MOVED, LOGGED, OVERFULL = range(3)


class SolutionState(NamedTuple):
    """Mutable data of a search.

    Attributes:
        node_of: Current node of each group; shape (G,).
        load: Load of each node; shape (N, R).
        left_behind: Transient demand of displaced groups at their origin; shape (N, R).
        node_cost: Cost of each node; shape (N,).
        overfill: Penalty of each node for amounts above its limits; shape (N,).
        group_count: Number of groups on each node; shape (N,).
        arrived_count: Number of groups on each node that came from other nodes; shape
            (N,).
        groups_on: Groups on each node, in the first `group_count` columns.
        slot: Column of each group in `groups_on`; shape (G,).
        moved_count: Number of displaced members of each set.
        moved_histogram: Number of sets with each number of displaced members.
        at_location: Members of each counted set at each location.
        location_count: Number of locations with members of each counted set.
        in_neighborhood: Members of each counted set in each neighborhood.
        spent: Use of each budget; shape (B,).
        totals: Total cost, at index COST.
        penalty: Penalty per unit above each limit; shape (N, R).
        counters: Values at the indices MOST_MOVED, LOGGED and OVERFULL.
        best: Best assignment so far; shape (G,).
        best_cost: Its cost; shape (1,).
        change_log: Groups that moved since `best` was stored.
        random_state: State of the random number generator; shape (1,).
    """

    node_of: Indices
    load: Floats
    left_behind: Floats
    node_cost: Floats
    overfill: Floats
    group_count: Indices
    arrived_count: Indices
    groups_on: Indices
    slot: Indices
    moved_count: Indices
    moved_histogram: Indices
    at_location: Counts
    location_count: Counts
    in_neighborhood: Counts
    spent: Floats
    totals: Floats
    penalty: Floats
    counters: Indices
    best: Indices
    best_cost: Floats
    change_log: Indices
    random_state: npt.NDArray[np.uint64]


def empty_state(arrays: ProblemArrays, seed: int, width: int) -> SolutionState:
    """Return an uninitialized state with *width* slots per node."""
    nodes, resources = arrays.capacity.shape
    groups, group_sets = len(arrays.move_cost), len(arrays.strict)
    rows = int(arrays.count_row.max(initial=-1)) + 1
    largest = int(np.diff(arrays.member_start).max(initial=0))
    return SolutionState(
        node_of=arrays.origin[:groups].copy(),
        load=np.zeros((nodes, resources)),
        left_behind=np.zeros((nodes, resources)),
        node_cost=np.zeros(nodes),
        overfill=np.zeros(nodes),
        group_count=np.zeros(nodes, dtype=np.int64),
        arrived_count=np.zeros(nodes, dtype=np.int64),
        groups_on=np.zeros((nodes, width), dtype=np.int64),
        slot=np.zeros(groups, dtype=np.int64),
        moved_count=np.zeros(group_sets, dtype=np.int64),
        moved_histogram=np.zeros(largest + 2, dtype=np.int64),
        at_location=_counts(rows, arrays.location),
        location_count=np.zeros(rows, dtype=np.int32),
        in_neighborhood=_counts(rows, arrays.neighborhood),
        spent=np.zeros(len(arrays.budgets)),
        totals=np.zeros(1),
        penalty=np.tile(arrays.overfill_scale, (nodes, 1)),
        counters=np.zeros(3, dtype=np.int64),
        best=arrays.origin[:groups].copy(),
        best_cost=np.array([np.inf]),
        change_log=np.zeros(groups + 1, dtype=np.int64),
        random_state=np.random.SeedSequence(seed).generate_state(1, np.uint64)
        | np.uint64(1),
    )


def _counts(rows: int, of: Indices) -> Counts:
    return np.zeros((rows, int(of.max(initial=0)) + 1), dtype=np.int32)
