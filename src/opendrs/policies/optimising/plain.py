"""A search for clusters of any size that needs no compiled code.

Up to some hundred nodes it is `Descent` alone. Larger clusters are divided into blocks
of nodes, each with its part of the budgets: first are repaired the units whose place
breaks a rule, on all nodes; then each block is made even by itself. The nodes of a
block are dealt out by their load, so that each block has its part of full nodes and of
empty ones; with each round they are dealt out anew.

Source:
    Narayanan et al., Solving large-scale granular resource allocation problems
    efficiently with POP (SOSP 2021).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendrs.policies.optimising.closing import closed
from opendrs.policies.optimising.descent import Descent
from opendrs.policies.optimising.engine import Solution, cost, loads
from opendrs.policies.optimising.groups import Floats, Groups, Indices, Lists, Mask
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.valuation import node_cost

CELLS = 300_000  # nodes times units that are looked at at once
BLOCK = 100_000  # and in a block, as small problems are solved faster
ROUNDS = 3  # times nodes are dealt out


class Plain:
    """Look for assignments that cost less, without compiled code.

    Like `Descent`, the same problem, start, seed and calls give the same.

    Args:
        problem: What is to be solved. Nodes that stand empty at the start stay so
            where it costs something to use them.
        start: A feasible assignment to begin with.
        seed: Where the random numbers begin.

    Attributes:
        exhausted: Whether nothing more can be found.
    """

    def __init__(self, problem: Problem, start: Indices, seed: int = 0) -> None:
        self.problem = problem
        self.exhausted = False
        self._best = Solution(start.copy(), cost(problem, start))
        self._seed = seed
        self._round = 0
        self._searched = _without_empty(problem, start)
        whole = not is_divided(problem)
        self._descent = Descent(self._searched, start, seed) if whole else None

    @property
    def best(self) -> Solution:
        """The least costly assignment so far."""
        return self._best

    def settle(self) -> Solution:
        """Go on until no move gains; in large clusters, for one round."""
        if self._descent is not None:
            self._keep(self._descent.settle().assignment)
        else:
            self._deal()
        return self._best

    def run(self, iterations: int, progress: float) -> Solution:
        """Look at about *iterations* moves, in large clusters at one round of them."""
        if self.exhausted:
            return self._best
        if self._descent is not None:
            self._keep(self._descent.run(iterations, progress).assignment)
            self.exhausted = self._descent.exhausted
        else:
            self._deal()
        return self._best

    def _keep(self, assignment: Indices) -> bool:
        """Take *assignment* over as the best, and return whether it is."""
        price = cost(self.problem, assignment)
        better = price < self._best.cost
        if better:
            self._best = Solution(assignment.copy(), price)
        return better

    def _deal(self) -> None:
        """Make each block as even as it can be by itself."""
        searched, node_of = self._searched, self._best.assignment.copy()
        if self._round == 0:
            self._repair(node_of)
        blocks = self._blocks(node_of)
        load = loads(searched, node_of)
        costs = node_cost(searched, load, np.arange(searched.nodes))
        weights = [float(costs[block].sum()) for block in blocks]
        for place in np.argsort(weights)[::-1].tolist():
            block, left = blocks[place], sum(weights)
            part = weights[place] / left if left > 0 else 1.0
            weights[place] = 0.0
            units = np.flatnonzero(np.isin(node_of, block))
            self._solve(node_of, block, units, units, part)
        self._round += 1
        self.exhausted = not self._keep(node_of) or self._round == ROUNDS

    def _blocks(self, node_of: Indices) -> list[Indices]:
        """Return the nodes of each block: dealt out in the order of their load."""
        problem = self._searched
        units = max(problem.units / problem.nodes, 1.0)
        size = max(2, int((BLOCK / units) ** 0.5))
        number = -(-problem.nodes // size)
        capacity = problem.capacity
        full = np.zeros_like(capacity)
        np.divide(loads(problem, node_of), capacity, out=full, where=capacity > 0)
        order = np.argsort(full[:, problem.even_weight > 0].sum(axis=1), kind="stable")
        row, column = np.divmod(np.arange(problem.nodes), number)
        block = (column + row * self._round) % number
        return [order[block == each] for each in range(number)]

    def _repair(self, node_of: Indices) -> None:
        """Move units whose place breaks a rule, wherever they may go."""
        problem, nodes = self._searched, np.arange(self._searched.nodes)
        waiting = np.flatnonzero(_misplaced(problem, node_of))
        into = problem.groups.members.inverse(problem.units)
        each = max(1, CELLS // (4 * problem.nodes))
        for first in range(0, len(waiting), each):
            chosen = waiting[first : first + each]
            mates = [
                problem.groups.members[group]
                for unit in chosen.tolist()
                for group in into[unit].tolist()
            ]
            units = np.unique(np.concatenate([chosen, *mates]))
            self._solve(node_of, nodes, units, chosen, 1.0)

    def _solve(
        self,
        node_of: Indices,
        nodes: Indices,
        units: Indices,
        movable: Indices,
        part: float,
    ) -> None:
        """Move some units between some nodes; change *node_of*.

        Who is away stays there: what a part of the nodes knows of budgets is what is
        left of them.

        Args:
            node_of: Where all units are.
            nodes: The nodes that change.
            units: The units on them that matter; others are load.
            movable: Those of them that may move.
            part: The part of what is left of the budgets that may be used.
        """
        problem = self._searched
        away = node_of != problem.origin
        spent: Floats = problem.measures[:, away].sum(axis=1)
        left = np.maximum(0.0, problem.budgets - spent) * part
        stays = ~np.isin(units, movable) | away[units]
        small = _part(problem, node_of, nodes, units, left)
        small = closed(small, np.flatnonzero(stays).tolist())
        found = Descent(small, small.origin, self._seed).settle()
        node_of[units] = nodes[found.assignment]


def is_divided(problem: Problem) -> bool:
    """Return whether *problem* is solved in blocks."""
    return problem.nodes * problem.units > CELLS


def _without_empty(problem: Problem, start: Indices) -> Problem:
    """Return *problem* where nothing goes to nodes that are to stay empty."""
    if not problem.use_cost.any():
        return problem
    used = np.bincount(start, minlength=problem.nodes) > 0
    return replace(
        problem,
        use_cost=np.zeros_like(problem.use_cost),
        allowed=problem.allowed & used,
    )


def _misplaced(problem: Problem, node_of: Indices) -> Mask:
    """Return which units have a place that costs, or share it with their group."""
    found: Mask = np.zeros(problem.units, np.bool_)
    if problem.place_cost is not None:
        found |= problem.place_cost[problem.class_of, node_of] > 0
    groups = problem.groups
    for group in np.flatnonzero(groups.apart_weight > 0).tolist():
        members = groups.members[group]
        _, first = np.unique(node_of[members], return_index=True)
        found[np.delete(members, first)] = True
    return found


def _part(
    problem: Problem,
    node_of: Indices,
    nodes: Indices,
    units: Indices,
    budgets: Floats,
) -> Problem:
    """Return the problem of these *units* on these *nodes*; all others stay."""
    folded = np.ones(problem.units, np.bool_)
    folded[units] = False
    base = problem.base.copy()
    np.add.at(base, node_of[folded], problem.demand[folded])
    place = np.full(problem.nodes, -1)
    place[nodes] = np.arange(len(nodes))
    return Problem(
        capacity=problem.capacity[nodes],
        demand=problem.demand[units],
        origin=place[node_of[units]],
        class_of=problem.class_of[units],
        allowed=problem.allowed[:, nodes],
        base=base[nodes],
        groups=_groups(problem, units),
        overload_weight=problem.overload_weight,
        safety=problem.safety[nodes],
        excess_weight=problem.excess_weight[nodes],
        even_target=problem.even_target,
        even_weight=problem.even_weight,
        place_cost=None if problem.place_cost is None else problem.place_cost[:, nodes],
        move_cost=problem.move_cost[units],
        measures=problem.measures[:, units],
        budgets=budgets,
    )


def _groups(problem: Problem, units: Indices) -> Groups:
    """Return the groups of which at least two of *units* are members."""
    groups = problem.groups
    place = np.full(problem.units, -1)
    place[units] = np.arange(len(units))
    owner = np.repeat(np.arange(len(groups)), np.diff(groups.members.start))
    inside = place[groups.members.items] >= 0
    size = np.bincount(owner[inside], minlength=len(groups))
    kept = np.flatnonzero(size > 1)
    rows = [place[groups.members[each]] for each in kept.tolist()]
    count = len(kept)
    return Groups(
        members=Lists.of([row[row >= 0].tolist() for row in rows]),
        strict=groups.strict[kept],
        apart_weight=groups.apart_weight[kept],
        spread=np.zeros(count, np.int64),
        needs=Lists.of([[]] * count),
    )
