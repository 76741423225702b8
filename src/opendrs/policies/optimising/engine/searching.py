"""A search that can be stopped at any moment and has its best assignment ready."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from opendrs.policies.optimising.engine.evaluation import cost, faults
from opendrs.policies.optimising.engine.state import COST, State, empty_state
from opendrs.policies.optimising.engine.tables import Tables, tables_of
from opendrs.policies.optimising.groups import Indices
from opendrs.policies.optimising.problem import Problem

if TYPE_CHECKING:
    from opendrs.policies.optimising.engine.annealing import Leg

SAMPLE = 2000  # moves looked at to learn what moves cost
HEAT = 1.0  # the first temperature, of what moves change the cost by
HOMELY_HEAT = 2.0  # where units are drawn home, so that early moves are taken back
# And of that, where there are few moves for each unit: all would not come down in time.
HASTE, FEW = 0.4, 5_000
COOLING = 1e-3  # the last temperature, of the first, where there are few units
COLD = 1.0  # and times the units, as what is left of heat is so much for each of them
PORTION = 20_000  # moves in a leg of the schedule
SHARED = 400_000  # where several threads begin and end together
STEP = 100  # and at least between two looks at who is overfull
# What overfill costs at first, of all else that drawn moves change: in searches of so
# many moves a node, and in shorter ones, which would not come back from overfull nodes.
LONG = 20_000
LENIENT, STRICT = 0.3, 100.0
GROWTH = 100.0  # logarithm of how much dearer it can become in all the time
STEEP = log(2.0)  # and in one step
EASE = 0.03  # how much more slowly than dearer it becomes cheaper, at first


@dataclass(frozen=True, slots=True)
class Solution:
    """An assignment and its cost.

    Attributes:
        assignment: The node of each unit; shape (G,).
        cost: What it costs.
    """

    assignment: Indices
    cost: float


class Search:
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
        from opendrs.policies.optimising.engine import annealing, drawing  # noqa: PLC0415
        from opendrs.policies.optimising.engine.packed import packed  # noqa: PLC0415

        self.problem = problem
        self.iterations = 0
        self._annealing = annealing
        self._packed = packed
        self._progress = 0.0
        self._lock = np.zeros(1, dtype=np.int64)
        self._cooling = min(COOLING, COLD / max(problem.units, 1))
        drift = _drift(problem) if drift is None else drift
        self._habits = drawing.Habits(0.5, 0.1, 0.3, drift)
        tables = tables_of(problem)
        self._tables = packed(tables)
        first = problem.origin if start is None else start
        _require_feasible(problem, first)
        self._state = self._settled(tables, first, seed)
        self._best = Solution(first.copy(), cost(problem, first))
        change = self._priced()
        self._hot = change if temperature is None else temperature
        self._chooses = temperature is None

    @property
    def best(self) -> Solution:
        """The least costly assignment so far."""
        return self._best

    @property
    def progress(self) -> float:
        """How far it is on its way, in [0, 1]."""
        return self._progress

    @property
    def standing(self) -> float:
        """What the assignment in hand costs, and what it is charged for overfill."""
        state = self._state
        return float(state.sums[COST] + state.overfill.sum())

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
            self._adapt(iterations / (progress or 1.0))
        self._widen()
        state = self._packed(self._state)
        portions = max(1, iterations // (PORTION if threads == 1 else SHARED))
        begun = self._progress
        for portion in range(portions):
            now = begun + (progress - begun) * (portion + 1) / portions
            end = max(now, self._progress)
            self._anneal(state, iterations // portions, end, threads)
        self.iterations += iterations
        self._collect()
        return self._best

    def _anneal(
        self, state: State, iterations: int, progress: float, threads: int
    ) -> None:
        gone = progress - self._progress
        step = STEP + 2 * self.problem.nodes
        growth = min(STEEP, GROWTH * gone * min(1.0, step / max(iterations, 1)))
        leg = self._annealing.Leg(
            iterations=iterations // threads,
            step=max(1, step // threads),
            hot=self._hot * self._cooling**self._progress,
            cold=self._hot * self._cooling**progress,
            dearer=exp(growth),
            cheaper=exp(-growth * EASE * (1.0 - progress)),
        )
        if threads == 1:
            self._work(leg, self._annealing.ALONE, state)
        else:
            self._together(leg, threads)
        self._progress = progress

    def _work(self, leg: Leg, turn: int, state: State) -> None:
        self._annealing.anneal(self._tables, state, self._habits, leg, turn, self._lock)

    def _together(self, leg: Leg, threads: int) -> None:
        """Let several threads work on the assignment, each with dice of its own."""
        dice = [self._state.dice * np.uint64(2 * k + 1) for k in range(threads)]
        states = [self._state._replace(dice=each) for each in dice]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self._work, repeat(leg), range(threads), states))
        self._state.dice[:] = states[0].dice

    def _widen(self) -> None:
        """Make room for more units on a node, when one is more than half full."""
        standing = self._state.standing
        if 2 * self._state.units_on.max(initial=0) > standing.shape[1]:
            wider = np.concatenate([standing, np.zeros_like(standing)], axis=1)
            self._state = self._state._replace(standing=wider)

    def _priced(self) -> float:
        """Let overfill cost as much as all else that moves change; return how much."""
        change, overfill = self._annealing.mean_changes(
            self._tables, self._state, SAMPLE
        )
        change = max(change, np.finfo(float).tiny)
        self._state.price[:] *= change / (overfill or 1.0)
        return float(change)

    def _adapt(self, moves: float) -> None:
        """Choose the first temperature and price of overfill for so many moves."""
        problem = self.problem
        if self._chooses:
            few = moves < FEW * problem.units
            self._hot *= HOMELY_HEAT if self._habits.drift > 0 else HEAT
            self._hot *= HASTE if few else 1.0
        long = moves > LONG * problem.nodes
        self._state.price[:] *= LENIENT if long else STRICT

    def _settled(self, tables: Tables, first: Indices, seed: int) -> State:
        most = int(np.bincount(first, minlength=1).max(initial=0))
        state = empty_state(tables, seed, 3 * most + 16)
        state.node_of[:] = first
        state.best[:] = first  # of the best only what has moved since is told
        self._annealing.start(self._tables, state)
        return state

    def _collect(self) -> None:
        """Take the best assignment over, if it is better than the one so far."""
        if self._state.best_cost[0] < self._best.cost:
            found = self._state.best.copy()
            price = cost(self.problem, found)
            if price < self._best.cost:
                self._best = Solution(found, price)


def _drift(problem: Problem) -> float:
    """Return how much units are drawn home: as much as others draw them away."""
    uses_up = problem.transient.any() or len(problem.budgets) > 0
    return 0.65 * log(problem.nodes) if uses_up else 0.0


def _require_feasible(problem: Problem, assignment: Indices) -> None:
    wrong = faults(problem, assignment)
    if wrong:
        raise ValueError("the assignment is not feasible: " + "; ".join(wrong[:3]))
