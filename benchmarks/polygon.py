"""Pairs of squares that lines leave open, and the least sum of their roots."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

OUTSIDE = 1e-9  # what a corner may be behind other lines, by rounding


@dataclass(frozen=True)
class Line:
    """In a direction, and how far at least."""

    direction: Floats
    least: float


@dataclass(frozen=True)
class Corner:
    """Where two lines meet.

    Attributes:
        root: The sum of the roots of both squares.
        place: Both squares; shape (2,).
        lines: Those that meet.
    """

    root: float
    place: Floats
    lines: tuple[Line, Line]

    @property
    def between(self) -> Floats:
        """The direction between those of both lines; its length is 1."""
        one, other = (each.direction for each in self.lines)
        mixed: Floats = one / np.linalg.norm(one) + other / np.linalg.norm(other)
        return mixed / np.linalg.norm(mixed)

    def is_cut_off(self, line: Line, part: float) -> bool:
        """Whether *line* is beyond it, by some part of the squares at least."""
        here = float(line.direction @ self.place)
        return line.least > here * (1 + part)


def corner(lines: list[Line]) -> Corner:
    """Return the corner where the sum of roots is least that *lines* leave open.

    All directions are positive; no square is below 0.
    """
    axes = [Line(np.array([1.0, 0.0]), 0.0), Line(np.array([0.0, 1.0]), 0.0)]
    found = []
    for one, other in itertools.combinations([*lines, *axes], 2):
        matrix = np.array([one.direction, other.direction])
        if abs(np.linalg.det(matrix)) < 1e-12:
            continue
        place = np.linalg.solve(matrix, [one.least, other.least])
        slack = [each.direction @ place - each.least for each in [*lines, *axes]]
        if min(slack) >= -OUTSIDE:
            root = float(np.sqrt(np.maximum(place, 0.0)).sum())
            found.append(Corner(root, place, (one, other)))
    return min(found, key=lambda each: each.root)
