"""Log events of jobs: services that start, stop and migrate."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.log_events.base import LogEvent, LogLine
from opendrs.pve_ha.states import ServiceCommand, ServiceId


@dataclass(frozen=True, slots=True)
class ServiceTypeUnknown(LogEvent):
    """The type of a service is not supported."""

    log_line = LogLine.error("service type '{0.kind}' not implemented")

    kind: str


@dataclass(frozen=True, slots=True)
class ServiceNotConfigured(LogEvent):
    """The service of a job is not configured."""

    log_line = LogLine.error("missing resource configuration for '{0.service}'")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceNeedsIntervention(LogEvent):
    """A service is in the error state."""

    log_line = LogLine.error(
        "service {0.service} is in an error state and needs manual intervention. "
        "Look up 'ERROR RECOVERY' in the documentation."
    )

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceOnOtherNode(LogEvent):
    """A service is on another node."""

    log_line = LogLine.error("service '{0.service}' not on this node")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStarting(LogEvent):
    """A service is starting."""

    log_line = LogLine.info("starting service {0.service}")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStarted(LogEvent):
    """A service has started."""

    log_line = LogLine.info("service status {0.service} started")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStartFailed(LogEvent):
    """A service failed to start."""

    log_line = LogLine.warning("unable to start service {0.service}")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStopping(LogEvent):
    """A service is stopping."""

    log_line = LogLine.info("stopping service {0.service}")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStoppingWithTimeout(LogEvent):
    """A service is stopping with a timeout, in seconds."""

    log_line = LogLine.info("stopping service {0.service} (timeout={0.timeout})")

    service: ServiceId
    timeout: int


@dataclass(frozen=True, slots=True)
class ServiceStoppingToRelocate(LogEvent):
    """A service is stopping for a relocation."""

    log_line = LogLine.info("stopping service {0.service} (relocate)")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStopped(LogEvent):
    """A service has stopped."""

    log_line = LogLine.info("service status {0.service} stopped")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceStillRunning(LogEvent):
    """A service failed to stop."""

    log_line = LogLine.info("unable to stop service {0.service} (still running)")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceAlreadyRunning(LogEvent):
    """A service selected for placement at its start already runs."""

    log_line = LogLine.info(
        "ignoring rebalance-on-start for service {0.service} - already running"
    )

    service: ServiceId


@dataclass(frozen=True, slots=True)
class LiveMigrationUnsupported(LogEvent):
    """A running container cannot migrate live."""

    log_line = LogLine.warning(
        "unable to live migrate running container, fallback to relocate"
    )


@dataclass(frozen=True, slots=True)
class ServiceMoveStarted(LogEvent):
    """A migration or relocation started."""

    log_line = LogLine.info(
        "service {0.service} - start {0.command} to node '{0.target}'"
    )

    service: ServiceId
    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class ServiceMoveFinished(LogEvent):
    """A migration or relocation succeeded."""

    log_line = LogLine.info(
        "service {0.service} - end {0.command} to node '{0.target}'"
    )

    service: ServiceId
    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class ServiceMoveFailed(LogEvent):
    """A migration or relocation failed."""

    log_line = LogLine.error("service {0.service} not moved (migration error)")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ServiceLocked(LogEvent):
    """The lock of a service prevents an operation."""

    log_line = LogLine.error(
        "service '{0.service}' locked ({0.lock}), unable to {0.operation}!"
    )

    service: ServiceId
    lock: str
    operation: str


@dataclass(frozen=True, slots=True)
class JobCommandUnknown(LogEvent):
    """The command of a job is unknown."""

    log_line = LogLine.error("implement me (cmd '{0.command}')")

    command: str
