"""A search within budgets that few moves use up: who travels is exchanged for others.

Simulated annealing whose changes mostly keep what is spent: another leaves instead of
who has left, or two who have left change targets. It finds who is to go, where a
search of single moves is stuck once the budget is used up.
"""

from __future__ import annotations

import numpy as np

from opendrs.optimizer.evaluation import Solution, cost, cost_breakdown
from opendrs.optimizer.node_cost import departure_gains, least_loaded_nodes
from opendrs.optimizer.problem import Indices, Problem
from opendrs.optimizer.problem_arrays import NONE, empty_state, problem_arrays

START_TEMPERATURE = (
    0.3  # the first temperature, in what evenness costs a node at the origin
)
END_TEMPERATURE = 0.005  # the last one, in what it costs at the best so far
REFRESH_INTERVAL = (
    20  # changes for each unit after which it is looked anew at who should leave
)
TARGETS = 96  # emptiest nodes, of each kind, to which units go
RATED_TARGETS = (
    6  # emptiest nodes, by each resource and all, that are looked at for that
)
CANDIDATE_COUNT = (50, 10)  # who may leave: so many, and so many for each who is away
MIN_TEMPERATURE = 1e-12  # a temperature where all is even


class BudgetedAnnealing:
    """Look for assignments that cost less within budgets, some iterations at a time.

    Like `Search`, the same problem, start, seed and calls give the same, and `best` is
    always feasible. No node becomes overfull on the way.

    Attributes:
        problem: What is to be solved.
        iterations: How many changes have been looked at.
        arrays: The problem as compiled code reads it.
        state: Where units are now, and what that comes to.
        displaced: Who is away now, and who might be.

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
        from opendrs.optimizer.compiled import (  # noqa: PLC0415
            annealing,
            exchange,
        )

        if not _is_supported(problem):
            raise ValueError("groups may only have to stand apart")
        self.problem = problem
        self.iterations = 0
        self._kernel = exchange
        self.arrays = problem_arrays(problem)
        most = int(np.bincount(start, minlength=1).max(initial=0))
        self.state = empty_state(self.arrays, seed, 4 * most + 64)
        self.state.node_of[:] = start
        self.state.best[:] = start  # of the best only what has moved since is told
        annealing.initialize(self.arrays, self.state)
        away = np.flatnonzero(start != problem.origin)
        slot = np.full(problem.group_count, NONE)
        slot[away] = np.arange(len(away))
        self.displaced = exchange.DisplacedGroups(
            displaced=np.concatenate(
                [away, np.zeros(problem.group_count - len(away), np.int64)]
            ),
            slot=slot,
            displaced_count=np.array([len(away)]),
            candidates=np.zeros(0, np.int64),
            targets=np.zeros(0, np.int64),
        )
        if heat is None:
            self._start_temperature = START_TEMPERATURE * self._imbalance_per_node(
                problem.origin
            )
        else:
            self._start_temperature = heat * self._imbalance_per_node(start)
        self._progress = 0.0
        self._refreshed_at = -REFRESH_INTERVAL * problem.group_count
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
        if (
            self.iterations - self._refreshed_at
            >= REFRESH_INTERVAL * self.problem.group_count
        ):
            self._refresh_candidates()
        if not len(self.displaced.candidates):
            return self._best
        end_temperature = END_TEMPERATURE * self._imbalance_per_node(
            self._best.assignment
        )
        ratio = min(1.0, end_temperature / self._start_temperature)
        progress = max(progress, self._progress)
        stage = self._kernel.BudgetStage(
            iterations=iterations,
            start_temperature=self._start_temperature * ratio**self._progress,
            end_temperature=self._start_temperature * ratio**progress,
        )
        self._kernel.anneal_exchanges(self.arrays, self.state, self.displaced, stage)
        self._progress = progress
        self.iterations += iterations
        self._store_best()
        return self._best

    def _imbalance_per_node(self, assignment: Indices) -> float:
        """Return what evenness costs a node on average."""
        total = cost_breakdown(self.problem, assignment).imbalance
        return max(total / max(self.problem.node_count, 1), MIN_TEMPERATURE)

    def _refresh_candidates(self) -> None:
        """Find out who should leave, and where to."""
        self._refreshed_at = self.iterations
        problem, load = self.problem, self.state.load
        least, each = CANDIDATE_COUNT
        most = least + each * int(self.displaced.displaced_count[0])
        targets = least_loaded_nodes(problem, load, RATED_TARGETS)
        gains = departure_gains(problem, self.state.node_of, load, targets)
        order = np.argsort(-gains, kind="stable")[:most]
        self.displaced = self.displaced._replace(
            candidates=np.sort(order[gains[order] > -np.inf]),
            targets=least_loaded_nodes(problem, load, TARGETS),
        )

    def _store_best(self) -> None:
        """Take the best assignment over, if it is better than the one so far."""
        if self.state.best_cost[0] < self._best.cost:
            assignment = self.state.best.copy()
            total = cost(self.problem, assignment)
            if total < self._best.cost:
                self._best = Solution(assignment, total)


def _is_supported(problem: Problem) -> bool:
    groups = problem.group_sets
    return not (
        groups.spread.any() or len(groups.needs.items) or problem.set_move_weight
    )
