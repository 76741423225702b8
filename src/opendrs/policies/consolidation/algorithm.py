"""Move selection: relieve overloaded nodes, then drain underloaded ones.

`ForecastAlgorithm` uses a forecast of each node's load, `DetectorAlgorithm` the detectors of OpenStack Neat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from opendrs.policies.consolidation.assignment import (
    FilledAssignment,
    MoveList,
    MovePurpose,
    NodeMove,
)
from opendrs.policies.consolidation.detector import OverloadCounters
from opendrs.policies.consolidation.drain import NodeDrain
from opendrs.policies.consolidation.history import Floats, Integers, LoadHistories, Mask
from opendrs.policies.consolidation.input import (
    TIE_BREAK_DIGITS,
    AgentReports,
    GuestArrays,
    NodeArrays,
    TargetFilter,
)
from opendrs.policies.consolidation.overload_relief import OverloadRelief
from opendrs.policies.consolidation.overload_risk import RiskState
from opendrs.policies.consolidation.selection import EvictionCandidates
from opendrs.policies.consolidation.settings import DetectorSettings, ForecastSettings

MAX_UNPLACEABLE_GUESTS = (
    3  # guests in a row that find no place before a host is given up
)


def plan_moves(
    settings: DetectorSettings | ForecastSettings,
    node_arrays: NodeArrays,
    guest_arrays: GuestArrays,
    target_filter: TargetFilter,
    observations: tuple[OverloadCounters, Floats] | AgentReports,
) -> MoveList:
    """Return who should move where.

    Args:
        settings: How.
        node_arrays: The hosts.
        guest_arrays: The guests.
        target_filter: Which hosts are open to whom.
        observations: What the detector remembers of each host, and how many sampling
            intervals it takes to move a guest off it; or what the hosts say of
            themselves.
    """
    algorithm = _algorithm(settings, node_arrays, guest_arrays, target_filter)
    if isinstance(observations, AgentReports):
        return algorithm.moves_for_reports(observations)
    return algorithm.moves(*observations)


def assess_nodes(
    settings: DetectorSettings | ForecastSettings,
    node_arrays: NodeArrays,
    guest_arrays: GuestArrays,
    target_filter: TargetFilter,
    observations: tuple[OverloadCounters, Floats],
) -> tuple[AgentReports, OverloadCounters]:
    """Return what hosts say of themselves, and what the detector remembers.

    The arguments are those of `decided`.
    """
    return _algorithm(settings, node_arrays, guest_arrays, target_filter).assess(
        *observations
    )


def _algorithm(
    settings: DetectorSettings | ForecastSettings,
    node_arrays: NodeArrays,
    guest_arrays: GuestArrays,
    target_filter: TargetFilter,
) -> DetectorAlgorithm | ForecastAlgorithm:
    if isinstance(settings, ForecastSettings):
        return ForecastAlgorithm(settings, node_arrays, guest_arrays, target_filter)
    return DetectorAlgorithm(settings, node_arrays, guest_arrays, target_filter)


class DetectorAlgorithm:
    """Relieve overloaded nodes and drain underloaded ones, as OpenStack Neat does."""

    def __init__(
        self,
        settings: DetectorSettings,
        node_arrays: NodeArrays,
        guest_arrays: GuestArrays,
        target_filter: TargetFilter,
    ) -> None:
        self._settings, self._node_arrays, self._guest_arrays = (
            settings,
            node_arrays,
            guest_arrays,
        )
        self._assignment = FilledAssignment(
            settings, node_arrays, guest_arrays, target_filter
        )
        self._moved = np.zeros(len(guest_arrays.node_of), np.bool_)
        self._received = np.zeros(len(node_arrays.cpu), np.bool_)

    def moves(self, counters: OverloadCounters, migration: Floats) -> MoveList:
        """Return the moves of one cycle and the counters of the detector after it."""
        histories = self._assignment.histories()
        results = self._settings.detector.judge_all(histories, counters, migration)
        overloaded = results.overloaded & self._node_arrays.measured
        relief = [
            move
            for host in np.flatnonzero(overloaded)
            for move in self._relieve(int(host), overloaded, counters, migration)
        ]
        underloaded = self._settings.underload_detector.all_underloaded(histories)
        drains = self._drain_nodes(overloaded, underloaded)
        return MoveList(relief, drains, overloaded, results.counters, self._assignment)

    def assess(
        self, counters: OverloadCounters, migration: Floats
    ) -> tuple[AgentReports, OverloadCounters]:
        """Return the load state and the evictions of each host, and the counters."""
        histories = self._assignment.histories()
        underloaded = self._settings.underload_detector.all_underloaded(histories)
        results = self._settings.detector.judge_all(histories, counters, migration)
        overloaded = results.overloaded & self._node_arrays.measured
        evictions = {
            host: self._evictions(host, counters, migration)
            for host in np.flatnonzero(overloaded).tolist()
        }
        reports = AgentReports(
            overloaded,
            underloaded & self._node_arrays.measured & ~overloaded,
            evictions,
        )
        return reports, results.counters

    def _evictions(
        self, host: int, counters: OverloadCounters, migration: Floats
    ) -> list[int]:
        """Return who should leave *host* until the detector is content."""
        evictions: list[int] = []
        for guest in self._eviction_order(host):
            evictions.append(guest)
            self._assignment.remove(guest)
            if not self._is_overloaded(host, counters, migration):
                break
        return evictions

    def moves_for_reports(self, reports: AgentReports) -> MoveList:
        """Return who moves where, with each host's own word for its load."""
        overloaded = reports.overloaded & self._node_arrays.measured
        relief = [
            move
            for host in np.flatnonzero(overloaded).tolist()
            for move in self._place_evicted(reports.evictions.get(host, ()), overloaded)
        ]
        drains = self._drain_nodes(overloaded, reports.underloaded)
        counters = OverloadCounters.zeros(len(overloaded))
        return MoveList(relief, drains, overloaded, counters, self._assignment)

    def _place_evicted(
        self, evictions: Sequence[int], overloaded: Mask
    ) -> Iterator[NodeMove]:
        """Give those who should leave a host a place, where there is one."""
        receiving = self._node_arrays.measured & ~overloaded
        for guest in evictions:
            if self._guest_arrays.movable[guest] and not self._moved[guest]:
                target = self._assignment.find_target(
                    guest, receiving, MovePurpose.RELIEF
                )
                if target is not None:
                    yield self._apply(guest, target)[0]

    def _relieve(
        self, host: int, overloaded: Mask, counters: OverloadCounters, migration: Floats
    ) -> list[NodeMove]:
        receiving = self._node_arrays.measured & ~overloaded
        moves: list[NodeMove] = []
        unplaced = 0
        for guest in self._eviction_order(host):
            target = self._assignment.find_target(guest, receiving, MovePurpose.RELIEF)
            if target is None:
                unplaced += 1
                if unplaced >= MAX_UNPLACEABLE_GUESTS:
                    break
                continue
            moves.append(self._apply(guest, target)[0])
            if not self._is_overloaded(host, counters, migration):
                break
        return moves

    def _apply(self, guest: int, target: int) -> tuple[NodeMove, Callable[[], None]]:
        move = NodeMove(guest, int(self._assignment.node_of[guest]), target)
        undo = self._assignment.place(guest, target)
        self._moved[guest] = self._received[target] = True
        return move, undo

    def _is_overloaded(
        self, host: int, counters: OverloadCounters, migration: Floats
    ) -> bool:
        """Return whether *host* would be overloaded with those who are left."""
        rows = np.array([host])
        counter = OverloadCounters(counters.samples[rows], counters.overloaded[rows])
        histories = self._assignment.histories(rows)
        results = self._settings.detector.judge_all(histories, counter, migration[rows])
        return bool(results.overloaded[0])

    def _eviction_order(self, host: int) -> list[int]:
        guests = self._assignment.guests_on(host)
        guests = guests[self._guest_arrays.movable[guests] & ~self._moved[guests]]
        if self._settings.guest_selector is None:
            return self._smallest_sufficient_first(host, guests)
        candidates = EvictionCandidates(
            np.zeros(len(guests), np.int64),
            self._guest_arrays.memory[guests],
            LoadHistories(
                self._guest_arrays.samples[guests], self._guest_arrays.lengths[guests]
            ),
        )
        keys = self._settings.guest_selector.key_columns(candidates)
        order = np.lexsort((guests, *reversed(keys)))
        return [int(guest) for guest in guests[order]]

    def _smallest_sufficient_first(self, host: int, guests: Integers) -> list[int]:
        """Return the smallest guest that suffices first, then the largest ones."""
        usage = self._guest_arrays.samples[guests, -1]
        limit = self._settings.relief_target * self._node_arrays.cpu[host]
        excess = self._assignment.usage_samples[host, -1] - limit
        enough = usage >= excess
        rank = np.where(enough, usage, -usage)
        order = np.lexsort((guests, rank, ~enough))
        return [int(guest) for guest in guests[order[usage[order] > 0]]]

    def _drain_nodes(self, overloaded: Mask, underloaded: Mask) -> list[list[NodeMove]]:
        sources = self._drainable(overloaded, underloaded)
        receiving = self._node_arrays.measured & ~overloaded
        load = self._assignment.cpu_usage / self._node_arrays.cpu
        drains: list[list[NodeMove]] = []
        failures = 0
        for host in sources[np.argsort(load[sources], kind="stable")].tolist():
            if failures >= self._settings.max_failed_drains:
                break
            if len(drains) >= self._settings.max_drained_nodes:
                break
            if self._received[host]:
                continue
            receiving[host] = False
            moves = self._drain(host, receiving)
            failures = 0 if moves else failures + 1
            receiving[host] = not moves
            drains += [moves] if moves else []
        return drains

    def _drainable(self, overloaded: Mask, underloaded: Mask) -> Integers:
        """Return the hosts of those with *underloaded* to do whose guests may all move."""
        has_immovable = np.zeros(len(underloaded), np.bool_)
        immovable = ~self._guest_arrays.movable | self._moved
        has_immovable[self._assignment.node_of[immovable]] = True
        drainable = (
            underloaded
            & self._node_arrays.measured
            & ~self._node_arrays.has_immovable_guests
            & ~overloaded
            & ~has_immovable
        )
        return np.flatnonzero(drainable & (self._assignment.guest_count > 0))

    def _drain(self, host: int, receiving: Mask) -> list[NodeMove]:
        """Return how all guests leave *host*; nothing if one finds no room."""
        guests = self._assignment.guests_on(host)
        order = np.lexsort((guests, -self._assignment.cpu_demand[guests]))
        done: list[tuple[NodeMove, Callable[[], None]]] = []
        received = self._received.copy()
        for guest in guests[order].tolist():
            target = self._assignment.find_target(guest, receiving, MovePurpose.DRAIN)
            if target is None:
                for move, undo in reversed(done):
                    undo()
                    self._moved[move.guest] = False
                self._received = received
                return []
            done.append(self._apply(guest, target))
        return [move for move, _ in done]


