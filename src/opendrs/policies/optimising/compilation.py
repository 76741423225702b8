"""All compiled functions of the search, and how to compile them beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opendrs.policies.optimising import exchanging, greedy
from opendrs.policies.optimising.engine import annealing, drawing
from opendrs.policies.optimising.engine.compiled import CompiledFunction
from opendrs.policies.optimising.engine.state import empty_state
from opendrs.policies.optimising.engine.tables import tables_of
from opendrs.policies.optimising.problem import Problem

FUNCTIONS: tuple[CompiledFunction[..., Any], ...] = (
    annealing.start,
    greedy.improve,
    annealing.mean_changes,
    annealing.anneal,
    exchanging.exchange,
)


def compilations() -> Iterator[tuple[CompiledFunction[..., Any], Callable[[], None]]]:
    """Yield each function, and what compiles it.

    Arguments of a small problem stand for all others: compiled code depends on their
    types alone.
    """
    column = np.zeros(1, np.int64)
    problem = Problem(
        capacity=np.ones((2, 1)),
        demand=np.ones((1, 1)),
        origin=column,
        class_of=column,
        allowed=np.ones((1, 2), np.bool_),
    )
    tables = tables_of(problem)
    state = empty_state(tables, seed=0, width=2)
    floats = np.ones(1)
    wishes = greedy.Wishes(floats, floats, floats, column, np.ones(1, np.bool_))
    habits = drawing.Habits(0.0, 0.0, 0.0, 0.0)
    leg = annealing.Leg(1, 1, 1.0, 1.0, 1.0, 1.0)
    who = exchanging.Travellers(column, column, column, column, column)
    changes = exchanging.Leg(1, 1.0, 1.0)
    arguments: tuple[tuple[Any, ...], ...] = (
        (tables, state),
        (tables, state, wishes, 1),
        (tables, state, 1),
        (tables, state, habits, leg, annealing.ALONE, column),
        (tables, state, who, changes),
    )
    for function, each in zip(FUNCTIONS, arguments, strict=True):
        yield function, _compiling(function, each)


def _compiling(
    function: CompiledFunction[..., Any], arguments: tuple[Any, ...]
) -> Callable[[], None]:
    return lambda: function.compile_for(*arguments)
