"""Problems drawn at random that use every kind of constraint and of cost."""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.groups import Groups, Indices, Lists
from opendrs.policies.optimising.problem import Balance, Problem


def drawn_problem(seed: int, nodes: int = 6, units: int = 24) -> Problem:
    """Return a problem whose origin may have full nodes and broken groups."""
    draw = np.random.default_rng(seed)
    demand = draw.integers(0, 9, (units, 3)).astype(float)
    origin = draw.integers(0, nodes, units)
    capacity = draw.integers(20, 50, (nodes, 3)).astype(float)
    location = draw.integers(0, 3, nodes)
    neighbourhood = draw.integers(0, 2, nodes)
    class_of = draw.integers(0, 2, units)
    return Problem(
        capacity=capacity,
        demand=demand,
        origin=origin,
        class_of=class_of,
        allowed=draw.random((2, nodes)) < 0.8,
        base=draw.integers(0, 3, (nodes, 3)).astype(float),
        transient=np.array([True, False, False]) & (seed % 2 == 0),
        groups=_groups(draw, units, location[origin], neighbourhood[origin]),
        location=location,
        neighbourhood=neighbourhood,
        overload_weight=draw.integers(0, 9, 3).astype(float),
        safety=capacity / 2,
        excess_weight=draw.integers(0, 5, (nodes, 3)).astype(float),
        even_target=np.full(3, 0.6),
        even_weight=draw.integers(0, 20, 3).astype(float),
        balances=(Balance(first=0, second=1, target=2.0, weight=3.0),),
        use_cost=draw.integers(0, 9, nodes).astype(float),
        place_cost=draw.integers(0, 4, (2, nodes)).astype(float),
        move_cost=draw.integers(0, 4, units).astype(float),
        pair_cost=draw.integers(0, 4, (nodes, nodes)).astype(float),
        group_move_weight=2.0,
        measures=draw.integers(0, 3, (1, units)).astype(float),
        budgets=np.array([float(units)]),
    )


def _groups(
    draw: np.random.Generator, units: int, location: Indices, near: Indices
) -> Groups:
    """Return groups that overlap, asking for no more than holds at the origin."""
    count = 8
    lists = [
        sorted(draw.choice(units, size=draw.integers(1, 5), replace=False).tolist())
        for _ in range(count)
    ]
    whereabouts = [{int(near[unit]) for unit in each} for each in lists]
    needs = [
        [k for k in range(count) if k != j and whereabouts[j] <= whereabouts[k]][:2]
        for j in range(count)
    ]
    spread = [len({int(location[unit]) for unit in each}) for each in lists]
    return Groups(
        members=Lists.of(lists),
        strict=draw.random(count) < 0.5,
        apart_weight=draw.integers(0, 3, count).astype(float),
        spread=np.array(spread) - draw.integers(0, 2, count),
        needs=Lists.of(needs),
    )
