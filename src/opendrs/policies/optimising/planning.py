"""A plan that becomes better while it is worked on, and can be had at any moment.

A search that has to keep within a budget all the time is stuck where each further move
asks for another to be taken back. So where few guests may move, who travels is
exchanged for others, and where little may be transferred, that has a price first.

The knee of the curve of unevenness over what is moved is a price, too: beyond it a
further move would gain less than half of what all of them gain on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from opendrs.policies.optimising.bound import nearest
from opendrs.policies.optimising.budget import Budget
from opendrs.policies.optimising.closing import closed
from opendrs.policies.optimising.construction import begun
from opendrs.policies.optimising.decomposition import whole_bound
from opendrs.policies.optimising.descent import Descent, is_small
from opendrs.policies.optimising.engine import Search, cost_parts, faults
from opendrs.policies.optimising.exchange import Exchange
from opendrs.policies.optimising.formulation import problem_of
from opendrs.policies.optimising.grid import SLACK
from opendrs.policies.optimising.groups import Floats, Indices
from opendrs.policies.optimising.plain import Plain, is_divided
from opendrs.policies.optimising.pricing import NEAR, Pricing, begun_search
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.scene import Scene
from opendrs.policies.optimising.searches import SearchKind, chosen_search
from opendrs.policies.optimising.worth import Worth

SWEEPS = (20, 200)  # corners of what can be reached that are looked at for the bound
FEWER_SWEEPS = (20, 50)  # where few guests move, and it is far from what is possible
WIDE = 0.9  # part of the units that are most
ALIKE = 0.5  # correlation from which the resources that units take are alike
LOOKS = 4_000_000  # units that are looked at for that, within these
PRECISION = 0.005  # of the bound, as a part of the unevenness at first
TURNS = 5  # exchanges are looked at as if each who moves were so many units
FEW_TURNS = 3  # and in small clusters as if there were so many times the units,
EACH = 0.3  # or so many times for each who moves, where that is less
PLAIN_PART = 0.25  # of the units, for the plain search: more brings little
GIB, MOVES = range(2)  # what budgets count
KNEE = 0.5  # of the average gain: what a move must gain to be made without a budget


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is to be solved.

    Attributes:
        scene: The cluster.
        worth: What things are worth.
        budget: How much may be moved.
        seed: Where the random numbers begin.
        search: Which search plans it, if it is large.
    """

    scene: Scene
    worth: Worth
    budget: Budget
    seed: int
    search: SearchKind = SearchKind.AUTO

    @cached_property
    def measures(self) -> Floats:
        """What budgets count of each unit: GiB and guests; shape (2, G)."""
        return np.array([self.scene.movers.transfer, self.scene.movers.count])

    @cached_property
    def budgets(self) -> Floats:
        """The most that may be moved of each, gathering apart; shape (2,)."""
        movers = self.scene.movers
        gathering = float(movers.gathering.sum())
        most = (self.budget.gib - gathering, self.budget.moves - movers.strays)
        return np.array([max(0.0, each) for each in most])


