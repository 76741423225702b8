"""Restarts after each failure that is to be tolerated, kept up to date by each move.

For each set of nodes that may fail there is a placement of its guests on the others,
found by the same search as for `what-if`. The placements of different sets share the
free memory: only one of the sets fails. A move changes the placements of few sets: of
those that lose or receive the guest, and of those that need the memory of its target.

Source:
    Bin et al., Guaranteeing high availability goals for virtual machine placement
    (ICDCS 2011): guests have shadows on the nodes that replace theirs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy

import numpy as np

from opendrs.arrays import Mask
from opendrs.model import Action, GuestId, Limits, PowerOff, Snapshot
from opendrs.placement.arrays import (
    NO_NODE,
    DisplacedGroup,
    Floats,
    Indices,
    PlacementArrays,
    is_plain,
    matters,
    part_moves,
)
from opendrs.placement.failures import Restarts, is_tolerated_in_other_domain
from opendrs.placement.search import SearchBudget, place_groups
from opendrs.placement.state import PlacementState
from opendrs.rules import (
    FailureSet,
    chooses_domain,
    failure_sets,
    restart_blocker,
    without_migration_rules,
)

MAX_SEARCH_STEPS = 2000  # placements that the search for one set tries

_SavedState = tuple[Floats, Floats, Mask, Indices]


class FailureReserves:
    """Restarts after each failure to tolerate; moves change it unless they break one.

    A set is tolerated if all of its guests that can start elsewhere have a node.

    Attributes:
        sets: Sets of nodes that may fail.
        limits: Limits of the operator.
        arrays: The cluster before all moves.
        state: Nodes of the parts, and available resources, after the moves so far.
        parts_on: Parts on each node after them.
        nodes: Indices of the nodes of each set.
        restarts: Restarts of each set.

    Args:
        snapshot: The cluster; no policy has anything in flight in it.
        limits: Limits of the operator, with the failures to tolerate.
    """

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self.limits = limits
        self._snapshot = snapshot
        snapshot = without_migration_rules(snapshot)
        self.sets = failure_sets(snapshot, limits)
        self.arrays = arrays = PlacementArrays(snapshot, limits)
        self.state = PlacementState(arrays)
        self._pending: list[Action] = []
        self._bound = frozenset(
            arrays.part_of[guest.id]
            for guest in snapshot.guests.values()
            if guest.is_active and restart_blocker(guest, snapshot.nodes[guest.node])
        )
        self.parts_on = [list(parts) for parts in arrays.parts_on]
        self.nodes = [[arrays.index[n] for n in each.nodes] for each in self.sets]
        self._sets_of: list[list[int]] = [[] for _ in arrays.node_ids]
        for index, nodes in enumerate(self.nodes):
            for node in nodes:
                self._sets_of[node].append(index)
        self._chooses = chooses_domain(snapshot, arrays.node_ids)
        self._elsewhere: set[int] = set()  # tolerated in another choice of domains
        self._groups: dict[int, DisplacedGroup] = {}
        self._users: list[set[int]] = [set() for _ in arrays.node_ids]
        self.restarts = [Restarts() for _ in self.sets]
        self._missing = [0] * len(self.sets)
        self._replaced: dict[int, Restarts] = {}
        for index in range(len(self.sets)):
            self._set(index, self._place(index))

    @property
    def missing(self) -> int:
        """Return the number of guests without a node, added up over all sets."""
        return sum(self._missing)

    @property
    def snapshot(self) -> Snapshot:
        """Return the cluster after all actions so far."""
        if self._pending:
            self._snapshot = self._snapshot.apply(*self._pending)
            self._pending = []
        return self._snapshot

    def intolerated(self) -> Iterator[tuple[FailureSet, tuple[GuestId, ...]]]:
        """Yield each set whose failure is not tolerated, with guests without a node.

        These sets are searched again: moves may have made them tolerated.
        """
        for index, missing in enumerate(self._missing):
            if missing:
                self.place_again(index)
        for each, restarts in zip(self.sets, self.restarts, strict=True):
            if restarts.unplaced:
                yield each, self._guests(restarts.unplaced)

    def copy(self) -> FailureReserves:
        """Return the same restarts, for moves that do not change these."""
        state, other = copy(self.state), copy(self)
        for name in ("available", "node_of", "is_open"):
            setattr(state, name, getattr(self.state, name).copy())
        vars(other).update(
            state=state,
            parts_on=[[*parts] for parts in self.parts_on],
            restarts=[*self.restarts],
            _missing=[*self._missing],
            _users=[{*sets} for sets in self._users],
            _elsewhere={*self._elsewhere},
            _pending=[*self._pending],
        )
        return other

    def free_after(self, index: int) -> Floats:
        """Return what nodes have available after the failure of a set; shape (4, N).

        The restarts of its guests count; a node that may not receive guests has
        -infinity.
        """
        free = self.state.available.copy()
        for node, parts in self.restarts[index].parts_on.items():
            free[:, node] -= self.arrays.required[list(parts)].sum(axis=0)
        free[:, ~self.state.is_open] = -np.inf
        free[:, self.nodes[index]] = -np.inf
        return free

    def try_actions(
        self, actions: Sequence[Action], *, fewer: bool = False
    ) -> tuple[FailureSet, ...]:
        """Make *actions* together, unless less is tolerated after them.

        Less is tolerated if a set is newly not tolerated, or if more guests than before
        are without a node.

        Args:
            actions: Actions that start together, such as the moves of a move group.
            fewer: Whether fewer guests than before must be without a node.

        Returns:
            The sets that prevent the actions; nothing if they were made.
        """
        worse, undo = self._try(actions, fewer=fewer)
        if worse:
            undo()
        return worse

    def sets_against(self, actions: Sequence[Action]) -> tuple[FailureSet, ...]:
        """Return the sets that would prevent *actions*, which are not made."""
        worse, undo = self._try(actions, fewer=False)
        undo()
        return worse

    def _try(
        self, actions: Sequence[Action], *, fewer: bool
    ) -> tuple[tuple[FailureSet, ...], Callable[[], None]]:
        """Make *actions*; return the sets that prevent them, and what undoes them."""
        actions = [each for each in actions if matters(each, self.arrays)]
        if not is_plain(actions, self.arrays):
            former = copy(self)
            worse = self._adopt(actions, fewer=fewer)
            return worse, lambda: vars(self).update(vars(former))
        before, state = [*self._missing], self.state
        columns, elsewhere = state.available.copy(), {*self._elsewhere}
        pending, snapshot = [*self._pending], self._snapshot
        self._replaced = {}
        moves = part_moves(actions, self.arrays)
        closed = [
            self.arrays.index[each.node]
            for each in actions
            if isinstance(each, PowerOff)
        ]
        were_open = state.is_open[closed]
        state.is_open[closed] = False
        origins = [int(state.node_of[part]) for part, _ in moves]
        for part, target in moves:
            self._move(part, target)
        self._pending += actions
        self._update(moves, origins, closed, thorough=fewer)
        replaced = self._replaced

        def undo() -> None:
            for (part, _), origin in zip(moves, origins, strict=True):
                self._move(part, origin)
            state.available[:] = columns
            state.is_open[closed] = were_open
            self._pending, self._snapshot = pending, snapshot
            for index, former in replaced.items():
                self._set(index, former)
            self._elsewhere = elsewhere

        return self._worse(before, fewer=fewer), undo

    def _adopt(
        self, actions: Sequence[Action], *, fewer: bool
    ) -> tuple[FailureSet, ...]:
        """Make *actions* in the snapshot, and calculate all placements again."""
        after = FailureReserves(self.snapshot.apply(*actions), self.limits)
        before = dict(zip(self.sets, self._missing, strict=True))
        then = [before.get(each, 0) for each in after.sets]
        worse = after._worse(then, fewer=fewer)
        if not worse:
            vars(self).update(vars(after))
        return worse

    def _worse(self, before: Sequence[int], *, fewer: bool) -> tuple[FailureSet, ...]:
        """Return the sets that are worse than *before* if less is tolerated.

        With *fewer*, they are all that are not tolerated if no more is tolerated.
        """
        pairs = [*zip(self.sets, before, self._missing, strict=True)]
        broken = tuple(each for each, then, now in pairs if now and not then)
        if broken or sum(self._missing) + fewer <= sum(before):
            return broken
        return tuple(each for each, then, now in pairs if now > then or (fewer and now))

    def _move(self, part: int, target: int) -> None:
        """Place *part* on *target* in the state."""
        state, required = self.state, self.arrays.required[part]
        source = int(state.node_of[part])
        freed = state.available[:, source] + required
        state.available[:, source] = np.minimum(freed, self.arrays.usable[:, source])
        state.available[:, target] -= required
        state.node_of[part] = target
        self.parts_on[source].remove(part)
        self.parts_on[target].append(part)

    def _update(
        self,
        moves: Sequence[tuple[int, int]],
        origins: Sequence[int],
        closed: Sequence[int],
        *,
        thorough: bool,
    ) -> None:
        """Place what moves from *origins*, or power-offs of *closed*, have changed."""
        again = {index for node in closed for index in self._users[node]}
        again |= self._elsewhere
        for (part, target), origin in zip(moves, origins, strict=True):
            left, joined = set(self._sets_of[origin]), set(self._sets_of[target])
            for index in left - joined:
                self._set(index, self.restarts[index].without(part))
            for index in joined - left - again:
                self._set(index, self._extended(index, {part}))
            for index, parts in self._disturbed(part, target).items():
                if index not in joined | again:
                    self._set(index, self._extended(index, parts))
        if thorough:
            again |= {index for index, count in enumerate(self._missing) if count}
        for index in sorted(again):
            self._set(index, self._place(index))

    def _disturbed(self, part: int, target: int) -> dict[int, set[int]]:
        """Return restarts that *part* on *target* makes impossible, by their sets."""
        state, arrays = self.state, self.arrays
        rows, users = list(state.resources), self._users[target]
        found: defaultdict[int, set[int]] = defaultdict(set)
        for index in users:
            parts = self.restarts[index].parts_on[target]
            needed = arrays.required[list(parts)].sum(axis=0)
            if (needed[rows] > state.available[rows, target]).any():
                found[index].update(parts)
        group = self._group(part)
        for other in group.apart.tolist():
            for index in self._sets_of[int(state.node_of[other])]:
                if index in users and self._is_on(index, other, target):
                    found[index].add(other)
        for limit in group.limits:
            for other in limit.parts.tolist():
                for index in self._sets_of[int(state.node_of[other])]:
                    node = self.restarts[index].node_of.get(other, NO_NODE)
                    if node != NO_NODE and limit.domain[node] == limit.domain[target]:
                        found[index].add(other)
        return found

    def _is_on(self, index: int, part: int, node: int) -> bool:
        return self.restarts[index].node_of.get(part, NO_NODE) == node

    def place_again(self, index: int) -> None:
        """Search for restarts of the set *index* once more."""
        self._set(index, self._place(index))

    def _place(self, index: int) -> Restarts:
        """Return restarts of the set *index*, of as many guests as possible."""
        parts = self._parts_of(index)
        restarted = [part for part in parts if part not in self._bound]
        saved = self._close(index, parts)
        result = place_groups(
            self.state,
            [self._group(part) for part in restarted],
            SearchBudget(MAX_SEARCH_STEPS),
        )
        self._reopen(saved)
        if not result.fits and self._chooses:
            after = without_migration_rules(self.snapshot)
            if is_tolerated_in_other_domain(after, self.limits, self.sets[index]):
                self._elsewhere.add(index)
                return Restarts()
        return Restarts.of(dict(zip(restarted, result.nodes, strict=True)))

    def _extended(self, index: int, parts: Collection[int]) -> Restarts:
        """Return the restarts of the set *index* with other nodes for *parts*.

        If that is impossible, all of its parts are placed again.
        """
        added = sorted(set(parts) - self._bound)
        if self._chooses:
            return self._place(index)
        saved = self._close(index, self._parts_of(index))
        state, arrays, restarts = self.state, self.arrays, self.restarts[index]
        node_of = {x: n for x, n in restarts.node_of.items() if x not in parts}
        kept, nodes = [*node_of], [*node_of.values()]
        np.subtract.at(state.available.T, nodes, arrays.required[kept])
        state.node_of[kept] = nodes
        for part in sorted(added, key=lambda x: -arrays.required[x][0]):
            mask = state.feasible(self._group(part))
            if not mask.any():
                break
            free = state.available[0] + state.available[1]
            node_of[part] = int(np.argmin(np.where(mask, free, np.inf)))
            state.place(self._group(part), node_of[part])
        self._reopen(saved)
        if not node_of.keys() >= {*added}:
            return self._place(index)
        return Restarts.of({**dict.fromkeys(restarts.unplaced, NO_NODE), **node_of})

    def _parts_of(self, index: int) -> list[int]:
        """Return the parts on the nodes of the set *index*, in order."""
        return sorted(p for node in self.nodes[index] for p in self.parts_on[node])

    def _close(self, index: int, parts: Sequence[int]) -> _SavedState:
        """Take *parts* off the nodes of the set *index*; return the former state."""
        state, nodes = self.state, self.nodes[index]
        saved = (
            state.available.copy(),
            state.usage.copy(),
            state.is_open.copy(),
            state.node_of.copy(),
        )
        state.is_open[nodes] = False
        state.node_of[list(parts)] = NO_NODE
        return saved

    def _reopen(self, saved: _SavedState) -> None:
        state = self.state
        state.available, state.usage, state.is_open, state.node_of = saved

    def _set(self, index: int, restarts: Restarts) -> None:
        """Replace the restarts of the set *index*."""
        former = self.restarts[index]
        self._replaced.setdefault(index, former)
        for node in former.parts_on.keys() - restarts.parts_on.keys():
            self._users[node].discard(index)
        for node in restarts.parts_on.keys() - former.parts_on.keys():
            self._users[node].add(index)
        self.restarts[index] = restarts
        self._missing[index] = len(self._guests(restarts.unplaced))

    def _group(self, part: int) -> DisplacedGroup:
        if part not in self._groups:
            self._groups[part] = self.arrays.displaced_group(part)
        return self._groups[part]

    def _guests(self, parts: Iterable[int]) -> tuple[GuestId, ...]:
        guests = (guest.id for part in parts for guest in self.arrays.parts[part])
        return tuple(sorted(guests))
