"""What the agent of a node says."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.events.event import Event
from opendrs.ha.identifiers import ServiceId


@dataclass(frozen=True, slots=True)
class ReportUnwritable(Event):
    """The agent could not write its report."""

    error: str


@dataclass(frozen=True, slots=True)
class ReportLate(Event):
    """The agent could not tell that it shuts down."""


@dataclass(frozen=True, slots=True)
class StatusNotUpdated(Event):
    """The agent does not know what the manager wants now."""

    error: str


@dataclass(frozen=True, slots=True)
class ShutdownRequested(Event):
    """The node goes down."""

    policy: str


@dataclass(frozen=True, slots=True)
class ShutdownPolicyUnknown(Event):
    """What to do at a shutdown is not known."""

    policy: str


@dataclass(frozen=True, slots=True)
class MaintenanceGoesOn(Event):
    """The maintenance policy changes nothing."""

    kind: str


@dataclass(frozen=True, slots=True)
class PolicyOverruled(Event):
    """A maintenance by hand goes before the policy."""

    kind: str
    policy: str


@dataclass(frozen=True, slots=True)
class NodeEmptied(Event):
    """The node is emptied before it goes down."""

    kind: str


@dataclass(frozen=True, slots=True)
class AllFrozen(Event):
    """Services stop, and stay where they are."""

    kind: str


@dataclass(frozen=True, slots=True)
class AllStopped(Event):
    """Services stop, and may start elsewhere."""


@dataclass(frozen=True, slots=True)
class RestartInMaintenance(Event):
    """The agent restarts during a maintenance."""


@dataclass(frozen=True, slots=True)
class RestartBegun(Event):
    """The agent restarts, and services run on."""


@dataclass(frozen=True, slots=True)
class FencingAwaited(Event):
    """The node is to be fenced, so the agent gives up."""


@dataclass(frozen=True, slots=True)
class FencingAwaitedInMaintenance(Event):
    """A node in maintenance is to be fenced."""


@dataclass(frozen=True, slots=True)
class AgentDisarmed(Event):
    """The agent lets go of lock and watchdog."""


@dataclass(frozen=True, slots=True)
class AgentDisarmedInMaintenance(Event):
    """The agent does so during a maintenance."""


@dataclass(frozen=True, slots=True)
class AgentIdle(Event):
    """No service needs the agent any more."""

    rounds: int


@dataclass(frozen=True, slots=True)
class ShutdownWithServices(Event):
    """The node goes down, and services may run."""

    services: int


@dataclass(frozen=True, slots=True)
class ShutdownForced(Event):
    """The agent restarts without its lock."""

    seconds: int


@dataclass(frozen=True, slots=True)
class RetriesExhausted(Event):
    """A service did not start on this node."""

    service: ServiceId
    tries: int


@dataclass(frozen=True, slots=True)
class StartRetried(Event):
    """A service did not start, and tries again."""

    service: ServiceId
    tries: int


@dataclass(frozen=True, slots=True)
class JobRaised(Event):
    """A job failed in a way nobody foresaw."""

    error: str


@dataclass(frozen=True, slots=True)
class JobCrashed(Event):
    """A job did not come to its end."""

    service: ServiceId
