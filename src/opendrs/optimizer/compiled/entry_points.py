"""Entry points of the compiled search, and their compilation in advance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opendrs.optimizer.compiled import annealing, exchange, greedy, proposals
from opendrs.optimizer.compiled.compiler import CompiledFunction
from opendrs.optimizer.problem import Problem
from opendrs.optimizer.problem_arrays import empty_state, problem_arrays

FUNCTIONS: tuple[CompiledFunction[..., Any], ...] = (
    annealing.initialize,
    greedy.greedy_shifts,
    annealing.mean_move_delta,
    annealing.anneal,
    exchange.anneal_exchanges,
)


def compilations() -> Iterator[tuple[CompiledFunction[..., Any], Callable[[], None]]]:
    """Yield each entry point with a function that compiles it.

    Compiled code depends only on the types of the arguments, so those of a small
    problem are used.
    """
    column = np.zeros(1, np.int64)
    problem = Problem(
        capacity=np.ones((2, 1)),
        demand=np.ones((1, 1)),
        origin=column,
        class_of=column,
        allowed=np.ones((1, 2), np.bool_),
    )
    arrays = problem_arrays(problem)
    state = empty_state(arrays, seed=0, width=2)
    floats = np.ones(1)
    queue = greedy.ShiftQueue(floats, floats, floats, column, np.ones(1, np.bool_))
    weights = proposals.ProposalWeights(0.0, 0.0, 0.0, 0.0)
    stage = annealing.AnnealingStage(1, 1, 1.0, 1.0, 1.0, 1.0)
    displaced = exchange.DisplacedGroups(column, column, column, column, column)
    budget_stage = exchange.BudgetStage(1, 1.0, 1.0)
    arguments: tuple[tuple[Any, ...], ...] = (
        (arrays, state),
        (arrays, state, queue, 1),
        (arrays, state, 1),
        (arrays, state, weights, stage, annealing.SINGLE_THREAD, column),
        (arrays, state, displaced, budget_stage),
    )
    for function, each in zip(FUNCTIONS, arguments, strict=True):
        yield function, _compile_job(function, each)


def _compile_job(
    function: CompiledFunction[..., Any], arguments: tuple[Any, ...]
) -> Callable[[], None]:
    return lambda: function.compile_for(*arguments)
