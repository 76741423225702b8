"""A plan that becomes better while it is worked on, and can be had at any moment.

What may be moved is bounded by a price first: moves must gain more than they cost, and
the price is sought at which they use the budget up. A search that has to keep within a
budget all the time is stuck where each further move asks for another to be taken back;
with a price it goes on, and comes to what is best for the money.

The knee of the curve of unevenness over what is moved is a price, too: beyond it a
further move would gain less than half of what all of them gain on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from opendrs.policies.optimising.bound import Nearest, nearest
from opendrs.policies.optimising.budget import Budget
from opendrs.policies.optimising.closing import closed
from opendrs.policies.optimising.construction import begun
from opendrs.policies.optimising.decomposition import whole_bound
from opendrs.policies.optimising.descent import Descent, is_small
from opendrs.policies.optimising.engine import Search, cost, cost_parts, faults
from opendrs.policies.optimising.formulation import problem_of
from opendrs.policies.optimising.groups import Floats, Indices
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.scene import Scene
from opendrs.policies.optimising.worth import Worth

WARMTH = 0.1  # the first temperature, in what is left to be mended of a node
SWEEPS = (20, 200)  # corners of what can be reached that are looked at for the bound
LOOKS = 4_000_000  # units that are looked at for that, within these
PRECISION = 0.005  # of the bound, as a part of the unevenness at first
PRICING = 0.6  # the part of the work in which the price is sought
NEAR = 0.7  # the part of a budget that the best moves use up where it may bind
AIM = 0.995  # the part of a budget that is to be used up: the rest is found later
STEEPNESS = 2.0  # how much more a price must be where more than the budget is moved
KNEE = 0.5  # of the average gain: what a move must gain to be made without a budget
CLOSER = 0.2  # the part of the price that counts once the budget itself binds


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be solved.

    Attributes:
        scene: The cluster.
        worth: What things are worth.
        budget: How much may be moved.
        seed: Where the random numbers begin.
    """

    scene: Scene
    worth: Worth
    budget: Budget
    seed: int

    @property
    def measures(self) -> Floats:
        """What budgets count of each unit: GiB and guests; shape (2, G)."""
        return np.array([self.scene.transfer, self.scene.count])

    @property
    def budgets(self) -> Floats:
        """The most that may be moved of each, gathering apart; shape (2,)."""
        parties = self.scene.parties
        gathering = sum(each.gathering for each in parties)
        strays = sum(len(each.strays) for each in parties)
        most = (self.budget.gib - gathering, self.budget.moves - strays)
        return np.array([max(0.0, each) for each in most])


