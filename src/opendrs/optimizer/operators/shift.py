"""Cost changes of all shifts in a small cluster, updated move by move.

A shift changes two nodes, so only their rows are recomputed.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from opendrs.optimizer.feasibility import loads
from opendrs.optimizer.node_cost import NodeCostTable
from opendrs.optimizer.operators.domain_costs import DomainCosts
from opendrs.optimizer.problem import Floats, Indices, Mask, Problem
from opendrs.optimizer.problem_arrays import CAPACITY_SLACK

COPIED_ARRAYS = (
    "node_of", "is_displaced", "load", "node_cost", "sharing_cost", "set_count",
    "can_shift", "_arrived_set_count", "_arrived_count", "_arrival_delta",
    "_departure_delta",
)  # fmt: skip


class ShiftTable:
    """Current assignment and the cost change of each shift.

    Attributes:
        problem: Problem to solve.
        node_costs: Cost of nodes as a function of their load.
        node_of: Node of each group; shape (G,).
        load: Load of each node; shape (N, R).
        node_cost: Cost of the load of each node; shape (N,).
        sharing_cost: Cost of groups that share each node; shape (N,).
        is_displaced: Groups that are not at their origin; shape (G,).
        spent: Use of each budget; shape (B,).
        budgets: Budgets with slack for rounding; shape (B,).
        limit: Capacities with slack for rounding; shape (N, R).
        placement_cost: Cost of each group alone on each node; shape (N, G).
        is_allowed: Nodes that the placement class allows, and the origin; shape (N, G).
        can_shift: Feasible shifts, budgets ignored; shape (N, G).
        member: Membership of each group in each set, 1 or 0; shape (G, K).
        strict: Membership in strict sets; shape (G, K).
        weighted: Membership times the cost of sharing a node; shape (G, K).
        set_count: Members of each set on each node; shape (K, N).
        limits: Costs of the sets with limits, which are none of these; None without.
    """

    def __init__(self, problem: Problem, node_of: Indices) -> None:
        self.problem = problem
        self.node_costs = NodeCostTable(problem)
        self.node_of = node_of
        self.limit = problem.capacity + CAPACITY_SLACK * np.abs(problem.capacity)
        self.budgets = problem.budgets + CAPACITY_SLACK * np.abs(problem.budgets)
        self._group_indices = np.arange(problem.group_count)
        nodes = np.arange(problem.node_count)
        self._is_home = nodes[:, None] == problem.origin
        self.placement_cost = problem.move_cost * ~self._is_home
        if problem.placement_cost is not None:
            self.placement_cost += problem.placement_cost.T[:, problem.class_of]
        self.is_allowed: Mask = problem.allowed.T[:, problem.class_of] | self._is_home
        group_sets = problem.group_sets
        is_limited = group_sets.is_limited
        self.limits = DomainCosts(problem, node_of) if is_limited.any() else None
        plain = ~is_limited[group_sets.members.owners]
        owner, items = group_sets.members.owners[plain], group_sets.members.items[plain]
        self.member = np.zeros((problem.group_count, len(group_sets)))
        self.member[items, owner] = 1.0
        self.strict = self.member * group_sets.strict
        self.weighted = self.member * group_sets.anti_affinity_weight
        self._demand = np.ascontiguousarray(problem.demand.T)[:, None]
        on = (node_of[:, None] == nodes).astype(float)
        self.is_displaced: Mask = node_of != problem.origin
        self.load = loads(problem, node_of)
        self.node_cost = np.zeros(problem.node_count)
        self.sharing_cost = np.zeros(problem.node_count)
        self.set_count = np.zeros((len(group_sets), problem.node_count))
        np.add.at(self.set_count, (owner, node_of[items]), 1.0)
        self._arrived_set_count = np.zeros_like(self.set_count)
        np.add.at(
            self._arrived_set_count, (owner, node_of[items]), self.is_displaced[items]
        )
        self._arrived_count = (on * self.is_displaced[:, None]).sum(axis=0)
        self.spent: Floats = problem.budget_weights[:, self.is_displaced].sum(axis=1)
        self._arrival_delta = np.zeros((problem.node_count, problem.group_count))
        self._departure_delta = np.zeros((problem.node_count, problem.group_count))
        self.can_shift = np.zeros((problem.node_count, problem.group_count), np.bool_)
        self._refresh(nodes)

    def copy(self) -> ShiftTable:
        """Return an independent copy."""
        duplicate = copy(self)
        for name in COPIED_ARRAYS:
            setattr(duplicate, name, getattr(self, name).copy())
        if self.limits is not None:
            duplicate.limits = self.limits.copy()
        return duplicate

    @property
    def total_cost(self) -> float:
        """Total cost of the assignment."""
        placement = self.placement_cost[self.node_of, self._group_indices].sum()
        above = 0.0 if self.limits is None else self.limits.cost
        return float(self.node_cost.sum() + self.sharing_cost.sum() + placement + above)

    def move(self, *moves: tuple[int, int]) -> None:
        """Move groups to nodes; each argument is a group and its target."""
        nodes = {target for _, target in moves}
        for group, target in moves:
            nodes.add(int(self.node_of[group]))
            self._apply(group, target)
        self._refresh(np.array(list(nodes)))

    def _apply(self, group: int, target: int) -> None:
        """Move *group* to *target* without updating cost changes."""
        source, home = int(self.node_of[group]), int(self.problem.origin[group])
        demand, member = self.problem.demand[group], self.member[group]
        self.load[source] -= demand
        self.load[target] += demand
        was, now = source != home, target != home
        self._arrived_count[source] -= was
        self._arrived_count[target] += now
        if len(self.set_count):
            self.set_count[:, source] -= member
            self.set_count[:, target] += member
            self._arrived_set_count[:, source] -= was * member
            self._arrived_set_count[:, target] += now * member
        if now != was:
            sign = int(now) - int(was)
            self.spent = self.spent + sign * self.problem.budget_weights[:, group]
        self.is_displaced[group] = now
        self.node_of[group] = target
        if self.limits is not None:
            self.limits.move(group, target)

    def shift_deltas(self) -> Floats:
        """Return the cost change of each shift, feasible or not; shape (N, G)."""
        groups, here = self._group_indices, self.node_of
        own = self._departure_delta[here, groups] - self.placement_cost[here, groups]
        delta: Floats = self._arrival_delta + own
        return delta if self.limits is None else delta + self.limits.delta

    def within_budgets(self) -> Mask:
        """Return the groups that the budgets allow to leave; shape (G,)."""
        affordable = np.ones(len(self.is_displaced), np.bool_)
        for measure, spent, most in zip(
            self.problem.budget_weights, self.spent, self.budgets, strict=True
        ):
            # Only a group that leaves its origin uses more of a budget.
            affordable &= self.is_displaced | (spent + measure <= most) | (measure <= 0)
        return affordable

    def _refresh(self, nodes: Indices) -> None:
        """Recompute the cost of joining and of leaving *nodes*."""
        load = self.load[nodes]
        self.node_cost[nodes] = cost = self.node_costs.cost(load, nodes)
        with_group = self.node_costs.cost_with_each_group(load, nodes)
        with_group -= cost[:, None, None]
        self._arrival_delta[nodes] = with_group[:, 0] + self.placement_cost[nodes]
        self._departure_delta[nodes] = with_group[:, 1]
        home = self._is_home[nodes]
        # A node without arrivals may hold what it held at the origin, even if full.
        fits = (self._demand <= (self.limit[nodes] - load).T[:, :, None]).all(axis=0)
        fits |= home & (self._arrived_count[nodes] == 0)[:, None]
        if len(self.set_count):
            fits &= self._separated(nodes, home)
            self._refresh_sharing(nodes)
        fits &= self.is_allowed[nodes]
        fits &= self.node_of != nodes[:, None]
        self.can_shift[nodes] = fits

    def _separated(self, nodes: Indices, home: Mask) -> Mask:
        """Return the groups without a conflicting group on *nodes*; (nodes, G)."""
        others = np.minimum(self.set_count[:, nodes], 1).T @ self.strict.T
        arrived = np.minimum(self._arrived_set_count[:, nodes], 1).T @ self.strict.T
        separated: Mask = np.where(home, arrived, others) == 0
        return separated

    def _refresh_sharing(self, nodes: Indices) -> None:
        """Recompute the cost of sharing *nodes* within a set."""
        count = self.set_count[:, nodes].T
        first, others = np.minimum(count, 1), np.maximum(count - 1, 0)
        self._arrival_delta[nodes] += first @ self.weighted.T
        self._departure_delta[nodes] -= np.minimum(others, 1) @ self.weighted.T
        self.sharing_cost[nodes] = others @ self.problem.group_sets.anti_affinity_weight
