"""What is said while services start, stop and move."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.events.event import Event
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.states import Task
from opendrs.model import NodeId


@dataclass(frozen=True, slots=True)
class TypeUnknown(Event):
    """Nobody knows how to run such a service."""

    kind: str


@dataclass(frozen=True, slots=True)
class NotConfigured(Event):
    """A job is about a service that does not exist."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class NeedsOperator(Event):
    """A service is in error, and stays there."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class NotHere(Event):
    """A service is on another node."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class Starting(Event):
    """A service starts."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class Started(Event):
    """A service has started."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class NotStarted(Event):
    """A service has not started."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class Stopping(Event):
    """A service stops."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class StoppingWithin(Event):
    """A service stops within some time."""

    service: ServiceId
    timeout: int


@dataclass(frozen=True, slots=True)
class StoppingToRelocate(Event):
    """A service stops, to start elsewhere."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class Stopped(Event):
    """A service has stopped."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class NotStopped(Event):
    """A service has not stopped."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class RunsAlready(Event):
    """A service that was to be placed at its start runs."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class NotLive(Event):
    """A running container cannot migrate."""


@dataclass(frozen=True, slots=True)
class MoveBegun(Event):
    """A service moves."""

    service: ServiceId
    task: Task
    target: NodeId


@dataclass(frozen=True, slots=True)
class MoveEnded(Event):
    """A service has moved."""

    service: ServiceId
    task: Task
    target: NodeId


@dataclass(frozen=True, slots=True)
class NotMoved(Event):
    """A service has not moved."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceLocked(Event):
    """A lock on a service forbids what was to be done."""

    service: ServiceId
    lock: str
    act: str


@dataclass(frozen=True, slots=True)
class CommandUnknown(Event):
    """A job asks for something that does not exist."""

    command: str