class Planning:
    """Work on one plan.

    The same task and calls give the same assignments. There is one from the
    beginning on.

    Attributes:
        problem: What is to be solved, within the budgets.
    """

    def __init__(
        self, task: Task, at_home: Sequence[int] = (), start: Indices | None = None
    ) -> None:
        self._task = task
        self._free = closed(problem_of(task.scene, task.worth), at_home)
        everything = begun(self._free)
        if task.budget.knee:
            self._free = self._at_knee(everything)
            everything = begun(self._free)
        self.problem = self._within_budgets()
        moved = self._moved(everything)
        self._bounded = np.flatnonzero(moved > NEAR * task.budgets)
        self._pricing = start is None and len(self._bounded) > 0
        self._from = 0.0
        # As of a spring: the nearer to the end, the less there is to gain.
        total = moved[self._bounded]
        gain = self._even(self._free.origin) - self._even(everything)
        left = 1 - AIM * task.budgets[self._bounded] / total
        self._prices = max(gain, 1e-9) / total * np.maximum(left, 0.1)
        self._best = self._first(everything if start is None else start)
        if self._pricing:
            problem = self._priced(1.0, self._free)
            self._search = self._begun(problem, begun(problem))
        else:
            self._search = self._begun(self.problem, self._best)

    @property
    def assignment(self) -> Indices:
        """The best so far: the node of each unit, in the order of columns; (G,)."""
        if self._pricing:
            return self._best
        # A price that ended too high takes back what is worth its cost.
        found = self._search.best.assignment
        better = cost(self.problem, found) <= cost(self.problem, self._best)
        return found if better else self._best

    @property
    def distance(self) -> float:
        """How far from even the best is: the root of what its evenness costs."""
        return float(cost_parts(self.problem, self.assignment).even ** 0.5)

    def improve(self, iterations: int, progress: float) -> None:
        """Look at *iterations* moves.

        Args:
            iterations: How many.
            progress: The part of all the work, in [0, 1], that is done after it.
        """
        if not self.problem.units or self.problem.nodes < 2:
            return
        if self._pricing and progress <= PRICING:
            self._search.run(iterations, 1.0)
            self._adjust()
            return
        if self._pricing:
            self._pricing = False
            self._search = self._begun(self._priced(CLOSER, self.problem), self._best)
            self._from = progress - 1e-9
        part = (progress - self._from) / max(1 - self._from, 1e-9)
        self._search.run(iterations, min(1.0, max(0.0, part)))

    def without(self, units: Sequence[int]) -> Planning:
        """Return the work on a plan in which *units* stay at home."""
        start = self.assignment.copy()
        start[list(units)] = self.problem.origin[list(units)]
        return Planning(self._task, units, start)

    def bound(self) -> Nearest:
        """Return how even nodes could be made by moving as much as the best does.

        What the budget counts is what is looked at; without one, what is transferred.
        """
        finite = np.isfinite(self._task.budgets)
        rows = np.flatnonzero(finite) if finite.any() else np.zeros(1, np.int64)
        problem = self._moving_as_much(rows[:1])
        least, most = SWEEPS
        sweeps = min(most, max(least, LOOKS // max(problem.units, 1)))
        found = nearest(problem, sweeps, PRECISION, self.assignment)
        if not math.isfinite(self._task.budget.moves):
            return found
        whole = whole_bound(self._moving_as_much(rows))
        return replace(found, bound=max(found.bound, whole))

    def _moving_as_much(self, rows: Indices) -> Problem:
        """Return the problem with these measures of what the best moves as budgets."""
        budgets = self._moved(self.assignment)[rows]
        measures = self._task.measures[rows]
        return replace(self.problem, measures=measures, budgets=budgets)

    def _moved(self, assignment: Indices) -> Floats:
        """Return what *assignment* moves of each measure, gathering apart; (2,)."""
        away = assignment != self._free.origin
        moved: Floats = self._task.measures[:, away].sum(axis=1)
        return moved

    def _first(self, start: Indices) -> Indices:
        """Return *start*, or what is nearly as good and within the budgets."""
        # Who stays at home may also be in the way of who came there.
        return begun(self.problem) if faults(self.problem, start) else start

    def _at_knee(self, everything: Indices) -> Problem:
        """Return the problem with the price of the knee."""
        moved = float(self._moved(everything)[0])
        gain = self._even(self._free.origin) - self._even(everything)
        if moved <= 0 or gain <= 0:
            return self._free
        price = KNEE * gain / moved * self._task.scene.effort
        return replace(self._free, move_cost=np.maximum(self._free.move_cost, price))

    def _even(self, assignment: Indices) -> float:
        return cost_parts(self._free, assignment).even

    def _within_budgets(self) -> Problem:
        chosen = np.flatnonzero(np.isfinite(self._task.budgets))
        return replace(
            self._free,
            measures=self._task.measures[chosen],
            budgets=self._task.budgets[chosen],
        )

    def _priced(self, part: float, problem: Problem) -> Problem:
        """Return *problem* with a part of the prices."""
        prices = part * self._prices @ self._task.measures[self._bounded]
        return replace(problem, move_cost=self._free.move_cost + prices)

    def _adjust(self) -> None:
        """Keep what was found if it is better, and go on with other prices."""
        found = self._search.best.assignment
        every = self._moved(found)
        within = bool((every <= self._task.budgets).all())
        moved, budgets = every[self._bounded], self._task.budgets[self._bounded]
        if within and cost(self._free, found) < cost(self._free, self._best):
            self._best = found
        over = np.maximum(moved, 1e-3 * budgets) / (AIM * np.maximum(budgets, 1e-9))
        self._prices *= np.clip(over, 0.3, 3.0) ** STEEPNESS
        self._search = self._begun(self._priced(1.0, self._free), found)

    def _begun(self, problem: Problem, start: Indices) -> Search | Descent:
        if is_small(problem):
            return Descent(problem, start, self._task.seed)
        parts = cost_parts(problem, start)
        left = WARMTH * (parts.even + parts.excess) / max(problem.nodes, 1)
        temperature = max(left, 1e-12)
        return Search(
            problem, seed=self._task.seed, start=start, temperature=temperature
        )
