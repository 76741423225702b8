"""Detours over staging nodes, for moves that wait for each other in a cycle."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from opendrs.arrays import ResourceAmounts
from opendrs.model import GuestId
from opendrs.planning.moves import DetourBudget, PendingMove, fits, minus
from opendrs.planning.state import SequencingState

# Insufficient alone, cost in bytes, -bytes of the detour, name, version, move.
DetourOffer = tuple[bool, float, int, str, int, PendingMove]


class DetourSelector:
    """Selection of detours that let a blocked move start.

    The guest to detour is the one whose departure leaves the least memory unused. In
    trials this needed half as many detours as taking the smallest guest first.

    Args:
        state: State of the sequencing; its changes are tracked.
        budget: Limit of all detours together.
    """

    def __init__(self, state: SequencingState, budget: DetourBudget) -> None:
        self._state = state
        self._staging_nodes = _StagingNodes(state)
        self._memory, self._migrations = budget.memory, budget.migrations
        self._offers: list[DetourOffer] = []
        self._unplaceable: list[tuple[float, DetourOffer]] = []  # by required memory
        self._versions: dict[PendingMove, int] = {}
        self._version = 0

    def make_best_detour(self) -> bool:
        """Make the best detour; return whether there was one."""
        self._refresh()
        while self._offers:
            offer = heapq.heappop(self._offers)
            move = offer[-1]
            if self._is_stale(offer) or not self._is_affordable(move):
                continue
            staging_node = (
                self._staging_nodes.best(move)
                if self._state.can_arrive_eventually(move)
                else None
            )
            if staging_node is None:
                heapq.heappush(self._unplaceable, (move.required[0], offer))
                continue
            self._memory -= move.group_move.memory
            self._migrations -= len(move.guests)
            self._state.make_detour(move, staging_node)
            return True
        return False

    def _is_stale(self, offer: DetourOffer) -> bool:
        *_, version, move = offer
        pending = self._state.pending.get(move.name) is move
        return not pending or self._versions[move] != version

    def _is_affordable(self, move: PendingMove) -> bool:
        return (
            move.group_move.memory <= self._memory
            and len(move.guests) <= self._migrations
        )

    def _refresh(self) -> None:
        """Update the offers of changed nodes, and retry unplaceable ones."""
        changed = sorted(self._state.changed)
        self._state.changed.clear()
        for node in changed:
            blocked = self._blocked_moves(node)
            for move in self._state.departures[node]:
                self._add_offer(move, blocked)
        max_free = self._state.free_memory.max_free() if changed else 0.0
        while self._unplaceable and self._unplaceable[0][0] <= max_free:
            heapq.heappush(self._offers, heapq.heappop(self._unplaceable)[1])

    def _blocked_moves(self, node: int) -> list[_BlockedMove]:
        """Return the pending moves to *node* with the memory they are short of."""
        state = self._state
        free, present = state.free_memory.free(node), state.guests_on[node]
        return [
            _BlockedMove(
                minus(move.required, free), move.required[0], move.anti_affine & present
            )
            for move in state.arrivals[node]
        ]

    def _add_offer(self, move: PendingMove, blocked: Sequence[_BlockedMove]) -> None:
        """Add the cost of a detour of *move*, if it helps a blocked move."""
        self._version += 1
        self._versions[move] = self._version
        if move.from_detour or not move.group_move.can_detour or len(move.sources) > 1:
            return
        costs = [
            cost
            for blocked_move in blocked
            if (cost := blocked_move.cost(move.required, move.guests))
        ]
        if costs:
            size = move.group_move.memory
            offer = (*min(costs), -size, move.name, self._version, move)
            heapq.heappush(self._offers, offer)


class _BlockedMove(NamedTuple):
    """Shortage of a move on its target node.

    Attributes:
        missing: Missing resources; 0 or less if there is enough.
        size: Measured memory that it requires.
        anti_affine: Guests on the node with anti-affinity to it.
    """

    missing: ResourceAmounts
    size: float
    anti_affine: frozenset[GuestId]

    def cost(
        self, freed: ResourceAmounts, guests: Iterable[GuestId]
    ) -> tuple[bool, float] | None:
        """Return the cost of a detour of *guests* that frees *freed*; None if no help.

        The first item is whether further detours are necessary. The second is the bytes
        required in that case, otherwise the bytes left unused.
        """
        missing, size, anti_affine = self
        if max(missing) <= 0 and anti_affine.isdisjoint(guests):
            return None
        if fits(missing, freed) and anti_affine.issubset(guests):
            return False, freed[0] - size
        return True, max(missing[0], missing[1], freed[0])


class _StagingNodes:
    """Nodes on which guests can wait."""

    def __init__(self, state: SequencingState) -> None:
        self._state = state

    def best(self, move: PendingMove) -> int | None:
        """Return the staging node with the largest surplus of memory, or None."""
        state = self._state
        suits = state.cluster.classes.compatible(move.group_move.guests)
        nodes = state.free_memory.nodes_with(move.required)
        nodes = nodes[suits[nodes]]
        surplus = state.free_memory.surplus(nodes, state.expected)
        for node in nodes[np.argsort(-surplus, kind="stable")].tolist():
            if (
                node != move.target
                and node not in move.sources
                and not state.violates_anti_affinity(move, node)
                and not state.exceeds_domain(move, node)
            ):
                return int(node)
        return None
