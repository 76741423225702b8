"""Lower bound of the sum of both coefficients of variation of all plans.

    PYTHONPATH=benchmarks .venv/bin/python benchmarks/runners/imbalance_bound.py
        SNAPSHOT MOVES GIB [REPAIRED] [--enough SUM]

A coefficient of variation is the standard deviation of the fractions of capacity that
the nodes have as load, divided by their mean. No plan with at most MOVES migrations of
GIB in total has a smaller sum for cpu and memory. Capacities, the order of steps and
rules are ignored, with one exception: if REPAIRED strict rules must be repaired, at
least as many guests that violate them migrate, because a migration repairs a rule once
at most. `--enough` tries to prove that no plan is below SUM, which takes minutes.

Let A and B be the squares of both variations. In a direction (a, b), a * A + b * B has
a bound from multipliers of load (`opendrs.optimizer.bounds.lagrangian`), in less than a
second, and a higher one from multipliers of guests (`guest_prices`), in many seconds.
Several directions leave a polygon of pairs (A, B). The sum of two roots is concave, so
it is least at a corner.

The mean of the fractions changes if guests migrate between nodes of different capacity.
So the means are divided into boxes. In a box with a mean m between l and h,

    A = (mean of squares) / m^2 - 1 >= ((mean of squares) - (l + h) m + l h) / h^2,

which is a sum of squared distances to (l + h) / 2, minus ((h - l) / 2)^2, over h^2. The
box with the smallest bound is divided until it is small (branch and bound). If that is
not enough, its guests get multipliers, in one direction after another, while the box
has the smallest bound. If that gains little, the box is divided again.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import itertools
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opendrs.optimizer import Problem
from opendrs.optimizer.bounds.lagrangian.data import BoundData
from opendrs.optimizer.bounds.lagrangian.dual import maximize_dual
from runners.guest_prices.bound import Bounds
from runners.guest_prices.choices import RelaxedCluster

Floats = npt.NDArray[np.float64]
OUTSIDE = 1e-9  # rounding error of a corner relative to other lines


@dataclass(frozen=True)
class Line:
    """Half-plane: least value of a weighted sum of both squares."""

    direction: Floats
    least: float


@dataclass(frozen=True)
class Corner:
    """Intersection of two lines.

    Attributes:
        root: Sum of the roots of both squares.
        place: Both squares; shape (2,).
        lines: The two lines.
    """

    root: float
    place: Floats
    lines: tuple[Line, Line]

    @property
    def between(self) -> Floats:
        """Unit direction between the directions of both lines."""
        one, other = (each.direction for each in self.lines)
        mixed: Floats = one / np.linalg.norm(one) + other / np.linalg.norm(other)
        return mixed / np.linalg.norm(mixed)

    def is_cut_off(self, line: Line, part: float) -> bool:
        """Return True if *line* excludes the corner by the fraction *part* at least."""
        here = float(line.direction @ self.place)
        return line.least > here * (1 + part)


def least_corner(lines: list[Line]) -> Corner:
    """Return the corner with the least sum of roots that satisfies all *lines*.

    All directions are positive; no square is negative.
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


GIB = 2**30
ROUNDING_GIB = 0.05  # GiB by which judge_plan.py may round down


def violations_per_guest(snapshot: dict[str, Any]) -> Floats:
    """Return the strict rules that each guest could repair by leaving; shape (G,)."""
    count = dict.fromkeys(snapshot["guests"], 0.0)
    for rule in snapshot.get("rules", []):
        if rule.get("strict", True):
            for name in offenders(snapshot, rule):
                count[name] += 1
    return np.array([*count.values()])


def offenders(snapshot: dict[str, Any], rule: dict[str, Any]) -> list[str]:
    """Return the guests that violate *rule*."""
    homes = {name: snapshot["guests"][name]["node"] for name in rule["guests"]}
    if rule["kind"] == "anti-affinity":
        shared = Counter(homes.values())
        return [name for name, home in homes.items() if shared[home] > 1]
    if rule["kind"] == "affinity":
        return [*homes] if len(set(homes.values())) > 1 else []
    return [name for name, home in homes.items() if home not in rule["nodes"]]


