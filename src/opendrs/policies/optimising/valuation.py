"""What each part of a plan is worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opendrs.policies.optimising.engine import loads
from opendrs.policies.optimising.groups import Floats, Indices
from opendrs.policies.optimising.problem import Problem


def worth_of_each(
    problem: Problem, assignment: Indices, units: Sequence[int]
) -> Floats:
    """Return what would be lost if each of *units* were at home, all else as it is.

    Neighbours are passed over.
    """
    chosen = np.array(units, np.int64)
    here, home = assignment[chosen], problem.origin[chosen]
    load = loads(problem, assignment)
    demand = problem.demand[chosen]
    lost = node_cost(problem, load[home] + demand, home)
    lost += node_cost(problem, load[here] - demand, here)
    lost -= node_cost(problem, load[home], home)
    lost -= node_cost(problem, load[here], here)
    if problem.place_cost is not None:
        kinds = problem.class_of[chosen]
        lost += problem.place_cost[kinds, home] - problem.place_cost[kinds, here]
    return np.where(here == home, 0.0, lost)


def gains_of_leaving(
    problem: Problem, assignment: Indices, load: Floats, targets: Indices
) -> Floats:
    """Return about what each unit would gain at the best of *targets*; shape (G,).

    All that its home costs is looked at, but only the evenness of the targets, and
    whether the unit's class may go there. Units that are away gain -inf, and so do
    those that may go to none of them.
    """
    home = problem.origin
    gain = node_cost(problem, load[home], home)
    gain -= node_cost(problem, load[home] - problem.demand, home)
    # (x + d)^2 - x^2 = d^2 + 2 d x, where x is the distance from the even load.
    slope = steepness(problem)[targets]
    away = load[targets] - problem.even_target * problem.capacity[targets]
    joining = np.square(problem.demand) @ slope.T
    joining += 2 * problem.demand @ (slope * away).T
    closed = ~problem.allowed[:, targets][problem.class_of]
    closed |= home[:, None] == targets
    joining[closed] = np.inf
    gain -= joining.min(axis=1, initial=np.inf)
    return np.where(assignment == home, gain, -np.inf)


def steepness(problem: Problem) -> Floats:
    """Return what the square of load off the even load costs; shape (N, R).

    0 for nodes that have nothing of a resource, as their evenness does not count.
    """
    squared = np.square(problem.capacity)
    steep: Floats = np.zeros_like(squared)
    np.divide(problem.even_weight, squared, out=steep, where=squared > 0)
    return steep


def node_cost(problem: Problem, load: Floats, nodes: Indices) -> Floats:
    """Return what *nodes* cost with these loads: overload, excess and evenness."""
    capacity = problem.capacity[nodes]
    over = np.maximum(load - capacity, 0) * problem.overload_weight
    excess = np.maximum(load - problem.safety[nodes], 0) * problem.excess_weight[nodes]
    total: Floats = (over + excess).sum(axis=1) + _uneven(problem, load, capacity)
    return total


def distance(problem: Problem, load: Floats) -> float:
    """Return how far from even the nodes are: the root of what their evenness costs."""
    return float(_uneven(problem, load, problem.capacity).sum() ** 0.5)


def _uneven(problem: Problem, load: Floats, capacity: Floats) -> Floats:
    """Return what the evenness of nodes with these loads and capacities costs."""
    away = (
        np.divide(load, capacity, out=np.zeros_like(load), where=capacity > 0)
        - problem.even_target
    )
    total: Floats = (away**2 * problem.even_weight).sum(axis=1)
    return total