class ForecastAlgorithm:
    """Decides by the forecast.

    Args:
        settings: How.
        node_arrays: The hosts.
        guest_arrays: The guests.
        target_filter: Which hosts are open to whom.
    """

    def __init__(
        self,
        settings: ForecastSettings,
        node_arrays: NodeArrays,
        guest_arrays: GuestArrays,
        target_filter: TargetFilter,
    ) -> None:
        self._settings, self._node_arrays, self._guest_arrays = (
            settings,
            node_arrays,
            guest_arrays,
        )
        self._state = RiskState(
            settings.averaging_window, node_arrays, guest_arrays, target_filter
        )
        self._movable = guest_arrays.movable.copy()
        self._initial_risk = self._state.risk.copy()

    def moves(self, counters: OverloadCounters, _migration: Floats) -> MoveList:
        """Return who moves where; what detectors remember is kept as it is."""
        overloaded = self._state.overloaded(self._settings.overload_threshold)
        relief = OverloadRelief(self._settings, self._state, self._movable).moves()
        return self._build_moves(
            relief, overloaded, self._node_arrays.measured, counters
        )

    def moves_for_reports(self, reports: AgentReports) -> MoveList:
        """Return who moves where, with each host's own word for its load."""
        overloaded = reports.overloaded & self._node_arrays.measured
        selector = OverloadRelief(self._settings, self._state, self._movable)
        relief = [
            move
            for host in np.flatnonzero(overloaded).tolist()
            for guest in reports.evictions.get(host, ())
            if self._movable[guest]
            for move in [selector.evict(guest)]
            if move is not None
        ]
        sources = reports.underloaded & self._node_arrays.measured & ~overloaded
        counters = OverloadCounters.zeros(len(overloaded))
        return self._build_moves(relief, overloaded, sources, counters)

    def assess(
        self, counters: OverloadCounters, _migration: Floats
    ) -> tuple[AgentReports, OverloadCounters]:
        """Return what hosts say of themselves.

        A host whose own risk is beyond the bound names who should leave until it
        keeps it; any other can be emptied for all it knows.
        """
        overloaded = self._node_arrays.measured & (
            self._initial_risk > self._settings.max_overload_fraction
        )
        evictions = {
            host: self._evictions(host) for host in np.flatnonzero(overloaded).tolist()
        }
        low_usage = (
            self._state.cpu_usage
            <= self._settings.underload_threshold * self._node_arrays.cpu
        )
        underloaded = self._node_arrays.measured & ~overloaded & low_usage
        return AgentReports(overloaded, underloaded, evictions), counters

    def _build_moves(
        self,
        relief: list[NodeMove],
        overloaded: Mask,
        sources: Mask,
        counters: OverloadCounters,
    ) -> MoveList:
        drain = NodeDrain(self._settings, self._state, self._movable)
        drains = drain.drains(sources)
        return MoveList(
            relief, drains, overloaded, counters, self._state, risk=self._initial_risk
        )

    def _evictions(self, host: int) -> list[int]:
        """Return who should leave *host*, the one that eases it most first."""
        evictions: list[int] = []
        while self._state.risk[host] > self._settings.max_overload_fraction:
            guests = self._state.guests_on(host)
            guests = guests[self._movable[guests]]
            reduction: Floats = np.round(
                self._state.risk_reduction(guests), TIE_BREAK_DIGITS
            )
            if not len(guests) or reduction.max() <= self._settings.min_risk_reduction:
                break
            evictions.append(int(guests[np.argmax(reduction)]))
            self._state.remove(evictions[-1])
        return evictions
