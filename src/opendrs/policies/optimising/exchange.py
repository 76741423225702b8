"""A search within budgets that few moves use up: who travels is exchanged for others.

Simulated annealing whose changes mostly keep what is spent: another leaves instead of
who has left, or two who have left change targets. It finds who is to go, where a
search of single moves is stuck once the budget is used up.
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.emptiest import emptiest
from opendrs.policies.optimising.engine import Solution, cost, cost_parts
from opendrs.policies.optimising.engine.state import empty_state
from opendrs.policies.optimising.engine.tables import NONE, tables_of
from opendrs.policies.optimising.groups import Indices
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.valuation import gains_of_leaving

HOT = 0.3  # the first temperature, in what evenness costs a node at the origin
COLD = 0.005  # the last one, in what it costs at the best so far
LOOK = 20  # changes for each unit after which it is looked anew at who should leave
TARGETS = 96  # emptiest nodes, of each kind, to which units go
FEW = 6  # emptiest nodes, by each resource and all, that are looked at for that
CHOICE = (50, 10)  # who may leave: so many, and so many for each who is away
TINY = 1e-12  # a temperature where all is even


class Exchange:
    """Look for assignments that cost less within budgets, some iterations at a time.

    Like `Search`, the same problem, start, seed and calls give the same, and `best` is
    always feasible. No node becomes overfull on the way.

    Attributes:
        problem: What is to be solved.
        iterations: How many changes have been looked at.
        tables: The problem as compiled code reads it.
        state: Where units are now, and what that comes to.
        who: Who is away now, and who might be.

    Args:
        problem: What is to be solved.
        start: A feasible assignment to begin with.
        seed: Where the random numbers begin.
        heat: The first temperature, in what evenness costs a node at the start. Where
            it is left out, the search is so hot that the start hardly matters.

    Raises:
        ValueError: Groups are to be spread, need others, or cost by how many of them
            move, which is not looked at here.
    """

    def __init__(
        self,
        problem: Problem,
        start: Indices,
        seed: int = 0,
        *,
        heat: float | None = None,
    ) -> None:
        # Compiled code is loaded by those who search only: it takes half a second.
        from opendrs.policies.optimising import exchanging  # noqa: PLC0415
        from opendrs.policies.optimising.engine import annealing  # noqa: PLC0415

        if not _is_known(problem):
            raise ValueError("groups may only have to stand apart")
        self.problem = problem
        self.iterations = 0
        self._exchanging = exchanging
        self.tables = tables_of(problem)
        most = int(np.bincount(start, minlength=1).max(initial=0))
        self.state = empty_state(self.tables, seed, 4 * most + 64)
        self.state.node_of[:] = start
        self.state.best[:] = start  # of the best only what has moved since is told
        annealing.start(self.tables, self.state)
        away = np.flatnonzero(start != problem.origin)
        slot = np.full(problem.units, NONE)
        slot[away] = np.arange(len(away))
        self.who = exchanging.Travellers(
            away=np.concatenate([away, np.zeros(problem.units - len(away), np.int64)]),
            slot=slot,
            number=np.array([len(away)]),
            candidates=np.zeros(0, np.int64),
            targets=np.zeros(0, np.int64),
        )
        if heat is None:
            self._hot = HOT * self._unevenness(problem.origin)
        else:
            self._hot = heat * self._unevenness(start)
        self._progress = 0.0
        self._seen = -LOOK * problem.units
        self._best = Solution(start.copy(), cost(problem, start))

    @property
    def best(self) -> Solution:
        """The least costly assignment so far."""
        return self._best

    def run(self, iterations: int, progress: float) -> Solution:
        """Look at *iterations* changes, and return the best solution so far.

        Args:
            iterations: How many changes are tried.
            progress: The part of the time, in [0, 1], that will be gone when this
                call returns; the search becomes pickier towards 1.
        """
        if self.iterations - self._seen >= LOOK * self.problem.units:
            self._look()
        if not len(self.who.candidates):
            return self._best
        cold = COLD * self._unevenness(self._best.assignment)
        ratio = min(1.0, cold / self._hot)
        progress = max(progress, self._progress)
        leg = self._exchanging.Leg(
            iterations=iterations,
            hot=self._hot * ratio**self._progress,
            cold=self._hot * ratio**progress,
        )
        self._exchanging.exchange(self.tables, self.state, self.who, leg)
        self._progress = progress
        self.iterations += iterations
        self._collect()
        return self._best

    def _unevenness(self, assignment: Indices) -> float:
        """Return what evenness costs a node on average."""
        even = cost_parts(self.problem, assignment).even
        return max(even / max(self.problem.nodes, 1), TINY)

    def _look(self) -> None:
        """Find out who should leave, and where to."""
        self._seen = self.iterations
        problem, load = self.problem, self.state.load
        least, each = CHOICE
        most = least + each * int(self.who.number[0])
        targets = emptiest(problem, load, FEW)
        gains = gains_of_leaving(problem, self.state.node_of, load, targets)
        order = np.argsort(-gains, kind="stable")[:most]
        self.who = self.who._replace(
            candidates=np.sort(order[gains[order] > -np.inf]),
            targets=emptiest(problem, load, TARGETS),
        )

    def _collect(self) -> None:
        """Take the best assignment over, if it is better than the one so far."""
        if self.state.best_cost[0] < self._best.cost:
            found = self.state.best.copy()
            price = cost(self.problem, found)
            if price < self._best.cost:
                self._best = Solution(found, price)


def _is_known(problem: Problem) -> bool:
    groups = problem.groups
    return not (
        groups.spread.any() or len(groups.needs.items) or problem.group_move_weight
    )
