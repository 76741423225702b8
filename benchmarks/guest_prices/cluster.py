"""What is known of a problem whatever the prices are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.decomposition.ground import PLANE
from opendrs.policies.optimising.engine import loads
from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.optimising.problem import Problem


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes, all open, and the guests that may move.

    Attributes:
        capacity: Of each node; shape (N, 2).
        share: The share of it that is loaded; shape (N, 2).
        demand: What each guest takes; shape (G, 2).
        origin: Where it is; shape (G,).
        measures: What the budgets count of it; shape (B, G).
        budgets: The budgets; shape (B,).
    """

    capacity: Floats
    share: Floats
    demand: Floats
    origin: Indices
    measures: Floats
    budgets: Floats

    @classmethod
    def of(cls, problem: Problem) -> Cluster:
        """Return what is known of *problem*."""
        free: Mask = np.any(problem.allowed, axis=1)[problem.class_of]
        return cls(
            capacity=problem.capacity,
            share=loads(problem, problem.origin) / problem.capacity,
            demand=problem.demand[free],
            origin=problem.origin[free],
            measures=problem.measures[:, free],
            budgets=problem.budgets,
        )

    @property
    def scale(self) -> Floats:
        """How far prices may be from the best, in proportion; shape (G + B + 2,)."""
        most = np.abs(self.measures).max(axis=1, initial=0.0)
        used = np.sqrt(np.maximum(np.abs(self.budgets), most) * most)
        budgets = np.divide(1.0, used, out=np.zeros_like(used), where=used > 0)
        nodes = np.full(PLANE, float(len(self.share)))
        return np.concatenate([np.ones(len(self.origin)), budgets, nodes])
