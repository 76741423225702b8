"""Loads that nodes can reach if groups may be divided.

Strict sets and the capacity of nodes are ignored, and allowed nodes are considered for
common placement classes only. The loads that are reachable within the budgets form a
polytope, which contains the loads of every plan.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.optimizer.bounds.knapsack import fractional_knapsack
from opendrs.optimizer.problem import Floats, Indices, Mask, Problem


@dataclass(frozen=True, slots=True)
class Vertex:
    """A point of the polytope.

    Attributes:
        position: Scaled deviations of node loads from the balanced load.
        moved: Use of each budget; shape (B,).
    """

    position: Floats
    moved: Floats


# Fraction of the groups from which the allowed nodes of a class count.
COMMON_CLASS = 0.02


class ReachableLoads:
    """Reachable loads, as scaled deviations from the balanced load.

    Attributes:
        scale: Scale of each balanced resource at each node; shape (N, R).
        demand: Demand of each group; shape (G, R).
        initial: Deviations at the origin; shape (N, R).
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._active = np.flatnonzero(problem.imbalance_weight)
        capacity = problem.capacity[:, self._active]
        root = np.sqrt(problem.imbalance_weight[self._active])
        self.scale = np.divide(
            root, capacity, out=np.zeros_like(capacity), where=capacity > 0
        )
        self._target = root * problem.target_load[self._active]
        self.demand = problem.demand[:, self._active]
        self._load = self._loads(problem.origin, np.ones(problem.group_count))
        self._load += problem.base_load[:, self._active]
        self.initial: Floats = self._load * self.scale - self._target
        self._common = self._common_classes()

    def vertex(self, assignment: Indices) -> Vertex:
        """Return the point of *assignment*."""
        away = (assignment != self._problem.origin).astype(float)
        return self._vertex(assignment, away)

    def bound(self, direction: Floats) -> float:
        """Return a lower bound of the distance of every reachable load.

        Args:
            direction: Deviations, the better the nearer to the nearest reachable ones.
        """
        length = float(np.linalg.norm(direction))
        if length <= 0:
            return 0.0
        return max(0.0, float(direction @ self.farthest(direction).position) / length)

    def farthest(self, direction: Floats) -> Vertex:
        """Return the vertex that minimizes the product with *direction*."""
        prices = direction.reshape(self.scale.shape) * self.scale
        best, cost = self._cheapest(prices)
        here = np.einsum("gr,gr->g", self.demand, prices[self._problem.origin])
        part = fractional_knapsack(
            here - cost, self._problem.budget_weights, self._problem.budgets
        )
        return self._vertex(best, part)

    def _vertex(self, targets: Indices, part: Floats) -> Vertex:
        load = self._load + self._loads(targets, part)
        load -= self._loads(self._problem.origin, part)
        position = load * self.scale - self._target
        return Vertex(position.ravel(), self._problem.budget_weights @ part)

    def _loads(self, where: Indices, part: Floats) -> Floats:
        nodes = self._problem.node_count
        columns = [
            np.bincount(where, self.demand[:, r] * part, nodes)
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
        cost = np.einsum("gr,gr->g", self.demand, prices[best])
        for groups, open_nodes in self._common:
            nodes = np.flatnonzero(open_nodes)
            if not len(nodes) or not len(groups):
                continue
            choices = nodes[_lower_hull(prices[nodes])]
            costs = self.demand[groups] @ prices[choices].T
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
