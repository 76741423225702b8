"""Lagrangian dual: lower bound of the imbalance when few groups move.

The relaxation separates the cluster into its nodes. The coupling constraints get
multipliers: budgets, arrivals (as many groups arrive as leave), and load (as much
arrives as leaves). At any multipliers the sum of the node subproblems is a bound. The
r-algorithm searches for the highest one.

Departures are enumerated as sets of whole groups. Of the smallest groups of a node,
only the most that they can take with them is considered. The arriving load of n groups
is n times the convex hull of the demands. Rules, capacities and allowed nodes are
ignored.

Source:
    Geoffrion, Lagrangean relaxation for integer programming (1974).
    Shor, Minimization methods for non-differentiable functions (1985).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from opendrs.optimizer.bounds.lagrangian.data import DIMENSIONS, BoundData, Multipliers
from opendrs.optimizer.bounds.lagrangian.subproblems import (
    MIN_IMPROVEMENT,
    DistanceNorm,
    SubproblemSolution,
    SubproblemSolver,
)
from opendrs.optimizer.problem import Floats, Mask, Problem

ConcaveFunction = Callable[[Floats], tuple[float, Floats]]
SPACE_DILATION = 0.5  # factor in the direction of the difference of two supergradients
STEP_GROWTH = 1.3  # factor of a further step that still ascends
STEP_REDUCTION = 0.8  # factor if the first step in a direction does not ascend
STEPS_PER_DIRECTION = 6  # most steps in one direction
INITIAL_STEP = 0.3  # relative to the given scale
MIN_STEP = 1e-5  # smallest step; the search ends below it
CHECK_INTERVAL = 10  # evaluations between two checks of the gain


@dataclass(frozen=True, slots=True)
class StopRule:
    """Stopping criterion of the maximization.

    Attributes:
        max_evaluations: Most points to evaluate.
        min_gain: Relative gain that CHECK_INTERVAL evaluations must achieve.
    """

    max_evaluations: int
    min_gain: float = 0.0


def maximize_concave(
    function: ConcaveFunction,
    start: Floats,
    scale: Floats,
    positive: Mask,
    stop: StopRule,
) -> tuple[float, Floats]:
    """Return the highest value found, and its point.

    Args:
        function: Returns the value at a point and a supergradient.
        start: Initial point; shape (D,).
        scale: Estimated distance to the maximum in each dimension; shape (D,).
        positive: Dimensions in which points must not be negative; shape (D,).
        stop: Stopping criterion.
    """

    def evaluate(point: Floats) -> tuple[float, Floats, Floats]:
        within = np.where(positive, np.maximum(point, 0.0), point)
        value, slope = function(within)
        return value, np.where(positive & (within <= 0) & (slope < 0), 0, slope), within

    space, step = np.diag(scale), INITIAL_STEP
    best, slope, point = evaluate(start)
    best_point = point
    evaluations = checked_at = 1
    checked_value = best
    while evaluations < stop.max_evaluations and step > MIN_STEP:
        if evaluations - checked_at >= CHECK_INTERVAL:
            if best - checked_value < stop.min_gain * abs(best):
                break
            checked_at, checked_value = evaluations, best
        along = space.T @ slope
        if not along.any():
            break
        direction = space @ (along / np.linalg.norm(along))
        before = slope
        for run in range(STEPS_PER_DIRECTION):
            value, slope, point = evaluate(point + step * direction)
            evaluations += 1
            if value > best:
                best, best_point = value, point
            if slope @ direction <= 0:
                step *= STEP_REDUCTION if run == 0 else 1.0
                break
            step *= STEP_GROWTH if run else 1.0
        turned = space.T @ (slope - before)
        if turned.any():
            turned /= np.linalg.norm(turned)
            space -= (1 - SPACE_DILATION) * np.outer(space @ turned, turned)
    return best, best_point


# Rounding error of the sums, subtracted to keep the bound valid.
RELATIVE_ROUNDING = 1e-12


class DualFunction:
    """Solutions of all node subproblems at given multipliers.

    Args:
        data: Nodes and groups.
        means: Lower and upper limit of the mean used fraction; shape (2, 2). Only loads
            within these limits are considered.
    """

    def __init__(self, data: BoundData, means: Floats) -> None:
        self._data = data
        self._means = means
        self._norm = DistanceNorm(data)
        self._last_solution = SubproblemSolution.empty(data.departures.empty_set)

    def evaluate(self, flat: Floats) -> tuple[float, Floats]:
        """Return the bound of the imbalance cost and its supergradient.

        If there are several supergradients, the result depends on earlier calls.

        Args:
            flat: Multipliers in one vector: budgets, arrival, load, mean.
        """
        prices, data = Multipliers.of(flat), self._data
        linear = prices.load + prices.mean * data.share / len(data.load)
        target = self._norm.target
        ideal = target - linear / (2 * self._norm.weight)
        linear_cost = (linear * (target + ideal) / 2).sum(axis=1)
        solver = SubproblemSolver(data, self._norm, prices, ideal, self._last_solution)
        solver.solve()
        self._last_solution = solver.solution
        means = np.where(prices.mean > 0, self._means[1], self._means[0])
        constant = prices.budgets @ data.budgets
        constant += prices.load @ data.load.sum(axis=0) + prices.mean @ means
        value = solver.cost.sum() + linear_cost.sum() - constant
        value -= RELATIVE_ROUNDING * (
            np.abs(solver.cost).sum() + np.abs(linear_cost).sum()
        )
        value -= MIN_IMPROVEMENT * len(linear_cost)
        supergradient = np.concatenate(
            [
                solver.budget_use() - data.budgets,
                [solver.solution.min_arrivals.sum() - solver.departure_count.sum()],
                (solver.load - data.load).sum(axis=0),
                (solver.load * data.share).mean(axis=0) - means,
            ]
        )
        return float(value), supergradient


# Fraction of the initial imbalance cost as price of a whole budget.
INITIAL_PRICE = 0.3


@dataclass(frozen=True, slots=True)
class DualBound:
    """Lower bound of the imbalance cost of every plan within the budgets.

    Attributes:
        cost: The bound.
        multipliers: Multipliers that give it, in one vector.
    """

    cost: float
    multipliers: Floats


def maximize_dual(
    data: BoundData,
    max_evaluations: int,
    means: Floats | None = None,
    start: Floats | None = None,
    *,
    min_gain: float = 0.0,
) -> DualBound:
    """Return the best bound found for the imbalance cost.

    Args:
        data: Nodes and groups.
        max_evaluations: Most multipliers to evaluate.
        means: Lower and upper limit of the mean used fraction; shape (2, 2). Only plans
            within these limits are considered. None is no limit.
        start: Initial multipliers, or None.
        min_gain: Relative gain that CHECK_INTERVAL evaluations must achieve (default 0:
            no early stop).
    """
    current_cost = _imbalance_cost(data)
    if current_cost <= 0:
        return DualBound(0.0, np.zeros(len(data.budgets) + 1 + 2 * DIMENSIONS))
    scale = _multiplier_scale(data, current_cost)
    if means is None:
        means = np.zeros((2, DIMENSIONS))
        scale[-DIMENSIONS:] = 0.0
    positive = np.arange(len(scale)) <= len(data.budgets)
    first = np.where(positive, scale, 0.0) if start is None else start
    dual = DualFunction(data, means)
    stop = StopRule(max_evaluations, min_gain)
    cost, multipliers = maximize_concave(dual.evaluate, first, scale, positive, stop)
    return DualBound(max(0.0, cost), multipliers)


def _imbalance_cost(data: BoundData) -> float:
    """Return the current imbalance cost."""
    away = data.load * data.share - data.target
    return float((data.weight * np.square(away)).sum())


def _multiplier_scale(data: BoundData, cost: float) -> Floats:
    """Return the order of magnitude of the multipliers."""
    nodes, groups = len(data.load), data.budget_weights.shape[1]
    mean = np.abs(data.budget_weights).sum(axis=1) / max(groups, 1)
    budgets = np.maximum(np.abs(data.budgets), mean)
    budget = np.divide(
        INITIAL_PRICE * cost, budgets, out=np.ones_like(mean), where=budgets > 0
    )
    arrival = float(np.max(budget * mean, initial=0.0)) or INITIAL_PRICE * cost
    plane = np.ones(DIMENSIONS)
    return np.concatenate(
        [budget, [arrival / 3], cost / nodes * plane, INITIAL_PRICE * cost * plane]
    )


SET_LIMIT = 3000  # number of departure sets; ten times as many are a tenth tighter
SETS_PER_NODE = 16  # lower limit of the mean number of sets per node
MAX_EVALUATIONS = 30  # most multipliers to evaluate
MIN_GAIN = 1e-3  # relative gain that ten evaluations must achieve


def lagrangian_bound(problem: Problem) -> float:
    """Return a lower bound of the distance of every plan within the budgets.

    The distance is the root of the imbalance cost. If more than two resources count for
    balance, it is that of the first two: the cost of the others is not negative, so the
    bound holds for all. It is 0, hence without information, if a node has no capacity
    of one of the two.
    """
    others = np.flatnonzero(problem.imbalance_weight)[DIMENSIONS:]
    if len(others):
        weight = problem.imbalance_weight.copy()
        weight[others] = 0.0
        problem = replace(problem, imbalance_weight=weight)
    balanced = problem.imbalance_weight > 0
    if not np.all(problem.capacity[:, balanced] > 0):
        return 0.0
    set_limit = max(SET_LIMIT, SETS_PER_NODE * problem.node_count)
    found = maximize_dual(
        BoundData.of(problem, set_limit), MAX_EVALUATIONS, min_gain=MIN_GAIN
    )
    return float(found.cost**0.5)
