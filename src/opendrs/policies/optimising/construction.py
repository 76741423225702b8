"""A good plan to begin with: the best move, and the best after it.

The moves that gain most come first; what a move gains is divided by its price, a
power of the part of the budget that it uses up. With the power 0 large guests go
first, with 1 those that gain most for what is transferred.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendrs.policies.optimising.descent import Descent, is_small
from opendrs.policies.optimising.emptiest import emptiest
from opendrs.policies.optimising.engine import cost
from opendrs.policies.optimising.groups import Floats, Indices
from opendrs.policies.optimising.packing import packed
from opendrs.policies.optimising.plain import Plain
from opendrs.policies.optimising.problem import Problem

POWER = 0.25  # that serves most clusters well
NARROW = 0.5  # the part of the nodes below which a class looks at all of its own
TARGETS = 20  # nodes that units of other classes look at, of each kind
ROUND = 16  # moves after which these are chosen anew


def begun(problem: Problem, power: float = POWER, *, plain: bool) -> Indices:
    """Return a plan to begin with, in which nodes may have been emptied too.

    Args:
        problem: What is to be solved.
        power: How much the price of a move counts; the plain search does without.
        plain: Whether large problems are solved without compiled code.
    """
    if not problem.units:
        return problem.origin
    if is_small(problem):
        return Descent(problem, problem.origin).settle().assignment
    if plain:
        free = replace(problem, use_cost=np.zeros_like(problem.use_cost))
        best = Plain(free, problem.origin).settle().assignment
    else:
        best = constructed(problem, power)
    if not problem.use_cost.any():
        return best
    return min(best, packed(problem, best), key=lambda each: cost(problem, each))


def constructed(problem: Problem, power: float = POWER) -> Indices:
    """Return an assignment that is feasible, and costs no more than the origin."""
    # Compiled code is loaded by those who search only.
    from opendrs.policies.optimising import greedy  # noqa: PLC0415
    from opendrs.policies.optimising.engine.annealing import start  # noqa: PLC0415
    from opendrs.policies.optimising.engine.packed import packed  # noqa: PLC0415
    from opendrs.policies.optimising.engine.state import empty_state  # noqa: PLC0415
    from opendrs.policies.optimising.engine.tables import tables_of  # noqa: PLC0415

    tables = tables_of(problem)
    most = int(np.bincount(problem.origin, minlength=1).max(initial=0))
    state = empty_state(tables, 0, 4 * most + 64)
    start(tables, state)
    open_nodes = problem.allowed.mean(axis=1)
    score = np.where(open_nodes[problem.class_of] > 0, np.inf, 0.0)
    wishes = greedy.Wishes(
        price=_price(problem) ** power,
        score=score,
        top=np.zeros(-(-len(score) // greedy.BLOCK)),
        targets=emptiest(problem, state.load, TARGETS),
        narrow=open_nodes < NARROW,
    )
    columns = packed(tables), packed(state)
    while greedy.improve(*columns, wishes, ROUND) == ROUND:
        wishes = wishes._replace(targets=emptiest(problem, state.load, TARGETS))
    return state.node_of


def _price(problem: Problem) -> Floats:
    """Return the part of the budgets that each unit uses up; at least a little."""
    if not len(problem.budgets):
        used = problem.demand.max(axis=1, initial=0.0)
    else:
        scale = np.where(problem.budgets > 0, problem.budgets, 1.0)
        used = (problem.measures / scale[:, None]).max(axis=0)
    least = float(used[used > 0].min(initial=np.inf))
    return np.where(used > 0, used, least if np.isfinite(least) else 1.0)
