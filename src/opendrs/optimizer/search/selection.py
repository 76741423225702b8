"""Choice between the compiled and the plain search for large clusters.

The compiled search finds better plans but must be compiled once per machine. The plain
search needs no compiler. Small clusters always use the plain search.

Programs register a provider of compiled code. Without one, the compiled search is used
and compiled on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from opendrs.optimizer.evaluation import cost_breakdown
from opendrs.optimizer.problem import Indices, Problem
from opendrs.optimizer.search.annealing import AnnealingSearch
from opendrs.optimizer.search.block_search import BlockSearch
from opendrs.optimizer.search.local_search import LocalSearch, is_small
from opendrs.optimizer.search.method import SearchMethod

CompiledCodeProvider = Callable[[bool], bool]
_providers: list[CompiledCodeProvider] = []


class SearchKind(StrEnum):
    """Search to use for large clusters."""

    AUTO = "auto"
    COMPILED = "compiled"
    PLAIN = "plain"


def register_compiled_code(provider: CompiledCodeProvider | None) -> None:
    """Register the provider of compiled code; None removes it.

    Args:
        provider: Called before each large search. Its argument is True if compiled code
            is required; it returns True if compiled code is available.
    """
    _providers[:] = [] if provider is None else [provider]


def has_compiled_code_provider() -> bool:
    """Return True if a provider is registered."""
    return bool(_providers)


def select_search(kind: SearchKind, problem: Problem | None = None) -> SearchKind:
    """Return the search to use now for a large problem: compiled or plain.

    For a small *problem* it is `auto`, as all searches are the same.
    """
    if problem is not None and is_small(problem):
        return SearchKind.AUTO
    if kind is SearchKind.PLAIN:
        return kind
    required = kind is SearchKind.COMPILED
    available = all(provider(required) for provider in _providers)
    return SearchKind.COMPILED if required or available else SearchKind.PLAIN


# initial temperature, relative to the remaining cost per node
WARM_START_TEMPERATURE = 0.1


def start_search(
    problem: Problem, start: Indices, seed: int, *, plain: bool
) -> SearchMethod:
    """Return the search from a good assignment *start* that suits the size."""
    if is_small(problem):
        return LocalSearch(problem, start, seed)
    if plain:
        return BlockSearch(problem, start, seed)
    parts = cost_breakdown(problem, start)
    temperature = (
        WARM_START_TEMPERATURE
        * (parts.imbalance + parts.excess)
        / max(problem.node_count, 1)
    )
    return AnnealingSearch(
        problem, seed=seed, start=start, temperature=max(temperature, 1e-12)
    )
