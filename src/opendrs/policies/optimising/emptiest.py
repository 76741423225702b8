"""Which nodes have most room for others."""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.groups import Floats, Indices
from opendrs.policies.optimising.problem import Problem


def emptiest(problem: Problem, load: Floats, count: int) -> Indices:
    """Return the *count* nodes with least load, of each resource and of all together.

    Resources are those whose evenness counts; all, where none does. Where there are
    not many more nodes than that, all of them are returned.

    Args:
        problem: Whose nodes they are.
        load: What each of them bears; shape (N, R).
        count: How many of each kind.
    """
    if problem.nodes <= 2 * count:
        return np.arange(problem.nodes)
    active = np.flatnonzero(problem.even_weight)
    if not len(active):
        active = np.arange(problem.resources)
    even = np.maximum(problem.even_target[active], np.finfo(float).tiny)
    capacity = problem.capacity[:, active]
    full = np.full_like(capacity, np.inf)  # of a node that has nothing
    part = np.divide(load[:, active], capacity, out=full, where=capacity > 0) / even
    orders = [part.sum(axis=1), *part.T]
    lowest = [np.argpartition(order, count)[:count] for order in orders]
    return np.unique(np.concatenate(lowest))
