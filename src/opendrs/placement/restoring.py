"""Moves after which failures are tolerated that were not.

After the failure of a set of nodes, a guest has no node if none has enough left. One
that nearly has enough is relieved of some guests. Single moves come first, those of
guests with little memory before others; then several from one node.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from opendrs.arrays import MobilityFilter, MoveGroup, SelectionState, migrations_of
from opendrs.model import Guest, Limits, NodeId, Snapshot
from opendrs.placement.reserves import FailureReserves

MAX_TRIES = 2000  # moves that are tried for one cluster
MAX_TARGETS = 16  # nodes that are tried for one guest
MAX_RELIEVED = 8  # nodes that several guests are moved off for one guest
MAX_EVICTED = 4  # guests that are moved off one of them

RestoringMove = tuple[MoveGroup, NodeId]


class RestoringSearch:
    """Search for moves after which fewer guests are without a node.

    No move makes a failure newly intolerable, and none has a guest in it twice.

    Attributes:
        moves: Moves found so far, in their order: each is safe after those before it.
        reserves: Restarts after these moves.

    Args:
        snapshot: The cluster.
        limits: Limits of the operator.
        mobility: Guests that may move.
        most: Most guests and most bytes of their memory to move.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        limits: Limits,
        mobility: MobilityFilter,
        most: tuple[float, float] = (math.inf, math.inf),
    ) -> None:
        self.moves: list[RestoringMove] = []
        self.reserves = FailureReserves(snapshot, limits)
        self._limits, self._mobility, self._most = limits, mobility, most
        self._tries = MAX_TRIES
        while self.reserves.missing and (self._make_move() or self._make_moves()):
            pass

    def _state(self, reserves: FailureReserves) -> SelectionState:
        return SelectionState(reserves.snapshot, self._limits, self._mobility)

    def _make_move(self) -> bool:
        """Make the first single move that helps; return whether there was one."""
        state = self._state(self.reserves)
        for index in self._candidates(state):
            for target in self._targets(state, index):
                if self._tries <= 0:
                    return False
                if self._try(self.reserves, state, index, target, fewer=True):
                    self.moves.append((state.members(index), target))
                    return True
        return False

    def _make_moves(self) -> bool:
        """Make the first moves off one node that help together; return if any do."""
        for node, index, part in self._nearly_free():
            reserves, moves = self.reserves.copy(), [*self.moves]
            if self._relieve(reserves, node, index, part):
                self.reserves = reserves
                return True
            self.moves = moves
        return False

    def _relieve(
        self, reserves: FailureReserves, node: int, index: int, part: int
    ) -> bool:
        """Move guests off *node* until *part* of the set *index* has room there."""
        before = reserves.missing
        for _ in range(MAX_EVICTED):
            state = self._state(reserves)
            name = reserves.arrays.node_ids[node]
            groups = [
                each
                for each in range(len(state.cluster.groups))
                if state.members(each)[0].node == name and self._is_new(state, each)
            ]
            missing = (
                reserves.arrays.required[part] - reserves.free_after(index)[:, node]
            )
            groups.sort(key=lambda x: self._preference(state, x, float(missing[1])))
            if not any(self._move_off(reserves, state, each) for each in groups):
                return False
            if reserves.missing < before or self._refresh(reserves, index) < before:
                return True
        return False

    def _refresh(self, reserves: FailureReserves, index: int) -> int:
        """Place the set *index* again; return the guests without a node in all sets."""
        reserves.place_again(index)
        return reserves.missing

    def _move_off(
        self, reserves: FailureReserves, state: SelectionState, group: int
    ) -> bool:
        """Move *group* to the first node that keeps what is tolerated."""
        for target in self._targets(state, group):
            if self._tries <= 0:
                return False
            if self._try(reserves, state, group, target, fewer=False):
                self.moves.append((state.members(group), target))
                return True
        return False

    def _preference(
        self, state: SelectionState, group: int, missing: float
    ) -> tuple[bool, float]:
        """Return the order in which groups leave: the smallest that suffices first."""
        memory = float(state.cluster.required[group][1])
        return memory < missing, memory if memory >= missing else -memory

    def _try(
        self,
        reserves: FailureReserves,
        state: SelectionState,
        group: int,
        target: NodeId,
        *,
        fewer: bool,
    ) -> bool:
        self._tries -= 1
        moved = [*self._moved(), *state.members(group)]
        memory = sum(guest.usage.memory or 0 for guest in moved)
        if len(moved) > self._most[0] or memory > self._most[1]:
            return False
        actions = migrations_of(state.members(group), target)
        return not reserves.try_actions(actions, fewer=fewer)

    def _moved(self) -> list[Guest]:
        return [guest for members, _ in self.moves for guest in members]

    def _is_new(self, state: SelectionState, group: int) -> bool:
        moved = {guest.id for guest in self._moved()}
        return moved.isdisjoint(guest.id for guest in state.members(group))

    def _candidates(self, state: SelectionState) -> list[int]:
        """Return the groups whose departure may make room, the cheapest first."""
        arrays = self.reserves.arrays
        least: dict[NodeId, float] = {}
        for node, index, part in self._nearly_free():
            free = self.reserves.free_after(index)[:, node]
            shortage = float((arrays.required[part] - free)[:2].max())
            name = arrays.node_ids[node]
            least[name] = min(least.get(name, np.inf), shortage)
        found = [
            (float(state.cluster.required[group][0]), group)
            for group in range(len(state.cluster.groups))
            if (name := state.members(group)[0].node) in least
            and float(state.cluster.required[group][:2].max()) >= least[name]
            and self._is_new(state, group)
        ]
        return [group for _, group in sorted(found)]

    def _targets(self, state: SelectionState, group: int) -> list[NodeId]:
        """Return the feasible nodes of *group*, those with the most memory first."""
        nodes = np.flatnonzero(state.feasible_mask(group))
        memory = state.arrays.available[nodes][:, 0]
        order = nodes[np.argsort(-memory, kind="stable")]
        return [state.nodes[node] for node in order[:MAX_TARGETS].tolist()]

    def _nearly_free(self) -> Iterator[tuple[int, int, int]]:
        """Yield a node, a set and a part of it without a node, by what is missing."""
        reserves, arrays = self.reserves, self.reserves.arrays
        for index, restarts in enumerate(reserves.restarts):
            for part in restarts.unplaced[:1]:
                group = arrays.displaced_group(part)
                missing = group.required[:2, None] - reserves.free_after(index)[:2]
                shortage = np.where(group.allowed, missing.max(axis=0), np.inf)
                for node in np.argsort(shortage, kind="stable")[:MAX_RELIEVED].tolist():
                    if np.isfinite(shortage[node]):
                        yield node, index, part
