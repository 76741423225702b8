"""Exhaustive search of small problems: all placements, and the moves that reach them.

U units (groups that move as one) on N nodes have S = N^U placements. A placement is
reached by single moves, each of which is safe: the unit counts on both nodes while it
moves, and no constraint is newly violated. The least amount to transfer to each
placement is found by dynamic programming over the number of migrations. What it finds
is optimal, and what it does not reach cannot be reached.

Source:
    Bellman, On a routing problem, Quarterly of Applied Mathematics 16 (1958).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from opendrs.optimizer.feasibility import FEASIBILITY_SLACK
from opendrs.optimizer.problem import Floats, Indices, Mask, Problem

Placements = npt.NDArray[np.intp]
MAX_LAYERS = 60  # migrations of one plan, detours included
UNKNOWN = 1e30  # amount that a unit with an unknown one requires: it fits nowhere


@dataclass(frozen=True, slots=True, eq=False)
class UnitLimit:
    """Most members of some units in each domain of nodes.

    Attributes:
        size: Members in each unit; shape (U,).
        domains: Domain of each node; shape (N,).
        most: Most members in one domain.
        fixed: Domains of the members that do not move.
    """

    size: Indices
    domains: Indices
    most: int
    fixed: tuple[int, ...]

    def count(self, assignments: Indices, domain: int) -> Indices:
        """Return the members in *domain* in each placement; shape (S,)."""
        inside = self.domains[assignments] == domain
        count: Indices = self.size @ inside + self.fixed.count(domain)
        return count

    def above(self, assignments: Indices) -> Floats:
        """Return how many members are above the limit in each placement; (S,)."""
        above: Floats = np.zeros(assignments.shape[1])
        for domain in {*self.domains.tolist(), *self.fixed}:
            above += np.maximum(self.count(assignments, domain) - self.most, 0)
        return above


@dataclass(frozen=True, eq=False, kw_only=True)
class PlacementGraph:
    """Placements of a small problem, and the moves between them.

    Attributes:
        origin: Node of each unit; shape (U,).
        required: Amounts of K resources that each unit requires; shape (U, K).
        available: Amounts that each node has left at the origin; shape (N, K).
        usable: Amounts that each node has if it is empty; shape (N, K).
        possible: True for nodes on which a unit can run; shape (U, N).
        violated: Bit set of the constraints that a unit violates on each node, from 0
            to 62; shape (U, N). A move must not violate a further one.
        avoided: True for nodes with a fixed group that the unit must not join; (U, N).
        apart: Pairs of units that must not join each other.
        together: Units of each constraint that units share a node, and the node of its
            fixed groups, or -1 if it has none. A move must not end that.
        limits: Limits of units in domains of nodes. No unit may arrive in a domain that
            has too many members then.
        transfer: Amount that each move of a unit transfers; shape (U,).
        migrations: Number of migrations of each move of a unit; shape (U,).
        returns: True for units that may move more than once; shape (U,).
        subset: Only placements that count, the origin first, or None for all; (U, S).
    """

    origin: Indices
    required: Floats
    available: Floats
    usable: Floats
    possible: Mask
    violated: Indices
    avoided: Mask
    apart: tuple[tuple[int, int], ...]
    together: tuple[tuple[tuple[int, ...], int], ...]
    transfer: Floats
    migrations: Indices
    returns: Mask
    limits: tuple[UnitLimit, ...] = ()
    subset: Indices | None = None

    @property
    def unit_count(self) -> int:
        """Number of units, U."""
        return len(self.origin)

    @property
    def node_count(self) -> int:
        """Number of nodes, N."""
        return len(self.available)

    @cached_property
    def strides(self) -> Indices:
        """Difference of two placements that differ by one node of a unit; (U,)."""
        return self.node_count ** np.arange(self.unit_count, dtype=np.int64)

    @cached_property
    def count(self) -> int:
        """Number of placements, S."""
        if self.subset is not None:
            return int(self.subset.shape[1])
        return int(self.node_count**self.unit_count)

    @cached_property
    def assignments(self) -> Indices:
        """Node of each unit in each placement; shape (U, S)."""
        if self.subset is not None:
            return self.subset
        placements = np.arange(self.count)
        return np.array([placements // each % self.node_count for each in self.strides])

    @cached_property
    def start(self) -> int:
        """The placement of the origin."""
        if self.subset is not None:
            return 0
        return int(self.strides @ self.origin)

    @cached_property
    def free(self) -> Floats:
        """Amounts left on each node in each placement; shape (N, K, S).

        What units free that were there at the origin is limited by the usable memory:
        a group may seem to use more than its node.
        """
        kinds = self.available.shape[1]
        required = np.where(np.isfinite(self.required), self.required, UNKNOWN)
        free = np.empty((self.node_count, kinds, self.count))
        for node in range(self.node_count):
            here = self.assignments == node
            native = self.origin == node
            for kind in range(kinds):
                left = required[native, kind] @ ~here[native]
                arrived = required[~native, kind] @ here[~native]
                initial = np.minimum(
                    self.available[node, kind] + left, self.usable[node, kind]
                )
                free[node, kind] = initial - arrived
        return free

    @cached_property
    def joined(self) -> tuple[tuple[tuple[int, ...], Mask], ...]:
        """Units of each constraint to be together, and where it holds; shape (S,)."""
        return tuple(
            (units, self.are_together(units, node)) for units, node in self.together
        )

    def are_together(self, units: tuple[int, ...], node: int) -> Mask:
        """Return the placements with *units* on one node: *node*, or any if -1."""
        where = self.assignments[list(units)]
        place = where[0] if node < 0 else np.full(self.count, node)
        same: Mask = (where == place).all(axis=0)
        return same

    def is_safe(self, unit: int, target: int) -> Mask:
        """Return the placements in which *unit* may move to *target*; shape (S,)."""
        here = self.assignments[unit]
        if not self.possible[unit, target] or self.avoided[unit, target]:
            return np.zeros(self.count, np.bool_)
        further = self.violated[unit, target] & ~self.violated[unit]
        safe: Mask = (here != target) & (further == 0)[here]
        if not self.returns[unit]:
            safe &= here == self.origin[unit]
        for kind in range(self.available.shape[1]):
            safe &= self.free[target, kind] >= self.required[unit, kind]
        for one, other in self.apart:
            if unit in (one, other):
                neighbor = other if unit == one else one
                safe &= self.assignments[neighbor] != target
        for units, holds in self.joined:
            if unit in units:
                safe &= ~holds
        for limit in self.limits:
            if limit.size[unit]:
                domain = int(limit.domains[target])
                stays = limit.domains[here] == domain
                count = limit.count(self.assignments, domain) + limit.size[unit]
                safe &= stays | (count <= limit.most)
        return safe


@dataclass(frozen=True, slots=True)
class UnitMove:
    """Move of a unit to a node."""

    unit: int
    target: int


class ReachablePlacements:
    """The placements that safe moves reach within a budget.

    Args:
        graph: Placements and moves.
        migrations: Most migrations.

    Attributes:
        transfer: Least amount to transfer to each placement, inf if it is not reached;
            shape (S,).
    """

    def __init__(self, graph: PlacementGraph, migrations: float = math.inf) -> None:
        self._graph = graph
        first = np.full(graph.count, np.inf)
        first[graph.start] = 0.0
        self._layers = [first]
        self._edges = [*self._safe_moves()]
        most = int(min(migrations, MAX_LAYERS))
        longest = int(graph.migrations.max(initial=1))
        unchanged = 0
        while len(self._layers) <= most and unchanged < longest:
            self._layers.append(self._next_layer())
            same = np.array_equal(self._layers[-1], self._layers[-2])
            unchanged = unchanged + 1 if same else 0
        self.transfer: Floats = self._layers[-1]

    def path(self, placement: int) -> tuple[UnitMove, ...]:
        """Return the moves from the origin to *placement*, in order.

        They transfer least; among equals they are the fewest.

        Raises:
            ValueError: The placement is not reached.
        """
        if not np.isfinite(self.transfer[placement]):
            raise ValueError(f"placement {placement}: not reached")
        moves: list[UnitMove] = []
        layer = len(self._layers) - 1
        while placement != self._graph.start:
            amount = self._layers[layer][placement]
            if layer and self._layers[layer - 1][placement] == amount:
                layer -= 1
                continue
            move, placement = self._last_move(placement, layer)
            moves.append(move)
            layer -= int(self._graph.migrations[move.unit])
        return tuple(reversed(moves))

    def _safe_moves(self) -> Iterator[tuple[UnitMove, Placements, Placements]]:
        """Yield each move of a unit with the placements before and after it.

        Those of one yield are from the same node, so that each occurs once.
        """
        graph = self._graph
        for unit, target in np.ndindex(graph.unit_count, graph.node_count):
            is_safe = graph.is_safe(unit, target)
            for source in range(graph.node_count):
                before = np.flatnonzero(is_safe & (graph.assignments[unit] == source))
                if len(before):
                    after = before + (target - source) * graph.strides[unit]
                    yield UnitMove(unit, target), before, after

    def _next_layer(self) -> Floats:
        """Return the least amounts with one more migration."""
        graph, layers = self._graph, self._layers
        amounts = layers[-1].copy()
        for move, before, after in self._edges:
            size = int(graph.migrations[move.unit])
            if size <= len(layers):
                through = layers[-size][before] + graph.transfer[move.unit]
                amounts[after] = np.minimum(amounts[after], through)
        return amounts

    def _last_move(self, placement: int, layer: int) -> tuple[UnitMove, int]:
        """Return the move that led to *placement*, and the placement before it."""
        graph, amount = self._graph, self._layers[layer][placement]
        for move, before, after in self._edges:
            earlier = layer - int(graph.migrations[move.unit])
            if earlier < 0:
                continue
            found = before[after == placement]
            through = self._layers[earlier][found] + graph.transfer[move.unit]
            same = np.flatnonzero(through == amount)
            if len(same):
                return move, int(found[same[0]])
        raise AssertionError("a placement without a move that leads to it")


def placement_loads(problem: Problem, assignments: Indices) -> Floats:
    """Return the load of each node in each of S placements; shape (N, R, S).

    Args:
        problem: A problem whose groups are the units.
        assignments: Node of each group in each placement; shape (G, S).
    """
    nodes, resources = problem.base_load.shape
    loads = np.empty((nodes, resources, assignments.shape[1]))
    for node in range(nodes):
        here = assignments == node
        loads[node] = problem.demand.T @ here + problem.base_load[node][:, None]
    return loads


def placement_costs(problem: Problem, assignments: Indices) -> Floats:
    """Return the costs of each of S placements; shape (S,).

    They are those of `cost` for problems without ratio, pair and set move costs.

    Args:
        problem: A problem whose groups are the units.
        assignments: Node of each group in each placement; shape (G, S).
    """
    loads = placement_loads(problem, assignments)
    over = np.maximum(loads - problem.capacity[:, :, None], 0.0)
    costs: Floats = np.einsum("nrs,r->s", over, problem.overload_weight)
    excess = np.maximum(loads - problem.safety_capacity[:, :, None], 0.0)
    costs += np.einsum("nrs,nr->s", excess, problem.excess_weight)
    costs += imbalance_costs(problem, loads)
    for node, use_cost in enumerate(problem.use_cost.tolist()):
        if use_cost:
            costs += use_cost * (assignments == node).any(axis=0)
    if problem.placement_cost is not None:
        for group, row in enumerate(problem.placement_cost[problem.class_of]):
            costs += row[assignments[group]]
    sets = problem.group_sets
    for index, weight in enumerate(sets.anti_affinity_weight.tolist()):
        if weight:
            costs += weight * _above_limits(problem, index, assignments)
    costs += problem.move_cost @ (assignments != problem.origin[:, None])
    return costs


def _above_limits(problem: Problem, group_set: int, assignments: Indices) -> Floats:
    """Return how many members of a set are above the limit of their domain; (S,)."""
    sets = problem.group_sets
    domains = problem.domains[sets.partition[group_set]]
    members = domains[assignments[sets.members[group_set]]]
    most, fixed = int(sets.most[group_set]), sets.fixed[group_set].tolist()
    above: Floats = np.zeros(assignments.shape[1])
    for domain in np.unique(domains).tolist():
        staying = fixed.count(domain)
        count = (members == domain).sum(axis=0) + staying
        above += np.maximum(count - most, 0) - max(staying - most, 0)
    return above


def imbalance_costs(problem: Problem, loads: Floats) -> Floats:
    """Return the cost of the imbalance of *loads* (N, R, S); shape (S,)."""
    ratio = loads / problem.capacity[:, :, None]
    distance = np.square(ratio - problem.target_load[None, :, None])
    costs: Floats = np.einsum("nrs,r->s", distance, problem.imbalance_weight)
    return costs


def overfilled(problem: Problem, assignments: Indices, loads: Floats) -> Mask:
    """Return the placements with a node that received groups above its capacity.

    Args:
        problem: A problem whose groups are the units.
        assignments: Node of each group in each placement; shape (G, S).
        loads: Load of each node in each placement; shape (N, R, S).
    """
    found = np.zeros(assignments.shape[1], np.bool_)
    away = assignments != problem.origin[:, None]
    slack = 1 + FEASIBILITY_SLACK
    for node in range(problem.node_count):
        receives = (away & (assignments == node)).any(axis=0)
        full = (loads[node] > problem.capacity[node][:, None] * slack).any(axis=0)
        found |= receives & full
    return found
