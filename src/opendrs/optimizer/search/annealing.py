"""A search that can be stopped at any moment and has its best assignment ready."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from opendrs.optimizer.evaluation import Solution, cost, infeasibilities
from opendrs.optimizer.problem import Indices, Problem
from opendrs.optimizer.problem_arrays import (
    COST,
    ProblemArrays,
    SolutionState,
    empty_state,
    problem_arrays,
)

if TYPE_CHECKING:
    from opendrs.optimizer.compiled.annealing import AnnealingStage


SAMPLE_SIZE = 2000  # moves looked at to learn what moves cost
INITIAL_TEMPERATURE = 1.0  # the first temperature, of what moves change the cost by

INITIAL_TEMPERATURE_WITH_DRIFT = (
    2.0  # where units are drawn home, so that early moves are taken back
)


# And of that, where there are few moves for each unit: all would not come down in time.
SHORT_RUN_FACTOR, SHORT_RUN = 0.4, 5_000
MAX_COOLING = 1e-3  # the last temperature, of the first, where there are few units

FINAL_TEMPERATURE = (
    1.0  # and times the units, as what is left of heat is so much for each of them
)

STAGE_SIZE = 20_000  # moves in a leg of the schedule
THREADED_STAGE_SIZE = 400_000  # where several threads begin and end together
UPDATE_INTERVAL = 100  # and at least between two looks at who is overfull


# What overfill costs at first, of all else that drawn moves change: in searches of so
# many moves a node, and in shorter ones, which would not come back from overfull nodes.
LONG_RUN = 20_000
LOW_PENALTY, HIGH_PENALTY = 0.3, 100.0
PENALTY_GROWTH = 100.0  # logarithm of how much dearer it can become in all the time
MAX_PENALTY_STEP = log(2.0)  # and in one step
PENALTY_DECAY = 0.03  # how much more slowly than dearer it becomes cheaper, at first


class AnnealingSearch:
    """Look for assignments that cost less, some iterations at a time.

    Simulated annealing by shifts, swaps and ejections. The same problem, seed and
    calls give the same solutions. A caller who has a clock runs small portions and says
    how much of the time is gone; one who has none runs a number of iterations. `best`
    is always feasible and never costs more than the start.

    Args:
        problem: What is to be solved.
        seed: Where the random numbers begin.
        start: A feasible assignment to begin with; the origin where it is left out.
        temperature: The first temperature: the more, the farther the search strays from
            the start, and the longer it needs. Where it is left out it is part of what
            drawn moves change the cost by on average.
        drift: How much units are drawn home while it is hot, in temperatures. Where it
            is left out: as much as others draw them away, if moving uses something up.

    Raises:
        ValueError: The start is not feasible.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        seed: int = 0,
        start: Indices | None = None,
        temperature: float | None = None,
        drift: float | None = None,
    ) -> None:
        # Compiled code is loaded by those who search only: it takes half a second.
        from opendrs.optimizer.compiled import (  # noqa: PLC0415
            annealing,
            proposals,
        )
        from opendrs.optimizer.compiled.compiler import pack_arrays  # noqa: PLC0415

        self.problem = problem
        self.iterations = 0
        self._annealing = annealing
        self._pack_arrays = pack_arrays
        self._progress = 0.0
        self._lock = np.zeros(1, dtype=np.int64)
        self._cooling = min(
            MAX_COOLING, FINAL_TEMPERATURE / max(problem.group_count, 1)
        )
        drift = _drift(problem) if drift is None else drift
        self._proposal_weights = proposals.ProposalWeights(0.5, 0.1, 0.3, drift)
        arrays = problem_arrays(problem)
        self._arrays = pack_arrays(arrays)
        first = problem.origin if start is None else start
        _require_feasible(problem, first)
        self._state = self._initial_state(arrays, first, seed)
        self._best = Solution(first.copy(), cost(problem, first))
        change = self._scale_penalties()
        self._start_temperature = change if temperature is None else temperature
        self._adapts_temperature = temperature is None

    @property
    def best(self) -> Solution:
        """The least costly assignment so far."""
        return self._best

    @property
    def progress(self) -> float:
        """How far it is on its way, in [0, 1]."""
        return self._progress

    @property
    def current_cost(self) -> float:
        """What the assignment in hand costs, and what it is charged for overfill."""
        state = self._state
        return float(state.totals[COST] + state.overfill.sum())

    def run(self, iterations: int, progress: float, threads: int = 1) -> Solution:
        """Look at *iterations* moves, and return the best solution so far.

        Args:
            iterations: How many moves are tried.
            progress: The part of the time, in [0, 1], that will be gone when this
                call returns; the search becomes pickier towards 1.
            threads: How many work on the assignment at once. More than one do not
                find the same each time.
        """
        if self.iterations == 0:
            self._adapt_to_length(iterations / (progress or 1.0))
        self._widen_slots()
        state = self._pack_arrays(self._state)
        portions = max(
            1, iterations // (STAGE_SIZE if threads == 1 else THREADED_STAGE_SIZE)
        )
        begin = self._progress
        for portion in range(portions):
            now = begin + (progress - begin) * (portion + 1) / portions
            end = max(now, self._progress)
            self._anneal(state, iterations // portions, end, threads)
        self.iterations += iterations
        self._store_best()
        return self._best

    def _anneal(
        self, state: SolutionState, iterations: int, progress: float, threads: int
    ) -> None:
        elapsed = progress - self._progress
        step = UPDATE_INTERVAL + 2 * self.problem.node_count
        growth = min(
            MAX_PENALTY_STEP,
            PENALTY_GROWTH * elapsed * min(1.0, step / max(iterations, 1)),
        )
        stage = self._annealing.AnnealingStage(
            iterations=iterations // threads,
            update_interval=max(1, step // threads),
            start_temperature=self._start_temperature * self._cooling**self._progress,
            end_temperature=self._start_temperature * self._cooling**progress,
            penalty_growth=exp(growth),
            penalty_decay=exp(-growth * PENALTY_DECAY * (1.0 - progress)),
        )
        if threads == 1:
            self._run_stage(stage, self._annealing.SINGLE_THREAD, state)
        else:
            self._run_threads(stage, threads)
        self._progress = progress

    def _run_stage(
        self, stage: AnnealingStage, thread: int, state: SolutionState
    ) -> None:
        self._annealing.anneal(
            self._arrays, state, self._proposal_weights, stage, thread, self._lock
        )

    def _run_threads(self, stage: AnnealingStage, threads: int) -> None:
        """Let several threads work on the assignment, each with dice of its own."""
        dice = [self._state.random_state * np.uint64(2 * k + 1) for k in range(threads)]
        states = [self._state._replace(random_state=each) for each in dice]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self._run_stage, repeat(stage), range(threads), states))
        self._state.random_state[:] = states[0].random_state

    def _widen_slots(self) -> None:
        """Make room for more units on a node, when one is more than half full."""
        slots = self._state.groups_on
        if 2 * self._state.group_count.max(initial=0) > slots.shape[1]:
            wider = np.concatenate([slots, np.zeros_like(slots)], axis=1)
            self._state = self._state._replace(groups_on=wider)

    def _scale_penalties(self) -> float:
        """Let overfill cost as much as all else that moves change; return how much."""
        change, overfill = self._annealing.mean_move_delta(
            self._arrays, self._state, SAMPLE_SIZE
        )
        change = max(change, np.finfo(float).tiny)
        self._state.penalty[:] *= change / (overfill or 1.0)
        return float(change)

    def _adapt_to_length(self, moves: float) -> None:
        """Choose the first temperature and price of overfill for so many moves."""
        problem = self.problem
        if self._adapts_temperature:
            is_short = moves < SHORT_RUN * problem.group_count
            self._start_temperature *= (
                INITIAL_TEMPERATURE_WITH_DRIFT
                if self._proposal_weights.drift > 0
                else INITIAL_TEMPERATURE
            )
            self._start_temperature *= SHORT_RUN_FACTOR if is_short else 1.0
        is_long = moves > LONG_RUN * problem.node_count
        self._state.penalty[:] *= LOW_PENALTY if is_long else HIGH_PENALTY

    def _initial_state(
        self, arrays: ProblemArrays, first: Indices, seed: int
    ) -> SolutionState:
        most = int(np.bincount(first, minlength=1).max(initial=0))
        state = empty_state(arrays, seed, 3 * most + 16)
        state.node_of[:] = first
        state.best[:] = first  # of the best only what has moved since is told
        self._annealing.initialize(self._arrays, state)
        return state

    def _store_best(self) -> None:
        """Take the best assignment over, if it is better than the one so far."""
        if self._state.best_cost[0] < self._best.cost:
            assignment = self._state.best.copy()
            total = cost(self.problem, assignment)
            if total < self._best.cost:
                self._best = Solution(assignment, total)


def _drift(problem: Problem) -> float:
    """Return how much units are drawn home: as much as others draw them away."""
    consumes = problem.transient.any() or len(problem.budgets) > 0
    return 0.65 * log(problem.node_count) if consumes else 0.0


def _require_feasible(problem: Problem, assignment: Indices) -> None:
    messages = infeasibilities(problem, assignment)
    if messages:
        raise ValueError("the assignment is not feasible: " + "; ".join(messages[:3]))
