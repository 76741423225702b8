"""A problem as the compiled functions read it: arrays and numbers only."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from opendrs.policies.optimising.groups import Floats, Groups, Indices, Lists, Mask
from opendrs.policies.optimising.problem import Problem

SLACK = 1e-12  # relative; sums of the same amounts in another order differ by less
ROUNDING = 1e-9  # relative; of sums of many, where too little room would be too strict
# A constant of this type, not of its value, or each function that is given it as an
# argument would be compiled once more for it.
NONE = cast("int", np.int64(-1))
MOST_PAIRS = 64_000_000  # of units and nodes; a byte each


class Tables(NamedTuple):
    """What does not change during a search.

    Names are as in `Problem`, and: limit: capacity with room for rounding; held: what
    each unit takes of transient resources; order and rank: units by size; movable:
    units that can be elsewhere; fit_row and fits: the row of each unit in a table of
    the nodes that could ever take it in;
    overfill_scale: makes amounts over the limit comparable; even_slope: the inverse of
    capacity; unit_groups: the groups of each unit; row_of: the row of a group in the
    counts of locations and neighbourhoods, or NONE; needed_by: the inverse of needs.
    The demand, what is held and the origin of NONE stand in the last row.
    """

    capacity: Floats
    base: Floats
    limit: Floats
    safety: Floats
    excess_weight: Floats
    overload_weight: Floats
    overfill_scale: Floats
    even_slope: Floats
    even_target: Floats
    even_weight: Floats
    balance_first: Indices
    balance_second: Indices
    balance_target: Floats
    balance_weight: Floats
    use_cost: Floats
    place_cost: Floats
    pair_cost: Floats
    demand: Floats
    transient: Mask
    held: Floats
    order: Indices
    rank: Indices
    origin: Indices
    class_of: Indices
    movable: Indices
    fit_row: Indices
    fits: Mask
    move_cost: Floats
    member_start: Indices
    members: Indices
    group_start: Indices
    unit_groups: Indices
    strict: Mask
    apart_weight: Floats
    spread: Indices
    row_of: Indices
    need_start: Indices
    needs: Indices
    needed_start: Indices
    needed_by: Indices
    location: Indices
    neighbourhood: Indices
    measures: Floats
    budgets: Floats
    group_move_weight: float
    has_goals: bool
    has_place: bool
    has_pair: bool
    has_apart: bool


def tables_of(problem: Problem) -> Tables:
    """Return *problem* as tables."""
    groups = problem.groups
    into = groups.members.inverse(problem.units)
    needed = groups.needs.inverse(len(groups))
    demand = np.vstack([problem.demand, np.zeros((1, problem.resources))])
    finite = np.where(np.isfinite(problem.capacity), problem.capacity, 0.0)
    mean = finite.mean(axis=0)
    scale = np.divide(1.0, mean, out=np.ones_like(mean), where=mean > 0)
    row, fits = _fits(problem)
    elsewhere = fits.sum(axis=1)[row] > fits[row, problem.origin]
    order = np.argsort(problem.demand @ scale, kind="stable")
    tables = Tables(
        capacity=problem.capacity,
        base=problem.base,
        limit=problem.capacity + SLACK * np.abs(problem.capacity),
        safety=problem.safety,
        excess_weight=problem.excess_weight,
        overload_weight=problem.overload_weight,
        overfill_scale=scale,
        even_slope=_inverse(problem.capacity),
        even_target=problem.even_target,
        even_weight=problem.even_weight,
        balance_first=_column([each.first for each in problem.balances]),
        balance_second=_column([each.second for each in problem.balances]),
        balance_target=np.array([each.target for each in problem.balances], float),
        balance_weight=np.array([each.weight for each in problem.balances], float),
        use_cost=problem.use_cost,
        place_cost=_or_nothing(problem.place_cost),
        pair_cost=_or_nothing(problem.pair_cost),
        demand=demand,
        transient=problem.transient,
        held=demand * problem.transient,
        order=order,
        rank=np.argsort(order),
        origin=np.append(problem.origin, NONE),
        class_of=problem.class_of,
        movable=np.flatnonzero(elsewhere),
        fit_row=row,
        fits=fits,
        move_cost=problem.move_cost,
        member_start=groups.members.start,
        members=groups.members.items,
        group_start=into.start,
        unit_groups=into.items,
        strict=groups.strict,
        apart_weight=groups.apart_weight,
        spread=groups.spread,
        row_of=_rows(groups, needed),
        need_start=groups.needs.start,
        needs=groups.needs.items,
        needed_start=needed.start,
        needed_by=needed.items,
        location=problem.location,
        neighbourhood=problem.neighbourhood,
        measures=problem.measures,
        budgets=problem.budgets + SLACK * np.abs(problem.budgets),
        group_move_weight=float(problem.group_move_weight),
        has_goals=bool(
            problem.overload_weight.any()
            or problem.even_weight.any()
            or problem.balances
        ),
        has_place=problem.place_cost is not None,
        has_pair=problem.pair_cost is not None,
        has_apart=bool(groups.apart_weight.any()),
    )
    return Tables(*map(_in_order, tables))


def _in_order(value: Any) -> Any:  # noqa: ANN401 - a field of the tables
    """Return an array in C order, as compiled functions take it."""
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value


def _column(values: list[int]) -> Indices:
    return np.array(values, dtype=np.int64)


def _or_nothing(values: Floats | None) -> Floats:
    return np.zeros((1, 1)) if values is None else values


def _inverse(capacity: Floats) -> Floats:
    return np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > 0)


def _fits(problem: Problem) -> tuple[Indices, Mask]:
    """Return a row for each unit, and which nodes could ever take in those of a row.

    What units hold of transient resources where they come from they hold for good:
    whatever is moved, a node can take in no more of them than it has left at first. In
    large problems only classes are told apart.
    """
    if problem.units * problem.nodes > MOST_PAIRS:
        return problem.class_of, problem.allowed
    room = problem.capacity * (1 + ROUNDING) - problem.base
    held = np.where(problem.transient, problem.demand, 0.0)
    np.subtract.at(room, problem.origin, held)
    fits = problem.allowed[problem.class_of]
    for r in range(problem.resources):
        fits &= problem.demand[:, r, None] <= room[:, r]
    return np.arange(problem.units), fits


def _rows(groups: Groups, needed: Lists) -> Indices:
    """Return a row for each group whose whereabouts are counted, else NONE."""
    counted = (groups.spread > 0) | (np.diff(groups.needs.start) > 0)
    counted |= np.diff(needed.start) > 0
    return np.where(counted, np.cumsum(counted) - 1, NONE)
