"""A search for small clusters, which needs no compiled code.

To load the compiler takes longer than to look at all moves of ten nodes. So here all
shifts of a unit are looked at at once, all swaps of two, and within budgets one who
leaves for each who returns; and the best is made, until none is left that gains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opendrs.optimizer.evaluation import Solution, cost, cost_breakdown
from opendrs.optimizer.operators.replace import best_replacements
from opendrs.optimizer.operators.shift import ShiftTable
from opendrs.optimizer.operators.swap import best_swap
from opendrs.optimizer.problem import Indices, Problem

MAX_SMALL_SIZE = 4000  # nodes times units up to which this is quicker
MAX_PAIRS = 160_000  # swaps that are looked at at once, at most
STEP_COST = 650  # a step takes as long as so many moves, however few it looks at
VECTOR_SPEEDUP = 48  # as long as one takes by itself, so many are looked at at once
CANDIDATES = 2  # replacements that seem to gain are looked at closely
MAX_RETURNS = 4  # units that go home by chance at once, at most
ACCEPTED_INCREASE = (
    0.1  # of what evenness costs: what costs so much more is near the best
)
RESTART_PROBABILITY = (
    0.1  # where it costs more: how often it is begun at the best again
)
MIN_RELATIVE_GAIN = 1e-9  # of the cost at first: what gains less is rounding


def is_small(problem: Problem) -> bool:
    """Return whether *problem* is small, and of the kind that is searched here."""
    return (
        problem.node_count * problem.group_count <= MAX_SMALL_SIZE
        and problem.group_count**2 <= MAX_PAIRS
        and not problem.transient.any()
        and not problem.ratio_terms
        and not problem.use_cost.any()
        and problem.pair_cost is None
        and not problem.set_move_weight
        and not problem.group_sets.spread.any()
        and not len(problem.group_sets.needs.items)
    )


class LocalSearch:
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
        self._table = ShiftTable(problem, start.copy())
        self._random = np.random.default_rng(seed)
        self._min_gain = MIN_RELATIVE_GAIN * abs(cost(problem, problem.origin)) + 1e-15
        self._best = Solution(start.copy(), self._table.total_cost)
        self._accepted_increase = self._acceptance_limit()
        self._best_table = self._start_table = (
            self._table.copy()
        )  # the best, and what is kicked
        self._evaluated = 0
        self._tries_swaps = problem.group_count**2 <= MAX_PAIRS

    @property
    def best(self) -> Solution:
        """The least costly assignment so far."""
        return self._best

    def descend(self) -> Solution:
        """Go on until no move gains."""
        while self._step():
            pass
        self._store_best()
        return self._best

    def run(self, iterations: int, progress: float) -> Solution:
        """Look at about *iterations* moves, and return the best solution so far."""
        del progress  # there is nothing to cool
        end = self._evaluated + iterations
        while self._evaluated < end and not self.exhausted:
            if not self._step():
                self._store_best()
                self._accept()
                self.exhausted = not (self._perturb() or self._perturb_best())
        self._store_best()
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
            or (self._tries_swaps and self._is_near_best() and self._swap())
        )

    def _shift(self, tabu: Sequence[int] = ()) -> bool:
        """Make the best shift of who is not *tabu*, if it gains."""
        table = self._table
        self._count_evaluations(table.can_shift.size)
        delta = np.where(
            table.can_shift & table.within_budgets(), table.shift_deltas(), np.inf
        )
        delta[:, tabu] = np.inf
        index = int(delta.argmin()) if delta.size else 0
        if not delta.size or not -delta.flat[index] > self._min_gain:
            return False
        target, group = divmod(index, self.problem.group_count)
        table.move((group, target))
        return True

    def _replace(self) -> bool:
        """Let one go home, and another leave, where that gains."""
        table = self._table
        self._count_evaluations(
            int(table.is_displaced.sum()) * self.problem.group_count
        )
        for home, group, target in best_replacements(table, self._min_gain, CANDIDATES):
            before = table.total_cost
            here, source = table.node_of[[home, group]].tolist()
            table.move((home, int(self.problem.origin[home])), (group, target))
            if before - table.total_cost > self._min_gain:
                return True
            table.move((home, here), (group, source))
        return False

    def _swap(self) -> bool:
        """Let those two change places that gain most by it, if any do."""
        table = self._table
        self._count_evaluations(self.problem.group_count**2)
        swap = best_swap(table, self._min_gain)
        if swap.group < 0:
            return False
        here, there = table.node_of[[swap.group, swap.other]].tolist()
        table.move((swap.group, there), (swap.other, here))
        return True

    def _count_evaluations(self, moves: int) -> None:
        """Count a look at so many moves at once."""
        self._evaluated += STEP_COST + moves // VECTOR_SPEEDUP

    def _store_best(self) -> None:
        """Take what stands over as the best, if it is."""
        if self._best.cost - self._table.total_cost > self._min_gain:
            node_of = self._table.node_of.copy()
            self._best = Solution(node_of, cost(self.problem, node_of))
            self._best_table = self._table.copy()
            self._accepted_increase = self._acceptance_limit()

    def _acceptance_limit(self) -> float:
        """Return what may cost more than the best, to be near it."""
        return (
            ACCEPTED_INCREASE
            * cost_breakdown(self.problem, self._best.assignment).imbalance
        )

    def _is_near_best(self) -> bool:
        """Return whether what stands is little worse than the best."""
        return self._table.total_cost - self._best.cost <= self._accepted_increase

    def _accept(self) -> None:
        """Go on from what stands, if it is near the best."""
        if self._is_near_best():
            self._start_table = self._table
        elif self._random.random() < RESTART_PROBABILITY:
            self._start_table = self._best_table

    def _perturb_best(self) -> bool:
        """Kick the best; return whether any of it was moved."""
        self._start_table = self._best_table
        return self._perturb()

    def _perturb(self) -> bool:
        """Let some go home, and others leave; return whether any was moved.

        One leaves by chance, and the best after it.
        """
        self._table = self._start_table.copy()
        tabu = self._return_some()
        shifted = self._shift_randomly()
        while self._shift(tabu):
            pass
        return shifted or len(tabu) > 0

    def _return_some(self) -> list[int]:
        """Let one or some go home by chance; return who did."""
        table, origin = self._table, self.problem.origin
        chosen = self._random.permutation(np.flatnonzero(table.is_displaced)).tolist()
        returned = []
        for group in chosen[: self._random.integers(1, MAX_RETURNS + 1)]:
            home = int(origin[group])
            if table.can_shift[home, group]:
                self._count_evaluations(0)
                table.move((group, home))
                returned.append(group)
        return returned

    def _shift_randomly(self) -> bool:
        """Shift a unit by chance; return whether any may be shifted."""
        table = self._table
        possible = np.flatnonzero(table.can_shift & table.within_budgets())
        if not len(possible):
            return False
        self._count_evaluations(0)
        index = int(possible[self._random.integers(len(possible))])
        target, group = divmod(index, self.problem.group_count)
        table.move((group, target))
        return True
