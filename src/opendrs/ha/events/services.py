"""What the manager says of one service."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.events.event import Event
from opendrs.ha.identifiers import Names, ServiceId
from opendrs.ha.states import Choice, Task
from opendrs.model import NodeId


@dataclass(frozen=True, slots=True)
class StartPlaced(Event):
    """A node was chosen for a start."""

    service: ServiceId
    choice: Choice
    nodes: Names


@dataclass(frozen=True, slots=True)
class StateUnknown(Event):
    """The configuration asks for a state that does not exist."""

    service: ServiceId
    state: str


@dataclass(frozen=True, slots=True)
class TargetOffline(Event):
    """A service cannot go to a node that is not online."""

    service: ServiceId
    task: Task
    target: NodeId


@dataclass(frozen=True, slots=True)
class TargetReached(Event):
    """A service is where it is to go."""

    service: ServiceId
    task: Task
    target: NodeId


@dataclass(frozen=True, slots=True)
class MotionBegun(Event):
    """A queued motion begins."""

    service: ServiceId
    task: Task
    target: NodeId


@dataclass(frozen=True, slots=True)
class HardStopAsked(Event):
    """A service is to stop at once."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class GracefulStopAsked(Event):
    """A service is to stop within some time."""

    service: ServiceId
    timeout: int


@dataclass(frozen=True, slots=True)
class StopNeedless(Event):
    """A service that is to stop has stopped."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class RelocationSucceeded(Event):
    """A service started after failures elsewhere."""

    service: ServiceId
    node: NodeId
    failed: Names


@dataclass(frozen=True, slots=True)
class StartFailed(Event):
    """A service could not start and tries another node."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class RelocationFailed(Event):
    """A service could not start anywhere."""

    service: ServiceId
    failed: Names


@dataclass(frozen=True, slots=True)
class ServiceBroken(Event):
    """A service failed in a way nothing can be done about."""

    service: ServiceId
    code: int


@dataclass(frozen=True, slots=True)
class ServiceReturns(Event):
    """A service goes back to a node that ended its maintenance."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class ReturnDropped(Event):
    """A service does not go back to the node it left."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class ReturnNeedless(Event):
    """A service is on the node it was to go back to."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class MigrationChosen(Event):
    """A running guest migrates to a better node."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class RelocationChosen(Event):
    """A service relocates to a better node."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class NodesExhausted(Event):
    """Every node was tried, so the current one is tried again."""

    service: ServiceId
    failed: Names


@dataclass(frozen=True, slots=True)
class StopFailed(Event):
    """A service could not be stopped."""

    service: ServiceId
    code: int


@dataclass(frozen=True, slots=True)
class WrongNode(Event):
    """A service is not where it should have been moved from."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class PlacedStartNeedless(Event):
    """A service that was to be placed at its start runs."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class MotionFailed(Event):
    """A service could not be moved."""

    service: ServiceId
    code: int


@dataclass(frozen=True, slots=True)
class LocationCorrected(Event):
    """A stopped service was moved by others."""

    service: ServiceId
    old: NodeId
    new: NodeId


@dataclass(frozen=True, slots=True)
class Recovered(Event):
    """A service of a fenced node gets another one."""

    service: ServiceId
    old: NodeId
    new: NodeId


@dataclass(frozen=True, slots=True)
class RecoveredInPlace(Event):
    """A service gets its fenced node again."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class LockRemoved(Event):
    """A lock that a dead node left was removed."""

    lock: str
    service: ServiceId


@dataclass(frozen=True, slots=True)
class NotRecovered(Event):
    """No node may run the service of a fenced one."""

    service: ServiceId
    node: NodeId
