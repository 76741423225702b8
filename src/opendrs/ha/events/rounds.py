"""What the manager says in its rounds."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.events.event import Event
from opendrs.ha.identifiers import Parameters, ServiceId
from opendrs.ha.states import Removal, ServiceState, Task
from opendrs.model import NodeId


@dataclass(frozen=True, slots=True)
class SchedulerUsed(Event):
    """The way to count usage, at the beginning."""

    mode: str


@dataclass(frozen=True, slots=True)
class SchedulerSwitched(Event):
    """Usage is counted in another way from now on."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class SchedulerUnknown(Event):
    """The way to count usage has no meaning."""

    mode: str


@dataclass(frozen=True, slots=True)
class SchedulerFellBack(Event):
    """Something is not known that counting usage needs."""

    mode: str
    why: str


@dataclass(frozen=True, slots=True)
class ServiceAdded(Event):
    """A service is managed from now on."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class ServiceRemoved(Event):
    """A service is not managed any more."""

    service: ServiceId
    why: Removal


@dataclass(frozen=True, slots=True)
class RuleDropped(Event):
    """A rule cannot be kept and is left out."""

    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class UsageUnknown(Event):
    """A service does not count, since its usage is not known."""

    service: ServiceId
    why: str


@dataclass(frozen=True, slots=True)
class StartsUnscored(Event):
    """Nodes could not be compared for a start."""

    service: ServiceId
    mode: str
    why: str


@dataclass(frozen=True, slots=True)
class MovesUnscored(Event):
    """Moves could not be compared."""

    why: str


@dataclass(frozen=True, slots=True)
class Overcommitted(Event):
    """Something uses more than it has."""

    resource: str
    owner: str


@dataclass(frozen=True, slots=True)
class Rebalanced(Event):
    """A move makes the load more even."""

    task: Task
    service: ServiceId
    target: NodeId
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class ServiceStateChanged(Event):
    """A service passed to another state."""

    service: ServiceId
    old: ServiceState
    new: ServiceState
    parameters: Parameters
