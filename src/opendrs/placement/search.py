"""Search for nodes of displaced groups.

Groups with the fewest feasible nodes come first, the largest of them before the others.
Best fit decreasing is tried first, since it places most groups within one pass. If it
fails, a depth-first search with backtracking follows, which is exact unless it reaches
its limit of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from opendrs.arrays import Mask
from opendrs.placement.arrays import (
    COMMITTED,
    MEASURED,
    NO_NODE,
    DisplacedGroup,
    Floats,
    Indices,
)
from opendrs.placement.state import PlacementState

MAX_STEPS = 20_000  # placements that a search tries
MAX_GROUPS = 200  # groups that are searched for; one level of recursion each

_ALL = slice(None)  # nodes

Preference = Callable[[DisplacedGroup], Indices]


@dataclass(slots=True)
class SearchBudget:
    """Steps that a search, or several of them together, may still take.

    Attributes:
        steps: Remaining placements.
    """

    steps: int = MAX_STEPS


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """Nodes of displaced groups.

    Attributes:
        nodes: Node of each group; `NO_NODE` if it was not placed.
        is_proven: Whether the groups were placed, or provably cannot be placed
            together. Otherwise the search reached its limit.
    """

    nodes: tuple[int, ...]
    is_proven: bool

    @property
    def fits(self) -> bool:
        """Return whether all groups were placed."""
        return NO_NODE not in self.nodes


def place_groups(
    state: PlacementState,
    groups: Sequence[DisplacedGroup],
    budget: SearchBudget,
    preference: Preference | None = None,
) -> PlacementResult:
    """Place *groups*, as many as possible, and return their nodes.

    Args:
        state: The placement, which contains the placed groups afterwards.
        groups: Displaced groups.
        budget: Limit of the search; it is reduced by the steps taken.
        preference: Order of nodes in a first attempt; None for best fit alone.
    """
    feasible = state.feasible_nodes(groups)
    counts: list[int] = feasible.sum(axis=1).tolist()
    order = sorted(
        range(len(groups)), key=lambda i: (counts[i], -groups[i].required[0], i)
    )
    if preference is not None:
        nodes, undo = _place_in_order(state, groups, order, preference)
        if NO_NODE not in nodes:
            return PlacementResult(nodes, is_proven=True)
        undo()
    nodes, undo = _place_by_best_fit(state, groups, order, feasible)
    if NO_NODE not in nodes:
        return PlacementResult(nodes, is_proven=True)
    if 0 in counts:
        return PlacementResult(nodes, is_proven=True)
    undo()
    is_infeasible = _exceeds_memory(state, groups, np.any(feasible, axis=0))
    if not is_infeasible and len(groups) <= MAX_GROUPS:
        found: dict[int, int] = {}
        if _search(state, groups, order, budget, found):
            return PlacementResult(
                tuple(found[i] for i in range(len(groups))), is_proven=True
            )
        is_infeasible = budget.steps > 0
    if preference is None:
        nodes, _ = _place_by_best_fit(state, groups, order, feasible)
    else:
        nodes, _ = _place_in_order(state, groups, order, preference)
    return PlacementResult(nodes, is_proven=is_infeasible)


def _place_by_best_fit(
    state: PlacementState,
    groups: Sequence[DisplacedGroup],
    order: Sequence[int],
    feasible: Mask,
) -> tuple[tuple[int, ...], Callable[[], None]]:
    """Place each group on its feasible node with the least memory, without search.

    Args:
        state: The placement.
        groups: Displaced groups.
        order: Indices of the groups, the first to place first.
        feasible: Feasible nodes of each group in *state*; shape (G, N).

    Returns:
        As for `_place_in_order`.
    """
    nodes = [NO_NODE] * len(groups)
    undo_steps: list[Callable[[], None]] = []
    tightness, changed = _tightness(state), set[int]()
    for i in order:
        group = groups[i]
        mask = state.feasible(group) if group.has_rules else feasible[i]
        left = np.where(mask, tightness, np.inf)
        if changed and not group.has_rules:
            # Without rules, a node becomes infeasible only as others are placed on it.
            filled = list(changed)
            left[filled] = np.where(state.fits(group, filled), left[filled], np.inf)
        node = int(left.argmin())
        if np.isfinite(left[node]):
            nodes[i] = node
            undo_steps.append(state.place(group, node))
            tightness[node] = _tightness(state, node)
            changed.add(node)
    return tuple(nodes), partial(_undo_all, undo_steps)


def _place_in_order(
    state: PlacementState,
    groups: Sequence[DisplacedGroup],
    order: Sequence[int],
    preference: Preference,
) -> tuple[tuple[int, ...], Callable[[], None]]:
    """Place each group on its preferred feasible node, without search.

    Returns:
        Node of each group, and a function that undoes the placements.
    """
    nodes = [NO_NODE] * len(groups)
    undo_steps: list[Callable[[], None]] = []
    for i in order:
        mask = state.feasible(groups[i])
        if not mask.any():
            continue
        ranking = preference(groups[i])
        nodes[i] = int(ranking[mask[ranking]][0])
        undo_steps.append(state.place(groups[i], nodes[i]))
    return tuple(nodes), partial(_undo_all, undo_steps)


def _undo_all(steps: Sequence[Callable[[], None]]) -> None:
    """Undo the placements of *steps*, the last one first."""
    for step in reversed(steps):
        step()


def _search(
    state: PlacementState,
    groups: Sequence[DisplacedGroup],
    order: Sequence[int],
    budget: SearchBudget,
    found: dict[int, int],
) -> bool:
    """Place all groups of *order*, or none; return whether they were placed."""
    if not order:
        return True
    group = groups[order[0]]
    nodes = np.flatnonzero(state.feasible(group))
    for node in nodes[np.argsort(_tightness(state)[nodes], kind="stable")].tolist():
        if budget.steps <= 0:
            return False
        budget.steps -= 1
        undo = state.place(group, node)
        if _search(state, groups, order[1:], budget, found):
            found[order[0]] = node
            return True
        undo()
    return False


def _tightness(state: PlacementState, nodes: int | slice = _ALL) -> Floats:
    """Return the available memory of *nodes*; the best fit has the least."""
    available = state.available[:, nodes]
    memory: Floats = available[MEASURED] + available[COMMITTED]
    return memory


def _exceeds_memory(
    state: PlacementState, groups: Sequence[DisplacedGroup], nodes: Mask
) -> bool:
    """Return whether *groups* require more than *nodes* have available altogether."""
    required = np.sum([group.required for group in groups], axis=0)
    available = np.maximum(state.available[:, nodes], 0.0).sum(axis=1)
    return bool((required > available)[list(state.resources)].any())
