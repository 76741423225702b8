"""Log events of the LRM of a node."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.pve_ha.log_events.base import LogEvent, LogLine
from opendrs.pve_ha.states import ServiceId


@dataclass(frozen=True, slots=True)
class LrmStatusUnwritable(LogEvent):
    """The LRM failed to write its status."""

    log_line = LogLine.error("unable to write lrm status file - {0.error}")

    error: str


@dataclass(frozen=True, slots=True)
class LrmStatusNotUpdated(LogEvent):
    """The LRM failed to write its status at a shutdown."""

    log_line = LogLine.error("unable to update lrm status file - not quorate?")


@dataclass(frozen=True, slots=True)
class ServiceStatusNotUpdated(LogEvent):
    """The LRM failed to read the manager status."""

    log_line = LogLine.error("updating service status from manager failed: {0.error}")

    error: str


@dataclass(frozen=True, slots=True)
class ShutdownRequested(LogEvent):
    """A shutdown of the node was requested."""

    log_line = LogLine.info("got shutdown request with shutdown policy '{0.policy}'")

    policy: str


@dataclass(frozen=True, slots=True)
class ShutdownPolicyUnknown(LogEvent):
    """The shutdown policy is unknown."""

    log_line = LogLine.error(
        "unknown shutdown policy '{0.policy}', fall back to conditional"
    )

    policy: str


@dataclass(frozen=True, slots=True)
class MaintenanceContinued(LogEvent):
    """The policy migrate has no effect because the node is in maintenance."""

    log_line = LogLine.info(
        "{0.kind} LRM, ignore maintenance policy, already in maintenance mode"
    )

    kind: str


@dataclass(frozen=True, slots=True)
class ShutdownPolicyIgnored(LogEvent):
    """The policy is ignored because maintenance was requested manually."""

    log_line = LogLine.info(
        "{0.kind} LRM, ignore {0.policy} policy as manual maintenance mode is enabled"
    )

    kind: str
    policy: str


@dataclass(frozen=True, slots=True)
class NodeDrainStarted(LogEvent):
    """The node is drained before its shutdown."""

    log_line = LogLine.info(
        "{0.kind} LRM, doing maintenance, removing this node from active list"
    )

    kind: str


@dataclass(frozen=True, slots=True)
class ServicesFrozen(LogEvent):
    """Services stop and are frozen."""

    log_line = LogLine.info("{0.kind} LRM, stop and freeze all services")

    kind: str


@dataclass(frozen=True, slots=True)
class ServicesStopped(LogEvent):
    """Services stop and may be recovered on other nodes."""

    log_line = LogLine.info("shutdown LRM, stop all services")


@dataclass(frozen=True, slots=True)
class LrmRestartedInMaintenance(LogEvent):
    """The LRM restarts during maintenance."""

    log_line = LogLine.corrupted(
        "Restarting LRM in maintenance mode may be delayed until all services are moved"
    )


@dataclass(frozen=True, slots=True)
class LrmRestarted(LogEvent):
    """The LRM restarts; services are frozen and keep running."""

    log_line = LogLine.info("restart LRM, freeze all services")


@dataclass(frozen=True, slots=True)
class FencingRequired(LogEvent):
    """The node must be fenced; the LRM releases its lock."""

    log_line = LogLine.error("node needs to be fenced - releasing agent_lock")


@dataclass(frozen=True, slots=True)
class FencingRequiredInMaintenance(LogEvent):
    """A node in maintenance must be fenced; the LRM releases its lock."""

    log_line = LogLine.error(
        "node needs to be fenced during maintenance mode - releasing agent_lock"
    )


@dataclass(frozen=True, slots=True)
class LrmDisarmed(LogEvent):
    """The LRM released its lock and watchdog."""

    log_line = LogLine.info("HA disarm requested, releasing agent lock and watchdog")


@dataclass(frozen=True, slots=True)
class LrmDisarmedInMaintenance(LogEvent):
    """The LRM released its lock and watchdog during maintenance."""

    log_line = LogLine.info(
        "HA disarm requested during maintenance, releasing agent lock and watchdog"
    )


@dataclass(frozen=True, slots=True)
class LrmIdle(LogEvent):
    """The LRM became idle because no service needs it."""

    log_line = LogLine.info(
        "node had no service configured for {0.rounds} rounds, going idle."
    )

    rounds: int


@dataclass(frozen=True, slots=True)
class ShutdownWithServices(LogEvent):
    """The node shuts down without the lock, and services may be running."""

    log_line = LogLine.error(
        "got shutdown request in state 'lost_agent_lock' - detected {0.services} "
        "running services"
    )

    services: int


@dataclass(frozen=True, slots=True)
class ShutdownForced(LogEvent):
    """The LRM restarts without its lock."""

    log_line = LogLine.error(
        "lost agent lock and restart request for over {0.seconds} seconds - giving up!"
    )

    seconds: int


@dataclass(frozen=True, slots=True)
class RetriesExhausted(LogEvent):
    """All retries to start a service on this node failed."""

    log_line = LogLine.error(
        "unable to start service {0.service} on local node after {0.tries} retries"
    )

    service: ServiceId
    tries: int


@dataclass(frozen=True, slots=True)
class StartRetried(LogEvent):
    """A service failed to start and is retried."""

    log_line = LogLine.warning(
        "restart policy: retry number {0.tries} for service '{0.service}'"
    )

    service: ServiceId
    tries: int


@dataclass(frozen=True, slots=True)
class JobFailed(LogEvent):
    """A job failed with an unexpected error."""

    log_line = LogLine.error("{0.error}")

    error: str


@dataclass(frozen=True, slots=True)
class JobCrashed(LogEvent):
    """A job ended without a result."""

    log_line = LogLine.error("resource agent {0.service} finished - failed to execute")

    service: ServiceId
