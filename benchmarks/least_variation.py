"""The least sum of the variations of cpu and of memory that a plan can come to.

    .venv/bin/python benchmarks/least_variation.py SNAPSHOT MOVES GIB [MENDED]
        [--enough SUM]

Variations are those of `tools/judge_plan.py`: the standard deviation of the shares of
capacity that nodes have as load, over their mean. No plan that moves as many guests and
transfers as much comes below what is printed; the room of nodes, the order of steps and
rules are passed over. But where so many strict rules are to be mended, at least as many
of those leave who break them: each move mends a rule once at most. With `--enough` it
is tried to prove that no plan comes below that sum, which takes minutes.

A and B be the squares of both variations. In a direction (a, b), a * A + b * B has a
bound, found by prices of load (`opendrs.policies.optimising.decomposition`), in less
than a second, and a higher one, found by prices of guests (`guest_prices`), in many.
Several directions leave a polygon of pairs (A, B) open, and the sum of two roots, a
concave function, is least at one of its corners.

The mean of the shares changes where guests move between nodes of different capacity. So
all means are divided into boxes. Within one, where the mean m is between l and h,

    A = (mean of squares) / m^2 - 1 >= ((mean of squares) - (l + h) m + l h) / h^2,

which is a square of distances to (l + h) / 2 less ((h - l) / 2)^2, over h^2. The box
that allows for least is divided until it is small. Then, where more is asked for,
guests get prices in it, for one direction after another, while it allows for least;
and where that gains little, it is divided once more.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import itertools
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from guest_prices.bound import Bounds
from guest_prices.cluster import Cluster
from judged import problem_of
from opendrs.policies.optimising.decomposition.ground import Ground
from opendrs.policies.optimising.decomposition.least import bound
from opendrs.policies.optimising.problem import Problem
from polygon import Line, corner

Floats = npt.NDArray[np.float64]

SETS = (2_000, 8_000)  # of guests that may leave: to divide boxes, and at the end
LOOKS = (40, 60, 150)  # at prices: to divide boxes, at the end, and of guests
LOSS = 0.03  # part of the squares that may be lost by the size of a box
NARROW = 0.004  # part of the mean: no smaller box is divided
CORNERS = 8  # of a polygon that are looked at, at most
GAIN = 0.005  # part of the squares: the last line cuts off less of its corner
BOXES = 500  # that are looked at, at most
EVEN = np.array([1.0, 1.0])
SLANTED = (np.array([1.0, 0.05]), np.array([0.05, 1.0]))


@dataclass(order=True)
class Box:
    """Means of shares, and what is known of the plans that have them.

    Of two boxes that allow for as little the one that was made last is looked at first.
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
        """Its size, as a part of the mean; shape (2,)."""
        width: Floats = 1 - self.means[0] / self.means[1]
        return width

    @property
    def is_small(self) -> bool:
        """Whether little is lost by its size."""
        loss = float(np.square(self.width / 2).sum())
        return loss < LOSS * self.lines[0].least or self.is_narrow

    @property
    def is_narrow(self) -> bool:
        """Whether it is not divided any more."""
        return float(self.width.max()) < NARROW


class Search:
    """The search for the box that allows for least.

    Args:
        problem: What may be moved.
        looks: At how many prices it looks: to divide boxes, at the end, and of guests.
        boxes: That are looked at, at most.
    """

    def __init__(
        self,
        problem: Problem,
        looks: tuple[int, int, int] = LOOKS,
        boxes: int = BOXES,
    ) -> None:
        self._looks = looks
        self._boxes = boxes
        self._grounds = [Ground.of(problem, sets) for sets in SETS]
        self._bounds = Bounds(Cluster.of(problem), looks[2])
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

    def least(self, enough: float = 0.0) -> float:
        """Return what no plan comes below; guests get prices until it is *enough*."""
        boxes = [self._box(self._whole, 0.0, None)]
        while True:
            box = heapq.heappop(boxes)
            if next(self._numbers) > self._boxes:
                return box.least
            if not box.is_small:
                for means in halves(box):
                    heapq.heappush(boxes, self._box(means, box.least, box.prices))
            elif len(box.lines) == 1:
                heapq.heappush(boxes, self._looked_at_closely(box))
            elif box.least >= enough or (box.is_done and box.is_narrow):
                return box.least
            elif box.is_done:
                for means in halves(box):
                    heapq.heappush(boxes, self._part(box, means))
            else:
                heapq.heappush(boxes, self._with_prices_of_guests(box))

    def _box(self, means: Floats, least: float, start: Floats | None) -> Box:
        line, prices = self._line(EVEN, means, start, 0)
        least = max(least, corner([line]).root)
        return Box(least, -next(self._numbers), means, [line], prices)

    def _part(self, box: Box, means: Floats) -> Box:
        """Return a part of *box* of which no more is known than of all of it."""
        return replace(box, number=-next(self._numbers), means=means, is_done=False)

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
        for _ in range(CORNERS):
            open_one = corner(lines)
            line, _ = self._line(open_one.between, box.means, prices, 1)
            lines.append(line)
            if not open_one.is_cut_off(line, GAIN):
                break
        least = max(box.least, corner(lines).root)
        return replace(box, least=least, lines=lines, prices=prices)

    def _with_prices_of_guests(self, box: Box) -> Box:
        """Return *box* with one more line, which is the last where it gains little."""
        open_one = corner(box.lines)
        direction = open_one.between if box.is_priced else EVEN / np.linalg.norm(EVEN)
        least = self._bounds.least(direction, box.means, box.prices)
        line = Line(direction, max(0.0, least))
        lines = [*box.lines, line]
        return replace(
            box,
            least=max(box.least, corner(lines).root),
            lines=lines,
            is_priced=True,
            is_done=box.is_priced and not open_one.is_cut_off(line, GAIN),
        )


def halves(box: Box) -> list[Floats]:
    """Return the means of both halves of *box*."""
    side = int(box.width.argmax())
    middle = float(box.means[:, side].mean())
    low, high = box.means.copy(), box.means.copy()
    low[1, side] = high[0, side] = middle
    return [low, high]


def least_sum(
    snapshot: dict[str, Any],
    moves: int,
    gib: float,
    mended: int = 0,
    enough: float = 0.0,
) -> float:
    """Return the sum of variations that no plan of so many moves and GiB is below.

    Plans that mend fewer strict rules are left out. Until it is *enough*, guests get
    prices, which takes minutes.
    """
    return Search(problem_of(snapshot, moves, gib, mended)).least(enough)


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("moves", type=int)
    parser.add_argument("gib", type=float)
    parser.add_argument("mended", type=int, nargs="?", default=0)
    parser.add_argument("--enough", type=float, default=0.0)
    asked = parser.parse_args()
    raw = asked.snapshot.read_bytes()
    raw = gzip.decompress(raw) if asked.snapshot.suffix == ".gz" else raw
    snapshot = json.loads(raw)
    least = least_sum(snapshot, asked.moves, asked.gib, asked.mended, asked.enough)
    print(f"{least:.4f}")


if __name__ == "__main__":
    main()
