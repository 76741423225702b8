"""Log events of the LRM of a node."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.pve_ha.log_events.base import (
    LogEvent,
    LogLines,
    corrupted,
    error,
    info,
    warning,
)
from opendrs.pve_ha.states import ServiceId


@dataclass(frozen=True, slots=True)
class LrmStatusUnwritable(LogEvent):
    """The agent could not write its report."""

    error: str


@dataclass(frozen=True, slots=True)
class LrmStatusNotUpdated(LogEvent):
    """The agent could not tell that it shuts down."""


@dataclass(frozen=True, slots=True)
class ServiceStatusNotUpdated(LogEvent):
    """The agent does not know what the manager wants now."""

    error: str


@dataclass(frozen=True, slots=True)
class ShutdownRequested(LogEvent):
    """The node goes down."""

    policy: str


@dataclass(frozen=True, slots=True)
class ShutdownPolicyUnknown(LogEvent):
    """What to do at a shutdown is not known."""

    policy: str


@dataclass(frozen=True, slots=True)
class MaintenanceContinued(LogEvent):
    """The maintenance policy changes nothing."""

    kind: str


@dataclass(frozen=True, slots=True)
class ShutdownPolicyIgnored(LogEvent):
    """A maintenance by hand goes before the policy."""

    kind: str
    policy: str


@dataclass(frozen=True, slots=True)
class NodeDrainStarted(LogEvent):
    """The node is emptied before it goes down."""

    kind: str


@dataclass(frozen=True, slots=True)
class ServicesFrozen(LogEvent):
    """Services stop, and stay where they are."""

    kind: str


@dataclass(frozen=True, slots=True)
class ServicesStopped(LogEvent):
    """Services stop, and may start elsewhere."""


@dataclass(frozen=True, slots=True)
class LrmRestartedInMaintenance(LogEvent):
    """The agent restarts during a maintenance."""


@dataclass(frozen=True, slots=True)
class LrmRestarted(LogEvent):
    """The agent restarts, and services run on."""


@dataclass(frozen=True, slots=True)
class FencingRequired(LogEvent):
    """The node is to be fenced, so the agent gives up."""


@dataclass(frozen=True, slots=True)
class FencingRequiredInMaintenance(LogEvent):
    """A node in maintenance is to be fenced."""


@dataclass(frozen=True, slots=True)
class LrmDisarmed(LogEvent):
    """The agent lets go of lock and watchdog."""


@dataclass(frozen=True, slots=True)
class LrmDisarmedInMaintenance(LogEvent):
    """The agent does so during a maintenance."""


@dataclass(frozen=True, slots=True)
class LrmIdle(LogEvent):
    """No service needs the agent any more."""

    rounds: int


@dataclass(frozen=True, slots=True)
class ShutdownWithServices(LogEvent):
    """The node goes down, and services may run."""

    services: int


@dataclass(frozen=True, slots=True)
class ShutdownForced(LogEvent):
    """The agent restarts without its lock."""

    seconds: int


@dataclass(frozen=True, slots=True)
class RetriesExhausted(LogEvent):
    """A service did not start on this node."""

    service: ServiceId
    tries: int


@dataclass(frozen=True, slots=True)
class StartRetried(LogEvent):
    """A service did not start, and tries again."""

    service: ServiceId
    tries: int


@dataclass(frozen=True, slots=True)
class JobFailed(LogEvent):
    """A job failed in a way nobody foresaw."""

    error: str


@dataclass(frozen=True, slots=True)
class JobCrashed(LogEvent):
    """A job did not come to its end."""

    service: ServiceId


LRM_LINES: LogLines = {
    LrmStatusUnwritable: error("unable to write lrm status file - {0.error}"),
    LrmStatusNotUpdated: error("unable to update lrm status file - not quorate?"),
    ServiceStatusNotUpdated: error(
        "updating service status from manager failed: {0.error}"
    ),
    ShutdownRequested: info("got shutdown request with shutdown policy '{0.policy}'"),
    ShutdownPolicyUnknown: error(
        "unknown shutdown policy '{0.policy}', fall back to conditional"
    ),
    MaintenanceContinued: info(
        "{0.kind} LRM, ignore maintenance policy, already in maintenance mode"
    ),
    ShutdownPolicyIgnored: info(
        "{0.kind} LRM, ignore {0.policy} policy as manual maintenance mode is enabled"
    ),
    NodeDrainStarted: info(
        "{0.kind} LRM, doing maintenance, removing this node from active list"
    ),
    ServicesFrozen: info("{0.kind} LRM, stop and freeze all services"),
    ServicesStopped: info("shutdown LRM, stop all services"),
    LrmRestartedInMaintenance: corrupted(
        "Restarting LRM in maintenance mode may be delayed until all services are moved"
    ),
    LrmRestarted: info("restart LRM, freeze all services"),
    FencingRequired: error("node needs to be fenced - releasing agent_lock"),
    FencingRequiredInMaintenance: error(
        "node needs to be fenced during maintenance mode - releasing agent_lock"
    ),
    LrmDisarmed: info("HA disarm requested, releasing agent lock and watchdog"),
    LrmDisarmedInMaintenance: info(
        "HA disarm requested during maintenance, releasing agent lock and watchdog"
    ),
    LrmIdle: info("node had no service configured for {0.rounds} rounds, going idle."),
    ShutdownWithServices: error(
        "got shutdown request in state 'lost_agent_lock' - detected {0.services} "
        "running services"
    ),
    ShutdownForced: error(
        "lost agent lock and restart request for over {0.seconds} seconds - giving up!"
    ),
    RetriesExhausted: error(
        "unable to start service {0.service} on local node after {0.tries} retries"
    ),
    StartRetried: warning(
        "restart policy: retry number {0.tries} for service '{0.service}'"
    ),
    JobFailed: error("{0.error}"),
    JobCrashed: error("resource agent {0.service} finished - failed to execute"),
}
