"""Simulated annealing with shifts, swaps and ejection chains.

Capacity limits are soft during the search: each limit of each node has a penalty that
grows while it is exceeded and decays otherwise. The best solution is available at any
time. The loop over moves is `compiled.annealing.anneal`; this module sets temperature
and penalties.

Source:
    Kirkpatrick, Gelatt and Vecchi, Optimization by simulated annealing, Science 220
    (1983).
    Glover, Ejection chains, reference structures and alternating path methods (1996).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from opendrs.optimizer.evaluation import Incumbent, cost
from opendrs.optimizer.feasibility import infeasibilities
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


SAMPLE_SIZE = 2000  # random moves that determine the mean cost change
INITIAL_TEMPERATURE = 1.0  # relative to the mean cost change of random moves

# The same with a drift home, which undoes early moves.
INITIAL_TEMPERATURE_WITH_DRIFT = 2.0

# Factor for runs with few moves per group, which would otherwise end too hot.
SHORT_RUN_FACTOR, SHORT_RUN = 0.4, 5_000
MAX_COOLING = 1e-3  # Highest ratio of the final to the initial temperature.

# That ratio times the number of groups: residual disorder adds up.
FINAL_TEMPERATURE = 1.0

STAGE_SIZE = 20_000  # moves of a stage of the schedule
# moves of a stage that several threads start and end together
THREADED_STAGE_SIZE = 400_000
UPDATE_INTERVAL = 100  # fewest moves between two updates of the penalties

# Initial penalties relative to the mean cost change: for runs with more than LONG_RUN
# moves per node, and for shorter ones, which could not recover from overfull nodes.
LONG_RUN = 20_000
LOW_PENALTY, HIGH_PENALTY = 0.3, 100.0
PENALTY_GROWTH = 100.0  # logarithm of the largest growth during the whole search
MAX_PENALTY_STEP = log(2.0)  # logarithm of the largest growth per update
PENALTY_DECAY = 0.03  # initial rate of decay relative to growth


class AnnealingSearch:
    """Simulated annealing by shifts, swaps and ejections.

    The same problem, seed and calls give the same solution. Callers with a clock run
    small portions and pass the elapsed fraction of the time; others run a number of
    iterations. `best` is always feasible and never costs more than the start.

    Args:
        problem: Problem to solve.
        seed: Seed of the random numbers.
        start: Feasible initial assignment; None is the origin.
        temperature: Initial temperature. A higher one searches farther from the start
            and needs more moves. None derives it from the mean cost change of random
            moves.
        drift: Preference for moves home at high temperatures, in temperatures. None
            balances the number of targets if moves use up a resource or budget.
        swap_partners: Preferred partners for swaps of each group, best first; shape
            (G, K). None prefers groups of similar size.

    Raises:
        ValueError: The start is not feasible.
    """

    def __init__(  # noqa: PLR0913 - one for each setting
        self,
        problem: Problem,
        *,
        seed: int = 0,
        start: Indices | None = None,
        temperature: float | None = None,
        drift: float | None = None,
        swap_partners: Indices | None = None,
    ) -> None:
        # Loading compiled code takes half a second, so only searches load it.
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
        arrays = problem_arrays(problem, swap_partners)
        self._arrays = pack_arrays(arrays)
        first = problem.origin if start is None else start
        _require_feasible(problem, first)
        self._state = self._initial_state(arrays, first, seed)
        self._best = Incumbent(first.copy(), cost(problem, first))
        change = self._scale_penalties()
        self._start_temperature = change if temperature is None else temperature
        self._adapts_temperature = temperature is None

    @property
    def best(self) -> Incumbent:
        """Best solution so far."""
        return self._best

    @property
    def size(self) -> int:
        """Number of groups."""
        return self.problem.group_count

    @property
    def exhausted(self) -> bool:
        """False: annealing can always continue."""
        return False

    @property
    def progress(self) -> float:
        """Fraction of the search that is done, in [0, 1]."""
        return self._progress

    @property
    def temperature(self) -> float:
        """Current temperature; before the first run, without regard to its length."""
        return float(self._start_temperature * self._cooling**self._progress)

    @property
    def current_cost(self) -> float:
        """Cost of the current assignment plus its penalties."""
        state = self._state
        return float(state.totals[COST] + state.overfill.sum())

    def run(self, iterations: int, progress: float, threads: int = 1) -> Incumbent:
        """Evaluate *iterations* moves and return the best solution so far.

        Args:
            iterations: Number of moves to evaluate.
            progress: Fraction of the search, in [0, 1], that is done after this call.
                The temperature falls with it.
            threads: Threads that share the assignment. With more than one, results
                vary.
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
        """Run one stage in several threads, each with its own random numbers."""
        dice = [self._state.random_state * np.uint64(2 * k + 1) for k in range(threads)]
        states = [self._state._replace(random_state=each) for each in dice]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self._run_stage, repeat(stage), range(threads), states))
        self._state.random_state[:] = states[0].random_state

    def _widen_slots(self) -> None:
        """Double the slots per node when a node uses more than half of them."""
        slots = self._state.groups_on
        if 2 * self._state.group_count.max(initial=0) > slots.shape[1]:
            wider = np.concatenate([slots, np.zeros_like(slots)], axis=1)
            self._state = self._state._replace(groups_on=wider)

    def _scale_penalties(self) -> float:
        """Scale penalties to the mean cost change of moves; return the latter."""
        change, overfill = self._annealing.mean_move_delta(
            self._arrays, self._state, SAMPLE_SIZE
        )
        change = max(change, np.finfo(float).tiny)
        self._state.penalty[:] *= change / (overfill or 1.0)
        return float(change)

    def _adapt_to_length(self, moves: float) -> None:
        """Set initial temperature and penalties for a run of *moves* moves."""
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
        state.best[:] = first  # later only groups in the change log are copied
        self._annealing.initialize(self._arrays, state)
        return state

    def _store_best(self) -> None:
        """Store the best assignment of the compiled code if it is better."""
        if self._state.best_cost[0] < self._best.cost:
            assignment = self._state.best.copy()
            total = cost(self.problem, assignment)
            if total < self._best.cost:
                self._best = Incumbent(assignment, total)


def _drift(problem: Problem) -> float:
    """Return the drift that balances the number of targets, in temperatures."""
    consumes = problem.transient.any() or len(problem.budgets) > 0
    return 0.65 * log(problem.node_count) if consumes else 0.0


def _require_feasible(problem: Problem, assignment: Indices) -> None:
    messages = infeasibilities(problem, assignment)
    if messages:
        raise ValueError("start: infeasible assignment: " + "; ".join(messages[:3]))
