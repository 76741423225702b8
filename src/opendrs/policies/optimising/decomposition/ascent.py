"""The highest value of a concave function that has edges.

Source:
    Shor, Minimization Methods for Non-Differentiable Functions (1985): the r-algorithm,
    which stretches space along the difference of two gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.groups import Floats, Mask

Function = Callable[[Floats], tuple[float, Floats]]

STRETCH = 0.5  # what is left of a direction in which the gradient has turned
LONGER = 1.3  # a step after which it still goes up is followed by a longer one
SHORTER = 0.8
RUN = 6  # steps in one direction
STEP = 0.3  # the first, in the scale that is given
LEAST_STEP = 1e-5  # goes on no further
LATELY = 10  # looks after which it is seen how much they have brought


@dataclass(frozen=True, slots=True)
class Ending:
    """When it ends.

    Attributes:
        looks: How many points are looked at, at most.
        enough: The part of it by which some ten looks must raise the value.
    """

    looks: int
    enough: float = 0.0


def ascended(
    function: Function,
    start: Floats,
    scale: Floats,
    positive: Mask,
    ending: Ending,
) -> tuple[float, Floats]:
    """Return the highest value that was found, and where.

    Args:
        function: Gives the value at a point, and a supergradient there.
        start: Where it begins; shape (D,).
        scale: How far it may be about to the highest point, in each direction.
        positive: The directions in which no point may be below 0.
        ending: When it ends.
    """

    def look(point: Floats) -> tuple[float, Floats, Floats]:
        within = np.where(positive, np.maximum(point, 0.0), point)
        value, slope = function(within)
        return value, np.where(positive & (within <= 0) & (slope < 0), 0, slope), within

    space, step = np.diag(scale), STEP
    best, slope, point = look(start)
    top = point
    looked = seen = 1
    then = best
    while looked < ending.looks and step > LEAST_STEP:
        if looked - seen >= LATELY:
            if best - then < ending.enough * abs(best):
                break
            seen, then = looked, best
        along = space.T @ slope
        if not along.any():
            break
        direction = space @ (along / np.linalg.norm(along))
        before = slope
        for run in range(RUN):
            value, slope, point = look(point + step * direction)
            looked += 1
            if value > best:
                best, top = value, point
            if slope @ direction <= 0:
                step *= SHORTER if run == 0 else 1.0
                break
            step *= LONGER if run else 1.0
        turned = space.T @ (slope - before)
        if turned.any():
            turned /= np.linalg.norm(turned)
            space -= (1 - STRETCH) * np.outer(space @ turned, turned)
    return best, top
