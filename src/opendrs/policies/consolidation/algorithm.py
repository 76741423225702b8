"""Move selection: relieve overloaded nodes, then drain underloaded ones.

Guests are evicted from each overloaded node one by one until its detector is satisfied.
Each migrates to a node with enough capacity; powered-off nodes are powered on if no
other has it. Then underloaded nodes are drained, the least loaded first. Either all
guests of a node leave or none, and only to nodes that already have guests. A node that
received a guest is not drained, and no guest migrates twice.

`ForecastAlgorithm` uses a forecast of each node's load, `DetectorAlgorithm` the
detectors of OpenStack Neat. Both work on arrays, so a platform and a simulation decide
alike.
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

# Guests in a row without a target, after which the relief of a node ends.
MAX_UNPLACEABLE_GUESTS = 3


def plan_moves(
    settings: DetectorSettings | ForecastSettings,
    node_arrays: NodeArrays,
    guest_arrays: GuestArrays,
    target_filter: TargetFilter,
    observations: tuple[OverloadCounters, Floats] | AgentReports,
) -> MoveList:
    """Return the moves of one cycle.

    Args:
        settings: Settings of the algorithm; their type selects it.
        node_arrays: The nodes.
        guest_arrays: The guests.
        target_filter: Nodes that rules and hardware allow for each guest.
        observations: Counters of the detector and the duration of a migration
            off each node in sampling intervals; or the reports of the agents.
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
    """Return the report on each node and the updated detector counters.

    The arguments are those of `plan_moves`.
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
        """Return the guests to evict until *host* is no longer overloaded."""
        evictions: list[int] = []
        for guest in self._eviction_order(host):
            evictions.append(guest)
            self._assignment.remove(guest)
            if not self._is_overloaded(host, counters, migration):
                break
        return evictions

    def moves_for_reports(self, reports: AgentReports) -> MoveList:
        """Return the moves that follow from the load state each node reports."""
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
        """Yield the moves of the evicted guests for which there is a target."""
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
        """Return True if *host* is overloaded with its remaining guests."""
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
        """Return the underloaded nodes on which every guest may migrate."""
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
        """Return the moves that drain *host*; empty if one guest has no target."""
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
    """Relieve and drain nodes by a forecast of their load.

    Args:
        settings: Thresholds and limits of the algorithm.
        node_arrays: The nodes.
        guest_arrays: The guests.
        target_filter: Nodes that rules and hardware allow for each guest.
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
        """Return the moves of one cycle; the counters are returned unchanged."""
        overloaded = self._state.overloaded(self._settings.overload_threshold)
        relief = OverloadRelief(self._settings, self._state, self._movable).moves()
        return self._build_moves(
            relief, overloaded, self._node_arrays.measured, counters
        )

    def moves_for_reports(self, reports: AgentReports) -> MoveList:
        """Return the moves that follow from the load state each node reports."""
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
        """Return the report on each node, and *counters* unchanged.

        A node with a risk above the bound lists guests to evict until its risk is
        within the bound. Any other node below the underload threshold is underloaded.
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
        """Return the guests to evict from *host*, largest risk reduction first."""
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
