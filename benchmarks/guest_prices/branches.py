"""A search that branches: with each change, and without it."""

from __future__ import annotations

import numpy as np

from guest_prices.compiled import part
from guest_prices.tangent import Task
from opendrs.policies.optimising.groups import Floats, Mask


@part
def _rest(changes: Floats, costs: Floats, tangents: Floats) -> Floats:
    """Return what belongs to the bound where only the first i changes are decided."""
    rest = np.empty((len(costs) + 1, len(tangents)))
    for k in range(len(tangents)):
        x, y = tangents[k]
        rest[-1, k] = -x * x - y * y
        for i in range(len(costs) - 1, -1, -1):
            gain = costs[i] - 2 * (x * changes[i, 0] + y * changes[i, 1])
            rest[i, k] = rest[i + 1, k] + min(0.0, gain)
    return rest


@part
def _bound(
    place: Floats, tangents: Floats, rest: Floats, last: int, enough: float
) -> tuple[float, int]:
    """Return what no choice within a branch costs less than, and by which tangent.

    Args:
        place: What is left of the way, and what was paid; shape (3,).
        tangents: By which it is bounded; shape (K, 2).
        rest: What is not decided yet adds to each; shape (K,).
        last: The tangent that bounded the branch before; it is tried first.
        enough: A bound that is as high will do.
    """
    x, y, paid = place
    bound = paid + 2 * (tangents[last, 0] * x + tangents[last, 1] * y) + rest[last]
    for k in range(len(tangents)):
        if bound >= enough:
            break
        other = paid + 2 * (tangents[k, 0] * x + tangents[k, 1] * y) + rest[k]
        if other > bound:
            bound, last = other, k
    return bound, last


@part
def searched(
    task: Task, best: float, tangents: Floats, path: Mask, most: int
) -> tuple[float, bool]:
    """Return what no choice costs less than, and whether one is better than *best*.

    Args:
        task: What the node chooses among, the changes first that tell most.
        best: What is to be improved upon.
        tangents: By which branches are bounded; shape (K, 2).
        path: Where the search begins, and then the best choice; shape (G,).
        most: Branches that are looked at; the rest count as their bounds.
    """
    way, changes, costs = task
    rest = _rest(changes, costs, tangents)
    many = len(costs)
    begin, now, taken = path.copy(), path.copy(), np.zeros(2 * many + 2, np.bool_)
    depth = np.zeros(2 * many + 2, np.int64)
    place = np.zeros((2 * many + 2, 3))
    place[0, 0], place[0, 1] = way[0], way[1]
    waiting, least, found = 1, best, False
    looked = last = 0
    while waiting:
        waiting -= 1
        looked += 1
        i = depth[waiting]
        x, y, paid = place[waiting]
        if i > 0:
            now[i - 1] = taken[waiting]
        bound, last = _bound(place[waiting], tangents, rest[i], last, best)
        if bound >= best:
            continue
        if i == many:
            value = paid + x * x + y * y
            if value < best:
                best, found = value, True
                path[:] = now
        elif looked > most:
            least = min(least, bound)
        else:
            for take in (not begin[i], begin[i]):
                depth[waiting], taken[waiting] = i + 1, take
                place[waiting, 0] = x - take * changes[i, 0]
                place[waiting, 1] = y - take * changes[i, 1]
                place[waiting, 2] = paid + take * costs[i]
                waiting += 1
    return min(least, best), found
