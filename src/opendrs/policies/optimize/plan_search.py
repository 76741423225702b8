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

from opendrs.optimizer import (
    BINDING_USE,
    CAPACITY_SLACK,
    AnnealingSearch,
    BlockSearch,
    BudgetedAnnealing,
    Floats,
    Indices,
    LagrangianSearch,
    LocalSearch,
    Problem,
    SearchKind,
    cost_breakdown,
    freeze_groups,
    infeasibilities,
    initial_solution,
    is_small,
    lagrangian_bound,
    nearest_point,
    needs_blocks,
    select_search,
    start_search,
)
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.objective import ObjectiveWeights, encode_problem

MIN_MAX_ITERATIONS = (
    20,
    200,
)  # corners of what can be reached that are looked at for the bound
MIN_MAX_ITERATIONS_FEW = (
    20,
    50,
)  # where few guests move, and it is far from what is possible
WIDE_CLASS_SHARE = 0.9  # part of the units that are most
CORRELATED = 0.5  # correlation from which the resources that units take are alike
MAX_EVALUATIONS = 4_000_000  # units that are looked at for that, within these
PRECISION = 0.005  # of the bound, as a part of the unevenness at first
GROUPS_PER_MIGRATION = (
    5  # exchanges are looked at as if each who moves were so many units
)
MAX_SIZE_FACTOR = 3  # and in small clusters as if there were so many times the units,
SIZE_FACTOR_PER_MIGRATION = (
    0.3  # or so many times for each who moves, where that is less
)
PLAIN_SIZE_FACTOR = 0.25  # of the units, for the plain search: more brings little
GIB, MIGRATIONS = range(2)  # what budgets count
KNEE_GAIN = (
    0.5  # of the average gain: what a move must gain to be made without a budget
)


@dataclass(frozen=True, kw_only=True)
class SearchTask:
    """What is to be solved.

    Attributes:
        cluster: The cluster.
        weights: What things are worth.
        budget: How much may be moved.
        seed: Where the random numbers begin.
        search: Which search plans it, if it is large.
    """

    cluster: EncodedCluster
    weights: ObjectiveWeights
    budget: Budget
    seed: int
    search: SearchKind = SearchKind.AUTO

    @cached_property
    def budget_weights(self) -> Floats:
        """What budgets count of each unit: GiB and guests; shape (2, G)."""
        return np.array(
            [self.cluster.movable.transfer, self.cluster.movable.guest_count]
        )

    @cached_property
    def budgets(self) -> Floats:
        """The most that may be moved of each, gathering apart; shape (2,)."""
        guests = self.cluster.movable
        gather_transfer = float(guests.gather_transfer.sum())
        most = (
            self.budget.gib - gather_transfer,
            self.budget.migrations - guests.displaced_count,
        )
        return np.array([max(0.0, each) for each in most])


