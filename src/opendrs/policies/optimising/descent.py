"""A search for small clusters, which needs no compiled code.

To load the compiler takes longer than to look at all moves of ten nodes. So here all
shifts of a unit are looked at at once, all swaps of two, and within budgets one who
leaves for each who returns; and the best is made, until none is left that gains.
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.engine import Solution, cost, cost_parts
from opendrs.policies.optimising.grid import Grid
from opendrs.policies.optimising.groups import Indices
from opendrs.policies.optimising.pairs import Swaps
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.replacing import replacements

SMALL = 4000  # nodes times units up to which this is quicker
PAIRS = 160_000  # swaps that are looked at at once, at most
STEP = 1000  # a step takes as long as so many moves, however few it looks at
QUICKER = 10  # times a swap is looked at as quickly as a shift
TRIED = 2  # replacements that seem to gain are looked at closely
KICK = 3  # units that are moved by chance at once, where no budget bounds them
WORSE = 0.2  # of what evenness costs: what it may cost more than the best, to go on
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

    Then a few units are moved by chance, and it is tried from there, and gone on with
    what that comes to, if it is little worse than the best: Lourenco, Martin and
    Stuetzle, Iterated local search (2003). Like `Search`, the same problem, start, seed
    and calls give the same.

    Args:
        problem: What is to be solved; `is_small`.
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
        self._swaps = Swaps(problem)
        self._dice = np.random.default_rng(seed)
        self._least = LEAST * abs(cost(problem, problem.origin)) + 1e-15
        self._best = Solution(start.copy(), cost(problem, start))
        self._base = self._best  # where units are moved by chance
        self._looked = 0

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
                self._choose(self._keep())
                self.exhausted = not (self._kick() or self._kick_best())
        self._keep()
        self.iterations += iterations
        return self._best

    def _step(self) -> bool:
        """Make a move that gains; return whether there is one."""
        return self._shift() or self._replace() or self._swap()

    def _shift(self) -> bool:
        """Make the best shift, if it gains."""
        grid = self._grid
        self._looked += STEP + grid.open.size
        more = np.where(grid.may_shift() & grid.affordable(), grid.shifts(), np.inf)
        place = int(more.argmin()) if more.size else 0
        if not more.size or not -more.flat[place] > self._least:
            return False
        grid.shift(*divmod(place, self.problem.nodes))
        return True

    def _replace(self) -> bool:
        """Let one go home, and another leave, where that gains."""
        grid, origin = self._grid, self.problem.origin
        self._looked += int(grid.away.sum()) * self.problem.units
        for home, unit, target in replacements(grid, self._least, TRIED):
            before, there = int(grid.node_of[home]), int(origin[home])
            more = grid.shifts()[home, there]
            grid.shift(home, there)
            more += grid.shifts()[unit, target]
            may = grid.may_shift()[unit, target] and grid.affordable()[unit, target]
            if may and -more > self._least:
                grid.shift(unit, target)
                return True
            grid.shift(home, before)
        return False

    def _swap(self) -> bool:
        """Let those two change places that gain most by it, if any do."""
        grid = self._grid
        self._looked += self.problem.units**2 // QUICKER
        found = self._swaps.best(grid, self._least)
        if found.unit < 0:
            return False
        here, there = grid.node_of[[found.unit, found.other]].tolist()
        grid.shift(found.unit, there)
        grid.shift(found.other, here)
        return True

    def _keep(self) -> Solution:
        """Return what stands; take it over as the best, if it is."""
        node_of = self._grid.node_of.copy()
        found = Solution(node_of, cost(self.problem, node_of))
        if found.cost < self._best.cost:
            self._best = found
        return found

    def _choose(self, found: Solution) -> None:
        """Go on from *found*, if it is not much worse than the best."""
        even = cost_parts(self.problem, self._best.assignment).even
        if found.cost - self._best.cost < WORSE * even:
            self._base = found
        elif self._dice.random() < BACK:
            self._base = self._best

    def _kick_best(self) -> bool:
        """Move some units of the best by chance; return whether any was moved."""
        self._base = self._best
        return self._kick()

    def _kick(self) -> bool:
        """Move some units by chance; return whether any was moved.

        Within budgets one goes home first, so that another can leave.
        """
        self._grid = grid = Grid(self.problem, self._base.assignment.copy())
        moved = False
        returns = 1 if len(self.problem.budgets) else 0
        for unit in self._dice.permutation(np.flatnonzero(grid.away))[:returns]:
            home = int(self.problem.origin[unit])
            if grid.may_shift()[unit, home]:
                grid.shift(int(unit), home)
                moved = True
        for _ in range(1 if returns else KICK):
            possible = np.argwhere(grid.may_shift() & grid.affordable())
            if not len(possible):
                break
            grid.shift(*possible[self._dice.integers(len(possible))].tolist())
            moved = True
        return moved
