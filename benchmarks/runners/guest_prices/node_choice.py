"""The best choice of one node at given prices: tangent bound, branch and bound.

A node chooses among changes. Each changes its load by s and costs c; w leads from its
load to the ideal one. A choice costs |w - (sum of s)|^2 + (sum of c). Since |x|^2 >= 2
q x - |q|^2, the tangent at q / 2, no choice is below 2 q w - |q|^2 + (sum of min(0, c -
2 q s) over all changes), which is concave in q.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
from numba import njit

from opendrs.optimizer import Floats, Mask
from opendrs.optimizer.compiled.compiler import fingerprint

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return *function* compiled on its first call, for Python callers.

    Compiled code is cached beside the module until anything that it uses changes.
    """
    function.__qualname__ += "_" + fingerprint(function)
    return njit(cache=True, nogil=True)(function)


def compiled_part(
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Return *function* compiled for calls from compiled functions."""
    return njit(nogil=True)(function)


MAX_EVALUATIONS = 80  # most tangents to evaluate

# Deepest cut of an ellipse, as a fraction of the way to its border.
MAX_CUT_DEPTH = 0.99

MIN_SLOPE = 1e-30  # smaller slopes count as zero


class NodeProblem(NamedTuple):
    """Choices of one node.

    Attributes:
        offset: Distance from its load to the ideal one, w; shape (2,).
        changes: Change of the load by each choice, s; shape (G, 2).
        costs: Cost of each choice, c; shape (G,).
    """

    offset: Floats
    changes: Floats
    costs: Floats


@compiled_part
def best_tangent(problem: NodeProblem, start: Floats) -> tuple[float, float, float]:
    """Return the highest bound found, and its q (ellipsoid method).

    The best q is within an ellipse that shrinks. It starts as a circle: the concave
    function decreases with the squared distance.

    Args:
        problem: Choices of the node.
        start: Initial q; shape (2,).
    """
    offset, changes, costs = problem
    x, y = start[0], start[1]
    best, best_x, best_y = -np.inf, x, y
    xx = xy = yy = 0.0
    for evaluation in range(MAX_EVALUATIONS):
        value, up, right = 2 * (x * offset[0] + y * offset[1]) - x * x - y * y, 0.0, 0.0
        for i in range(len(costs)):
            gain = costs[i] - 2 * (x * changes[i, 0] + y * changes[i, 1])
            if gain < 0:
                value += gain
                right += changes[i, 0]
                up += changes[i, 1]
        right, up = offset[0] - x - right, offset[1] - y - up
        if value > best:
            best, best_x, best_y = value, x, y
        if evaluation == 0:
            xx = yy = right * right + up * up
        along_x, along_y = xx * right + xy * up, xy * right + yy * up
        square = right * along_x + up * along_y
        if square < MIN_SLOPE * (xx + yy):
            break
        length = np.sqrt(square)
        along_x, along_y = along_x / length, along_y / length
        cut = min(MAX_CUT_DEPTH, (best - value) / (2 * length))
        x += (1 + 2 * cut) / 3 * along_x
        y += (1 + 2 * cut) / 3 * along_y
        grown = 4 / 3 * (1 - cut * cut)
        less = 2 * (1 + 2 * cut) / (3 * (1 + cut))
        xx = grown * (xx - less * along_x * along_x)
        xy = grown * (xy - less * along_x * along_y)
        yy = grown * (yy - less * along_y * along_y)
    return best, best_x, best_y


@compiled_part
def _rest(changes: Floats, costs: Floats, tangents: Floats) -> Floats:
    """Return the contribution of undecided changes to the bound, by decided prefix."""
    rest = np.empty((len(costs) + 1, len(tangents)))
    for k in range(len(tangents)):
        x, y = tangents[k]
        rest[-1, k] = -x * x - y * y
        for i in range(len(costs) - 1, -1, -1):
            gain = costs[i] - 2 * (x * changes[i, 0] + y * changes[i, 1])
            rest[i, k] = rest[i + 1, k] + min(0.0, gain)
    return rest


@compiled_part
def _bound(
    place: Floats, tangents: Floats, rest: Floats, last: int, enough: float
) -> tuple[float, int]:
    """Return a bound of a branch, and the tangent that gives it.

    Args:
        place: Remaining distance, and cost so far; shape (3,).
        tangents: Tangents; shape (K, 2).
        rest: Contribution of undecided changes per tangent; shape (K,).
        last: Tangent that bounded the branch before; it is evaluated first.
        enough: Bound that suffices.
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


@compiled_part
def branch_and_bound(
    problem: NodeProblem, best: float, tangents: Floats, path: Mask, max_branches: int
) -> tuple[float, bool]:
    """Return a lower bound, and True if a choice better than *best* was found.

    Args:
        problem: Choices of the node, the most decisive first.
        best: Cost to improve.
        tangents: Tangents that bound branches; shape (K, 2).
        path: Initial choice, and then the best one; shape (G,).
        max_branches: Branches to evaluate; the rest count as their bounds.
    """
    offset, changes, costs = problem
    rest = _rest(changes, costs, tangents)
    count = len(costs)
    begin, now, taken = path.copy(), path.copy(), np.zeros(2 * count + 2, np.bool_)
    depth = np.zeros(2 * count + 2, np.int64)
    place = np.zeros((2 * count + 2, 3))
    place[0, 0], place[0, 1] = offset[0], offset[1]
    open_branches, least, improved = 1, best, False
    visited = last = 0
    while open_branches:
        open_branches -= 1
        visited += 1
        i = depth[open_branches]
        x, y, paid = place[open_branches]
        if i > 0:
            now[i - 1] = taken[open_branches]
        bound, last = _bound(place[open_branches], tangents, rest[i], last, best)
        if bound >= best:
            continue
        if i == count:
            value = paid + x * x + y * y
            if value < best:
                best, improved = value, True
                path[:] = now
        elif visited > max_branches:
            least = min(least, bound)
        else:
            for take in (not begin[i], begin[i]):
                depth[open_branches], taken[open_branches] = i + 1, take
                place[open_branches, 0] = x - take * changes[i, 0]
                place[open_branches, 1] = y - take * changes[i, 1]
                place[open_branches, 2] = paid + take * costs[i]
                open_branches += 1
    return min(least, best), improved


MAX_FLIPS = 30  # Most flips that improve a choice before the search.
RINGS = 4  # rings of tangents around the best one
TANGENTS_PER_RING = 8
RING_GROWTH = 2.0  # radius of a ring relative to the next inner one
OUTER_RING = 2.0  # radius of the outer ring relative to the possible gain


@compiled_part
def _improve_by_flips(problem: NodeProblem, chosen: Mask) -> float:
    """Improve *chosen* by single changes; return its cost."""
    offset, changes, costs = problem
    x, y, best = float(offset[0]), float(offset[1]), 0.0
    for one in np.flatnonzero(chosen):
        x, y, best = x - changes[one, 0], y - changes[one, 1], best + costs[one]
    best += x * x + y * y
    for _ in range(MAX_FLIPS):
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


@compiled_part
def _tangents_around(near: Floats, reach: float) -> Floats:
    """Return *near* and the tangents on rings around it."""
    tangents = np.empty((1 + RINGS * TANGENTS_PER_RING, 2))
    tangents[0] = near
    for row in range(1, len(tangents)):
        ring, place = divmod(row - 1, TANGENTS_PER_RING)
        turn = 2 * np.pi * (place + ring / 2) / TANGENTS_PER_RING
        length = reach * OUTER_RING / RING_GROWTH**ring
        tangents[row, 0] = near[0] + length * np.cos(turn)
        tangents[row, 1] = near[1] + length * np.sin(turn)
    return tangents


@compiled_part
def best_choice(
    problem: NodeProblem, near: Floats, chosen: Mask, branches: int
) -> float:
    """Return a lower bound of the cost of all choices.

    Args:
        problem: Choices of the node.
        near: Estimate of the best tangent, and then the best one; shape (2,).
        chosen: Good choice, and then the best one found; shape (G,).
        branches: Most branches to evaluate.
    """
    floor, near[0], near[1] = best_tangent(problem, near)
    offset, changes, costs = problem
    reduced_costs = costs - 2 * (changes[:, 0] * near[0] + changes[:, 1] * near[1])
    rounded = reduced_costs < 0
    best, other = (
        _improve_by_flips(problem, chosen),
        _improve_by_flips(problem, rounded),
    )
    if other < best:
        best = other
        chosen[:] = rounded
    gap = best - floor
    rest, paid = offset.copy(), 0.0
    for i in np.flatnonzero(reduced_costs <= -gap):
        rest -= changes[i]
        paid += costs[i]
    undecided = np.flatnonzero(np.abs(reduced_costs) < gap)
    undecided = undecided[np.argsort(-np.abs(reduced_costs[undecided]))]
    remaining = NodeProblem(rest, changes[undecided], costs[undecided])
    tangents = _tangents_around(near, np.sqrt(max(gap, 0.0)))
    path = reduced_costs[undecided] < 0
    least, improved = branch_and_bound(remaining, best - paid, tangents, path, branches)
    if improved:
        chosen[:] = reduced_costs < 0
        chosen[undecided] = path
    return max(floor, paid + least)
