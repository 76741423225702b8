"""Initial solution: greedy construction, then vacating whole nodes.

The greedy heuristic makes the move with the largest gain divided by its price, then the
next. The price is a power of the share of the budget that the move uses. With the power
0 large groups move first, with 1 those with the largest gain per transferred byte.

A search of single moves vacates no nodes, because the first group that leaves a node
saves nothing. So nodes are vacated one by one, the least loaded first. Their groups go,
the largest first, to the fullest node that fits (best-fit decreasing).

Source:
    Johnson et al., Worst-case performance bounds for simple one-dimensional packing
    algorithms, SIAM Journal on Computing 3 (1974): best-fit decreasing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendrs.optimizer.evaluation import cost
from opendrs.optimizer.node_cost import least_loaded_nodes
from opendrs.optimizer.problem import (
    Floats,
    Indices,
    Mask,
    Problem,
    without_unlimited_budgets,
)
from opendrs.optimizer.search.block_search import BlockSearch
from opendrs.optimizer.search.local_search import LocalSearch, is_small


def vacate_nodes(problem: Problem, start: Indices) -> Indices:
    """Return *start* with as many nodes vacated as possible, one after another."""
    packer = _NodePacker(problem, start)
    order = np.lexsort((np.arange(problem.node_count), packer.fill_ratio()))
    for node in order.tolist():
        packer.vacate(node)
    return packer.node_of


class _NodePacker:
    """Assignment while nodes are vacated.

    Attributes:
        node_of: Node of each group; shape (G,).
    """

    def __init__(self, problem: Problem, start: Indices) -> None:
        self.node_of = start.copy()
        self._problem = problem
        # No node is filled so far that its guests have contention.
        busy = problem.excess_weight > 0
        safe = np.where(busy, problem.safety_capacity, np.inf)
        self._limit = np.minimum(problem.capacity, safe)
        self._load = problem.base_load.copy()
        np.add.at(self._load, start, problem.demand)
        size = np.where(np.isfinite(problem.capacity), problem.capacity, np.inf)
        self._scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
        self._sets_of_group = problem.group_sets.members.inverse(problem.group_count)
        moved = start != problem.origin
        self._spent: Floats = problem.budget_weights[:, moved].sum(axis=1)

    def fill_ratio(self) -> Floats:
        """Return the load of each node in its scarcest resource; shape (N,)."""
        full: Floats = (self._load * self._scale).max(axis=1)
        return full

    def vacate(self, node: int) -> None:
        """Move all groups of *node* elsewhere, or none if one of them fits nowhere."""
        groups = np.flatnonzero(self.node_of == node)
        before = self._load.copy(), self.node_of.copy(), self._spent.copy()
        largest_first = groups[np.argsort(-self._size(groups), kind="stable")]
        for group in largest_first.tolist():
            target = self._best_fit(group, node)
            if target is None:
                self._load, self.node_of, self._spent = before
                return
            self._move(group, target)

    def _size(self, groups: Indices) -> Floats:
        size: Floats = (self._problem.demand[groups] * self._scale.mean(axis=0)).max(
            axis=1, initial=0.0
        )
        return size

    def _best_fit(self, group: int, node: int) -> int | None:
        """Return the fullest used node that fits *group*; None if there is none."""
        problem = self._problem
        there = self._load + problem.demand[group]
        fits: Mask = (there <= self._limit).all(axis=1)
        fits &= problem.allowed[problem.class_of[group]]
        fits &= np.bincount(self.node_of, minlength=problem.node_count) > 0
        fits[node] = False
        for group_set in self._sets_of_group[group]:
            if problem.group_sets.strict[group_set]:
                fits[self.node_of[problem.group_sets.members[group_set]]] = False
        if not fits.any() or not self._within_budgets(group):
            return None
        full = np.where(fits, (there * self._scale).max(axis=1), -np.inf)
        return int(full.argmax())

    def _within_budgets(self, group: int) -> bool:
        if self.node_of[group] != self._problem.origin[group]:
            return True
        spent = self._spent + self._problem.budget_weights[:, group]
        return bool((spent <= self._problem.budgets).all())

    def _move(self, group: int, target: int) -> None:
        source, demand = self.node_of[group], self._problem.demand[group]
        self._load[source] -= demand
        self._load[target] += demand
        origin = self._problem.origin[group]
        change = int(target != origin) - int(source != origin)
        self._spent = self._spent + change * self._problem.budget_weights[:, group]
        self.node_of[group] = target


PRICE_EXPONENT = 0.25  # Default exponent of the price, which suits most clusters.
# fraction of the nodes below which groups of a class try all of them
NARROW_CLASS = 0.5
TARGETS = 20  # targets of groups of other classes, per criterion
MOVES_PER_ROUND = 16  # moves after which these targets are selected again


def initial_solution(
    problem: Problem, exponent: float = PRICE_EXPONENT, *, plain: bool
) -> Indices:
    """Return an initial assignment, with vacated nodes if that costs less.

    Args:
        problem: Problem to solve.
        exponent: Exponent of the price of a move; the plain search ignores it.
        plain: True to solve large problems without compiled code.
    """
    if not problem.group_count:
        return problem.origin
    problem = without_unlimited_budgets(problem)
    if is_small(problem):
        return LocalSearch(problem, problem.origin).descend().assignment
    if plain:
        without_use_cost = replace(problem, use_cost=np.zeros_like(problem.use_cost))
        best = BlockSearch(without_use_cost, problem.origin).descend().assignment
    else:
        best = greedy_solution(problem, exponent)
    if not problem.use_cost.any():
        return best
    return min(best, vacate_nodes(problem, best), key=lambda each: cost(problem, each))


def greedy_solution(problem: Problem, exponent: float = PRICE_EXPONENT) -> Indices:
    """Return a feasible assignment that costs at most as much as the origin."""
    # Loading compiled code takes half a second, so only searches load it.
    from opendrs.optimizer.compiled import greedy  # noqa: PLC0415
    from opendrs.optimizer.compiled.annealing import initialize  # noqa: PLC0415
    from opendrs.optimizer.compiled.compiler import pack_arrays  # noqa: PLC0415
    from opendrs.optimizer.problem_arrays import (  # noqa: PLC0415
        empty_state,
        problem_arrays,
    )

    arrays = problem_arrays(problem)
    max_on_node = int(np.bincount(problem.origin, minlength=1).max(initial=0))
    state = empty_state(arrays, 0, 4 * max_on_node + 64)
    initialize(arrays, state)
    open_nodes = problem.allowed.mean(axis=1)
    score = np.where(open_nodes[problem.class_of] > 0, np.inf, 0.0)
    queue = greedy.ShiftQueue(
        price=_budget_share(problem) ** exponent,
        score=score,
        block_best=np.zeros(-(-len(score) // greedy.BLOCK_SIZE)),
        targets=least_loaded_nodes(problem, state.load, TARGETS),
        is_narrow=open_nodes < NARROW_CLASS,
    )
    packs = pack_arrays(arrays), pack_arrays(state)
    while greedy.greedy_shifts(*packs, queue, MOVES_PER_ROUND) == MOVES_PER_ROUND:
        queue = queue._replace(targets=least_loaded_nodes(problem, state.load, TARGETS))
    return state.node_of


def _budget_share(problem: Problem) -> Floats:
    """Return the share of the budgets that each group uses; positive, shape (G,)."""
    if not len(problem.budgets):
        share = problem.demand.max(axis=1, initial=0.0)
    else:
        scale = np.where(problem.budgets > 0, problem.budgets, 1.0)
        share = (problem.budget_weights / scale[:, None]).max(axis=0)
    least = float(share[share > 0].min(initial=np.inf))
    return np.where(share > 0, share, least if np.isfinite(least) else 1.0)