class Planning:
    """Work on one plan.

    The same task and calls give the same assignments. There is one from the
    beginning on.

    Attributes:
        problem: What is to be solved, within the budgets.
        search: Which search plans it; `auto` where it is small.
    """

    def __init__(
        self, task: Task, at_home: Sequence[int] = (), start: Indices | None = None
    ) -> None:
        self._whole = problem_of(task.scene, task.worth)
        self.search = SearchKind.AUTO
        if not is_small(self._whole):
            self.search = chosen_search(task.search)
        self._task = replace(task, search=self.search)
        self._plain = self.search is SearchKind.PLAIN
        self._at_home = frozenset(at_home)
        self._free = closed(self._whole, sorted(self._at_home))
        if task.budget.knee:
            self._free = self._at_knee(begun(self._free, plain=self._plain))
        self._finite = np.flatnonzero(np.isfinite(task.budgets))
        self.problem = replace(
            self._free,
            measures=task.measures[self._finite],
            budgets=task.budgets[self._finite],
        )
        self._search = self._begun(start)

    @property
    def assignment(self) -> Indices:
        """The best so far: the node of each unit, in the order of columns; (G,)."""
        return self._search.best.assignment

    @property
    def extent(self) -> int:
        """As if how many units were looked at; another number where few may move."""
        units = self.problem.units
        moved = int(self._moved(self.assignment)[MOVES])
        if isinstance(self._search, Exchange):
            return min(units, TURNS * moved)
        if isinstance(self._search, Descent) and self._few:
            return int(units * min(FEW_TURNS, EACH * moved))
        return int(units * PLAIN_PART) if self._plain else units

    @property
    def exhausted(self) -> bool:
        """Whether nothing more can be found, however long it is looked for."""
        return not self._open or (
            isinstance(self._search, Descent | Plain) and self._search.exhausted
        )

    def improve(self, iterations: int, progress: float) -> None:
        """Look at *iterations* moves.

        Args:
            iterations: How many.
            progress: The part of all the work, in [0, 1], that is done after it.
        """
        if self._open:
            self._search.run(iterations, progress)

    def without(self, units: Sequence[int]) -> Planning:
        """Return the work on a plan in which *units* stay at home, too."""
        start = self.assignment.copy()
        start[list(units)] = self.problem.origin[list(units)]
        return Planning(self._task, [*self._at_home, *units], start)

    def bound(self) -> float:
        """Return how even nodes could be made by moving as much as the best does.

        It is the distance that no plan comes below. What the budget counts is what is
        looked at; without one, what is transferred. Who is to stay at home may move
        here: in another plan there might be a way. That whole guests move is looked at
        where hardly any more of them may; and then only that, where it tells more.
        """
        finite = np.isfinite(self._task.budgets)
        rows = np.flatnonzero(finite) if finite.any() else np.zeros(1, np.int64)
        few = self._few
        whole = whole_bound(self._moving_as_much(rows)) if few else 0.0
        if whole and self._whole_tells_more:
            return whole
        problem = self._moving_as_much(rows[:1])
        least, most = FEWER_SWEEPS if few else SWEEPS
        sweeps = min(most, max(least, LOOKS // max(problem.units, 1)))
        return max(whole, nearest(problem, sweeps, PRECISION, self.assignment).bound)

    @property
    def _whole_tells_more(self) -> bool:
        """Whether that whole guests move is likely to tell more than which they are.

        So it is where most may go anywhere, and who takes much takes much of all.
        """
        problem = self._whole
        wide = (problem.allowed == problem.allowed.any(axis=0)).all(axis=1)
        taken = problem.demand[:, problem.even_weight > 0]
        beside = taken - taken.mean(axis=0)
        alike = ALIKE * np.sqrt(np.square(beside).sum(axis=0).prod())
        return (
            not is_small(problem)
            and bool(wide[problem.class_of].mean() > WIDE)
            and bool(beside.prod(axis=1).sum() > alike)
        )

    @property
    def _few(self) -> bool:
        """Whether the budget hardly lets any more units move."""
        moved = self._moved(self.assignment)[MOVES]
        return bool(moved > NEAR * self._task.budgets[MOVES])

    def _moving_as_much(self, rows: Indices) -> Problem:
        """Return the problem with these measures of what the best moves as budgets."""
        budgets = self._moved(self.assignment)[rows]
        measures = self._task.measures[rows]
        return replace(self._whole, measures=measures, budgets=budgets)

    def _moved(self, assignment: Indices) -> Floats:
        """Return what *assignment* moves of each measure, gathering apart; (2,)."""
        away = assignment != self._free.origin
        moved: Floats = self._task.measures[:, away].sum(axis=1)
        return moved

    @property
    def _open(self) -> bool:
        """Whether the budgets let anybody move, and there is anywhere to go."""
        problem = self.problem
        budgets = problem.budgets + SLACK * np.abs(problem.budgets)
        affordable = (problem.measures <= budgets[:, None]).all(axis=0)
        return problem.nodes > 1 and bool(affordable.any())

    def _begun(
        self, start: Indices | None
    ) -> Search | Descent | Plain | Exchange | Pricing:
        """Return the search that suits what bounds the plan."""
        problem, seed = self.problem, self._task.seed
        # Who stays at home may also be in the way of who came there.
        if start is None or faults(problem, start):
            first = begun(problem, plain=self._plain)
            moved = self._moved(first)[self._finite]
            bounded = np.flatnonzero(moved > NEAR * problem.budgets)
            few = MOVES in self._finite[bounded]
            if few and not (self._plain or is_small(problem)):
                return Exchange(problem, first, seed)
            if len(bounded) and not few and not (self._plain and is_divided(problem)):
                return Pricing(problem, first, seed, plain=self._plain)
            start = first
        return begun_search(problem, start, seed, plain=self._plain)

    def _at_knee(self, everything: Indices) -> Problem:
        """Return the problem with the price of the knee."""
        moved = float(self._moved(everything)[0])
        gain = self._even(self._free.origin) - self._even(everything)
        if moved <= 0 or gain <= 0:
            return self._free
        price = KNEE * gain / moved * self._task.scene.movers.effort
        return replace(self._free, move_cost=np.maximum(self._free.move_cost, price))

    def _even(self, assignment: Indices) -> float:
        return cost_parts(self._free, assignment).even
