"""Relief: select the move that reduces the risk most, while it is worthwhile.

The node with the highest risk comes first. Of its guests and the possible targets, the
pair is selected that reduces the sum of both risks most, as long as the reduction
exceeds the minimum. A node that is overloaded on average may also send a guest to an
empty node, or to one that is powered on for it.
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.consolidation.assignment import NodeMove
from opendrs.policies.consolidation.history import Floats, Integers, Mask
from opendrs.policies.consolidation.input import TIE_BREAK_DIGITS
from opendrs.policies.consolidation.overload_risk import RiskState
from opendrs.policies.consolidation.settings import ForecastSettings

LEAST_RISKY_TARGETS = 64  # nodes with the least risk are tried before all others
MAX_UNPLACEABLE_GUESTS = 3  # best guests that are tried for a target


class OverloadRelief:
    """Select the moves off nodes that may lack CPU.

    Args:
        settings: Thresholds and limits of the algorithm.
        state: Nodes and guests; updated with each selected move.
        movable: True for guests that may migrate; cleared for those that moved.
    """

    def __init__(
        self, settings: ForecastSettings, state: RiskState, movable: Mask
    ) -> None:
        self._settings, self._state, self._movable = settings, state, movable
        self._node_arrays, self._target_filter = state.node_arrays, state.target_filter
        self._occupied = state.occupied()
        self._least_risky: Integers | None = None

    def moves(self) -> list[NodeMove]:
        """Return the selected moves, in this order."""
        waiting = self._worthwhile_sources()
        selected: list[NodeMove] = []
        while waiting.any():
            host = int(np.argmax(np.where(waiting, self._state.risk, -1.0)))
            best = self._best_move(host)
            if best is None:
                waiting[host] = False
            else:
                selected.append(self._apply(*best))
        return selected

    def evict(self, guest: int) -> NodeMove | None:
        """Return the move of *guest*, for which its own node requests an eviction.

        The target is the node where the risk falls most, if the reduction exceeds the
        minimum. Otherwise, if the source is overloaded, the target is an empty node
        or one that is powered on. None if there is no target.
        """
        move = self._best_to_occupied(np.array([guest])) or self._best_to_empty(
            np.array([guest])
        )
        return None if move is None else self._apply(*move)

    def _apply(self, guest: int, target: int) -> NodeMove:
        move = NodeMove(guest, int(self._state.node_of[guest]), target)
        self._state.place(guest, target)
        self._movable[guest] = False
        self._occupied[target] = True
        self._least_risky = None
        return move

    def _worthwhile_sources(self) -> Mask:
        """Return the nodes with a guest for which a move may be worthwhile.

        Only the targets with the least risk are considered, without capacity and rules.
        """
        state, min_reduction = self._state, self._settings.min_risk_reduction
        risky = self._occupied & (state.risk > min_reduction)
        guests = np.flatnonzero(self._movable & risky[state.node_of])
        reduction = state.risk_reduction(guests)
        guests, reduction = (
            guests[reduction > min_reduction],
            reduction[reduction > min_reduction],
        )
        worthwhile = np.zeros(len(self._occupied), np.bool_)
        hosts = self._least_risky_nodes()
        if len(hosts):
            increase = state.risk_increase(guests, hosts)
            increase[state.node_of[guests, None] == hosts] = np.inf
            guests = guests[reduction - increase.min(axis=1) > min_reduction]
            worthwhile[state.node_of[guests]] = True
        return worthwhile | (
            self._occupied & state.overloaded(self._settings.overload_threshold)
        )

    def _least_risky_nodes(self) -> Integers:
        """Return the occupied nodes with the least risk."""
        if self._least_risky is None:
            hosts = np.flatnonzero(self._occupied)
            order = np.argsort(self._state.risk[hosts], kind="stable")
            self._least_risky = np.sort(hosts[order[:LEAST_RISKY_TARGETS]])
        return self._least_risky

    def _best_move(self, host: int) -> tuple[int, int] | None:
        """Return the best guest of *host* and its target, or None."""
        guests = np.flatnonzero(self._movable & (self._state.node_of == host))
        if not len(guests):
            return None
        return self._best_to_occupied(guests) or self._best_to_empty(guests)

    def _best_to_occupied(self, guests: Integers) -> tuple[int, int] | None:
        """Return the best pair of a guest of *guests* and an occupied node."""
        reduction = self._state.risk_reduction(guests)
        enough = reduction > self._settings.min_risk_reduction
        guests, reduction = guests[enough], reduction[enough]
        if not len(guests):
            return None
        pair, worthwhile = self._best_pair(guests, reduction, self._least_risky_nodes())
        if pair is None and worthwhile and self._occupied.sum() > LEAST_RISKY_TARGETS:
            first = np.argsort(-np.round(reduction, TIE_BREAK_DIGITS), kind="stable")[
                :MAX_UNPLACEABLE_GUESTS
            ]
            hosts = np.flatnonzero(self._occupied)
            pair, _ = self._best_pair(guests[first], reduction[first], hosts)
        return pair

    def _best_pair(
        self, guests: Integers, reduction: Floats, hosts: Integers
    ) -> tuple[tuple[int, int] | None, bool]:
        """Return the best pair; True if one was worthwhile before other checks."""
        gain = reduction[:, None] - self._state.risk_increase(guests, hosts)
        gain[self._state.node_of[guests, None] == hosts] = -1.0
        if not (gain > self._settings.min_risk_reduction).any():
            return None, False
        gain[
            ~self._state.has_capacity(guests, hosts, self._settings.relief_target)
        ] = -1.0
        return self._best_allowed_pair(guests, gain, hosts), True

    def _best_allowed_pair(
        self, guests: Integers, gain: Floats, hosts: Integers
    ) -> tuple[int, int] | None:
        """Return the pair with the largest gain that the rules allow."""
        pair, best_gain = None, self._settings.min_risk_reduction
        best = np.round(gain.max(axis=1), TIE_BREAK_DIGITS)
        for row in np.argsort(-best, kind="stable")[:MAX_UNPLACEABLE_GUESTS].tolist():
            if best[row] <= best_gain:
                break
            allowed = self._target_filter.allowed_targets(int(guests[row]))[hosts]
            allowed_gain = np.round(
                np.where(allowed, gain[row], -1.0), TIE_BREAK_DIGITS
            )
            column = int(np.argmax(allowed_gain))
            if allowed_gain[column] > best_gain:
                pair = int(guests[row]), int(hosts[column])
                best_gain = float(allowed_gain[column])
        return pair

    def _best_to_empty(self, guests: Integers) -> tuple[int, int] | None:
        """Return a guest and an empty node, if the source is overloaded.

        A guest that is alone on its node gains nothing by that.
        """
        state, host = self._state, int(self._state.node_of[guests[0]])
        alone = (
            state.guest_count[host] == 1
            and not self._node_arrays.has_immovable_guests[host]
        )
        if alone or not state.overloaded(self._settings.overload_threshold)[host]:
            return None
        reduction = self._state.risk_reduction(guests)
        row = int(np.argmax(np.round(reduction, TIE_BREAK_DIGITS)))
        hosts = self._empty_targets(int(guests[row]))[:1]
        if not len(hosts):
            return None
        increase = self._state.risk_increase(guests[row : row + 1], hosts)[0, 0]
        worth = reduction[row] - increase > self._settings.min_risk_reduction
        return (int(guests[row]), int(hosts[0])) if worth else None

    def _empty_targets(self, guest: int) -> Integers:
        """Return the empty nodes for *guest*; running nodes exclude powered-off ones.

        Ordered by watts per core, then by size.
        """
        idle = self._node_arrays.measured & ~self._occupied
        hosts: Integers = np.zeros(0, np.int64)
        for tier in (idle, self._node_arrays.can_power_on & ~self._state.powered_on):
            hosts = self._feasible_targets(guest, tier)
            if len(hosts):
                cpu, watts_per_core = (
                    self._node_arrays.cpu[hosts],
                    self._node_arrays.watts_per_core[hosts],
                )
                hosts = hosts[np.lexsort((cpu, watts_per_core))]
                break
        return hosts

    def _feasible_targets(self, guest: int, candidates: Mask) -> Integers:
        """Return the *candidates* with capacity for *guest* that the rules allow."""
        hosts: Integers = np.flatnonzero(candidates)
        one = np.array([guest])
        hosts = hosts[
            self._state.has_capacity(one, hosts, self._settings.relief_target)[0]
        ]
        return (
            hosts[self._target_filter.allowed_targets(guest)[hosts]]
            if len(hosts)
            else hosts
        )
