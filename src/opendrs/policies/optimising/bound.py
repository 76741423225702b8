"""How even the nodes can become at best, whatever is moved within the budgets.

Guests may be divided here, and part of one may go here and part of another there.
Strict rules about neighbours and the room of nodes are passed over, and which nodes
are open is looked at for the common kinds of units only. What is left is a polytope:
every load of the nodes that can be reached. The point of it that is nearest to the
even load tells how near any plan can come; no real plan comes nearer.

Source:
    Wolfe, Finding the nearest point in a polytope, Mathematical Programming 11 (1976).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.optimising.knapsack import fractions
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.simplex import Corner, Simplex

COMMON = 0.02  # the part of all units from which the nodes open to a class count


@dataclass(frozen=True, slots=True)
class Nearest:
    """What was found out about the point nearest to the even load.

    Attributes:
        bound: No plan has a distance below this.
        distance: That of the point that was found.
        moved: What it moves of each measure of the budgets; shape (B,).
    """

    bound: float
    distance: float
    moved: Floats


def nearest(
    problem: Problem, iterations: int, precision: float, start: Indices | None = None
) -> Nearest:
    """Return how near to the even load all nodes can come at once.

    The distance is the root of what the problem's evenness costs.

    Args:
        problem: What may be moved, and what evenness is.
        iterations: How many corners of the polytope are looked at, at most.
        precision: The part of the distance at the origin that the bound may be
            off; less ends the search.
        start: A good assignment, from which the search begins.
    """
    reach = _Reach(problem)
    simplex = Simplex(reach.corner(problem.origin))
    enough = precision * float(np.linalg.norm(simplex.point.place))
    if start is not None and (start != problem.origin).any():
        simplex.add(reach.corner(start))
    bound = 0.0
    for _ in range(iterations):
        here = simplex.point.place
        distance = float(np.linalg.norm(here))
        if distance - bound <= enough:
            break
        corner = reach.farthest(here)
        bound = max(bound, float(here @ corner.place) / distance)
        if distance - bound <= enough:
            break
        simplex.add(corner)
    found = simplex.point
    return Nearest(bound, float(np.linalg.norm(found.place)), found.moved)


class _Reach:
    """The loads that can be reached, as distances from the even load."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._active = np.flatnonzero(problem.even_weight)
        capacity = problem.capacity[:, self._active]
        root = np.sqrt(problem.even_weight[self._active])
        self._scale = np.divide(
            root, capacity, out=np.zeros_like(capacity), where=capacity > 0
        )
        self._even = root * problem.even_target[self._active]
        self._demand = problem.demand[:, self._active]
        self._load = self._loads(problem.origin, np.ones(problem.units))
        self._load += problem.base[:, self._active]
        self._kinds = self._common_kinds()

    def corner(self, assignment: Indices) -> Corner:
        """Return the point that *assignment* is."""
        away = (assignment != self._problem.origin).astype(float)
        return self._corner(assignment, away)

    def farthest(self, direction: Floats) -> Corner:
        """Return the point that lies farthest against *direction*."""
        prices = direction.reshape(self._scale.shape) * self._scale
        best, cost = self._cheapest(prices)
        here = np.einsum("gr,gr->g", self._demand, prices[self._problem.origin])
        part = fractions(here - cost, self._problem.measures, self._problem.budgets)
        return self._corner(best, part)

    def _corner(self, targets: Indices, part: Floats) -> Corner:
        load = self._load + self._loads(targets, part)
        load -= self._loads(self._problem.origin, part)
        place = load * self._scale - self._even
        return Corner(place.ravel(), self._problem.measures @ part)

    def _loads(self, where: Indices, part: Floats) -> Floats:
        nodes = self._problem.nodes
        columns = [
            np.bincount(where, self._demand[:, r] * part, nodes)
            for r in range(len(self._active))
        ]
        return np.column_stack(columns)

    def _common_kinds(self) -> list[tuple[Indices, Mask]]:
        """Return units and the nodes open to them, for each common class.

        The others are taken to go wherever any unit may, which bounds them too.
        """
        class_of, allowed = self._problem.class_of, self._problem.allowed
        count = np.bincount(class_of, minlength=len(allowed))
        common = count >= COMMON * self._problem.units
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
        for units, open_nodes in self._kinds:
            nodes = np.flatnonzero(open_nodes)
            if not len(nodes) or not len(units):
                continue
            choices = nodes[_lower_hull(prices[nodes])]
            bills = self._demand[units] @ prices[choices].T
            place = bills.argmin(axis=1)
            cheapest = bills[np.arange(len(units)), place]
            better = cheapest < cost[units]
            best[units[better]] = choices[place[better]]
            cost[units[better]] = cheapest[better]
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
