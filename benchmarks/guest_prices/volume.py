"""The highest value of a concave function of very many prices.

Source:
    Barahona, Anbil, The volume algorithm: producing primal solutions with a subgradient
    method (2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.groups import Floats, Mask

Function = Callable[[Floats], tuple[float, Floats]]

GOAL = 0.03  # part of the value: how much higher it may be
PACE = 0.3  # of the first step towards it, as a part of the way
FASTER = 1.1  # after a step that led higher, in the direction of the ones before
FASTEST = 2.0
SLOWER = 0.7  # after some that did not
PATIENCE = 8  # steps that do not lead higher
SLOWEST = 1e-3  # goes on no further
LATEST = (0.01, 0.1)  # part of the last slope in the mixed one: the least and the most


@dataclass(frozen=True, slots=True)
class Space:
    """Where it looks.

    Attributes:
        scale: How far the highest point may be, in proportion; shape (D,).
        positive: The directions in which no point may be below 0; shape (D,).
    """

    scale: Floats
    positive: Mask


def ascended(
    function: Function, start: Floats, space: Space, looks: int
) -> tuple[float, Floats]:
    """Return the highest value that was found, and where.

    Args:
        function: Gives the value at a point, and a supergradient there.
        start: Where it begins; shape (D,).
        space: Where it looks.
        looks: At how many points, at most.
    """
    best, slope = function(start)
    top, mixed = start, slope * space.scale
    pace, vain = PACE, 0
    for _ in range(looks - 1):
        if pace < SLOWEST or not mixed.any():
            break
        step = pace * GOAL * abs(best) / (mixed @ mixed)
        point = top + step * mixed * space.scale
        point = np.where(space.positive, np.maximum(point, 0.0), point)
        value, slope = function(point)
        latest = slope * space.scale
        vain += 1
        if value > best:
            if latest @ mixed > 0:
                pace = min(FASTEST, pace * FASTER)
            best, top, vain = value, point, 0
        elif vain == PATIENCE:
            pace, vain = pace * SLOWER, 0
        mixed = mixed + part(mixed, latest) * (latest - mixed)
    return best, top


def part(mixed: Floats, latest: Floats) -> float:
    """Return the part of the *latest* slope that makes the mixed one shortest."""
    change = latest - mixed
    length = float(change @ change)
    shortest = -float(mixed @ change) / length if length > 0 else 0.0
    return min(max(shortest, LATEST[0]), LATEST[1])
