"""Simulated annealing with exchange moves, for binding budgets.

Most moves keep the use of the budgets constant: a displaced group returns and another
one leaves, or two displaced groups exchange targets. A search of single moves gets
stuck once a budget is used up. Capacity limits are hard. The loop over moves is
`compiled.exchange.anneal_exchanges`.

Source:
    Kirkpatrick, Gelatt and Vecchi, Optimization by simulated annealing, Science 220
    (1983).
"""

from __future__ import annotations

import numpy as np

from opendrs.optimizer.evaluation import Incumbent, cost_breakdown
from opendrs.optimizer.feasibility import most_moves
from opendrs.optimizer.node_cost import departure_gains, least_loaded_nodes
from opendrs.optimizer.problem import Indices, Problem
from opendrs.optimizer.problem_arrays import NONE, empty_state, problem_arrays

START_TEMPERATURE = 0.3  # initial temperature, relative to the imbalance cost per node
# final one, relative to the imbalance cost per node of the best
END_TEMPERATURE = 0.005
REFRESH_INTERVAL = 20  # moves per group between two selections of candidates
TARGETS = 96  # least loaded nodes per criterion that are targets
RATED_TARGETS = 6  # least loaded nodes per criterion with which candidates are rated
# candidates to leave: a constant, and a number per displaced group
CANDIDATE_COUNT = (50, 10)
MIN_TEMPERATURE = 1e-12  # temperature of a balanced cluster
GROUPS_PER_MOVE = 5  # search size per move of the start


class BudgetedAnnealing:
    """Simulated annealing within budgets by exchange moves.

    The same problem, start, seed and calls give the same solution. `best` is always
    feasible. No node exceeds its capacity during the search.

    Attributes:
        problem: Problem to solve.
        iterations: Number of moves evaluated so far.
        arrays: The problem as compiled code reads it.
        state: Current assignment and its sums.
        displaced: Displaced groups, and candidates to leave.

    Args:
        problem: Problem to solve.
        start: Feasible initial assignment.
        seed: Seed of the random numbers.
        heat: Initial temperature relative to the imbalance cost per node at the start.
            None is so hot that the start hardly matters.

    Raises:
        ValueError: Sets have a spread, needs, or a cost per displaced member, which
            this search does not support.
    """

    def __init__(
        self,
        problem: Problem,
        start: Indices,
        seed: int = 0,
        *,
        heat: float | None = None,
    ) -> None:
        # Loading compiled code takes half a second, so only searches load it.
        from opendrs.optimizer.compiled import (  # noqa: PLC0415
            annealing,
            exchange,
        )
        from opendrs.optimizer.compiled.compiler import pack_arrays  # noqa: PLC0415

        if not _is_supported(problem):
            raise ValueError(
                "group_sets: expected only anti-affinity; "
                "spread, needs and set_move_weight are not supported"
            )
        self.problem = problem
        self.iterations = 0
        self._kernel = exchange
        self.arrays = problem_arrays(problem)
        most = int(np.bincount(start, minlength=1).max(initial=0))
        self.state = empty_state(self.arrays, seed, 4 * most + 64)
        self.state.node_of[:] = start
        self.state.best[:] = start  # later only groups in the change log are copied
        self._packs = pack_arrays(self.arrays), pack_arrays(self.state)
        annealing.initialize(*self._packs)
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
        parts = cost_breakdown(problem, start)
        self._best = Incumbent(start.copy(), parts.total)
        self._best_imbalance = self._per_node(parts.imbalance)
        if heat is None:
            parts = cost_breakdown(problem, problem.origin)
            heat = START_TEMPERATURE
        self._start_temperature = heat * self._per_node(parts.imbalance)
        self._progress = 0.0
        self._refreshed_at = -REFRESH_INTERVAL * problem.group_count

    @property
    def best(self) -> Incumbent:
        """Best solution so far."""
        return self._best

    @property
    def size(self) -> int:
        """Number of groups, or fewer if few moves are allowed."""
        moves = most_moves(self.problem, self._best.assignment)
        return min(self.problem.group_count, GROUPS_PER_MOVE * moves)

    @property
    def exhausted(self) -> bool:
        """False: annealing can always continue."""
        return False

    def run(self, iterations: int, progress: float) -> Incumbent:
        """Evaluate *iterations* moves and return the best solution so far.

        Args:
            iterations: Number of moves to evaluate.
            progress: Fraction of the search, in [0, 1], that is done after this call.
                The temperature falls with it.
        """
        if (
            self.iterations - self._refreshed_at
            >= REFRESH_INTERVAL * self.problem.group_count
        ):
            self._refresh_candidates()
        if not len(self.displaced.candidates):
            return self._best
        end_temperature = END_TEMPERATURE * self._best_imbalance
        ratio = min(1.0, end_temperature / self._start_temperature)
        progress = max(progress, self._progress)
        stage = self._kernel.BudgetStage(
            iterations=iterations,
            start_temperature=self._start_temperature * ratio**self._progress,
            end_temperature=self._start_temperature * ratio**progress,
        )
        self._kernel.anneal_exchanges(*self._packs, self.displaced, stage)
        self._progress = progress
        self.iterations += iterations
        self._store_best()
        return self._best

    def _per_node(self, imbalance: float) -> float:
        """Return the mean imbalance cost of a node, as a temperature."""
        return max(imbalance / max(self.problem.node_count, 1), MIN_TEMPERATURE)

    def _refresh_candidates(self) -> None:
        """Select the groups that gain most by leaving, and the targets."""
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
        """Store the best assignment of the compiled code if it is better."""
        if self.state.best_cost[0] < self._best.cost:
            assignment = self.state.best.copy()
            parts = cost_breakdown(self.problem, assignment)
            if parts.total < self._best.cost:
                self._best = Incumbent(assignment, parts.total)
                self._best_imbalance = self._per_node(parts.imbalance)


def _is_supported(problem: Problem) -> bool:
    groups = problem.group_sets
    return not (
        groups.spread.any() or len(groups.needs.items) or problem.set_move_weight
    )
