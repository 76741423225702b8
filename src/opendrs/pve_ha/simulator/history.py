"""History of each service and each node, computed from the log of a drill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import Self

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.log_events import LogEvent
from opendrs.pve_ha.simulator.drill_log import (
    CommandExecuted,
    DrillFinished,
    DrillLogEntry,
)
from opendrs.pve_ha.simulator.run import Drill
from opendrs.pve_ha.simulator.scenario import DrillScenario
from opendrs.pve_ha.simulator.service_timeline import ServiceTimeline, TimelinePoint
from opendrs.pve_ha.states import (
    PveNodeState,
    RequestedState,
    ServiceCommand,
    ServiceId,
    ServiceState,
)

SHOULD_RUN: Mapping[ServiceState, bool] = {
    ServiceState.REQUEST_START: True,
    ServiceState.REQUEST_START_BALANCE: True,
    ServiceState.STARTED: True,
    ServiceState.REQUEST_STOP: False,
    ServiceState.STOPPED: False,
}
RECOVER = "recover"
ABSENT = TimelinePoint(0, None, should_run=False)


@dataclass(frozen=True, slots=True)
class ServiceMove:
    """Arrival of a service on another node.

    Attributes:
        time: Time of the arrival, in seconds.
        service: The service.
        source: Previous node.
        target: New node.
        how: migrate, relocate or recover.
    """

    time: int
    service: ServiceId
    source: NodeId
    target: NodeId
    how: str


@dataclass(frozen=True, slots=True)
class NodeStatePoint:
    """State of a node in the manager status from a time on."""

    time: int
    state: PveNodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillHistory:
    """History of all services and nodes.

    Attributes:
        ended_at: End of the drill, in seconds.
        settled_at: Time of the last event.
        timelines: Timeline of each service.
        moves: Moves, in order.
        fencings: Times at which each node was fenced.
        node_states: States of each node in the manager status, in order of time.
        starts: Times at which each service was started.
        unrecovered: Services without an allowed node at some time.
    """

    ended_at: int
    settled_at: int
    timelines: Mapping[ServiceId, ServiceTimeline]
    moves: tuple[ServiceMove, ...]
    fencings: Mapping[NodeId, tuple[int, ...]]
    node_states: Mapping[NodeId, tuple[NodeStatePoint, ...]]
    starts: Mapping[ServiceId, tuple[int, ...]]
    unrecovered: frozenset[ServiceId]

    def timeline_of(self, service: ServiceId) -> ServiceTimeline:
        """Return the timeline of *service*; one without activity if it is unknown."""
        return self.timelines.get(service, ServiceTimeline((ABSENT,)))


def read_history(drill: Drill) -> DrillHistory:
    """Return the history of *drill*."""
    reader = DrillHistoryReader(drill.scenario)
    reader.read(drill.entries)
    return reader.history()


class DrillHistoryReader:
    """Incremental reader of a log.

    Args:
        scenario: Initial state.
    """

    def __init__(self, scenario: DrillScenario) -> None:
        running = scenario.running.items()
        at = {service: node for node, services in running for service in services}
        self._timelines = {
            service: ServiceTimeline(
                (
                    TimelinePoint(
                        0, at.get(service), _should_run(service, at, config.state)
                    ),
                )
            )
            for service, config in scenario.services.items()
        }
        self._residents: dict[NodeId, set[ServiceId]] = {
            node: set(services) for node, services in running
        }
        self._moves: list[ServiceMove] = []
        self._fencings: dict[NodeId, list[int]] = {}
        self._nodes: dict[NodeId, list[NodeStatePoint]] = {}
        self._starts: dict[ServiceId, list[int]] = {}
        self._unrecovered: set[ServiceId] = set()
        self._entry: DrillLogEntry
        self._rest = self._end = 0

    def copy(self) -> Self:
        """Return an independent reader with the same history."""
        copied = copy(self)
        vars(copied).update(
            _timelines=dict(self._timelines),
            _residents={node: set(here) for node, here in self._residents.items()},
            _moves=list(self._moves),
            _fencings={node: list(times) for node, times in self._fencings.items()},
            _nodes={node: list(marks) for node, marks in self._nodes.items()},
            _starts={name: list(times) for name, times in self._starts.items()},
            _unrecovered=set(self._unrecovered),
        )
        return copied

    def read(self, entries: Iterable[DrillLogEntry]) -> None:
        """Read further log entries."""
        for entry in entries:
            self._entry = entry
            self._end = max(self._end, entry.time)
            if not isinstance(entry.event, DrillFinished):
                self._rest = max(self._rest, entry.time)
            self._note(entry.event)

    def history(self) -> DrillHistory:
        """Return the history so far."""
        return DrillHistory(
            ended_at=self._end,
            settled_at=self._rest,
            timelines=dict(self._timelines),
            moves=tuple(self._moves),
            fencings={name: tuple(times) for name, times in self._fencings.items()},
            node_states={name: tuple(marks) for name, marks in self._nodes.items()},
            starts={name: tuple(times) for name, times in self._starts.items()},
            unrecovered=frozenset(self._unrecovered),
        )

    @singledispatchmethod
    def _note(self, event: LogEvent) -> None:
        """Ignore events without effect on the history."""

    @_note.register
    def _(self, event: CommandExecuted) -> None:
        match event.command.split():
            case ["power", node, "off"]:
                for service in sorted(self._residents.get(NodeId(node), ())):
                    self._set_stopped(service)
            case ["service", service, "crash"]:
                self._set_stopped(ServiceId(service))
            case ["service", service, "add", node, _, running] if running != "0":
                self._set_running(ServiceId(service), NodeId(node))

    @_note.register
    def _(self, event: log_events.ServiceStarted) -> None:
        self._starts.setdefault(event.service, []).append(self._entry.time)
        self._set_running(event.service, self._reporting_node)

    @_note.register(log_events.ServiceStopped)
    @_note.register(log_events.ServiceStartFailed)
    def _(
        self, event: log_events.ServiceStopped | log_events.ServiceStartFailed
    ) -> None:
        self._set_stopped(event.service)

    @_note.register
    def _(self, event: log_events.ServiceMoveFinished) -> None:
        live = (
            event.command is ServiceCommand.MIGRATE
            and self._last_point(event.service).node
        )
        # A live migration keeps the guest running; the simulated LRM of the
        # target starts it again.
        self._set_running(event.service, event.target if live else None)
        self._move(event.service, self._reporting_node, event.target, event.command)

    @_note.register
    def _(self, event: log_events.ServiceRecovered) -> None:
        self._move(event.service, event.old, event.new, RECOVER)

    @_note.register
    def _(self, event: log_events.RecoveryFailed) -> None:
        self._unrecovered.add(event.service)

    @_note.register
    def _(self, event: log_events.ServiceStateChanged) -> None:
        last = self._last_point(event.service)
        should_run = SHOULD_RUN.get(event.new, last.should_run)
        stopped = event.new is ServiceState.STOPPED
        node = None if stopped else last.node
        self._add_point(
            event.service,
            replace(last, node=node, should_run=should_run, state=event.new),
        )

    @_note.register
    def _(self, event: log_events.ServiceFrozen) -> None:
        last = self._last_point(event.service)
        self._add_point(event.service, replace(last, state=ServiceState.FREEZE))

    @_note.register
    def _(self, event: log_events.ServiceRemoved) -> None:
        last = self._last_point(event.service)
        self._add_point(event.service, replace(last, should_run=False, state=None))

    @_note.register
    def _(self, event: log_events.NodeStateChanged) -> None:
        point = NodeStatePoint(self._entry.time, event.new)
        self._nodes.setdefault(event.node, []).append(point)

    @_note.register
    def _(self, event: log_events.FencingSucceeded) -> None:
        self._fencings.setdefault(event.node, []).append(self._entry.time)

    @property
    def _reporting_node(self) -> NodeId:
        return NodeId(self._entry.source.partition("/")[0])

    def _move(
        self, service: ServiceId, source: NodeId, target: NodeId, how: str
    ) -> None:
        self._moves.append(ServiceMove(self._entry.time, service, source, target, how))

    def _set_stopped(self, service: ServiceId) -> None:
        self._set_running(service, None)

    def _set_running(self, service: ServiceId, node: NodeId | None) -> None:
        self._add_point(service, replace(self._last_point(service), node=node))

    def _last_point(self, service: ServiceId) -> TimelinePoint:
        return self._timelines.setdefault(service, ServiceTimeline((ABSENT,))).last

    def _add_point(self, service: ServiceId, point: TimelinePoint) -> None:
        timeline = self._timelines[service]
        last = timeline.last
        if last.node is not None:
            self._residents[last.node].discard(service)
        if point.node is not None:
            self._residents.setdefault(point.node, set()).add(service)
        # The clock of a killed process may be slightly behind.
        dated = replace(point, time=max(last.time, self._entry.time))
        self._timelines[service] = ServiceTimeline((*timeline.points, dated))


def _should_run(
    service: ServiceId, running: Mapping[ServiceId, NodeId], state: str
) -> bool:
    return service in running and state == RequestedState.STARTED
