"""Groups of similar demand, which a search prefers as partners for swaps.

The sum of all demands says little about similarity if there are many resources. A swap
of groups that are similar in each resource changes the cost little, so it is possible
also at low temperatures.
"""

from __future__ import annotations

import numpy as np

from opendrs.optimizer import Indices, Problem

PARTNERS = 32  # partners of each group
REACH = 512  # groups next in size on each side, of which partners are chosen
BLOCK = 256  # groups whose distances are computed at once


def similar_groups(problem: Problem) -> Indices:
    """Return the groups most similar to each group; shape (G, K).

    The distance is the sum over resources of the difference in demand, relative to the
    mean capacity. It is at least the difference in size, so only groups of similar size
    are compared.
    """
    mean = problem.capacity.mean(axis=0)
    scale = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)
    size = problem.demand @ scale
    order = np.argsort(size, kind="stable")
    demand = (problem.demand * scale)[order]
    count = len(order)
    partners = min(PARTNERS, max(count - 1, 0))
    found = np.empty((count, partners), dtype=np.int64)
    for begin in range(0, count, BLOCK):
        rows = np.arange(begin, min(begin + BLOCK, count))
        others = np.arange(max(0, begin - REACH), min(rows[-1] + REACH + 1, count))
        distance = np.zeros((len(rows), len(others)))
        for r in range(demand.shape[1]):
            distance += np.abs(demand[rows, r][:, None] - demand[others, r])
        distance[rows[:, None] == others] = np.inf
        nearest = np.argsort(distance, axis=1, kind="stable")[:, :partners]
        found[order[rows]] = order[others[nearest]]
    return found
