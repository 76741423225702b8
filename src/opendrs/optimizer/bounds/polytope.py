"""Lower bound of the imbalance, whatever is moved within the budgets.

Groups may be divided here. Strict sets and the capacity of nodes are ignored, and feasible
nodes are considered for common classes only. The reachable loads then form a polytope; its
point nearest to the balanced load bounds every plan from below.

Source:
Wolfe, Finding the nearest point in a polytope, Mathematical Programming 11 (1976).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.optimizer.problem import Floats, Indices, Mask, Problem

BISECTION_STEPS = 40  # of the price of what a further budget counts


def fractional_knapsack(value: Floats, costs: Floats, budgets: Floats) -> Floats:
    """Return the part of each thing to take, in [0, 1], so that they are worth most.

    Args:
        value: What each thing is worth; shape (G,). What is worth nothing is left.
        costs: What each thing costs of each budget; shape (B, G), not negative.
        budgets: What there is of each; shape (B,).

    Source:
        Dantzig, Discrete-variable extremum problems (1957), for one budget. Of
        further ones, prices are found under which they are kept: Lagrange.
    """
    part = (value > 0).astype(float)
    tight = costs @ part > budgets
    if not tight.any():
        return part
    if len(budgets) == 1:
        return _by_density(value, costs[0], float(budgets[0]))
    return _by_multiplier(value, costs, budgets)


def _by_density(value: Floats, cost: Floats, budget: float) -> Floats:
    """Return what to take within one budget: what is worth most for its cost."""
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
    """Return what to take within several budgets, the last of which gets a price."""
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
    # At one price both are best; the mixture that spends the budget is, too.
    most, least = float(cost @ low), float(cost @ high)
    mixed = (budget - least) / (most - least)
    return mixed * low + (1 - mixed) * high


def _max_price(value: Floats, cost: Floats) -> float:
    """Return a price at which nothing is worth its cost."""
    costly = cost > 0
    return float((value[costly] / cost[costly]).max()) * (1 + 1e-9)


MIN_WEIGHT = 1e-12  # a corner of less weight than this is no part of a point


@dataclass(frozen=True, slots=True)
class Vertex:
    """A point of the polytope: where the loads are, and what is moved for that."""

    position: Floats
    moved: Floats


class Corral:
    """Corners whose nearest point lies between all of them, and how it is mixed."""

    def __init__(self, vertex: Vertex) -> None:
        self._vertices = [vertex]
        self._weights = np.ones(1)
        self._products = np.array([[vertex.position @ vertex.position]])

    @property
    def point(self) -> Vertex:
        """The nearest point."""
        return Vertex(
            self._weights @ np.array([each.position for each in self._vertices]),
            self._weights @ np.array([each.moved for each in self._vertices]),
        )

    def add(self, vertex: Vertex) -> None:
        """Find the nearest point with *vertex* among the corners."""
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
        """Return the weights, of any sign, of the nearest point of the whole plane."""
        count = len(self._vertices)
        system = np.ones((count + 1, count + 1))
        system[:count, :count] = self._products
        system[count, count] = 0.0
        right_side = np.zeros(count + 1)
        right_side[count] = 1.0
        return _solve(system, right_side)[:count]

    def _step_towards(self, mixed: Floats, inside: Mask) -> None:
        """Go towards *mixed* until a corner is no longer needed, and drop it."""
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
    """Return the solution; the least one, where corners lie in one plane."""
    try:
        return np.linalg.solve(system, right_side).astype(np.float64)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(system, right_side, rcond=None)[0].astype(np.float64)


COMMON_CLASS = 0.02  # the part of all units from which the nodes open to a class count


@dataclass(frozen=True, slots=True)
class NearestPoint:
    """What was found out about the point nearest to the even load.

    Attributes:
        bound: No plan has a distance below this.
        distance: That of the point that was found.
        moved: What it moves of each measure of the budgets; shape (B,).
    """

    bound: float
    distance: float
    moved: Floats


def nearest_point(
    problem: Problem, iterations: int, precision: float, start: Indices | None = None
) -> NearestPoint:
    """Return how near to the even load all nodes can come at once.

    The distance is the root of what the problem's evenness costs.

    Args:
        problem: What may be moved, and what evenness is.
        iterations: How many corners of the polytope are looked at, at most.
        precision: The part of the distance at the origin that the bound may be
            off; less ends the search.
        start: A good assignment, from which the search begins.
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
    """The loads that can be reached, as distances from the even load."""

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
        """Return the point that *assignment* is."""
        away = (assignment != self._problem.origin).astype(float)
        return self._vertex(assignment, away)

    def farthest(self, direction: Floats) -> Vertex:
        """Return the point that lies farthest against *direction*."""
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
        """Return units and the nodes open to them, for each common class.

        The others are taken to go wherever any unit may, which bounds them too.
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
        """Return where each unit costs least at these prices, and what it costs."""
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
    """Return those of *points* that are least at some prices, none negative.

    In the plane these are the corners of the lower left hull; else all are kept.
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
