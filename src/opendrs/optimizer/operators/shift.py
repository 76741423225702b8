"""What each move of a small cluster would gain, kept up to date move by move.

A shift changes two nodes. So only their columns are worked out anew.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from opendrs.optimizer.evaluation import loads
from opendrs.optimizer.node_cost import NodeCostTable
from opendrs.optimizer.problem import Floats, Indices, Mask, Problem

CAPACITY_SLACK = (
    1e-12  # relative; sums of the same amounts in another order differ by less
)
COPIED_ARRAYS = (
    "node_of", "is_displaced", "load", "node_cost", "sharing_cost", "set_count", "can_shift", "_arrived_set_count",
    "_arrived_count", "_arrival_delta", "_departure_delta",
)  # fmt: skip


class ShiftTable:
    """Where units are, and what each move would change.

    Attributes:
        problem: What is to be solved.
        node_costs: What nodes cost with what load.
        node_of: The node of each unit; shape (G,).
        load: What each node bears; shape (N, R).
        node_cost: What each node costs; shape (N,).
        sharing_cost: What is paid for sharing each node; shape (N,).
        is_displaced: Whether each unit is away from its origin; shape (G,).
        spent: Of each budget; shape (B,).
        budgets: The budgets, with room for rounding; shape (B,).
        limit: The capacities, with room for rounding; shape (N, R).
        placement_cost: What each unit costs on each node by itself; shape (N, G).
        is_allowed: Where each unit may be, as far as its class says; shape (N, G).
        can_shift: Which shift may be made, budgets apart; shape (N, G).
        member: Which unit is in which group, as 1 or 0; shape (G, K).
        strict: The same of groups whose units must stand apart; shape (G, K).
        weighted: The same, times what it costs to share a node; shape (G, K).
        set_count: How many units of each group are on each node; shape (K, N).
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
        self.member = np.zeros((problem.group_count, len(group_sets)))
        owner = np.repeat(np.arange(len(group_sets)), np.diff(group_sets.members.start))
        self.member[group_sets.members.items, owner] = 1.0
        self.strict = self.member * group_sets.strict
        self.weighted = self.member * group_sets.anti_affinity_weight
        self._demand = np.ascontiguousarray(problem.demand.T)[:, None]
        on = (node_of[:, None] == nodes).astype(float)
        self.is_displaced: Mask = node_of != problem.origin
        self.load = loads(problem, node_of)
        self.node_cost = np.zeros(problem.node_count)
        self.sharing_cost = np.zeros(problem.node_count)
        items = group_sets.members.items
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
        """Return the same once more, to be changed by itself."""
        duplicate = copy(self)
        for name in COPIED_ARRAYS:
            setattr(duplicate, name, getattr(self, name).copy())
        return duplicate

    @property
    def total_cost(self) -> float:
        """What the assignment costs."""
        placement = self.placement_cost[self.node_of, self._group_indices].sum()
        return float(self.node_cost.sum() + self.sharing_cost.sum() + placement)

    def move(self, *moves: tuple[int, int]) -> None:
        """Move units to nodes; each is a unit and its target."""
        nodes = {target for _, target in moves}
        for group, target in moves:
            nodes.add(int(self.node_of[group]))
            self._apply(group, target)
        self._refresh(np.array(list(nodes)))

    def _apply(self, group: int, target: int) -> None:
        """Move *group* to *target*, whatever that changes for others."""
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

    def shift_deltas(self) -> Floats:
        """Return what each shift of a unit to a node would cost more; shape (N, G).

        Whether it may be made is not looked at.
        """
        groups, here = self._group_indices, self.node_of
        own = self._departure_delta[here, groups] - self.placement_cost[here, groups]
        delta: Floats = self._arrival_delta + own
        return delta

    def within_budgets(self) -> Mask:
        """Return which units the budgets let go elsewhere than home; shape (G,)."""
        affordable = np.ones(len(self.is_displaced), np.bool_)
        for measure, spent, most in zip(
            self.problem.budget_weights, self.spent, self.budgets, strict=True
        ):
            # Only who leaves home spends more.
            affordable &= self.is_displaced | (spent + measure <= most) | (measure <= 0)
        return affordable

    def _refresh(self, nodes: Indices) -> None:
        """Work out anew what it would change to join *nodes*, and to leave them."""
        load = self.load[nodes]
        self.node_cost[nodes] = cost = self.node_costs.cost(load, nodes)
        with_group = self.node_costs.cost_with_each_group(load, nodes)
        with_group -= cost[:, None, None]
        self._arrival_delta[nodes] = with_group[:, 0] + self.placement_cost[nodes]
        self._departure_delta[nodes] = with_group[:, 1]
        home = self._is_home[nodes]
        # Who comes home to where nobody else has come may find it as it was.
        fits = (self._demand <= (self.limit[nodes] - load).T[:, :, None]).all(axis=0)
        fits |= home & (self._arrived_count[nodes] == 0)[:, None]
        if len(self.set_count):
            fits &= self._separated(nodes, home)
            self._refresh_sharing(nodes)
        fits &= self.is_allowed[nodes]
        fits &= self.node_of != nodes[:, None]
        self.can_shift[nodes] = fits

    def _separated(self, nodes: Indices, home: Mask) -> Mask:
        """Return who meets nobody on *nodes* it must stand apart from; (nodes, G)."""
        others = np.minimum(self.set_count[:, nodes], 1).T @ self.strict.T
        arrived = np.minimum(self._arrived_set_count[:, nodes], 1).T @ self.strict.T
        separated: Mask = np.where(home, arrived, others) == 0
        return separated

    def _refresh_sharing(self, nodes: Indices) -> None:
        """Work out what it costs to share *nodes* with others of a group."""
        count = self.set_count[:, nodes].T
        first, others = np.minimum(count, 1), np.maximum(count - 1, 0)
        self._arrival_delta[nodes] += first @ self.weighted.T
        self._departure_delta[nodes] -= np.minimum(others, 1) @ self.weighted.T
        self.sharing_cost[nodes] = others @ self.problem.group_sets.anti_affinity_weight
