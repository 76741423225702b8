"""The point nearest to nothing between the corners of a polytope.

Source:
    Wolfe, Finding the nearest point in a polytope, Mathematical Programming 11 (1976).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.groups import Floats, Mask

DROPPED = 1e-12  # a corner of less weight than this is no part of a point


@dataclass(frozen=True, slots=True)
class Corner:
    """A point of the polytope: where the loads are, and what is moved for that."""

    place: Floats
    moved: Floats


class Simplex:
    """Corners whose nearest point lies between all of them, and how it is mixed."""

    def __init__(self, corner: Corner) -> None:
        self._corners = [corner]
        self._weights = np.ones(1)
        self._products = np.array([[corner.place @ corner.place]])

    @property
    def point(self) -> Corner:
        """The nearest point."""
        return Corner(
            self._weights @ np.array([each.place for each in self._corners]),
            self._weights @ np.array([each.moved for each in self._corners]),
        )

    def add(self, corner: Corner) -> None:
        """Find the nearest point with *corner* among the corners."""
        along = np.array([each.place @ corner.place for each in self._corners])
        self._products = np.block(
            [
                [self._products, along[:, None]],
                [along[None, :], np.array([[corner.place @ corner.place]])],
            ]
        )
        self._corners.append(corner)
        self._weights = np.append(self._weights, 0.0)
        while True:
            mixed = self._affine()
            inside = mixed > DROPPED
            if inside.all():
                self._weights = mixed
                return
            self._step_towards(mixed, inside)

    def _affine(self) -> Floats:
        """Return the weights, of any sign, of the nearest point of the whole plane."""
        count = len(self._corners)
        system = np.ones((count + 1, count + 1))
        system[:count, :count] = self._products
        system[count, count] = 0.0
        wanted = np.zeros(count + 1)
        wanted[count] = 1.0
        return _solved(system, wanted)[:count]

    def _step_towards(self, mixed: Floats, inside: Mask) -> None:
        """Go towards *mixed* until a corner is no longer needed, and drop it."""
        gone = self._weights - mixed
        ratio = np.divide(
            self._weights, gone, out=np.ones_like(gone), where=~inside & (gone > 0)
        )
        step = float(ratio[~inside].min())
        weights = self._weights + step * (mixed - self._weights)
        keep = weights > DROPPED
        if keep.all():
            keep[int(np.where(inside, np.inf, ratio).argmin())] = False
        self._corners = [c for c, k in zip(self._corners, keep, strict=True) if k]
        self._products = self._products[np.ix_(keep, keep)]
        self._weights = weights[keep] / weights[keep].sum()


def _solved(system: Floats, wanted: Floats) -> Floats:
    """Return the solution; the least one, where corners lie in one plane."""
    try:
        return np.linalg.solve(system, wanted).astype(np.float64)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(system, wanted, rcond=None)[0].astype(np.float64)
