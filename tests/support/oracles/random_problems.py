"""Random problems with every kind of constraint and cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendrs.optimizer import GroupSets, IndexLists, Indices, Problem, RatioTerm


def random_problem(seed: int, nodes: int = 6, groups: int = 24) -> Problem:
    """Return a problem whose origin may have full nodes and violated sets."""
    draw = np.random.default_rng(seed)
    demand = draw.integers(0, 9, (groups, 3)).astype(float)
    origin = draw.integers(0, nodes, groups)
    capacity = draw.integers(20, 50, (nodes, 3)).astype(float)
    location = draw.integers(0, 3, nodes)
    neighborhood = draw.integers(0, 2, nodes)
    class_of = draw.integers(0, 2, groups)
    return Problem(
        capacity=capacity,
        demand=demand,
        origin=origin,
        class_of=class_of,
        allowed=draw.random((2, nodes)) < 0.8,
        base_load=draw.integers(0, 3, (nodes, 3)).astype(float),
        transient=np.array([True, False, False]) & (seed % 2 == 0),
        group_sets=_random_sets(draw, groups, location[origin], neighborhood[origin]),
        location=location,
        neighborhood=neighborhood,
        overload_weight=draw.integers(0, 9, 3).astype(float),
        safety_capacity=capacity / 2,
        excess_weight=draw.integers(0, 5, (nodes, 3)).astype(float),
        target_load=np.full(3, 0.6),
        imbalance_weight=draw.integers(0, 20, 3).astype(float),
        ratio_terms=(RatioTerm(first=0, second=1, target=2.0, weight=3.0),),
        use_cost=draw.integers(0, 9, nodes).astype(float),
        placement_cost=draw.integers(0, 4, (2, nodes)).astype(float),
        move_cost=draw.integers(0, 4, groups).astype(float),
        pair_cost=draw.integers(0, 4, (nodes, nodes)).astype(float),
        set_move_weight=2.0,
        budget_weights=draw.integers(0, 3, (1, groups)).astype(float),
        budgets=np.array([float(groups)]),
    )


def _random_sets(
    draw: np.random.Generator, groups: int, location: Indices, near: Indices
) -> GroupSets:
    """Return overlapping sets whose spread and needs hold at the origin."""
    count = 8
    lists = [
        sorted(draw.choice(groups, size=draw.integers(1, 5), replace=False).tolist())
        for _ in range(count)
    ]
    neighborhoods = [{int(near[group]) for group in each} for each in lists]
    needs = [
        [k for k in range(count) if k != j and neighborhoods[j] <= neighborhoods[k]][:2]
        for j in range(count)
    ]
    spread = [len({int(location[group]) for group in each}) for each in lists]
    return GroupSets(
        members=IndexLists.of(lists),
        strict=draw.random(count) < 0.5,
        anti_affinity_weight=draw.integers(0, 3, count).astype(float),
        spread=np.array(spread) - draw.integers(0, 2, count),
        needs=IndexLists.of(needs),
    )


def with_limits(problem: Problem, seed: int) -> Problem:
    """Return *problem* whose sets are not strict and have limits in three domains."""
    draw = np.random.default_rng(seed)
    sets = problem.group_sets
    count = len(sets)
    partition = draw.integers(0, 2, count)
    fixed = [draw.integers(0, 3, 2).tolist() if each else [] for each in partition]
    nodes = np.arange(problem.node_count)
    return replace(
        problem,
        domains=np.array([nodes, nodes % 3]),
        group_sets=replace(
            sets,
            strict=np.zeros(count, np.bool_),
            partition=partition,
            most=draw.integers(1, 4, count),
            fixed=IndexLists.of(fixed),
        ),
    )
