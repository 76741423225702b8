"""Iterated local search by steepest descent, for small clusters.

The search evaluates all shifts at once in NumPy, all swaps, and within budgets all
replacements. It applies the best one until none gains. Loading the compiler would take
longer than evaluating all moves of ten nodes, so no compiled code is used.

In a local optimum, one to four displaced groups return and another group is shifted
(ruin and recreate). The search continues from the result if its cost is near the best:
not further above it than a tenth of the imbalance cost, or than the median of the
recent results. The median adapts to the costs that dominate the problem.

Source:
    Lourenço, Martin and Stützle, Iterated local search (2003).
    Schrimpf et al., Record breaking optimization results using the ruin and recreate
    principle (2000).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from opendrs.optimizer.evaluation import Incumbent, cost, cost_breakdown
from opendrs.optimizer.feasibility import binding_budgets, most_moves
from opendrs.optimizer.operators.replace import best_replacements
from opendrs.optimizer.operators.shift import ShiftTable
from opendrs.optimizer.operators.swap import best_swap
from opendrs.optimizer.problem import Indices, Problem

MAX_SMALL_SIZE = 4000  # nodes times groups up to which this search is faster
MAX_PAIRS = 160_000  # most swaps that are evaluated at once
STEP_COST = 650  # fixed cost of a step, in evaluated moves
VECTOR_SPEEDUP = 48  # moves evaluated at once in the time of a single one
CANDIDATES = 2  # replacements whose exact gain is computed
MAX_RETURNS = 4  # most groups that a perturbation returns
ACCEPTED_INCREASE = 0.1  # of the imbalance cost: a cost within this is near the best
ACCEPTED_SHARE = 0.5  # of the recent local optima, which are near the best as well
RECENT, LEAST_RECENT = 50, 5  # most and fewest local optima that give this limit
# of restarting at the best solution when the cost is not near it
RESTART_PROBABILITY = 0.1
# Search size relative to the number of groups, if a budget of moves binds: per move of
# the start, and at most.
SIZE_FACTOR_PER_MOVE, MAX_SIZE_FACTOR = 0.3, 3
MIN_RELATIVE_GAIN = 1e-9  # of the initial cost: smaller gains are rounding


def is_small(problem: Problem) -> bool:
    """Return True if *problem* is small and has only terms of `LocalSearch`."""
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
    """Iterated local search by shifts, replacements and swaps.

    The same problem, start, seed and calls give the same solution. `best` is always
    feasible.

    Args:
        problem: Problem to solve; `is_small` holds. The cost of using nodes is ignored.
        start: Feasible initial assignment.
        seed: Seed of the random numbers.

    Attributes:
        exhausted: True if no move gains and no perturbation is possible.
    """

    def __init__(self, problem: Problem, start: Indices, seed: int = 0) -> None:
        self.problem = problem
        self.iterations = 0
        self.exhausted = False
        self._table = ShiftTable(problem, start.copy())
        self._random = np.random.default_rng(seed)
        self._min_gain = MIN_RELATIVE_GAIN * abs(cost(problem, problem.origin)) + 1e-15
        self._best = Incumbent(start.copy(), self._table.total_cost)
        self._increases: deque[float] = deque(maxlen=RECENT)  # of local optima
        self._accepted_increase = self._acceptance_limit()
        # Tables of the best solution, and of the start of the next perturbation.
        self._best_table = self._start_table = self._table.copy()
        self._evaluated = 0
        self._tries_swaps = problem.group_count**2 <= MAX_PAIRS

    @property
    def best(self) -> Incumbent:
        """Best solution so far."""
        return self._best

    @property
    def size(self) -> int:
        """Number of groups, or another one if few moves are allowed."""
        problem, assignment = self.problem, self._best.assignment
        if not (binding_budgets(problem, assignment) & problem.counts_moves).any():
            return problem.group_count
        per_move = SIZE_FACTOR_PER_MOVE * most_moves(problem, assignment)
        return int(problem.group_count * min(MAX_SIZE_FACTOR, per_move))

    def descend(self) -> Incumbent:
        """Apply improving moves until none gains, and return the best solution."""
        while self._improve():
            pass
        self._store_best()
        return self._best

    def run(self, iterations: int, progress: float) -> Incumbent:
        """Evaluate about *iterations* moves and return the best solution so far.

        The loop of iterated local search: local search, acceptance criterion,
        perturbation.
        """
        del progress  # there is no temperature
        end = self._evaluated + iterations
        while self._evaluated < end and not self.exhausted:
            if not self._improve():
                self._store_best()
                self._accept()
                self.exhausted = not (self._perturb() or self._perturb_best())
        self._store_best()
        self.iterations += iterations
        return self._best

    def _improve(self) -> bool:
        """Apply an improving move; return True if there was one.

        Evaluating all swaps is slow. It is done only near the best solution, and not
        for many groups.
        """
        return (
            self._shift()
            or self._replace()
            or (self._tries_swaps and self._is_near_best() and self._swap())
        )

    def _shift(self, tabu: Sequence[int] = ()) -> bool:
        """Apply the best shift of a group that is not *tabu*, if it gains."""
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
        """Apply the best replacement, if it gains."""
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
        """Apply the best swap, if it gains."""
        table = self._table
        self._count_evaluations(self.problem.group_count**2)
        swap = best_swap(table, self._min_gain)
        if swap.group < 0:
            return False
        here, there = table.node_of[[swap.group, swap.other]].tolist()
        before = table.total_cost
        table.move((swap.group, there), (swap.other, here))
        if table.limits is not None and before - table.total_cost <= self._min_gain:
            table.move((swap.group, here), (swap.other, there))
            return False
        return True

    def _count_evaluations(self, moves: int) -> None:
        """Count the evaluation of *moves* moves at once."""
        self._evaluated += STEP_COST + moves // VECTOR_SPEEDUP

    def _store_best(self) -> None:
        """Store the current solution if it is the best."""
        if self._best.cost - self._table.total_cost > self._min_gain:
            node_of = self._table.node_of.copy()
            self._best = Incumbent(node_of, cost(self.problem, node_of))
            self._best_table = self._table.copy()
            self._accepted_increase = self._acceptance_limit()

    def _acceptance_limit(self) -> float:
        """Return the cost above the best up to which a solution is near it."""
        parts = cost_breakdown(self.problem, self._best.assignment)
        limit = ACCEPTED_INCREASE * parts.imbalance
        if len(self._increases) < LEAST_RECENT:
            return limit
        return max(limit, float(np.quantile(self._increases, ACCEPTED_SHARE)))

    def _is_near_best(self) -> bool:
        """Return True if the current cost is near the best."""
        return self._table.total_cost - self._best.cost <= self._accepted_increase

    def _accept(self) -> None:
        """Apply the acceptance criterion: choose the start of the next perturbation."""
        increase = self._table.total_cost - self._best.cost
        if increase > self._min_gain:
            self._increases.append(increase)
            self._accepted_increase = self._acceptance_limit()
        if self._is_near_best():
            self._start_table = self._table
        elif self._random.random() < RESTART_PROBABILITY:
            self._start_table = self._best_table

    def _perturb_best(self) -> bool:
        """Perturb the best solution; return True if a group was moved."""
        self._start_table = self._best_table
        return self._perturb()

    def _perturb(self) -> bool:
        """Perturb the start and descend; return True if a group was moved.

        Some displaced groups return, a random group leaves, and then the best ones.
        """
        self._table = self._start_table.copy()
        tabu = self._return_some()
        shifted = self._shift_randomly()
        while self._shift(tabu):
            pass
        return shifted or len(tabu) > 0

    def _return_some(self) -> list[int]:
        """Return random displaced groups to their origin; return these groups."""
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
        """Apply a random shift; return True if there was a feasible one."""
        table = self._table
        possible = np.flatnonzero(table.can_shift & table.within_budgets())
        if not len(possible):
            return False
        self._count_evaluations(0)
        index = int(possible[self._random.integers(len(possible))])
        target, group = divmod(index, self.problem.group_count)
        table.move((group, target))
        return True