def judged_problem(
    snapshot: dict[str, Any], moves: int, gib: float, repaired: int = 0
) -> Problem:
    """Return the problem of a snapshot as judge_plan.py counts it.

    Raises:
        ValueError: A node is not online.
    """
    nodes, guests = snapshot["nodes"], snapshot["guests"]
    if any(node.get("state", "online") != "online" for node in nodes.values()):
        raise ValueError("nodes: expected all online, got one in another state")
    node_index = {name: index for index, name in enumerate(nodes)}
    demand = np.array(
        [(each["usage"]["cpu"], each["usage"]["memory"]) for each in guests.values()]
    )
    is_movable = [
        each.get("mobility", each.get("moves")) not in ("none", "never")
        for each in guests.values()
    ]
    return Problem(
        capacity=np.array(
            [
                (each["capacity"]["cpu"], each["capacity"]["memory"])
                for each in nodes.values()
            ],
            float,
        ),
        demand=demand.astype(float),
        origin=np.array([node_index[each["node"]] for each in guests.values()]),
        class_of=np.array(is_movable, np.int64),
        allowed=np.array([[False], [True]]) & np.ones(len(nodes), np.bool_),
        imbalance_weight=np.ones(2),
        budget_weights=np.array(
            [np.ones(len(guests)), demand[:, 1] / GIB, -violations_per_guest(snapshot)]
        ),
        budgets=np.array([float(moves), gib + ROUNDING_GIB, -float(repaired)]),
    )


SET_LIMITS = (2_000, 8_000)  # departure sets: to divide boxes, and at the end
# multipliers: to divide boxes, at the end, and with guest prices
MAX_EVALUATIONS = (40, 60, 150)
LOSS = 0.03  # fraction of the squares that may be lost by the size of a box
NARROW = 0.004  # fraction of the mean below which a box is not divided
CORNERS = 8  # most refinements of a polygon
GAIN = 0.005  # fraction of the squares below which the last line gains too little
MAX_BOXES = 500  # most boxes that are evaluated
EVEN = np.array([1.0, 1.0])
SLANTED = (np.array([1.0, 0.05]), np.array([0.05, 1.0]))


@dataclass(order=True)
class Box:
    """Ranges of mean used fractions, with bounds for the plans within them.

    Of two boxes with equal bounds the later one is evaluated first.
    """

    least: float
    number: int
    means: Floats = field(compare=False)
    lines: list[Line] = field(compare=False)
    prices: Floats = field(compare=False)
    is_priced: bool = field(compare=False, default=False)
    is_done: bool = field(compare=False, default=False)

    @property
    def width(self) -> Floats:
        """Size as a fraction of the mean; shape (2,)."""
        width: Floats = 1 - self.means[0] / self.means[1]
        return width

    @property
    def is_small(self) -> bool:
        """True if little is lost by its size."""
        loss = float(np.square(self.width / 2).sum())
        return loss < LOSS * self.lines[0].least or self.is_narrow

    @property
    def is_narrow(self) -> bool:
        """True if it is not divided further."""
        return float(self.width.max()) < NARROW


