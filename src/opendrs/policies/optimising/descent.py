"""A search for small clusters, which needs no compiled code.

To load the compiler takes longer than to look at all moves of ten nodes. So here all
shifts of a unit are looked at at once, all swaps of two, and within budgets one who
leaves for each who returns; and the best is made, until none is left that gains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opendrs.policies.optimising.engine import Solution, cost, cost_parts
from opendrs.policies.optimising.grid import Grid
from opendrs.policies.optimising.groups import Indices
from opendrs.policies.optimising.pairs import best_swap
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.replacing import replacements

SMALL = 4000  # nodes times units up to which this is quicker
PAIRS = 160_000  # swaps that are looked at at once, at most
STEP = 650  # a step takes as long as so many moves, however few it looks at
QUICKER = 48  # as long as one takes by itself, so many are looked at at once
TRIED = 2  # replacements that seem to gain are looked at closely
RETURNS = 4  # units that go home by chance at once, at most
WORSE = 0.1  # of what evenness costs: what costs so much more is near the best
BACK = 0.1  # where it costs more: how often it is begun at the best again
LEAST = 1e-9  # of the cost at first: what gains less is rounding


def is_small(problem: Problem) -> bool:
    """Return whether *problem* is small, and of the kind that is searched here."""
    return (
        problem.nodes * problem.units <= SMALL
        and problem.units**2 <= PAIRS
        and not problem.transient.any()
        and not problem.balances
        and not problem.use_cost.any()
        and problem.pair_cost is None
        and not problem.group_move_weight
        and not problem.groups.spread.any()
        and not len(problem.groups.needs.items)
    )


class Descent:
    """Make the best shift, replacement or swap, and so on, until none gains.

    Then some who are away go home and others leave, and it is tried from there, and
    gone on with what that comes to, if it is little worse than the best: Lourenco,
    Martin and Stuetzle, Iterated local search (2003); Schrimpf et al., Record breaking
    optimization results using the ruin and recreate principle (2000). Like `Search`,
    the same problem, start, seed and calls give the same.

    Args:
        problem: What is to be solved, of the kind of which `is_small` is. What it costs
            to use nodes is passed over.
        start: A feasible assignment to begin with.
        seed: Where the random numbers begin.

    Attributes:
        exhausted: Whether no move gains, and none may be made by chance.
    """

    def __init__(self, problem: Problem, start: Indices, seed: int = 0) -> None:
        self.problem = problem
        self.iterations = 0
        self.exhausted = False
        self._grid = Grid(problem, start.copy())
        self._dice = np.random.default_rng(seed)
        self._least = LEAST * abs(cost(problem, problem.origin)) + 1e-15
        self._best = Solution(start.copy(), self._grid.price)
        self._margin = self._worse()
        self._top = self._base = self._grid.copied()  # the best, and what is kicked
        self._looked = 0
        self._swaps = problem.units**2 <= PAIRS

    @property
    def best(self) -> Solution:
        """The least costly assignment so far."""
        return self._best

    def settle(self) -> Solution:
        """Go on until no move gains."""
        while self._step():
            pass
        self._keep()
        return self._best

    def run(self, iterations: int, progress: float) -> Solution:
        """Look at about *iterations* moves, and return the best solution so far."""
        del progress  # there is nothing to cool
        end = self._looked + iterations
        while self._looked < end and not self.exhausted:
            if not self._step():
                self._keep()
                self._choose()
                self.exhausted = not (self._kick() or self._kick_best())
        self._keep()
        self.iterations += iterations
        return self._best

    def _step(self) -> bool:
        """Make a move that gains; return whether there is one.

        All swaps take long to look at: that is done only near the best, and not where
        there are many units.
        """
        return (
            self._shift()
            or self._replace()
            or (self._swaps and self._near() and self._swap())
        )

    def _shift(self, barred: Sequence[int] = ()) -> bool:
        """Make the best shift of who is not *barred*, if it gains."""
        grid = self._grid
        self._look(grid.may.size)
        more = np.where(grid.may & grid.affordable(), grid.shifts(), np.inf)
        more[:, barred] = np.inf
        place = int(more.argmin()) if more.size else 0
        if not more.size or not -more.flat[place] > self._least:
            return False
        target, unit = divmod(place, self.problem.units)
        grid.move((unit, target))
        return True

    def _replace(self) -> bool:
        """Let one go home, and another leave, where that gains."""
        grid = self._grid
        self._look(int(grid.away.sum()) * self.problem.units)
        for home, unit, target in replacements(grid, self._least, TRIED):
            before = grid.price
            here, source = grid.node_of[[home, unit]].tolist()
            grid.move((home, int(self.problem.origin[home])), (unit, target))
            if before - grid.price > self._least:
                return True
            grid.move((home, here), (unit, source))
        return False

    def _swap(self) -> bool:
        """Let those two change places that gain most by it, if any do."""
        grid = self._grid
        self._look(self.problem.units**2)
        found = best_swap(grid, self._least)
        if found.unit < 0:
            return False
        here, there = grid.node_of[[found.unit, found.other]].tolist()
        grid.move((found.unit, there), (found.other, here))
        return True

    def _look(self, moves: int) -> None:
        """Count a look at so many moves at once."""
        self._looked += STEP + moves // QUICKER

    def _keep(self) -> None:
        """Take what stands over as the best, if it is."""
        if self._best.cost - self._grid.price > self._least:
            node_of = self._grid.node_of.copy()
            self._best = Solution(node_of, cost(self.problem, node_of))
            self._top = self._grid.copied()
            self._margin = self._worse()

    def _worse(self) -> float:
        """Return what may cost more than the best, to be near it."""
        return WORSE * cost_parts(self.problem, self._best.assignment).even

    def _near(self) -> bool:
        """Return whether what stands is little worse than the best."""
        return self._grid.price - self._best.cost <= self._margin

    def _choose(self) -> None:
        """Go on from what stands, if it is near the best."""
        if self._near():
            self._base = self._grid
        elif self._dice.random() < BACK:
            self._base = self._top

    def _kick_best(self) -> bool:
        """Kick the best; return whether any of it was moved."""
        self._base = self._top
        return self._kick()

    def _kick(self) -> bool:
        """Let some go home, and others leave; return whether any was moved.

        One leaves by chance, and the best after it.
        """
        self._grid = self._base.copied()
        returned = self._returned()
        strayed = self._stray()
        while self._shift(returned):
            pass
        return strayed or len(returned) > 0

    def _returned(self) -> list[int]:
        """Let one or some go home by chance; return who did."""
        grid, origin = self._grid, self.problem.origin
        chosen = self._dice.permutation(np.flatnonzero(grid.away)).tolist()
        returned = []
        for unit in chosen[: self._dice.integers(1, RETURNS + 1)]:
            home = int(origin[unit])
            if grid.may[home, unit]:
                self._look(0)
                grid.move((unit, home))
                returned.append(unit)
        return returned

    def _stray(self) -> bool:
        """Shift a unit by chance; return whether any may be shifted."""
        grid = self._grid
        possible = np.flatnonzero(grid.may & grid.affordable())
        if not len(possible):
            return False
        self._look(0)
        place = int(possible[self._dice.integers(len(possible))])
        target, unit = divmod(place, self.problem.units)
        grid.move((unit, target))
        return True
