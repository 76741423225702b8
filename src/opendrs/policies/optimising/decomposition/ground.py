"""What is known of a problem whatever the prices are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.decomposition.departures import (
    Departures,
    Units,
    departures,
)
from opendrs.policies.optimising.decomposition.hull import hull
from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.optimising.problem import Problem

PLANE = 2  # the resources whose evenness can be looked at, at most


@dataclass(frozen=True, slots=True)
class Ground:
    """The nodes and who may move. Loads are counted in the mean load of a node.

    Attributes:
        weight: Cost of the square of the distance of a node's share of its capacity
            to the target; shape (2,).
        target: That share; shape (2,).
        share: The share of the capacity of each node that is a load of 1; (N, 2).
        load: The load of each node; shape (N, 2).
        open: The nodes where units may arrive; shape (N,).
        corners: Those of the hull of nothing and what each unit takes; (K, 2).
        most: How many units may move.
        leaving: Who may leave each node.
        measures: What the budgets count of each unit; shape (B, G). It may be below 0:
            what has to leave at least is a budget, too.
        budgets: The budgets; shape (B,).
    """

    weight: Floats
    target: Floats
    share: Floats
    load: Floats
    open: Mask
    corners: Floats
    most: int
    leaving: Departures
    measures: Floats
    budgets: Floats

    @classmethod
    def of(cls, problem: Problem, sets: int) -> Ground:
        """Return what is known of *problem*, with about so many sets that may leave.

        Where less than two resources are to be even, one that nobody takes is added.

        Raises:
            ValueError: More than two resources are to be even, or a node has nothing
                of one.
        """
        even = np.flatnonzero(problem.even_weight)
        if len(even) > PLANE:
            raise ValueError(f"{len(even)} resources are to be even, not {PLANE}")
        capacity = _plane(problem.capacity, even, 1.0)
        if not (capacity > 0).all():
            raise ValueError("there is a node without capacity")
        demand = _plane(problem.demand, even, 0.0)
        load = _plane(problem.base, even, 0.0)
        np.add.at(load, problem.origin, demand)
        mean = np.abs(load).mean(axis=0)
        unit = np.where(mean > 0, mean, 1.0)
        demand, load = demand / unit, load / unit
        free: Mask = np.any(problem.allowed, axis=1)[problem.class_of]
        return cls(
            weight=_plane(problem.even_weight[None], even, 1.0)[0],
            target=_plane(problem.even_target[None], even, 0.0)[0],
            share=unit / capacity,
            load=load,
            open=np.any(problem.allowed, axis=0),
            corners=hull(np.vstack([np.zeros((1, PLANE)), demand[free]])),
            most=int(free.sum()),
            leaving=departures(
                Units(problem.origin, demand, problem.measures, free), load, sets
            ),
            measures=problem.measures,
            budgets=problem.budgets,
        )


def _plane(rows: Floats, even: Indices, filling: float) -> Floats:
    """Return the two columns that are looked at."""
    missing = np.full((len(rows), PLANE - len(even)), filling)
    return np.hstack([rows[:, even], missing])
