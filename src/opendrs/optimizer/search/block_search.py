"""Search for clusters of any size without compiled code.

Up to some hundred nodes it is `LocalSearch`. Larger clusters are partitioned into
blocks of nodes, each with a share of the budgets. Groups that violate a rule are first
moved across all nodes; then each block is balanced by itself. Nodes are dealt to the
blocks in the order of their load, so that all blocks have similar loads. Each round
uses another partition.

Source:
    Narayanan et al., Solving large-scale granular resource allocation problems
    efficiently with POP (SOSP 2021).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendrs.optimizer.evaluation import Incumbent, cost
from opendrs.optimizer.feasibility import loads
from opendrs.optimizer.node_cost import node_costs
from opendrs.optimizer.problem import (
    Floats,
    GroupSets,
    IndexLists,
    Indices,
    Mask,
    Problem,
    freeze_groups,
)
from opendrs.optimizer.search.local_search import LocalSearch

MAX_UNDIVIDED_SIZE = 300_000  # nodes times groups that are searched as a whole
# nodes times groups of a block; smaller, as it is solved faster
MAX_BLOCK_SIZE = 100_000
MAX_ROUNDS = 3  # partitions that are searched
SIZE_FACTOR = 0.25  # of the groups: more iterations gain little


class BlockSearch:
    """Local search in blocks of nodes.

    The same problem, start, seed and calls give the same solution. `best` is always
    feasible.

    Args:
        problem: Problem to solve. If using nodes has a cost, nodes without groups at
            the start stay empty.
        start: Feasible initial assignment.
        seed: Seed of the random numbers.

    Attributes:
        exhausted: True if nothing more can be found.
    """

    def __init__(self, problem: Problem, start: Indices, seed: int = 0) -> None:
        self.problem = problem
        self.exhausted = False
        self._best = Incumbent(start.copy(), cost(problem, start))
        self._seed = seed
        self._round = 0
        self._problem = _without_unused_nodes(problem, start)
        whole = not needs_blocks(problem)
        self._is_limited = _limited_groups(problem)
        self._local_search = LocalSearch(self._problem, start, seed) if whole else None

    @property
    def best(self) -> Incumbent:
        """Best solution so far."""
        return self._best

    @property
    def size(self) -> int:
        """A quarter of the groups, as more iterations gain little."""
        return int(self.problem.group_count * SIZE_FACTOR)

    def descend(self) -> Incumbent:
        """Apply improving moves until none gains; in large clusters one round."""
        if self._local_search is not None:
            self._store_best(self._local_search.descend().assignment)
        else:
            self._run_round()
        return self._best

    def run(self, iterations: int, progress: float) -> Incumbent:
        """Evaluate about *iterations* moves; in large clusters run one round."""
        if self.exhausted:
            return self._best
        if self._local_search is not None:
            self._store_best(self._local_search.run(iterations, progress).assignment)
            self.exhausted = self._local_search.exhausted
        else:
            self._run_round()
        return self._best

    def _store_best(self, assignment: Indices) -> bool:
        """Store *assignment* if it is the best; return True if it is."""
        price = cost(self.problem, assignment)
        better = price < self._best.cost
        if better:
            self._best = Incumbent(assignment.copy(), price)
        return better

    def _run_round(self) -> None:
        """Balance each block by itself."""
        problem, node_of = self._problem, self._best.assignment.copy()
        if self._round == 0:
            self._repair(node_of)
        blocks = self._blocks(node_of)
        load = loads(problem, node_of)
        costs = node_costs(problem, load, np.arange(problem.node_count))
        weights = [float(costs[block].sum()) for block in blocks]
        for index in np.argsort(weights)[::-1].tolist():
            block, left = blocks[index], sum(weights)
            share = weights[index] / left if left > 0 else 1.0
            weights[index] = 0.0
            groups = np.flatnonzero(np.isin(node_of, block))
            self._solve(node_of, block, groups, groups, share)
        self._round += 1
        self.exhausted = not self._store_best(node_of) or self._round == MAX_ROUNDS

    def _blocks(self, node_of: Indices) -> list[Indices]:
        """Return the nodes of each block, dealt in the order of their load."""
        problem = self._problem
        groups = max(problem.group_count / problem.node_count, 1.0)
        size = max(2, int((MAX_BLOCK_SIZE / groups) ** 0.5))
        number = -(-problem.node_count // size)
        capacity = problem.capacity
        full = np.zeros_like(capacity)
        np.divide(loads(problem, node_of), capacity, out=full, where=capacity > 0)
        order = np.argsort(
            full[:, problem.imbalance_weight > 0].sum(axis=1), kind="stable"
        )
        row, column = np.divmod(np.arange(problem.node_count), number)
        block = (column + row * self._round) % number
        return [order[block == each] for each in range(number)]

    def _repair(self, node_of: Indices) -> None:
        """Move the groups that violate a rule, across all nodes."""
        problem, nodes = self._problem, np.arange(self._problem.node_count)
        misplaced = np.flatnonzero(_misplaced(problem, node_of))
        sets_of_group = problem.group_sets.members.inverse(problem.group_count)
        each = max(1, MAX_UNDIVIDED_SIZE // (4 * problem.node_count))
        for first in range(0, len(misplaced), each):
            chosen = misplaced[first : first + each]
            members = [
                problem.group_sets.members[group_set]
                for group in chosen.tolist()
                for group_set in sets_of_group[group].tolist()
            ]
            groups = np.unique(np.concatenate([chosen, *members]))
            self._solve(node_of, nodes, groups, chosen, 1.0)

    def _solve(
        self,
        node_of: Indices,
        nodes: Indices,
        groups: Indices,
        movable: Indices,
        share: float,
    ) -> None:
        """Move some groups between some nodes; change *node_of*.

        Displaced groups stay, because the subproblem only has the remaining budgets.

        Args:
            node_of: Node of each group.
            nodes: Nodes of the subproblem.
            groups: Groups of the subproblem; all others are base load.
            movable: Those of them that may move.
            share: Fraction of the remaining budgets that may be used.
        """
        problem = self._problem
        away = node_of != problem.origin
        if len(nodes) < problem.node_count:  # domains are larger than a block
            movable = movable[~self._is_limited[movable]]
        spent: Floats = problem.budget_weights[:, away].sum(axis=1)
        left = np.maximum(0.0, problem.budgets - spent) * share
        stays = ~np.isin(groups, movable) | away[groups]
        small = _subproblem(problem, node_of, nodes, groups, left)
        small = freeze_groups(small, np.flatnonzero(stays).tolist())
        solution = LocalSearch(small, small.origin, self._seed).descend()
        node_of[groups] = nodes[solution.assignment]


def needs_blocks(problem: Problem) -> bool:
    """Return True if *problem* is too large to be searched as a whole."""
    return problem.node_count * problem.group_count > MAX_UNDIVIDED_SIZE


def _without_unused_nodes(problem: Problem, start: Indices) -> Problem:
    """Return *problem* without moves to nodes that are to stay empty."""
    if not problem.use_cost.any():
        return problem
    used = np.bincount(start, minlength=problem.node_count) > 0
    return replace(
        problem,
        use_cost=np.zeros_like(problem.use_cost),
        allowed=problem.allowed & used,
    )


def _misplaced(problem: Problem, node_of: Indices) -> Mask:
    """Return the groups with a placement cost or a cost of sharing a node."""
    misplaced: Mask = np.zeros(problem.group_count, np.bool_)
    if problem.placement_cost is not None:
        misplaced |= problem.placement_cost[problem.class_of, node_of] > 0
    group_sets = problem.group_sets
    is_limited = group_sets.is_limited
    for group_set in np.flatnonzero(group_sets.anti_affinity_weight > 0).tolist():
        members = group_sets.members[group_set]
        if is_limited[group_set]:
            misplaced[members[_is_above_limit(problem, group_set, node_of)]] = True
            continue
        _, first = np.unique(node_of[members], return_index=True)
        misplaced[np.delete(members, first)] = True
    return misplaced


def _limited_groups(problem: Problem) -> Mask:
    """Return the groups of sets with limits; shape (G,)."""
    members = problem.group_sets.members
    found: Mask = np.zeros(problem.group_count, np.bool_)
    found[members.items[problem.group_sets.is_limited[members.owners]]] = True
    return found


def _is_above_limit(problem: Problem, group_set: int, node_of: Indices) -> Mask:
    """Return the members of a set in domains with more members than its limit."""
    sets = problem.group_sets
    domains = problem.domains[sets.partition[group_set]]
    where = domains[node_of[sets.members[group_set]]]
    count = np.bincount(np.concatenate((where, sets.fixed[group_set])))
    above: Mask = (count > sets.most[group_set])[where]
    return above


def _subproblem(
    problem: Problem,
    node_of: Indices,
    nodes: Indices,
    groups: Indices,
    budgets: Floats,
) -> Problem:
    """Return the problem of *groups* on *nodes*; all others are base load."""
    folded = np.ones(problem.group_count, np.bool_)
    folded[groups] = False
    base = problem.base_load.copy()
    np.add.at(base, node_of[folded], problem.demand[folded])
    place = np.full(problem.node_count, -1)
    place[nodes] = np.arange(len(nodes))
    return Problem(
        capacity=problem.capacity[nodes],
        demand=problem.demand[groups],
        origin=place[node_of[groups]],
        class_of=problem.class_of[groups],
        allowed=problem.allowed[:, nodes],
        base_load=base[nodes],
        group_sets=_subproblem_sets(problem, groups, place),
        domains=np.vstack((np.arange(len(nodes)), problem.domains[1:, nodes])),
        overload_weight=problem.overload_weight,
        safety_capacity=problem.safety_capacity[nodes],
        excess_weight=problem.excess_weight[nodes],
        target_load=problem.target_load,
        imbalance_weight=problem.imbalance_weight,
        placement_cost=None
        if problem.placement_cost is None
        else problem.placement_cost[:, nodes],
        move_cost=problem.move_cost[groups],
        budget_weights=problem.budget_weights[:, groups],
        budgets=budgets,
        counts_moves=problem.counts_moves,
    )


def _subproblem_sets(problem: Problem, groups: Indices, node: Indices) -> GroupSets:
    """Return the sets that matter for *groups*: with two of them, or a limit.

    Args:
        problem: The whole problem.
        groups: Groups of the subproblem.
        node: Index of each node in the subproblem; -1 for others.
    """
    group_sets = problem.group_sets
    place = np.full(problem.group_count, -1)
    place[groups] = np.arange(len(groups))
    owner = group_sets.members.owners
    inside = place[group_sets.members.items] >= 0
    size = np.bincount(owner[inside], minlength=len(group_sets))
    kept = np.flatnonzero((size > 1) | (group_sets.is_limited & (size > 0)))
    rows = [place[group_sets.members[each]] for each in kept.tolist()]
    count = len(kept)
    return GroupSets(
        members=IndexLists.of([row[row >= 0].tolist() for row in rows]),
        strict=group_sets.strict[kept],
        anti_affinity_weight=group_sets.anti_affinity_weight[kept],
        spread=np.zeros(count, np.int64),
        needs=IndexLists.of([[]] * count),
        partition=group_sets.partition[kept],
        most=group_sets.most[kept],
        fixed=IndexLists.of([_fixed(group_sets, each, node) for each in kept.tolist()]),
    )


def _fixed(group_sets: GroupSets, group_set: int, node: Indices) -> list[int]:
    """Return the domains of the fixed members of a set in a subproblem."""
    domains = group_sets.fixed[group_set]
    if group_sets.partition[group_set] > 0:
        return [int(each) for each in domains]
    return [int(node[each]) for each in domains if node[each] >= 0]
