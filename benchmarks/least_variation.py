"""The least sum of the variations of cpu and of memory that a plan can come to.

    .venv/bin/python benchmarks/least_variation.py SNAPSHOT MOVES GIB [MENDED]

Variations are those of `tools/judge_plan.py`: the standard deviation of the shares of
capacity that nodes have as load, over their mean. No plan that moves as many guests and
transfers as much comes below what is printed; the room of nodes, the order of steps and
rules are passed over. But where so many strict rules are to be mended, at least as many
of those leave who break them: each move mends a rule once at most.

A and B be the squares of both variations. In a direction (a, b), a * A + b * B has a
bound, found by prices (`opendrs.policies.optimising.decomposition`). Several directions
leave a polygon of pairs (A, B) open, and the sum of two roots, a concave function, is
least at one of its corners.

The mean of the shares changes where guests move between nodes of different capacity. So
all means are divided into boxes. Within one, where the mean m is between l and h,

    A = (mean of squares) / m^2 - 1 >= ((mean of squares) - (l + h) m + l h) / h^2,

which is a square of distances to (l + h) / 2 less ((h - l) / 2)^2, over h^2. The box
that allows for least is divided until it is small.
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

from opendrs.policies.optimising.decomposition.ground import Ground
from opendrs.policies.optimising.decomposition.least import bound
from opendrs.policies.optimising.problem import Problem

Floats = npt.NDArray[np.float64]

GIB = 2**30
ROUNDED = 0.05  # GiB that the judge may leave out
SETS = (2_000, 8_000)  # of guests that may leave: to divide boxes, and at the end
LOOKS = (40, 60)  # at prices, in each direction and box
LOSS = 0.03  # part of the squares that may be lost by the size of a box
NARROW = 0.004  # part of the mean: no smaller box is divided
CORNERS = 8  # of a polygon that are looked at, at most
GAIN = 0.005  # part of the sum: a corner that gains less is the last
BOXES = 300  # that are looked at, at most
OUTSIDE = 1e-9  # what a corner may be behind other lines, by rounding
EVEN = np.array([1.0, 1.0])
SLANTED = (np.array([1.0, 0.05]), np.array([0.05, 1.0]))


@dataclass(frozen=True)
class Line:
    """In a direction, and how far at least."""

    direction: Floats
    least: float


def corner(lines: list[Line]) -> tuple[float, list[Line]]:
    """Return the least sum of roots that *lines* leave open, and between which.

    All directions are positive; no square is below 0.
    """
    axes = [Line(np.array([1.0, 0.0]), 0.0), Line(np.array([0.0, 1.0]), 0.0)]
    found: list[tuple[float, list[Line]]] = []
    for pair in itertools.combinations([*lines, *axes], 2):
        matrix = np.array([each.direction for each in pair])
        if abs(np.linalg.det(matrix)) < 1e-12:
            continue
        place = np.linalg.solve(matrix, [each.least for each in pair])
        slack = [each.direction @ place - each.least for each in [*lines, *axes]]
        if min(slack) >= -OUTSIDE:
            root = np.sqrt(np.maximum(place, 0.0)).sum()
            found.append((float(root), [*pair]))
    return min(found, key=lambda each: each[0])


@dataclass(order=True)
class Box:
    """Means of shares, and what is known of the plans that have them.

    Of two boxes that allow for as little the one that was made last is looked at first.
    """

    least: float
    number: int
    means: Floats = field(compare=False)
    lines: list[Line] = field(compare=False, default_factory=list)
    prices: Floats | None = field(compare=False, default=None)

    @property
    def width(self) -> Floats:
        """Its size, as a part of the mean; shape (2,)."""
        width: Floats = 1 - self.means[0] / self.means[1]
        return width

    @property
    def is_small(self) -> bool:
        """Whether little is lost by its size."""
        loss = float(np.square(self.width / 2).sum())
        return loss < LOSS * self.lines[0].least or float(self.width.max()) < NARROW


class Search:
    """The search for the box that allows for least.

    Args:
        problem: What may be moved.
        looks: At how many prices it looks: to divide boxes, and at the end.
    """

    def __init__(self, problem: Problem, looks: tuple[int, int] = LOOKS) -> None:
        self._looks = looks
        self._grounds = [Ground.of(problem, sets) for sets in SETS]
        self._nodes = problem.nodes
        total = problem.base.sum(axis=0) + problem.demand.sum(axis=0)
        capacity = problem.capacity
        self._whole = np.array(
            [
                total / problem.nodes / capacity.max(axis=0),
                total / problem.nodes / capacity.min(axis=0),
            ]
        ) * np.array([[1 - 1e-9], [1 + 1e-9]])
        self._numbers = itertools.count()

    def least(self) -> float:
        """Return what no plan comes below."""
        boxes = [self._box(self._whole, 0.0, None)]
        while True:
            box = heapq.heappop(boxes)
            if next(self._numbers) > BOXES:
                return box.least
            if not box.is_small:
                for means in halves(box):
                    heapq.heappush(boxes, self._box(means, box.least, box.prices))
            elif len(box.lines) == 1:
                heapq.heappush(boxes, self._looked_at_closely(box))
            else:
                return box.least

    def _box(self, means: Floats, least: float, start: Floats | None) -> Box:
        line, prices = self._line(EVEN, means, start, 0)
        least = max(least, corner([line])[0])
        return Box(least, -next(self._numbers), means, [line], prices)

    def _line(
        self, direction: Floats, means: Floats, start: Floats | None, fine: int
    ) -> tuple[Line, Floats]:
        low, high = means
        ground = replace(
            self._grounds[fine],
            weight=direction / (self._nodes * np.square(high)),
            target=(low + high) / 2,
        )
        found = bound(ground, self._looks[fine], means, start)
        loss = direction @ np.square((high - low) / 2 / high)
        return Line(direction, max(0.0, found.cost - float(loss))), found.prices

    def _looked_at_closely(self, box: Box) -> Box:
        """Return *box* with lines in more directions."""
        even, prices = self._line(EVEN, box.means, box.prices, 1)
        slanted = [self._line(each, box.means, prices, 1)[0] for each in SLANTED]
        lines = [*box.lines, even, *slanted]
        least, pair = corner(lines)
        for _ in range(CORNERS):
            direction = between(pair)
            lines.append(self._line(direction, box.means, prices, 1)[0])
            before = least
            least, pair = corner(lines)
            if least < before * (1 + GAIN):
                break
        return Box(max(box.least, least), box.number, box.means, lines, box.prices)


def between(pair: list[Line]) -> Floats:
    """Return the direction between those of *pair*."""
    one, other = (each.direction / np.linalg.norm(each.direction) for each in pair)
    mixed: Floats = one + other
    return mixed


def halves(box: Box) -> list[Floats]:
    """Return the means of both halves of *box*."""
    side = int(box.width.argmax())
    middle = float(box.means[:, side].mean())
    low, high = box.means.copy(), box.means.copy()
    low[1, side] = high[0, side] = middle
    return [low, high]


def offences(snapshot: dict[str, Any]) -> Floats:
    """Return how many strict rules each guest might mend by leaving its node; (G,)."""
    count = dict.fromkeys(snapshot["guests"], 0.0)
    for rule in snapshot.get("rules", []):
        if rule.get("strict", True):
            for name in offenders(snapshot, rule):
                count[name] += 1
    return np.array([*count.values()])


def offenders(snapshot: dict[str, Any], rule: dict[str, Any]) -> list[str]:
    """Return the guests that break *rule* where they are."""
    homes = {name: snapshot["guests"][name]["node"] for name in rule["guests"]}
    if rule["kind"] == "anti-affinity":
        shared = Counter(homes.values())
        return [name for name, home in homes.items() if shared[home] > 1]
    if rule["kind"] == "affinity":
        return [*homes] if len(set(homes.values())) > 1 else []
    return [name for name, home in homes.items() if home not in rule["nodes"]]


def problem_of(
    snapshot: dict[str, Any], moves: int, gib: float, mended: int = 0
) -> Problem:
    """Return what may be moved in a snapshot, as the judge counts it.

    Raises:
        ValueError: A node is not online.
    """
    nodes, guests = snapshot["nodes"], snapshot["guests"]
    if any(node.get("state", "online") != "online" for node in nodes.values()):
        raise ValueError("there is a node that is not online")
    place = {name: index for index, name in enumerate(nodes)}
    demand = np.array(
        [(each["usage"]["cpu"], each["usage"]["memory"]) for each in guests.values()]
    )
    may = [each.get("moves", "live") != "never" for each in guests.values()]
    return Problem(
        capacity=np.array(
            [
                (each["capacity"]["cpu"], each["capacity"]["memory"])
                for each in nodes.values()
            ],
            float,
        ),
        demand=demand.astype(float),
        origin=np.array([place[each["node"]] for each in guests.values()]),
        class_of=np.array(may, np.int64),
        allowed=np.array([[False], [True]]) & np.ones(len(nodes), np.bool_),
        even_weight=np.ones(2),
        measures=np.array(
            [np.ones(len(guests)), demand[:, 1] / GIB, -offences(snapshot)]
        ),
        budgets=np.array([float(moves), gib + ROUNDED, -float(mended)]),
    )


def least_sum(
    snapshot: dict[str, Any], moves: int, gib: float, mended: int = 0
) -> float:
    """Return the sum of variations that no plan of so many moves and GiB is below.

    Plans that mend fewer strict rules are left out.
    """
    return Search(problem_of(snapshot, moves, gib, mended)).least()


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("moves", type=int)
    parser.add_argument("gib", type=float)
    parser.add_argument("mended", type=int, nargs="?", default=0)
    asked = parser.parse_args()
    raw = asked.snapshot.read_bytes()
    raw = gzip.decompress(raw) if asked.snapshot.suffix == ".gz" else raw
    print(f"{least_sum(json.loads(raw), asked.moves, asked.gib, asked.mended):.4f}")


if __name__ == "__main__":
    main()
