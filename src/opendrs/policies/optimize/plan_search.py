"""Search for a placement within a budget, with a lower bound; an anytime search.

A search within a binding budget gets stuck, because each further move requires that
another one is undone. If few guests may migrate, exchange moves are used; if little
memory may be transferred, Lagrangian relaxation.

The knee of the curve of imbalance over transferred memory is a price as well. A further
move must gain at least half of the average gain of all moves per GiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from opendrs.optimizer import (
    BINDING_USE,
    CAPACITY_SLACK,
    BudgetedAnnealing,
    Floats,
    Indices,
    LocalSearch,
    Problem,
    SearchKind,
    choose_method,
    cost_breakdown,
    freeze_groups,
    initial_solution,
    is_small,
    lagrangian_bound,
    nearest_point,
    select_search,
)
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.objective import ObjectiveWeights, encode_problem

# Least and most vertices for the polytope bound.
MIN_MAX_ITERATIONS = (
    20,
    200,
)
# The same if few guests may migrate, so that it is loose anyway.
MIN_MAX_ITERATIONS_FEW = (
    20,
    50,
)
WIDE_CLASS_SHARE = 0.9  # fraction of the groups that counts as most
CORRELATED = 0.5  # correlation of the demands from which the Lagrangian bound is better
MAX_EVALUATIONS = 4_000_000  # groups times vertices for the polytope bound
# accepted gap of the polytope bound, relative to the initial distance
PRECISION = 0.005
GROUPS_PER_MIGRATION = 5  # search size per migration for exchange moves
MAX_SIZE_FACTOR = 3  # largest search size in small clusters, relative to the groups
# search size per migration there, relative to the groups
SIZE_FACTOR_PER_MIGRATION = 0.3
PLAIN_SIZE_FACTOR = 0.25  # search size of the plain search: more gains little
GIB, MIGRATIONS = range(2)  # rows of the budgets
KNEE_GAIN = 0.5  # least gain per GiB of a move, relative to the average gain


@dataclass(frozen=True, kw_only=True)
class SearchTask:
    """Search problem of a plan.

    Attributes:
        cluster: Encoded cluster.
        weights: Weights of the objective.
        budget: Budget of the plan.
        seed: Seed of the random numbers.
        search: Search for large clusters.
    """

    cluster: EncodedCluster
    weights: ObjectiveWeights
    budget: Budget
    seed: int
    search: SearchKind = SearchKind.AUTO

    @cached_property
    def budget_weights(self) -> Floats:
        """Use of each budget by each group, GiB and guests; shape (2, G)."""
        return np.array(
            [self.cluster.movable.transfer, self.cluster.movable.guest_count]
        )

    @cached_property
    def budgets(self) -> Floats:
        """Limits of GiB and guests, without those used for gathering; shape (2,)."""
        guests = self.cluster.movable
        gather_transfer = float(guests.gather_transfer.sum())
        most = (
            self.budget.gib - gather_transfer,
            self.budget.migrations - guests.displaced_count,
        )
        return np.array([max(0.0, each) for each in most])


class PlanSearch:
    """Anytime search for the placement of one plan.

    The same task and calls give the same assignment. An assignment is available at any
    time.

    Attributes:
        problem: Problem with the budgets.
        search: Search that is used; `auto` for small clusters.
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
        self._search = choose_method(
            self.problem,
            task.seed,
            plain=self._plain,
            start=start,
            count_budgets=np.flatnonzero(self._finite == MIGRATIONS).tolist(),
        )

    @property
    def assignment(self) -> Indices:
        """Best assignment so far: node of each group; shape (G,)."""
        return self._search.best.assignment

    @property
    def search_size(self) -> int:
        """Number of groups to which the number of iterations is proportional.

        It differs from the number of groups if few of them may migrate.
        """
        groups = self.problem.group_count
        moved = int(self._budget_use(self.assignment)[MIGRATIONS])
        if isinstance(self._search, BudgetedAnnealing):
            return min(groups, GROUPS_PER_MIGRATION * moved)
        if isinstance(self._search, LocalSearch) and self._migrations_bind:
            return int(groups * min(MAX_SIZE_FACTOR, SIZE_FACTOR_PER_MIGRATION * moved))
        return int(groups * PLAIN_SIZE_FACTOR) if self._plain else groups

    @property
    def exhausted(self) -> bool:
        """True if nothing more can be found."""
        return not self._is_searchable or self._search.exhausted

    def improve(self, iterations: int, progress: float) -> None:
        """Evaluate *iterations* moves.

        Args:
            iterations: Number of moves.
            progress: Fraction of the whole search, in [0, 1], that is done after this
                call.
        """
        if self._is_searchable:
            self._search.run(iterations, progress)

    def without(self, groups: Sequence[int]) -> PlanSearch:
        """Return the search for a plan in which *groups* also stay at home."""
        start = self.assignment.copy()
        start[list(groups)] = self.problem.origin[list(groups)]
        return PlanSearch(self._task, [*self._frozen, *groups], start)

    def bound(self) -> float:
        """Return a lower bound of the distance of plans that move as much as the best.

        The bound holds for the measures that the budget limits; without a budget, for
        the transferred memory. Frozen groups may move here, since another plan may find
        an order for them. The Lagrangian bound, which moves whole groups, is used if a
        budget of migrations binds; it is used alone if it is likely to be the larger
        one.
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
        """True if the Lagrangian bound is likely to exceed the polytope bound.

        This is so if most groups may run anywhere and the demands of resources are
        correlated.
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
        """True if the budget of migrations is nearly used up."""
        moved = self._budget_use(self.assignment)[MIGRATIONS]
        return bool(moved > BINDING_USE * self._task.budgets[MIGRATIONS])

    def _with_used_budgets(self, rows: Indices) -> Problem:
        """Return the problem limited to what the best assignment uses of *rows*."""
        budgets = self._budget_use(self.assignment)[rows]
        measures = self._task.budget_weights[rows]
        return replace(self._full_problem, budget_weights=measures, budgets=budgets)

    def _budget_use(self, assignment: Indices) -> Floats:
        """Return GiB and guests that *assignment* moves, without gathering; (2,)."""
        away = assignment != self._unbudgeted.origin
        moved: Floats = self._task.budget_weights[:, away].sum(axis=1)
        return moved

    @property
    def _is_searchable(self) -> bool:
        """True if the budgets allow a move and there is another node."""
        problem = self.problem
        budgets = problem.budgets + CAPACITY_SLACK * np.abs(problem.budgets)
        affordable = (problem.budget_weights <= budgets[:, None]).all(axis=0)
        return problem.node_count > 1 and bool(affordable.any())

    def _with_knee_price(self, unbudgeted_solution: Indices) -> Problem:
        """Return the problem with the price per GiB of the knee."""
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
