"""What became of each service and each node, from what was told in a drill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import Self

from opendrs.ha import events
from opendrs.ha.events import Event
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.states import NodeState, Requested, ServiceState, Task
from opendrs.model import NodeId
from opendrs.sim.drill.happenings import DrillEnded, Executed
from opendrs.sim.drill.lives import Life, Mark
from opendrs.sim.drill.log import Entry
from opendrs.sim.drill.running import Drill
from opendrs.sim.drill.scenario import Scenario

WANTED: Mapping[ServiceState, bool] = {
    ServiceState.REQUEST_START: True,
    ServiceState.REQUEST_START_BALANCE: True,
    ServiceState.STARTED: True,
    ServiceState.REQUEST_STOP: False,
    ServiceState.STOPPED: False,
}
RECOVER = "recover"
ABSENT = Mark(0, None, wanted=False)


@dataclass(frozen=True, slots=True)
class Move:
    """A service that got to another node.

    Attributes:
        time: When it arrived, in seconds.
        service: The service.
        source: Where it was.
        target: Where it is.
        how: migrate, relocate or recover.
    """

    time: int
    service: ServiceId
    source: NodeId
    target: NodeId
    how: str


@dataclass(frozen=True, slots=True)
class NodeMark:
    """What the manager thinks of a node from a time on."""

    time: int
    state: NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What became of everything.

    Attributes:
        end: When the drill ended, in seconds.
        rest: When the last thing happened.
        lives: What became of each service.
        moves: The moves, in order.
        fencings: The times at which each node was fenced.
        nodes: What the manager thought of each node, in order of time.
        starts: The times at which each service was started.
        unrecovered: Services for which there was no node, at some time.
    """

    end: int
    rest: int
    lives: Mapping[ServiceId, Life]
    moves: tuple[Move, ...]
    fencings: Mapping[NodeId, tuple[int, ...]]
    nodes: Mapping[NodeId, tuple[NodeMark, ...]]
    starts: Mapping[ServiceId, tuple[int, ...]]
    unrecovered: frozenset[ServiceId]

    def life(self, service: ServiceId) -> Life:
        """Return what became of *service*; it did nothing if it never was there."""
        return self.lives.get(service, Life((ABSENT,)))


def history_of(drill: Drill) -> History:
    """Return what became of everything in *drill*."""
    reader = HistoryReader(drill.scenario)
    reader.read(drill.entries)
    return reader.history()


