"""Lower bound of the imbalance of every plan within the budgets.

Groups may be divided here. Strict sets and the capacity of nodes are ignored, and
allowed nodes are considered for common placement classes only. The reachable loads then
form a polytope. The distance of its nearest point to the balanced load bounds every
plan from below.

Source:
    Wolfe, Finding the nearest point in a polytope, Mathematical Programming 11 (1976).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.optimizer.problem import Floats, Indices, Mask, Problem

BISECTION_STEPS = 40  # of the price of the last budget


def fractional_knapsack(value: Floats, costs: Floats, budgets: Floats) -> Floats:
    """Return the fraction of each item to take for the largest value.

    Args:
        value: Value of each item; shape (G,). Items without value are not taken.
        costs: Use of each budget by each item; shape (B, G), not negative.
        budgets: Limit of each budget; shape (B,).

    Returns:
        Fractions in [0, 1]; shape (G,).

    Source:
        Dantzig, Discrete-variable extremum problems (1957), for one budget. Further
        budgets get Lagrange multipliers.
    """
    part = (value > 0).astype(float)
    tight = costs @ part > budgets
    if not tight.any():
        return part
    if len(budgets) == 1:
        return _by_density(value, costs[0], float(budgets[0]))
    return _by_multiplier(value, costs, budgets)


def _by_density(value: Floats, cost: Floats, budget: float) -> Floats:
    """Return the fractions within one budget, by value per cost."""
    part = np.zeros(len(value))
    wanted = np.flatnonzero(value > 0)
    with np.errstate(divide="ignore"):
        density = value[wanted] / cost[wanted]
    order = wanted[np.argsort(-density, kind="stable")]
    spent = np.cumsum(cost[order])
    whole = int(np.searchsorted(spent, budget, side="right"))
    part[order[:whole]] = 1.0
    if whole < len(order):
        left = budget - (spent[whole - 1] if whole else 0.0)
        part[order[whole]] = left / cost[order[whole]]
    return part


def _by_multiplier(value: Floats, costs: Floats, budgets: Floats) -> Floats:
    """Return the fractions within several budgets, with a price for the last."""
    cost, budget = costs[-1], float(budgets[-1])
    part = fractional_knapsack(value, costs[:-1], budgets[:-1])
    if cost @ part <= budget:
        return part
    low_price, high_price = 0.0, _max_price(value, cost)
    low = part
    high = np.zeros(len(value))
    for _ in range(BISECTION_STEPS):
        price = (low_price + high_price) / 2
        part = fractional_knapsack(value - price * cost, costs[:-1], budgets[:-1])
        if cost @ part > budget:
            low_price, low = price, part
        else:
            high_price, high = price, part
    # Both are optimal at the limit price, and so is the mixture that uses the budget.
    most, least = float(cost @ low), float(cost @ high)
    mixed = (budget - least) / (most - least)
    return mixed * low + (1 - mixed) * high


def _max_price(value: Floats, cost: Floats) -> float:
    """Return a price at which no item is worth its cost."""
    costly = cost > 0
    return float((value[costly] / cost[costly]).max()) * (1 + 1e-9)


MIN_WEIGHT = 1e-12  # Smallest weight of a vertex in a convex combination.


@dataclass(frozen=True, slots=True)
class Vertex:
    """A point of the polytope.

    Attributes:
        position: Scaled deviations of node loads from the balanced load.
        moved: Use of each budget; shape (B,).
    """

    position: Floats
    moved: Floats


class Corral:
    """Affinely independent vertices with the nearest point in their convex hull."""

    def __init__(self, vertex: Vertex) -> None:
        self._vertices = [vertex]
        self._weights = np.ones(1)
        self._products = np.array([[vertex.position @ vertex.position]])

    @property
    def point(self) -> Vertex:
        """Nearest point."""
        return Vertex(
            self._weights @ np.array([each.position for each in self._vertices]),
            self._weights @ np.array([each.moved for each in self._vertices]),
        )

    def add(self, vertex: Vertex) -> None:
        """Add *vertex* and find the nearest point of the new hull."""
        along = np.array([each.position @ vertex.position for each in self._vertices])
        self._products = np.block(
            [
                [self._products, along[:, None]],
                [along[None, :], np.array([[vertex.position @ vertex.position]])],
            ]
        )
        self._vertices.append(vertex)
        self._weights = np.append(self._weights, 0.0)
        while True:
            mixed = self._affine_minimizer()
            inside = mixed > MIN_WEIGHT
            if inside.all():
                self._weights = mixed
                return
            self._step_towards(mixed, inside)

    def _affine_minimizer(self) -> Floats:
        """Return the weights, of any sign, of the nearest point of the affine hull."""
        count = len(self._vertices)
        system = np.ones((count + 1, count + 1))
        system[:count, :count] = self._products
        system[count, count] = 0.0
        right_side = np.zeros(count + 1)
        right_side[count] = 1.0
        return _solve(system, right_side)[:count]

    def _step_towards(self, mixed: Floats, inside: Mask) -> None:
        """Move towards *mixed* until a weight becomes 0, and drop that vertex."""
        gone = self._weights - mixed
        ratio = np.divide(
            self._weights, gone, out=np.ones_like(gone), where=~inside & (gone > 0)
        )
        step = float(ratio[~inside].min())
        weights = self._weights + step * (mixed - self._weights)
        keep = weights > MIN_WEIGHT
        if keep.all():
            keep[int(np.where(inside, np.inf, ratio).argmin())] = False
        self._vertices = [c for c, k in zip(self._vertices, keep, strict=True) if k]
        self._products = self._products[np.ix_(keep, keep)]
        self._weights = weights[keep] / weights[keep].sum()


def _solve(system: Floats, right_side: Floats) -> Floats:
    """Return the solution; the one of least norm if vertices are dependent."""
    try:
        return np.linalg.solve(system, right_side).astype(np.float64)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(system, right_side, rcond=None)[0].astype(np.float64)


# Fraction of the groups from which the allowed nodes of a class count.
COMMON_CLASS = 0.02


@dataclass(frozen=True, slots=True)
class NearestPoint:
    """Result of the search for the point nearest to the balanced load.

    Attributes:
        bound: Lower bound of the distance of every plan.
        distance: Distance of the point that was found.
        moved: Its use of each budget; shape (B,).
    """

    bound: float
    distance: float
    moved: Floats


def nearest_point(
    problem: Problem, iterations: int, precision: float, start: Indices | None = None
) -> NearestPoint:
    """Return how near all node loads can come to the balanced load.

    The distance is the root of the imbalance cost of the problem.

    Args:
        problem: Problem with groups, budgets and imbalance weights.
        iterations: Most vertices to evaluate.
        precision: Accepted gap, as a fraction of the distance at the origin.
        start: Good assignment to start with, or None.
    """
    loads = _ReachableLoads(problem)
    corral = Corral(loads.vertex(problem.origin))
    tolerance = precision * float(np.linalg.norm(corral.point.position))
    if start is not None and (start != problem.origin).any():
        corral.add(loads.vertex(start))
    bound = 0.0
    for _ in range(iterations):
        here = corral.point.position
        distance = float(np.linalg.norm(here))
        if distance - bound <= tolerance:
            break
        vertex = loads.farthest(here)
        bound = max(bound, float(here @ vertex.position) / distance)
        if distance - bound <= tolerance:
            break
        corral.add(vertex)
    point = corral.point
    return NearestPoint(bound, float(np.linalg.norm(point.position)), point.moved)


class _ReachableLoads:
    """Reachable loads, as scaled deviations from the balanced load."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._active = np.flatnonzero(problem.imbalance_weight)
        capacity = problem.capacity[:, self._active]
        root = np.sqrt(problem.imbalance_weight[self._active])
        self._scale = np.divide(
            root, capacity, out=np.zeros_like(capacity), where=capacity > 0
        )
        self._target = root * problem.target_load[self._active]
        self._demand = problem.demand[:, self._active]
        self._load = self._loads(problem.origin, np.ones(problem.group_count))
        self._load += problem.base_load[:, self._active]
        self._common = self._common_classes()

    def vertex(self, assignment: Indices) -> Vertex:
        """Return the point of *assignment*."""
        away = (assignment != self._problem.origin).astype(float)
        return self._vertex(assignment, away)

    def farthest(self, direction: Floats) -> Vertex:
        """Return the vertex that minimizes the product with *direction*."""
        prices = direction.reshape(self._scale.shape) * self._scale
        best, cost = self._cheapest(prices)
        here = np.einsum("gr,gr->g", self._demand, prices[self._problem.origin])
        part = fractional_knapsack(
            here - cost, self._problem.budget_weights, self._problem.budgets
        )
        return self._vertex(best, part)

    def _vertex(self, targets: Indices, part: Floats) -> Vertex:
        load = self._load + self._loads(targets, part)
        load -= self._loads(self._problem.origin, part)
        position = load * self._scale - self._target
        return Vertex(position.ravel(), self._problem.budget_weights @ part)

    def _loads(self, where: Indices, part: Floats) -> Floats:
        nodes = self._problem.node_count
        columns = [
            np.bincount(where, self._demand[:, r] * part, nodes)
            for r in range(len(self._active))
        ]
        return np.column_stack(columns)

    def _common_classes(self) -> list[tuple[Indices, Mask]]:
        """Return groups and allowed nodes of each common placement class.

        Other groups may use every node that any class allows, which keeps the bound
        valid.
        """
        class_of, allowed = self._problem.class_of, self._problem.allowed
        count = np.bincount(class_of, minlength=len(allowed))
        common = count >= COMMON_CLASS * self._problem.group_count
        kinds = [
            (np.flatnonzero(class_of == kind), allowed[kind])
            for kind in np.flatnonzero(common & (count > 0))
        ]
        goes: Mask = ~common & allowed.any(axis=1)
        rest = np.flatnonzero(goes[class_of])
        return [*kinds, (rest, allowed.any(axis=0))]

    def _cheapest(self, prices: Floats) -> tuple[Indices, Floats]:
        """Return the cheapest node of each group at these prices, and its cost."""
        best = self._problem.origin.copy()
        cost = np.einsum("gr,gr->g", self._demand, prices[best])
        for groups, open_nodes in self._common:
            nodes = np.flatnonzero(open_nodes)
            if not len(nodes) or not len(groups):
                continue
            choices = nodes[_lower_hull(prices[nodes])]
            costs = self._demand[groups] @ prices[choices].T
            place = costs.argmin(axis=1)
            cheapest = costs[np.arange(len(groups)), place]
            better = cheapest < cost[groups]
            best[groups[better]] = choices[place[better]]
            cost[groups[better]] = cheapest[better]
        return best, cost


def _lower_hull(points: Floats) -> Indices:
    """Return the points that are minimal at some nonnegative prices.

    In two dimensions these are the vertices of the lower left hull; otherwise all
    points are returned.
    """
    if points.shape[1] != 2:
        return np.arange(len(points))
    hull: list[int] = []
    lowest = np.inf
    for place in np.lexsort((points[:, 1], points[:, 0])).tolist():
        x, y = points[place]
        if y >= lowest:
            continue
        lowest = y
        while len(hull) > 1:
            (a, b), (c, d) = points[hull[-2]], points[hull[-1]]
            if (c - a) * (y - b) - (d - b) * (x - a) > 0:
                break
            hull.pop()
        hull.append(place)
    return np.array(hull, np.int64)
