"""The convex hull of points in the plane, and what is nearest in multiples of it."""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.groups import Floats, Indices


def hull(points: Floats) -> Floats:
    """Return the corners of the hull of *points*, anticlockwise; shape (K, 2)."""
    ordered = sorted({(x, y) for x, y in points.tolist()})
    if len(ordered) < 2:
        return np.array(ordered, float).reshape(-1, 2)
    below, above = _chain(ordered), _chain(ordered[::-1])
    return np.array([*below[:-1], *above[:-1]], float)


def _chain(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners that turn to the left, on the way along *points*."""
    chain: list[tuple[float, float]] = []
    for x, y in points:
        while len(chain) > 1:
            (a, b), (c, d) = chain[-2], chain[-1]
            if (c - a) * (y - b) - (d - b) * (x - a) > 0:
                break
            chain.pop()
        chain.append((x, y))
    return chain


class Hulls:
    """The same hull as each of several nodes measures it.

    Args:
        corners: The corners of the hull, anticlockwise; shape (K, 2).
        scale: How long each node takes what is 1 in each direction; shape (N, 2).
    """

    def __init__(self, corners: Floats, scale: Floats) -> None:
        self._scale = scale
        self._from = corners * scale[:, None, :]
        self._along = np.roll(self._from, -1, axis=1) - self._from
        length = np.square(self._along).sum(axis=2)
        self._length = np.where(length > 0, length, 1.0)

    def nearest(self, nodes: Indices, points: Floats, times: Indices) -> Floats:
        """Return the points of so many times the hull that are nearest to *points*.

        Args:
            nodes: The node that measures each distance; shape (P,).
            points: The points, not scaled; shape (P, 2).
            times: How many times the hull is taken for each; shape (P,).
        """
        along, by = self._along[nodes], times[:, None, None]
        start = by * self._from[nodes]
        scale = self._scale[nodes]
        away = (points * scale)[:, None, :] - start
        cross = along[:, :, 0] * away[:, :, 1] - along[:, :, 1] * away[:, :, 0]
        inside = np.all(cross > 0, axis=1)
        part = (along * away).sum(axis=2) / (times[:, None] * self._length[nodes])
        beyond = away - by * along * np.clip(part, 0.0, 1.0)[:, :, None]
        edge = np.square(beyond).sum(axis=2).argmin(axis=1)
        rest = beyond[np.arange(len(edge)), edge] / scale
        near: Floats = points - np.where(inside[:, None], 0.0, rest)
        return near
