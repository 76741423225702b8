"""Cost of members above the limits of domains in a small cluster, shift by shift."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from opendrs.optimizer.problem import Floats, Indices, Problem


class DomainCosts:
    """Cost of the sets with limits, and its change by each shift.

    Attributes:
        cost: Cost of all members above the limits.
        delta: Cost change of each shift; shape (N, G).

    Args:
        problem: Problem to solve; `GroupSets.is_limited` holds for some set.
        node_of: Node of each group; shape (G,).
    """

    def __init__(self, problem: Problem, node_of: Indices) -> None:
        sets = problem.group_sets
        self._problem = problem
        self._node_of = node_of.copy()
        self._sets_of = sets.members.inverse(problem.group_count)
        self._is_limited = sets.is_limited
        self._count: dict[int, Indices] = {}
        self.cost = 0.0
        self.delta: Floats = np.zeros((problem.node_count, problem.group_count))
        for each in np.flatnonzero(self._is_limited).tolist():
            domains = problem.domains[sets.partition[each]]
            width = int(domains.max()) + 1
            count = np.bincount(sets.fixed[each], minlength=width)
            # Fixed members alone have no cost: each of the others has one then.
            free = np.minimum(count, sets.most[each])
            members = domains[node_of[sets.members[each]]]
            self._count[each] = free + np.bincount(members, minlength=width)
            self._add(each, 1.0)

    def copy(self) -> DomainCosts:
        """Return an independent copy."""
        return deepcopy(self, {id(self._problem): self._problem})

    def move(self, group: int, target: int) -> None:
        """Move *group* to *target*."""
        sets = self._sets_of[group]
        changed = [each for each in sets.tolist() if self._is_limited[each]]
        for each in changed:
            self._add(each, -1.0)
        source = self._node_of[group]
        self._node_of[group] = target
        for each in changed:
            domains = self._domains(each)
            self._count[each][domains[source]] -= 1
            self._count[each][domains[target]] += 1
            self._add(each, 1.0)

    def _domains(self, group_set: int) -> Indices:
        row: Indices = self._problem.domains[
            self._problem.group_sets.partition[group_set]
        ]
        return row

    def _add(self, group_set: int, sign: float) -> None:
        """Add the cost of *group_set* and its changes, times *sign*."""
        sets, domains = self._problem.group_sets, self._domains(group_set)
        weight = sign * float(sets.anti_affinity_weight[group_set])
        above = self._count[group_set] - sets.most[group_set]
        self.cost += weight * float(np.maximum(above, 0).sum())
        members = sets.members[group_set]
        home = domains[self._node_of[members]]
        joins = (above >= 0)[domains].astype(float)[:, None]
        leaves = (above > 0)[home].astype(float)
        change = np.where(domains[:, None] == home, 0.0, joins - leaves)
        self.delta[:, members] += weight * change
