"""Log events of services that start, stop and move."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.log_events.base import LogEvent, LogLines, error, info, warning
from opendrs.pve_ha.states import ServiceCommand, ServiceId


@dataclass(frozen=True, slots=True)
class ServiceTypeUnknown(LogEvent):
    """Nobody knows how to run such a service."""

    kind: str


@dataclass(frozen=True, slots=True)
class ServiceNotConfigured(LogEvent):
    """A job is about a service that does not exist."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceNeedsIntervention(LogEvent):
    """A service is in error, and stays there."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceOnOtherNode(LogEvent):
    """A service is on another node."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStarting(LogEvent):
    """A service starts."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStarted(LogEvent):
    """A service has started."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStartFailed(LogEvent):
    """A service has not started."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStopping(LogEvent):
    """A service stops."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStoppingWithTimeout(LogEvent):
    """A service stops within some time."""

    service: ServiceId
    timeout: int


@dataclass(frozen=True, slots=True)
class ServiceStoppingToRelocate(LogEvent):
    """A service stops, to start elsewhere."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStopped(LogEvent):
    """A service has stopped."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStillRunning(LogEvent):
    """A service has not stopped."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceAlreadyRunning(LogEvent):
    """A service that was to be placed at its start runs."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class LiveMigrationUnsupported(LogEvent):
    """A running container cannot migrate."""


@dataclass(frozen=True, slots=True)
class ServiceMoveStarted(LogEvent):
    """A service moves."""

    service: ServiceId
    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class ServiceMoveFinished(LogEvent):
    """A service has moved."""

    service: ServiceId
    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class ServiceMoveFailed(LogEvent):
    """A service has not moved."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceLocked(LogEvent):
    """A lock on a service forbids what was to be done."""

    service: ServiceId
    lock: str
    operation: str


@dataclass(frozen=True, slots=True)
class JobCommandUnknown(LogEvent):
    """A job asks for something that does not exist."""

    command: str


JOB_LINES: LogLines = {
    ServiceTypeUnknown: error("service type '{0.kind}' not implemented"),
    ServiceNotConfigured: error("missing resource configuration for '{0.service}'"),
    ServiceNeedsIntervention: error(
        "service {0.service} is in an error state and needs manual intervention. "
        "Look up 'ERROR RECOVERY' in the documentation."
    ),
    ServiceOnOtherNode: error("service '{0.service}' not on this node"),
    ServiceStarting: info("starting service {0.service}"),
    ServiceStarted: info("service status {0.service} started"),
    ServiceStartFailed: warning("unable to start service {0.service}"),
    ServiceStopping: info("stopping service {0.service}"),
    ServiceStoppingWithTimeout: info(
        "stopping service {0.service} (timeout={0.timeout})"
    ),
    ServiceStoppingToRelocate: info("stopping service {0.service} (relocate)"),
    ServiceStopped: info("service status {0.service} stopped"),
    ServiceStillRunning: info("unable to stop service {0.service} (still running)"),
    ServiceAlreadyRunning: info(
        "ignoring rebalance-on-start for service {0.service} - already running"
    ),
    LiveMigrationUnsupported: warning(
        "unable to live migrate running container, fallback to relocate"
    ),
    ServiceMoveStarted: info(
        "service {0.service} - start {0.command} to node '{0.target}'"
    ),
    ServiceMoveFinished: info(
        "service {0.service} - end {0.command} to node '{0.target}'"
    ),
    ServiceMoveFailed: error("service {0.service} not moved (migration error)"),
    ServiceLocked: error(
        "service '{0.service}' locked ({0.lock}), unable to {0.operation}!"
    ),
    JobCommandUnknown: error("implement me (cmd '{0.command}')"),
}
