"""The best choice of a node: which guests leave it, and which arrive.

What a change costs at the highest tangent tells whether a choice that is good enough
has it. The search branches only over the changes of which it does not tell; branches
are bounded by several tangents.
"""

from __future__ import annotations

import numpy as np

from guest_prices.branches import searched
from guest_prices.compiled import part
from guest_prices.tangent import Task, highest
from opendrs.policies.optimising.groups import Floats, Mask

FLIPS = 30  # that make a choice better before the search, at most
RINGS = 4  # around the highest tangent, on which there are others
OF_A_RING = 8
FARTHER = 2.0  # each ring than the one within
FARTHEST = 2.0  # ring, in the length of what may be gained


@part
def _flipped(task: Task, chosen: Mask) -> float:
    """Make *chosen* better, change by change; return what it costs."""
    way, changes, costs = task
    x, y, best = float(way[0]), float(way[1]), 0.0
    for one in np.flatnonzero(chosen):
        x, y, best = x - changes[one, 0], y - changes[one, 1], best + costs[one]
    best += x * x + y * y
    for _ in range(FLIPS):
        before, flip = best - x * x - y * y, -1
        for i in range(len(costs)):
            sign = 1.0 if chosen[i] else -1.0
            to_x, to_y = x + sign * changes[i, 0], y + sign * changes[i, 1]
            value = before + to_x * to_x + to_y * to_y - sign * costs[i]
            if value < best:
                best, flip = value, i
        if flip < 0:
            break
        sign = 1.0 if chosen[flip] else -1.0
        x, y = x + sign * changes[flip, 0], y + sign * changes[flip, 1]
        chosen[flip] = not chosen[flip]
    return best


@part
def _around(near: Floats, reach: float) -> Floats:
    """Return the tangents that bound branches: *near*, and on rings around it."""
    tangents = np.empty((1 + RINGS * OF_A_RING, 2))
    tangents[0] = near
    for row in range(1, len(tangents)):
        ring, place = divmod(row - 1, OF_A_RING)
        turn = 2 * np.pi * (place + ring / 2) / OF_A_RING
        length = reach * FARTHEST / FARTHER**ring
        tangents[row, 0] = near[0] + length * np.cos(turn)
        tangents[row, 1] = near[1] + length * np.sin(turn)
    return tangents


@part
def best_choice(task: Task, near: Floats, chosen: Mask, branches: int) -> float:
    """Return what no choice costs less than.

    Args:
        task: What the node chooses among.
        near: Where the highest tangent may be, and then where it is; shape (2,).
        chosen: A choice that may be good, and then the best that is found; shape (G,).
        branches: That are looked at, at most.
    """
    floor, near[0], near[1] = highest(task, near)
    way, changes, costs = task
    dear = costs - 2 * (changes[:, 0] * near[0] + changes[:, 1] * near[1])
    rounded = dear < 0
    best, other = _flipped(task, chosen), _flipped(task, rounded)
    if other < best:
        best = other
        chosen[:] = rounded
    gap = best - floor
    rest, paid = way.copy(), 0.0
    for i in np.flatnonzero(dear <= -gap):
        rest -= changes[i]
        paid += costs[i]
    doubtful = np.flatnonzero(np.abs(dear) < gap)
    doubtful = doubtful[np.argsort(-np.abs(dear[doubtful]))]
    left = Task(rest, changes[doubtful], costs[doubtful])
    tangents = _around(near, np.sqrt(max(gap, 0.0)))
    path = dear[doubtful] < 0
    least, found = searched(left, best - paid, tangents, path, branches)
    if found:
        chosen[:] = dear < 0
        chosen[doubtful] = path
    return max(floor, paid + least)
