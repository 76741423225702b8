"""What the manager says about what the operator asks for."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.events.event import Event
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.states import NodeState, ServiceState, Task
from opendrs.model import NodeId


@dataclass(frozen=True, slots=True)
class RequestTaken(Event):
    """A request was understood."""

    line: str


@dataclass(frozen=True, slots=True)
class RequestUnknown(Event):
    """A request has no meaning."""

    line: str


@dataclass(frozen=True, slots=True)
class NoSuchService(Event):
    """A request names a service that is not managed."""

    line: str


@dataclass(frozen=True, slots=True)
class NodeNotOnline(Event):
    """A request names a node that is not online."""

    line: str


@dataclass(frozen=True, slots=True)
class AlreadyThere(Event):
    """A service is where the request would have it."""

    line: str


@dataclass(frozen=True, slots=True)
class KeptApart(Event):
    """A motion would bring services together that must be apart."""

    line: str
    other: ServiceId
    target: NodeId
    service: ServiceId


@dataclass(frozen=True, slots=True)
class DraggedAlong(Event):
    """A service follows one it must be together with."""

    line: str
    task: Task
    other: ServiceId
    target: NodeId
    service: ServiceId


@dataclass(frozen=True, slots=True)
class MaintenanceRefused(Event):
    """No maintenance can begin while disarmed."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class MaintenanceNeedless(Event):
    """The node is in maintenance."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class MaintenanceNotBegun(Event):
    """The end of a maintenance was asked for that is none."""

    node: NodeId
    state: NodeState


@dataclass(frozen=True, slots=True)
class DisarmNeedless(Event):
    """Disarming was asked for twice."""

    state: str


@dataclass(frozen=True, slots=True)
class TrackingSuspended(Event):
    """A service is on its own while disarmed."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ArmNeedless(Event):
    """Arming was asked for, and nothing is disarmed."""


@dataclass(frozen=True, slots=True)
class MovedWhileDisarmed(Event):
    """A service is on another node than before."""

    service: ServiceId
    old: NodeId
    new: NodeId


@dataclass(frozen=True, slots=True)
class DisarmModeUnknown(Event):
    """The way to disarm has no meaning."""

    mode: str


@dataclass(frozen=True, slots=True)
class DisarmDeferred(Event):
    """A service must come to rest before all is disarmed."""

    service: ServiceId
    state: ServiceState


@dataclass(frozen=True, slots=True)
class DisarmDelayed(Event):
    """A service must end its move before all is disarmed."""

    service: ServiceId
    state: ServiceState


@dataclass(frozen=True, slots=True)
class Frozen(Event):
    """A service is left as it is while disarmed."""

    service: ServiceId
    state: ServiceState


@dataclass(frozen=True, slots=True)
class AllDisarmed(Event):
    """Every agent has disarmed."""
