"""A problem and a solution as compiled functions read them: arrays and numbers only."""

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

CAPACITY_SLACK = (
    1e-12  # relative; sums of the same amounts in another order differ by less
)

FIT_SLACK = 1e-9  # relative; of sums of many, where too little room would be too strict


# A constant of this type, not of its value, or each function that is given it as an
# argument would be compiled once more for it.
NONE = cast("int", np.int64(-1))
MOST_PAIRS = 64_000_000  # of units and nodes; a byte each


class ProblemArrays(NamedTuple):
    """What does not change during a search.

    Names are as in `Problem`, and: limit: capacity with room for rounding; held: what
    each unit takes of transient resources; order and rank: units by size; movable:
    units that can be elsewhere; fit_row and fits: the row of each unit in a table of
    the nodes that could ever take it in;
    overfill_scale: makes amounts over the limit comparable; inverse_capacity: the inverse of
    capacity; sets_of_group: the groups of each unit; row_of: the row of a group in the
    counts of locations and neighbourhoods, or NONE; needed_by: the inverse of needs.
    The demand, what is held and the origin of NONE stand in the last row.
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
    origin: Indices
    class_of: Indices
    movable: Indices
    fit_row: Indices
    fits: Mask
    move_cost: Floats
    member_start: Indices
    members: Indices
    group_set_start: Indices
    sets_of_group: Indices
    strict: Mask
    anti_affinity_weight: Floats
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


def problem_arrays(problem: Problem) -> ProblemArrays:
    """Return *problem* as tables."""
    group_sets = problem.group_sets
    into = group_sets.members.inverse(problem.group_count)
    needed = group_sets.needs.inverse(len(group_sets))
    demand = np.vstack([problem.demand, np.zeros((1, problem.resource_count))])
    finite = np.where(np.isfinite(problem.capacity), problem.capacity, 0.0)
    mean = finite.mean(axis=0)
    scale = np.divide(1.0, mean, out=np.ones_like(mean), where=mean > 0)
    row, fits = _fit_table(problem)
    elsewhere = fits.sum(axis=1)[row] > fits[row, problem.origin]
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
    """Return an array in C order, as compiled functions take it."""
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value


def _column(values: list[int]) -> Indices:
    return np.array(values, dtype=np.int64)


def _or_zeros(values: Floats | None) -> Floats:
    return np.zeros((1, 1)) if values is None else values


def _inverse(capacity: Floats) -> Floats:
    return np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > 0)


def _fit_table(problem: Problem) -> tuple[Indices, Mask]:
    """Return a row for each unit, and which nodes could ever take in those of a row.

    What units hold of transient resources where they come from they hold for good:
    whatever is moved, a node can take in no more of them than it has left at first. In
    large problems only classes are told apart.
    """
    if problem.group_count * problem.node_count > MOST_PAIRS:
        return problem.class_of, problem.allowed
    free = problem.capacity * (1 + FIT_SLACK) - problem.base_load
    held = np.where(problem.transient, problem.demand, 0.0)
    np.subtract.at(free, problem.origin, held)
    fits = problem.allowed[problem.class_of]
    for r in range(problem.resource_count):
        fits &= problem.demand[:, r, None] <= free[:, r]
    return np.arange(problem.group_count), fits


def _count_rows(group_sets: GroupSets, needed: IndexLists) -> Indices:
    """Return a row for each group whose whereabouts are counted, else NONE."""
    counted = (group_sets.spread > 0) | (np.diff(group_sets.needs.start) > 0)
    counted |= np.diff(needed.start) > 0
    return np.where(counted, np.cumsum(counted) - 1, NONE)


Counts = npt.NDArray[np.int32]
COST = 0
MOST_MOVED, LOGGED, OVERFULL = range(3)


class SolutionState(NamedTuple):
    """What a search changes.

    node_of: the node of each unit; load and left: what each node bears, and what it
    holds of units that have left it; node_cost and overfill: what that comes to;
    group_count and received: units on each node, and those that came from elsewhere;
    standing and slot: the units on each node, and where among them each unit is;
    moved and histogram: moved units of each group, and how many groups have so many;
    at_location, locations and near: where the counted groups stand; spent: of each
    budget; sums: COST; price: of what is over the limit of each node;
    counters: MOST_MOVED, LOGGED and
    OVERFULL nodes; best and best_cost: the best assignment; log: units moved since
    then; dice: the state of the random numbers.
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
    """Return a state with room for *width* units on each node, yet to be filled."""
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
