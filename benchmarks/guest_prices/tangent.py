"""What any choice of a node costs at least.

A node chooses among changes; each changes its load by s and costs c, and w leads from
its load to the best one. What it chooses costs

    |w - (sum of s)|^2 + (sum of c).

As |x|^2 >= 2 q x - |q|^2, the tangent at q / 2, no choice is below

    2 q w - |q|^2 + (sum of min(0, c - 2 q s) over all changes),

which is concave in q.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guest_prices.compiled import part
from opendrs.policies.optimising.groups import Floats

LOOKS = 80  # at slopes of tangents, at most
DEEPEST = 0.99  # part of the way to the border of an ellipse at which it may be cut
NOTHING = 1e-30  # a slope that is no longer one


class Task(NamedTuple):
    """What a node chooses among.

    Attributes:
        way: From its load to the best one, w; shape (2,).
        changes: What each changes the load by, s; shape (G, 2).
        costs: What each costs, c; shape (G,).
    """

    way: Floats
    changes: Floats
    costs: Floats


@part
def highest(task: Task, start: Floats) -> tuple[float, float, float]:
    """Return the highest bound that is found, and its q.

    The best q is within an ellipse that becomes smaller. It is a circle first: the
    concave function falls with the square of the distance.

    Args:
        task: What the node chooses among.
        start: The q to begin with; shape (2,).
    """
    way, changes, costs = task
    x, y = start[0], start[1]
    best, best_x, best_y = -np.inf, x, y
    xx = xy = yy = 0.0
    for look in range(LOOKS):
        value, up, right = 2 * (x * way[0] + y * way[1]) - x * x - y * y, 0.0, 0.0
        for i in range(len(costs)):
            gain = costs[i] - 2 * (x * changes[i, 0] + y * changes[i, 1])
            if gain < 0:
                value += gain
                right += changes[i, 0]
                up += changes[i, 1]
        right, up = way[0] - x - right, way[1] - y - up
        if value > best:
            best, best_x, best_y = value, x, y
        if look == 0:
            xx = yy = right * right + up * up
        along_x, along_y = xx * right + xy * up, xy * right + yy * up
        square = right * along_x + up * along_y
        if square < NOTHING * (xx + yy):
            break
        length = np.sqrt(square)
        along_x, along_y = along_x / length, along_y / length
        cut = min(DEEPEST, (best - value) / (2 * length))
        x += (1 + 2 * cut) / 3 * along_x
        y += (1 + 2 * cut) / 3 * along_y
        grown = 4 / 3 * (1 - cut * cut)
        less = 2 * (1 + 2 * cut) / (3 * (1 + cut))
        xx = grown * (xx - less * along_x * along_x)
        xy = grown * (xy - less * along_x * along_y)
        yy = grown * (yy - less * along_y * along_y)
    return best, best_x, best_y
