"""Drain selection: drain nodes while the others can serve the demand.

An upper limit on the number of drained nodes is computed first, as if the demand
could be divided evenly among the remaining nodes. Then nodes are drained one by one:
those with the most watts per core first, and among them those with the least memory
to transfer. Either all guests of a node move or none. Each goes to the node where the
risk increases least. The mean risk of the remaining nodes must stay within the bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opendrs.policies.consolidation.assignment import NodeMove, sum_by_node
from opendrs.policies.consolidation.history import Integers, Mask
from opendrs.policies.consolidation.input import TIE_BREAK_DIGITS
from opendrs.policies.consolidation.overload_risk import RiskState, overload_fraction
from opendrs.policies.consolidation.settings import ForecastSettings

# Risks that differ by less are equal; then the node with less incoming memory wins.
RISK_RESOLUTION = 0.003


class NodeDrain:
    """Select the nodes to drain and the targets of their guests.

    Args:
        settings: Thresholds and limits of the algorithm.
        state: Nodes and guests; updated with each selected move.
        movable: True for guests that may migrate; updated.
    """

    def __init__(
        self, settings: ForecastSettings, state: RiskState, movable: Mask
    ) -> None:
        self._settings, self._state, self._movable = settings, state, movable
        self._cpu = state.node_arrays.cpu
        # An overloaded node receives no guest and counts as no remaining node.
        self._occupied = state.occupied() & ~state.overloaded(
            settings.overload_threshold
        )

    def drains(self, sources: Mask) -> list[list[NodeMove]]:
        """Return the moves off each drained node, in this order.

        Args:
            sources: True for nodes that may be drained; shape (nodes,).
        """
        hosts = self._ordered(self._drainable(sources))
        hosts = hosts[: self._max_drains(hosts)]
        receiving = self._occupied.copy()
        receiving[hosts] = False
        drained: list[list[NodeMove]] = []
        failures = 0
        for host in hosts[: self._settings.max_drained_nodes].tolist():
            if failures >= self._settings.max_failed_drains:
                break
            moves = self._drain(host, receiving)
            failures = 0 if moves else failures + 1
            self._occupied[host] = receiving[host] = not moves
            drained += [moves] if moves else []
        return drained

    def _drainable(self, sources: Mask) -> Integers:
        """Return the nodes of *sources* on which every guest is known and movable."""
        state = self._state
        has_immovable = np.zeros(len(sources), np.bool_)
        measured = np.isfinite(state.guest_arrays.required).all(axis=1)
        has_immovable[state.node_of[~(self._movable & measured)]] = True
        underloaded = (state.guest_count > 0) & (
            state.cpu_usage <= self._settings.underload_threshold * self._cpu
        )
        drainable = (
            sources
            & underloaded
            & ~has_immovable
            & ~state.node_arrays.has_immovable_guests
        )
        return np.flatnonzero(drainable & self._occupied & ~state.powered_on)

    def _ordered(self, hosts: Integers) -> Integers:
        state = self._state
        memory = np.bincount(
            state.node_of, state.guest_arrays.memory, len(self._occupied)
        )
        watts_per_core = state.node_arrays.watts_per_core
        return hosts[
            np.lexsort(
                (np.round(memory[hosts], TIE_BREAK_DIGITS), -watts_per_core[hosts])
            )
        ]

    def _max_drains(self, hosts: Integers) -> int:
        """Return how many of the first *hosts* could be drained, by sums alone.

        An upper limit: CPU is treated as evenly divisible, and memory as if it could
        be filled to the last byte.
        """
        state, occupied = self._state, self._occupied
        cpu = self._cpu[occupied].sum() - np.cumsum(self._cpu[hosts])
        remaining = occupied.sum() - np.arange(1, len(hosts) + 1)
        enough = (remaining >= 1) & (cpu > 0)
        share = np.where(enough, 1 / np.maximum(remaining, 1), 1.0)
        load, variance = (
            state.cpu_usage[occupied].sum(),
            state.node_variance[occupied].sum(),
        )
        risk = overload_fraction(
            load * share, variance * share, np.where(enough, cpu, 1.0) * share
        )
        feasible = (
            enough
            & (risk <= self._settings.max_overload_fraction)
            & self._memory_suffices(hosts)
        )
        return int(np.flatnonzero(feasible).max(initial=-1)) + 1

    def _memory_suffices(self, hosts: Integers) -> Mask:
        """Return True where the others have enough memory for the first hosts."""
        state = self._state
        available = np.maximum(state.available, 0.0)
        required = sum_by_node(
            state.guest_arrays.required, state.node_of, len(available)
        )
        remaining = available[self._occupied].sum(axis=0) - np.cumsum(
            available[hosts], axis=0
        )
        return np.asarray((np.cumsum(required[hosts], axis=0) <= remaining).all(axis=1))

    def _drain(self, host: int, receiving: Mask) -> list[NodeMove]:
        """Return the moves that drain *host*; empty if that is impossible."""
        guests = self._state.guests_on(host)
        order = np.lexsort((guests, -self._state.cpu_demand[guests]))
        undo: list[Callable[[], None]] = []
        moves: list[NodeMove] = []
        for guest in guests[order].tolist():
            target = self._best_target(guest, receiving)
            if target is None:
                break
            undo.append(self._state.place(guest, target))
            moves.append(NodeMove(guest, host, target))
        if len(moves) == len(guests) and self._within_bound(host):
            self._movable[guests] = False
            return moves
        for revert in reversed(undo):
            revert()
        return []

    def _best_target(self, guest: int, receiving: Mask) -> int | None:
        state, guests = self._state, np.array([guest])
        hosts = np.flatnonzero(receiving)
        hosts = hosts[state.has_capacity(guests, hosts, self._settings.fill_target)[0]]
        if not len(hosts):
            return None
        hosts = hosts[state.target_filter.allowed_targets(guest)[hosts]]
        if not len(hosts):
            return None
        risk_levels = np.floor(state.risk_increase(guests, hosts)[0] / RISK_RESOLUTION)
        incoming = np.maximum(state.incoming_memory[hosts], 0)
        return int(hosts[np.lexsort((incoming, risk_levels))[0]])

    def _within_bound(self, host: int) -> bool:
        """Return True if the mean risk of the others is within the bound."""
        remaining = self._occupied.copy()
        remaining[host] = False
        return bool(remaining.any()) and bool(
            self._state.risk[remaining].mean() <= self._settings.max_overload_fraction
        )
