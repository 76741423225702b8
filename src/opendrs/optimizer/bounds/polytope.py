"""Lower bound of the imbalance of every plan, by the nearest point of a polytope.

The distance of the nearest reachable load to the balanced load bounds every plan from
below.

Source:
    Wolfe, Finding the nearest point in a polytope, Mathematical Programming 11 (1976).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.optimizer.bounds.reachable_loads import ReachableLoads, Vertex
from opendrs.optimizer.problem import Floats, Indices, Mask, Problem

MIN_WEIGHT = 1e-12  # Smallest weight of a vertex in a convex combination.


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
        precision: Accepted gap, as a fraction of the distance, or of a tenth of that at
            the origin if this is more.
        start: Good assignment to start with, or None.
    """
    loads = ReachableLoads(problem)
    corral = Corral(loads.vertex(problem.origin))
    least = float(np.linalg.norm(corral.point.position)) / 10
    if start is not None and (start != problem.origin).any():
        corral.add(loads.vertex(start))
    bound = 0.0
    for _ in range(iterations):
        here = corral.point.position
        distance = float(np.linalg.norm(here))
        if distance - bound <= precision * max(distance, least):
            break
        vertex = loads.farthest(here)
        bound = max(bound, float(here @ vertex.position) / distance)
        if distance - bound <= precision * max(distance, least):
            break
        corral.add(vertex)
    point = corral.point
    return NearestPoint(bound, float(np.linalg.norm(point.position)), point.moved)
