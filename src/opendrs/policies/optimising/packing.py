"""Emptying nodes: all who are on one go elsewhere, or nobody does.

A search of single moves does not get there: the first guest that leaves a node frees
nothing. So nodes are tried one after another, those first that hold least, and their
units go where least room is left, the largest first.
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.optimising.problem import Problem


def packed(problem: Problem, start: Indices) -> Indices:
    """Return *start* with as many nodes emptied as can be, one after another."""
    shelves = _Shelves(problem, start)
    order = np.lexsort((np.arange(problem.nodes), shelves.fullness()))
    for node in order.tolist():
        shelves.empty(node)
    return shelves.node_of


class _Shelves:
    """Where units are while nodes are emptied.

    Attributes:
        node_of: The node of each unit; shape (G,).
    """

    def __init__(self, problem: Problem, start: Indices) -> None:
        self.node_of = start.copy()
        self._problem = problem
        # No node is filled so far that its guests wait for processors.
        busy = problem.excess_weight > 0
        safe = np.where(busy, problem.safety, np.inf)
        self._limit = np.minimum(problem.capacity, safe)
        self._load = problem.base.copy()
        np.add.at(self._load, start, problem.demand)
        size = np.where(np.isfinite(problem.capacity), problem.capacity, np.inf)
        self._scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
        self._of_unit = problem.groups.members.inverse(problem.units)
        moved = start != problem.origin
        self._spent: Floats = problem.measures[:, moved].sum(axis=1)

    def fullness(self) -> Floats:
        """Return how full each node is, in its scarcest resource; shape (N,)."""
        full: Floats = (self._load * self._scale).max(axis=1)
        return full

    def empty(self, node: int) -> None:
        """Move all units of *node* elsewhere, if all of them find a place."""
        units = np.flatnonzero(self.node_of == node)
        before = self._load.copy(), self.node_of.copy(), self._spent.copy()
        largest_first = units[np.argsort(-self._size(units), kind="stable")]
        for unit in largest_first.tolist():
            target = self._place(unit, node)
            if target is None:
                self._load, self.node_of, self._spent = before
                return
            self._move(unit, target)

    def _size(self, units: Indices) -> Floats:
        size: Floats = (self._problem.demand[units] * self._scale.mean(axis=0)).max(
            axis=1, initial=0.0
        )
        return size

    def _place(self, unit: int, node: int) -> int | None:
        """Return the node in use with least room for *unit*; None without any."""
        problem = self._problem
        there = self._load + problem.demand[unit]
        fits: Mask = (there <= self._limit).all(axis=1)
        fits &= problem.allowed[problem.class_of[unit]]
        fits &= np.bincount(self.node_of, minlength=problem.nodes) > 0
        fits[node] = False
        for group in self._of_unit[unit]:
            if problem.groups.strict[group]:
                fits[self.node_of[problem.groups.members[group]]] = False
        if not fits.any() or not self._affordable(unit):
            return None
        full = np.where(fits, (there * self._scale).max(axis=1), -np.inf)
        return int(full.argmax())

    def _affordable(self, unit: int) -> bool:
        if self.node_of[unit] != self._problem.origin[unit]:
            return True
        spent = self._spent + self._problem.measures[:, unit]
        return bool((spent <= self._problem.budgets).all())

    def _move(self, unit: int, target: int) -> None:
        source, demand = self.node_of[unit], self._problem.demand[unit]
        self._load[source] -= demand
        self._load[target] += demand
        origin = self._problem.origin[unit]
        change = int(target != origin) - int(source != origin)
        self._spent = self._spent + change * self._problem.measures[:, unit]
        self.node_of[unit] = target