class BoxSearch:
    """Branch and bound over boxes.

    Args:
        problem: Problem of all plans.
        looks: Most multipliers: to divide boxes, at the end, and with guest prices.
        boxes: Most boxes that are evaluated.
    """

    def __init__(
        self,
        problem: Problem,
        looks: tuple[int, int, int] = MAX_EVALUATIONS,
        boxes: int = MAX_BOXES,
    ) -> None:
        self._max_evaluations = looks
        self._boxes = boxes
        self._data = [BoundData.of(problem, sets) for sets in SET_LIMITS]
        self._bounds = Bounds(RelaxedCluster.of(problem), looks[2])
        self._nodes = problem.node_count
        total = problem.base_load.sum(axis=0) + problem.demand.sum(axis=0)
        capacity = problem.capacity
        self._whole = np.array(
            [
                total / problem.node_count / capacity.max(axis=0),
                total / problem.node_count / capacity.min(axis=0),
            ]
        ) * np.array([[1 - 1e-9], [1 + 1e-9]])
        self._numbers = itertools.count()

    def least(self, enough: float = 0.0) -> float:
        """Return the bound; guest prices are used until it is *enough*."""
        boxes = [self._box(self._whole, 0.0, None)]
        while True:
            box = heapq.heappop(boxes)
            if next(self._numbers) > self._boxes:
                return box.least
            if not box.is_small:
                for means in halves(box):
                    heapq.heappush(boxes, self._box(means, box.least, box.prices))
            elif len(box.lines) == 1:
                heapq.heappush(boxes, self._refined(box))
            elif box.least >= enough or (box.is_done and box.is_narrow):
                return box.least
            elif box.is_done:
                for means in halves(box):
                    heapq.heappush(boxes, self._part(box, means))
            else:
                heapq.heappush(boxes, self._with_guest_prices(box))

    def _box(self, means: Floats, least: float, start: Floats | None) -> Box:
        line, prices = self._line(EVEN, means, start, 0)
        least = max(least, least_corner([line]).root)
        return Box(least, -next(self._numbers), means, [line], prices)

    def _part(self, box: Box, means: Floats) -> Box:
        """Return a part of *box* with the bounds of the whole."""
        return replace(box, number=-next(self._numbers), means=means, is_done=False)

    def _line(
        self, direction: Floats, means: Floats, start: Floats | None, fine: int
    ) -> tuple[Line, Floats]:
        low, high = means
        data = replace(
            self._data[fine],
            weight=direction / (self._nodes * np.square(high)),
            target=(low + high) / 2,
        )
        found = maximize_dual(data, self._max_evaluations[fine], means, start)
        loss = direction @ np.square((high - low) / 2 / high)
        return Line(direction, max(0.0, found.cost - float(loss))), found.multipliers

    def _refined(self, box: Box) -> Box:
        """Return *box* with lines in more directions."""
        even, prices = self._line(EVEN, box.means, box.prices, 1)
        slanted = [self._line(each, box.means, prices, 1)[0] for each in SLANTED]
        lines = [*box.lines, even, *slanted]
        for _ in range(CORNERS):
            open_one = least_corner(lines)
            line, _ = self._line(open_one.between, box.means, prices, 1)
            lines.append(line)
            if not open_one.is_cut_off(line, GAIN):
                break
        least = max(box.least, least_corner(lines).root)
        return replace(box, least=least, lines=lines, prices=prices)

    def _with_guest_prices(self, box: Box) -> Box:
        """Return *box* with one more line; it is done if that gains little."""
        open_one = least_corner(box.lines)
        direction = open_one.between if box.is_priced else EVEN / np.linalg.norm(EVEN)
        least = self._bounds.lower_bound(direction, box.means, box.prices)
        line = Line(direction, max(0.0, least))
        lines = [*box.lines, line]
        return replace(
            box,
            least=max(box.least, least_corner(lines).root),
            lines=lines,
            is_priced=True,
            is_done=box.is_priced and not open_one.is_cut_off(line, GAIN),
        )


def halves(box: Box) -> list[Floats]:
    """Return the mean ranges of both halves of *box*."""
    side = int(box.width.argmax())
    middle = float(box.means[:, side].mean())
    low, high = box.means.copy(), box.means.copy()
    low[1, side] = high[0, side] = middle
    return [low, high]


def least_sum(
    snapshot: dict[str, Any],
    moves: int,
    gib: float,
    repaired: int = 0,
    enough: float = 0.0,
) -> float:
    """Return a bound of the sum of variations of plans with these moves and GiB.

    Plans that repair fewer strict rules are excluded. Until the bound is *enough*,
    guest prices are used, which takes minutes.
    """
    return BoxSearch(judged_problem(snapshot, moves, gib, repaired)).least(enough)


def main() -> None:
    """Print the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("moves", type=int)
    parser.add_argument("gib", type=float)
    parser.add_argument("repaired", type=int, nargs="?", default=0)
    parser.add_argument("--enough", type=float, default=0.0)
    options = parser.parse_args()
    raw = options.snapshot.read_bytes()
    raw = gzip.decompress(raw) if options.snapshot.suffix == ".gz" else raw
    snapshot = json.loads(raw)
    least = least_sum(
        snapshot, options.moves, options.gib, options.repaired, options.enough
    )
    print(f"{least:.4f}")


if __name__ == "__main__":
    main()
