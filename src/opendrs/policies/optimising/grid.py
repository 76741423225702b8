"""What each move of a small cluster would gain, kept up to date move by move.

A shift changes two nodes. So only their columns are worked out anew.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from opendrs.policies.optimising.engine import loads
from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.tariff import Tariff

SLACK = 1e-12  # relative; sums of the same amounts in another order differ by less
KEPT_UP = (
    "node_of", "away", "load", "cost", "paid", "count", "may", "_strangers",
    "_received", "_joining", "_leaving",
)  # fmt: skip


class Grid:
    """Where units are, and what each move would change.

    Attributes:
        problem: What is to be solved.
        tariff: What nodes cost with what load.
        node_of: The node of each unit; shape (G,).
        load: What each node bears; shape (N, R).
        cost: What each node costs; shape (N,).
        paid: What is paid for sharing each node; shape (N,).
        away: Whether each unit is away from its origin; shape (G,).
        spent: Of each budget; shape (B,).
        budgets: The budgets, with room for rounding; shape (B,).
        limit: The capacities, with room for rounding; shape (N, R).
        standing: What each unit costs on each node by itself; shape (N, G).
        open: Where each unit may be, as far as its class says; shape (N, G).
        may: Which shift may be made, budgets apart; shape (N, G).
        member: Which unit is in which group, as 1 or 0; shape (G, K).
        strict: The same of groups whose units must stand apart; shape (G, K).
        weighted: The same, times what it costs to share a node; shape (G, K).
        count: How many units of each group are on each node; shape (K, N).
    """

    def __init__(self, problem: Problem, node_of: Indices) -> None:
        self.problem = problem
        self.tariff = Tariff(problem)
        self.node_of = node_of
        self.limit = problem.capacity + SLACK * np.abs(problem.capacity)
        self.budgets = problem.budgets + SLACK * np.abs(problem.budgets)
        self._units = np.arange(problem.units)
        nodes = np.arange(problem.nodes)
        self._home = nodes[:, None] == problem.origin
        self.standing = problem.move_cost * ~self._home
        if problem.place_cost is not None:
            self.standing += problem.place_cost.T[:, problem.class_of]
        self.open: Mask = problem.allowed.T[:, problem.class_of] | self._home
        groups = problem.groups
        self.member = np.zeros((problem.units, len(groups)))
        owner = np.repeat(np.arange(len(groups)), np.diff(groups.members.start))
        self.member[groups.members.items, owner] = 1.0
        self.strict = self.member * groups.strict
        self.weighted = self.member * groups.apart_weight
        self._demand = np.ascontiguousarray(problem.demand.T)[:, None]
        on = (node_of[:, None] == nodes).astype(float)
        self.away: Mask = node_of != problem.origin
        self.load = loads(problem, node_of)
        self.cost = np.zeros(problem.nodes)
        self.paid = np.zeros(problem.nodes)
        items = groups.members.items
        self.count = np.zeros((len(groups), problem.nodes))
        np.add.at(self.count, (owner, node_of[items]), 1.0)
        self._strangers = np.zeros_like(self.count)
        np.add.at(self._strangers, (owner, node_of[items]), self.away[items])
        self._received = (on * self.away[:, None]).sum(axis=0)
        self.spent: Floats = problem.measures[:, self.away].sum(axis=1)
        self._joining = np.zeros((problem.nodes, problem.units))
        self._leaving = np.zeros((problem.nodes, problem.units))
        self.may = np.zeros((problem.nodes, problem.units), np.bool_)
        self._look_at(nodes)

    def copied(self) -> Grid:
        """Return the same once more, to be changed by itself."""
        twin = copy(self)
        for name in KEPT_UP:
            setattr(twin, name, getattr(self, name).copy())
        return twin

    @property
    def price(self) -> float:
        """What the assignment costs."""
        alone = self.standing[self.node_of, self._units].sum()
        return float(self.cost.sum() + self.paid.sum() + alone)

    def move(self, *moves: tuple[int, int]) -> None:
        """Move units to nodes; each is a unit and its target."""
        nodes = {target for _, target in moves}
        for unit, target in moves:
            nodes.add(int(self.node_of[unit]))
            self._carry(unit, target)
        self._look_at(np.array(list(nodes)))

    def _carry(self, unit: int, target: int) -> None:
        """Move *unit* to *target*, whatever that changes for others."""
        source, home = int(self.node_of[unit]), int(self.problem.origin[unit])
        demand, member = self.problem.demand[unit], self.member[unit]
        self.load[source] -= demand
        self.load[target] += demand
        was, now = source != home, target != home
        self._received[source] -= was
        self._received[target] += now
        if len(self.count):
            self.count[:, source] -= member
            self.count[:, target] += member
            self._strangers[:, source] -= was * member
            self._strangers[:, target] += now * member
        if now != was:
            sign = int(now) - int(was)
            self.spent = self.spent + sign * self.problem.measures[:, unit]
        self.away[unit] = now
        self.node_of[unit] = target

    def shifts(self) -> Floats:
        """Return what each shift of a unit to a node would cost more; shape (N, G).

        Whether it may be made is not looked at.
        """
        units, here = self._units, self.node_of
        own = self._leaving[here, units] - self.standing[here, units]
        more: Floats = self._joining + own
        return more

    def affordable(self) -> Mask:
        """Return which units the budgets let go elsewhere than home; shape (G,)."""
        may = np.ones(len(self.away), np.bool_)
        for measure, spent, most in zip(
            self.problem.measures, self.spent, self.budgets, strict=True
        ):
            # Only who leaves home spends more.
            may &= self.away | (spent + measure <= most) | (measure <= 0)
        return may

    def _look_at(self, nodes: Indices) -> None:
        """Work out anew what it would change to join *nodes*, and to leave them."""
        load = self.load[nodes]
        self.cost[nodes] = cost = self.tariff.of(load, nodes)
        more = self.tariff.with_units(load, nodes)
        more -= cost[:, None, None]
        self._joining[nodes] = more[:, 0] + self.standing[nodes]
        self._leaving[nodes] = more[:, 1]
        home = self._home[nodes]
        # Who comes home to where nobody else has come may find it as it was.
        may = (self._demand <= (self.limit[nodes] - load).T[:, :, None]).all(axis=0)
        may |= home & (self._received[nodes] == 0)[:, None]
        if len(self.count):
            may &= self._apart(nodes, home)
            self._share(nodes)
        may &= self.open[nodes]
        may &= self.node_of != nodes[:, None]
        self.may[nodes] = may

    def _apart(self, nodes: Indices, home: Mask) -> Mask:
        """Return who meets nobody on *nodes* it must stand apart from; (nodes, G)."""
        others = np.minimum(self.count[:, nodes], 1).T @ self.strict.T
        strangers = np.minimum(self._strangers[:, nodes], 1).T @ self.strict.T
        apart: Mask = np.where(home, strangers, others) == 0
        return apart

    def _share(self, nodes: Indices) -> None:
        """Work out what it costs to share *nodes* with others of a group."""
        count = self.count[:, nodes].T
        first, others = np.minimum(count, 1), np.maximum(count - 1, 0)
        self._joining[nodes] += first @ self.weighted.T
        self._leaving[nodes] -= np.minimum(others, 1) @ self.weighted.T
        self.paid[nodes] = others @ self.problem.groups.apart_weight