class HistoryReader:
    """Reads a log, all at once or piece by piece.

    Args:
        scenario: How everything was in the beginning.
    """

    def __init__(self, scenario: Scenario) -> None:
        running = scenario.running.items()
        at = {service: node for node, services in running for service in services}
        self._lives = {
            service: Life(
                (Mark(0, at.get(service), _is_wanted(service, at, config.state)),)
            )
            for service, config in scenario.services.items()
        }
        self._residents: dict[NodeId, set[ServiceId]] = {
            node: set(services) for node, services in running
        }
        self._moves: list[Move] = []
        self._fencings: dict[NodeId, list[int]] = {}
        self._nodes: dict[NodeId, list[NodeMark]] = {}
        self._starts: dict[ServiceId, list[int]] = {}
        self._unrecovered: set[ServiceId] = set()
        self._entry: Entry
        self._rest = self._end = 0

    def copy(self) -> Self:
        """Return a reader that has read the same and reads on by itself."""
        made = copy(self)
        vars(made).update(
            _lives=dict(self._lives),
            _residents={node: set(here) for node, here in self._residents.items()},
            _moves=list(self._moves),
            _fencings={node: list(times) for node, times in self._fencings.items()},
            _nodes={node: list(marks) for node, marks in self._nodes.items()},
            _starts={name: list(times) for name, times in self._starts.items()},
            _unrecovered=set(self._unrecovered),
        )
        return made

    def read(self, entries: Iterable[Entry]) -> None:
        """Read more of the log."""
        for entry in entries:
            self._entry = entry
            self._end = max(self._end, entry.time)
            if not isinstance(entry.event, DrillEnded):
                self._rest = max(self._rest, entry.time)
            self._note(entry.event)

    def history(self) -> History:
        """Return what was read."""
        return History(
            end=self._end,
            rest=self._rest,
            lives=dict(self._lives),
            moves=tuple(self._moves),
            fencings={name: tuple(times) for name, times in self._fencings.items()},
            nodes={name: tuple(marks) for name, marks in self._nodes.items()},
            starts={name: tuple(times) for name, times in self._starts.items()},
            unrecovered=frozenset(self._unrecovered),
        )

    @singledispatchmethod
    def _note(self, event: Event) -> None:
        """Pass over what changes nothing here."""

    @_note.register
    def _(self, event: Executed) -> None:
        match event.command.split():
            case ["power", node, "off"]:
                for service in sorted(self._residents.get(NodeId(node), ())):
                    self._stands_still(service)
            case ["service", service, "crash"]:
                self._stands_still(ServiceId(service))
            case ["service", service, "add", node, _, running] if running != "0":
                self._runs(ServiceId(service), NodeId(node))

    @_note.register
    def _(self, event: events.Started) -> None:
        self._starts.setdefault(event.service, []).append(self._entry.time)
        self._runs(event.service, self._here)

    @_note.register(events.Stopped)
    @_note.register(events.NotStarted)
    def _(self, event: events.Stopped | events.NotStarted) -> None:
        self._stands_still(event.service)

    @_note.register
    def _(self, event: events.MoveEnded) -> None:
        live = event.task is Task.MIGRATE and self._last(event.service).node
        # A guest that migrates live runs on; the simulated agents start it anew.
        self._runs(event.service, event.target if live else None)
        self._move(event.service, self._here, event.target, event.task)

    @_note.register
    def _(self, event: events.Recovered) -> None:
        self._move(event.service, event.old, event.new, RECOVER)

    @_note.register
    def _(self, event: events.NotRecovered) -> None:
        self._unrecovered.add(event.service)

    @_note.register
    def _(self, event: events.ServiceStateChanged) -> None:
        last = self._last(event.service)
        wanted = WANTED.get(event.new, last.wanted)
        stopped = event.new is ServiceState.STOPPED
        node = None if stopped else last.node
        self._mark(
            event.service, replace(last, node=node, wanted=wanted, state=event.new)
        )

    @_note.register
    def _(self, event: events.Frozen) -> None:
        last = self._last(event.service)
        self._mark(event.service, replace(last, state=ServiceState.FREEZE))

    @_note.register
    def _(self, event: events.ServiceRemoved) -> None:
        last = self._last(event.service)
        self._mark(event.service, replace(last, wanted=False, state=None))

    @_note.register
    def _(self, event: events.NodeStateChanged) -> None:
        mark = NodeMark(self._entry.time, event.new)
        self._nodes.setdefault(event.node, []).append(mark)

    @_note.register
    def _(self, event: events.FencingSucceeded) -> None:
        self._fencings.setdefault(event.node, []).append(self._entry.time)

    @property
    def _here(self) -> NodeId:
        return NodeId(self._entry.source.partition("/")[0])

    def _move(
        self, service: ServiceId, source: NodeId, target: NodeId, how: str
    ) -> None:
        self._moves.append(Move(self._entry.time, service, source, target, how))

    def _stands_still(self, service: ServiceId) -> None:
        self._runs(service, None)

    def _runs(self, service: ServiceId, node: NodeId | None) -> None:
        self._mark(service, replace(self._last(service), node=node))

    def _last(self, service: ServiceId) -> Mark:
        return self._lives.setdefault(service, Life((ABSENT,))).last

    def _mark(self, service: ServiceId, mark: Mark) -> None:
        life = self._lives[service]
        last = life.last
        if last.node is not None:
            self._residents[last.node].discard(service)
        if mark.node is not None:
            self._residents.setdefault(mark.node, set()).add(service)
        # A killed process tells its end by a clock that is a little behind.
        told = replace(mark, time=max(last.time, self._entry.time))
        self._lives[service] = Life((*life.marks, told))


def _is_wanted(
    service: ServiceId, running: Mapping[ServiceId, NodeId], state: str
) -> bool:
    return service in running and state == Requested.STARTED
