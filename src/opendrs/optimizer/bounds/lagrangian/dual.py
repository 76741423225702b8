"""Lower bound of the imbalance when few groups are moved: the Lagrangian dual.

The relaxation separates the cluster into its nodes. The coupling constraints get
multipliers: budgets, arrivals (as many groups arrive as leave), and load (as much arrives
as leaves). At any multipliers the sum of the node subproblems is a bound; the r-algorithm
searches for the highest.

Departures are considered set by set, so that whole groups leave; of the smallest groups of
a node only the most that they can take with them. What arrives is n times the convex hull
of the demands. Rules, capacities and feasible nodes are ignored.

Source:
Geoffrion, Lagrangean relaxation for integer programming (1974);
Shor, Minimization Methods for Non-Differentiable Functions (1985).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
SPACE_DILATION = 0.5  # what is left of a direction in which the gradient has turned
STEP_GROWTH = 1.3  # a step after which it still goes up is followed by a longer one
STEP_REDUCTION = 0.8
STEPS_PER_DIRECTION = 6  # steps in one direction
INITIAL_STEP = 0.3  # the first, in the scale that is given
MIN_STEP = 1e-5  # goes on no further
CHECK_INTERVAL = 10  # looks after which it is seen how much they have brought


@dataclass(frozen=True, slots=True)
class StopRule:
    """When it ends.

    Attributes:
        max_evaluations: How many points are looked at, at most.
        min_gain: The part of it by which some ten looks must raise the value.
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
    """Return the highest value that was found, and where.

    Args:
        function: Gives the value at a point, and a supergradient there.
        start: Where it begins; shape (D,).
        scale: How far it may be about to the highest point, in each direction.
        positive: The directions in which no point may be below 0.
        stop: When it ends.
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


RELATIVE_ROUNDING = (
    1e-12  # of all that is added up, so much may be lost; so it stays a bound
)


class DualFunction:
    """The choices of all nodes at given prices.

    Args:
        data: The nodes, and who may move.
        means: Between what the mean of the shares is: the least and the most, (2, 2).
            Only loads for which that holds are looked at.
    """

    def __init__(self, data: BoundData, means: Floats) -> None:
        self._data = data
        self._means = means
        self._norm = DistanceNorm(data)
        self._last_solution = SubproblemSolution.empty(data.departures.empty_set)

    def evaluate(self, flat: Floats) -> tuple[float, Floats]:
        """Return the bound of what evenness costs, and its supergradient.

        Where there are several of these, it depends on what was asked before which.

        Args:
            flat: The prices in a row: of budgets, arrival, load, mean.
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


INITIAL_PRICE = 0.3  # of what evenness costs at first, for the whole of each budget


@dataclass(frozen=True, slots=True)
class DualBound:
    """What no plan within the budgets comes below.

    Attributes:
        cost: What evenness costs at least.
        multipliers: Those at which that was found, in a row.
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
    """Return the best bound that was found for what evenness costs.

    Args:
        data: The nodes, and who may move within which budgets.
        max_evaluations: How many prices are tried, at most.
        means: Between what the mean of the shares of all nodes is: the least and the
            most; shape (2, 2). Only plans for which that holds are looked at.
        start: The prices to begin with.
        min_gain: The part of it by which some ten prices must raise it; 0 for all looks.
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
    """Return what evenness costs now."""
    away = data.load * data.share - data.target
    return float((data.weight * np.square(away)).sum())


def _multiplier_scale(data: BoundData, cost: float) -> Floats:
    """Return about how high the prices are."""
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


SET_LIMIT = 3000  # of units that may leave; ten times as many are a tenth nearer
SETS_PER_NODE = 16  # sets there are at least, on average
MAX_EVALUATIONS = 40  # prices that are tried at most
MIN_GAIN = 1e-3  # of the bound: what ten of them must raise it by


def lagrangian_bound(problem: Problem) -> float:
    """Return what no plan within the budgets has a distance below.

    The distance is the root of what the problem's evenness costs. It is 0, which says
    nothing, where more than two resources are to be even or a node has none of one.
    """
    balanced = problem.imbalance_weight > 0
    if balanced.sum() > DIMENSIONS or not np.all(problem.capacity[:, balanced] > 0):
        return 0.0
    set_limit = max(SET_LIMIT, SETS_PER_NODE * problem.node_count)
    found = maximize_dual(
        BoundData.of(problem, set_limit), MAX_EVALUATIONS, min_gain=MIN_GAIN
    )
    return float(found.cost**0.5)
