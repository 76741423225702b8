"""What each move of a small cluster would gain, kept up to date move by move.

A shift changes two nodes. So only their columns are worked out anew, and the rows of
the units on them.
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.engine import loads
from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.valuation import node_cost

SLACK = 1e-12  # relative; sums of the same amounts in another order differ by less


class Grid:
    """Where units are, and what each move would change.

    Attributes:
        problem: What is to be solved.
        node_of: The node of each unit; shape (G,).
        load: What each node bears; shape (N, R).
        cost: What each node costs; shape (N,).
        away: Whether each unit is away from its origin; shape (G,).
        spent: Of each budget; shape (B,).
        budgets: The budgets, with room for rounding; shape (B,).
        limit: The capacities, with room for rounding; shape (N, R).
        standing: What each unit costs on each node by itself; shape (G, N).
        open: Where each unit may be, as far as its class says; shape (G, N).
        member: Which unit is in which group, as 1 or 0; shape (G, K).
        strict: The same of groups whose units must stand apart; shape (G, K).
        weighted: The same, times what it costs to share a node; shape (G, K).
        count: How many units of each group are on each node; shape (K, N).
        shared: What each unit pays for sharing its node; shape (G,).
    """

    def __init__(self, problem: Problem, node_of: Indices) -> None:
        self.problem = problem
        self.node_of = node_of
        self.limit = problem.capacity + SLACK * np.abs(problem.capacity)
        self.budgets = problem.budgets + SLACK * np.abs(problem.budgets)
        nodes = np.arange(problem.nodes)
        self._units = np.arange(problem.units)
        self._home = problem.origin[:, None] == nodes
        self.standing = problem.move_cost[:, None] * ~self._home
        if problem.place_cost is not None:
            self.standing = self.standing + problem.place_cost[problem.class_of]
        self.open: Mask = problem.allowed[problem.class_of] | self._home
        groups = problem.groups
        self.member = np.zeros((problem.units, len(groups)))
        owner = np.repeat(np.arange(len(groups)), np.diff(groups.members.start))
        self.member[groups.members.items, owner] = 1.0
        self.strict = self.member * groups.strict
        self.weighted = self.member * groups.apart_weight
        on = (node_of[:, None] == nodes).astype(float)
        self.away: Mask = node_of != problem.origin
        self.load = loads(problem, node_of)
        self.cost = node_cost(problem, self.load, nodes)
        self.count = self.member.T @ on
        self._strangers = self.member.T @ (on * self.away[:, None])
        self._received = (on * self.away[:, None]).sum(axis=0)
        self.spent: Floats = problem.measures[:, self.away].sum(axis=1)
        self.shared = np.zeros(problem.units)
        self._leaving = np.zeros(problem.units)
        self._joining = np.zeros((problem.units, problem.nodes))
        self._sharing = np.zeros((problem.units, problem.nodes))
        self._fits = np.zeros((problem.units, problem.nodes), np.bool_)
        self._apart = np.ones((problem.units, problem.nodes), np.bool_)
        self._look_at(nodes)

    def shift(self, unit: int, target: int) -> None:
        """Move *unit* to *target*."""
        source, home = int(self.node_of[unit]), int(self.problem.origin[unit])
        demand, member = self.problem.demand[unit], self.member[unit]
        self.load[source] -= demand
        self.load[target] += demand
        self.count[:, source] -= member
        self.count[:, target] += member
        was, now = source != home, target != home
        self._strangers[:, source] -= was * member
        self._strangers[:, target] += now * member
        self._received[source] -= was
        self._received[target] += now
        self.spent = self.spent + (int(now) - int(was)) * self.problem.measures[:, unit]
        self.away[unit] = now
        self.node_of[unit] = target
        changed = np.array([source, target])
        self.cost[changed] = node_cost(self.problem, self.load[changed], changed)
        self._look_at(changed)

    def shifts(self) -> Floats:
        """Return what each shift of a unit to a node would cost more; shape (G, N).

        Whether it may be made is not looked at.
        """
        own = self._leaving - self.standing[self._units, self.node_of] - self.shared
        more: Floats = self._joining + self.standing
        more += own[:, None]
        if len(self.count):
            more += self._sharing
        return more

    def may_shift(self) -> Mask:
        """Return which unit may go to which node, budgets apart; shape (G, N)."""
        may = self._fits & self._apart
        # Who comes home to where nobody else has come may find it as it was.
        units, home = self._units, self.problem.origin
        alone = self._received[home] == 0
        if len(self.count):
            met = np.einsum("gk,kg->g", self.strict, self._strangers[:, home])
            may[units, home] = (self._fits[units, home] | alone) & (met == 0)
        else:
            may[units, home] |= alone
        may &= self.open
        may[units, self.node_of] = False
        return may

    def affordable(self) -> Mask:
        """Return which shifts the budgets let be made; shape (G, N)."""
        may = np.ones(self.open.shape, np.bool_)
        for measure, spent, most in zip(
            self.problem.measures, self.spent, self.budgets, strict=True
        ):
            # Only who leaves home spends more.
            may[~self.away & (spent + measure > most) & (measure > 0)] = False
        may |= self._home
        return may

    def _look_at(self, nodes: Indices) -> None:
        """Work out anew what it would change to join *nodes*, and to leave them."""
        problem = self.problem
        there = self.load[nodes] + problem.demand[:, None, :]
        each = np.tile(nodes, problem.units)
        after = node_cost(problem, there.reshape(-1, problem.resources), each)
        self._joining[:, nodes] = after.reshape(-1, len(nodes)) - self.cost[nodes]
        self._fits[:, nodes] = (there <= self.limit[nodes]).all(axis=2)
        chosen = (self.node_of[:, None] == nodes).any(axis=1)
        units = np.flatnonzero(chosen)
        here = self.node_of[units]
        left = self.load[here] - problem.demand[units]
        self._leaving[units] = node_cost(problem, left, here) - self.cost[here]
        if len(self.count):
            there_is = (self.count[:, nodes] > 0).astype(float)
            self._sharing[:, nodes] = self.weighted @ there_is
            self._apart[:, nodes] = self.strict @ there_is == 0
            others = self.count[:, here].T > 1
            self.shared[units] = (self.weighted[units] * others).sum(axis=1)