class PlanSearch:
    """Work on one plan.

    The same task and calls give the same assignments. There is one from the
    beginning on.

    Attributes:
        problem: What is to be solved, within the budgets.
        search: Which search plans it; `auto` where it is small.
    """

    def __init__(
        self, task: SearchTask, frozen: Sequence[int] = (), start: Indices | None = None
    ) -> None:
        self._full_problem = encode_problem(task.cluster, task.weights)
        self.search = SearchKind.AUTO
        if not is_small(self._full_problem):
            self.search = select_search(task.search)
        self._task = replace(task, search=self.search)
        self._plain = self.search is SearchKind.PLAIN
        self._frozen = frozenset(frozen)
        self._unbudgeted = freeze_groups(self._full_problem, sorted(self._frozen))
        if task.budget.knee:
            self._unbudgeted = self._with_knee_price(
                initial_solution(self._unbudgeted, plain=self._plain)
            )
        self._finite = np.flatnonzero(np.isfinite(task.budgets))
        self.problem = replace(
            self._unbudgeted,
            budget_weights=task.budget_weights[self._finite],
            budgets=task.budgets[self._finite],
        )
        self._search = self._start_search(start)

    @property
    def assignment(self) -> Indices:
        """The best so far: the node of each unit, in the order of columns; (G,)."""
        return self._search.best.assignment

    @property
    def search_size(self) -> int:
        """As if how many units were looked at; another number where few may move."""
        groups = self.problem.group_count
        moved = int(self._budget_use(self.assignment)[MIGRATIONS])
        if isinstance(self._search, BudgetedAnnealing):
            return min(groups, GROUPS_PER_MIGRATION * moved)
        if isinstance(self._search, LocalSearch) and self._migrations_bind:
            return int(groups * min(MAX_SIZE_FACTOR, SIZE_FACTOR_PER_MIGRATION * moved))
        return int(groups * PLAIN_SIZE_FACTOR) if self._plain else groups

    @property
    def exhausted(self) -> bool:
        """Whether nothing more can be found, however long it is looked for."""
        return not self._is_searchable or (
            isinstance(self._search, LocalSearch | BlockSearch)
            and self._search.exhausted
        )

    def improve(self, iterations: int, progress: float) -> None:
        """Look at *iterations* moves.

        Args:
            iterations: How many.
            progress: The part of all the work, in [0, 1], that is done after it.
        """
        if self._is_searchable:
            self._search.run(iterations, progress)

    def without(self, groups: Sequence[int]) -> PlanSearch:
        """Return the work on a plan in which *groups* stay at home, too."""
        start = self.assignment.copy()
        start[list(groups)] = self.problem.origin[list(groups)]
        return PlanSearch(self._task, [*self._frozen, *groups], start)

    def bound(self) -> float:
        """Return how even nodes could be made by moving as much as the best does.

        It is the distance that no plan comes below. What the budget counts is what is
        looked at; without one, what is transferred. Who is to stay at home may move
        here: in another plan there might be a way. That whole guests move is looked at
        where hardly any more of them may; and then only that, where it tells more.
        """
        finite = np.isfinite(self._task.budgets)
        rows = np.flatnonzero(finite) if finite.any() else np.zeros(1, np.int64)
        few = self._migrations_bind
        whole = lagrangian_bound(self._with_used_budgets(rows)) if few else 0.0
        if whole and self._prefers_lagrangian_bound:
            return whole
        problem = self._with_used_budgets(rows[:1])
        least, most = MIN_MAX_ITERATIONS_FEW if few else MIN_MAX_ITERATIONS
        sweeps = min(most, max(least, MAX_EVALUATIONS // max(problem.group_count, 1)))
        return max(
            whole, nearest_point(problem, sweeps, PRECISION, self.assignment).bound
        )

    @property
    def _prefers_lagrangian_bound(self) -> bool:
        """Whether that whole guests move is likely to tell more than which they are.

        So it is where most may go anywhere, and who takes much takes much of all.
        """
        problem = self._full_problem
        wide = (problem.allowed == problem.allowed.any(axis=0)).all(axis=1)
        taken = problem.demand[:, problem.imbalance_weight > 0]
        beside = taken - taken.mean(axis=0)
        alike = CORRELATED * np.sqrt(np.square(beside).sum(axis=0).prod())
        return (
            not is_small(problem)
            and bool(wide[problem.class_of].mean() > WIDE_CLASS_SHARE)
            and bool(beside.prod(axis=1).sum() > alike)
        )

    @property
    def _migrations_bind(self) -> bool:
        """Whether the budget hardly lets any more units move."""
        moved = self._budget_use(self.assignment)[MIGRATIONS]
        return bool(moved > BINDING_USE * self._task.budgets[MIGRATIONS])

    def _with_used_budgets(self, rows: Indices) -> Problem:
        """Return the problem with these measures of what the best moves as budgets."""
        budgets = self._budget_use(self.assignment)[rows]
        measures = self._task.budget_weights[rows]
        return replace(self._full_problem, budget_weights=measures, budgets=budgets)

    def _budget_use(self, assignment: Indices) -> Floats:
        """Return what *assignment* moves of each measure, gathering apart; (2,)."""
        away = assignment != self._unbudgeted.origin
        moved: Floats = self._task.budget_weights[:, away].sum(axis=1)
        return moved

    @property
    def _is_searchable(self) -> bool:
        """Whether the budgets let anybody move, and there is anywhere to go."""
        problem = self.problem
        budgets = problem.budgets + CAPACITY_SLACK * np.abs(problem.budgets)
        affordable = (problem.budget_weights <= budgets[:, None]).all(axis=0)
        return problem.node_count > 1 and bool(affordable.any())

    def _start_search(
        self, start: Indices | None
    ) -> (
        AnnealingSearch
        | LocalSearch
        | BlockSearch
        | BudgetedAnnealing
        | LagrangianSearch
    ):
        """Return the search that suits what bounds the plan."""
        problem, seed = self.problem, self._task.seed
        # Who stays at home may also be in the way of who came there.
        if start is None or infeasibilities(problem, start):
            first = initial_solution(problem, plain=self._plain)
            moved = self._budget_use(first)[self._finite]
            bounded = np.flatnonzero(moved > BINDING_USE * problem.budgets)
            migrations_bind = MIGRATIONS in self._finite[bounded]
            if migrations_bind and not (self._plain or is_small(problem)):
                return BudgetedAnnealing(problem, first, seed)
            if (
                len(bounded)
                and not migrations_bind
                and not (self._plain and needs_blocks(problem))
            ):
                return LagrangianSearch(problem, first, seed, plain=self._plain)
            start = first
        return start_search(problem, start, seed, plain=self._plain)

    def _with_knee_price(self, unbudgeted_solution: Indices) -> Problem:
        """Return the problem with the price of the knee."""
        moved = float(self._budget_use(unbudgeted_solution)[0])
        gain = self._imbalance(self._unbudgeted.origin) - self._imbalance(
            unbudgeted_solution
        )
        if moved <= 0 or gain <= 0:
            return self._unbudgeted
        price = KNEE_GAIN * gain / moved * self._task.cluster.movable.migration_cost
        return replace(
            self._unbudgeted, move_cost=np.maximum(self._unbudgeted.move_cost, price)
        )

    def _imbalance(self, assignment: Indices) -> float:
        return cost_breakdown(self._unbudgeted, assignment).imbalance
