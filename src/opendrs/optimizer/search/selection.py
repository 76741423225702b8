"""Which of two searches plans a large cluster.

The compiled search finds better plans, but has to be compiled once on a machine. The
plain search needs no compiler. Small clusters are always planned by the plain one.

Whether compiled code is at hand is not looked up here: a program registers a function
that knows. Without one, the compiled search is used, and compiled when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from opendrs.optimizer.evaluation import cost_breakdown
from opendrs.optimizer.problem import Indices, Problem
from opendrs.optimizer.search.annealing import AnnealingSearch
from opendrs.optimizer.search.block_search import BlockSearch
from opendrs.optimizer.search.local_search import LocalSearch, is_small

CompiledCodeProvider = Callable[[bool], bool]
_providers: list[CompiledCodeProvider] = []


class SearchKind(StrEnum):
    """Which search to use."""

    AUTO = "auto"
    COMPILED = "compiled"
    PLAIN = "plain"


def register_compiled_code(provider: CompiledCodeProvider | None) -> None:
    """Let *provider* make compiled code available; None: the process compiles.

    Args:
        provider: Called before each large search. Its argument says whether compiled
            code is required; it returns whether it is available.
    """
    _providers[:] = [] if provider is None else [provider]


def has_compiled_code_provider() -> bool:
    """Return whether a provision was registered."""
    return bool(_providers)


def select_search(kind: SearchKind) -> SearchKind:
    """Return which search plans a large cluster now: compiled or plain."""
    if kind is SearchKind.PLAIN:
        return kind
    required = kind is SearchKind.COMPILED
    available = all(provider(required) for provider in _providers)
    return SearchKind.COMPILED if required or available else SearchKind.PLAIN


WARM_START_TEMPERATURE = (
    0.1  # the first temperature, in what is left to be mended of a node
)


def start_search(
    problem: Problem, start: Indices, seed: int, *, plain: bool
) -> AnnealingSearch | LocalSearch | BlockSearch:
    """Return the search that goes on from *start*, a good assignment."""
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
