"""Log events of the manager about commands of the operator."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.log_events.base import LogEvent, LogLine
from opendrs.pve_ha.states import PveNodeState, ServiceCommand, ServiceId, ServiceState


@dataclass(frozen=True, slots=True)
class CrmCommandReceived(LogEvent):
    """A command was accepted."""

    log_line = LogLine.info("got crm command: {0.line}")

    line: str


@dataclass(frozen=True, slots=True)
class CrmCommandUnknown(LogEvent):
    """A command is unknown."""

    log_line = LogLine.error("unable to parse crm command: {0.line}")

    line: str


@dataclass(frozen=True, slots=True)
class NoSuchService(LogEvent):
    """A command names a service that is not managed."""

    log_line = LogLine.error("crm command error - no such service: {0.line}")

    line: str


@dataclass(frozen=True, slots=True)
class NodeNotOnline(LogEvent):
    """A command names a node that is not online."""

    log_line = LogLine.error("crm command error - node not online: {0.line}")

    line: str


@dataclass(frozen=True, slots=True)
class CrmCommandRedundant(LogEvent):
    """The service of a command already is on the target."""

    log_line = LogLine.info(
        "ignore crm command - service already on target node: {0.line}"
    )

    line: str


@dataclass(frozen=True, slots=True)
class AntiAffinityConflict(LogEvent):
    """The target of a motion holds a service with negative affinity."""

    log_line = LogLine.error(
        "crm command '{0.line}' error - service '{0.other}' on node '{0.target}' "
        "in negative affinity with service '{0.service}'"
    )

    line: str
    other: ServiceId
    target: NodeId
    service: ServiceId


@dataclass(frozen=True, slots=True)
class AffinityMoveQueued(LogEvent):
    """A motion was queued for a service with positive affinity."""

    log_line = LogLine.info(
        "crm command '{0.line}' - {0.command} service '{0.other}' to node "
        "'{0.target}' (service '{0.other}' in positive affinity with service "
        "'{0.service}')"
    )

    line: str
    command: ServiceCommand
    other: ServiceId
    target: NodeId
    service: ServiceId


@dataclass(frozen=True, slots=True)
class MaintenanceRejected(LogEvent):
    """Maintenance was rejected because the HA stack is disarmed."""

    log_line = LogLine.warning(
        "ignoring maintenance command for node {0.node} - HA stack is disarmed"
    )

    node: NodeId


@dataclass(frozen=True, slots=True)
class MaintenanceRedundant(LogEvent):
    """The node already is in maintenance."""

    log_line = LogLine.info(
        "ignoring crm command - node {0.node} is already in maintenance state"
    )

    node: NodeId


@dataclass(frozen=True, slots=True)
class MaintenanceNotActive(LogEvent):
    """The end of maintenance was requested for a node that is not in maintenance."""

    log_line = LogLine.warning(
        "clearing maintenance of node {0.node} requested, but it's in state {0.state}"
    )

    node: NodeId
    state: PveNodeState


@dataclass(frozen=True, slots=True)
class DisarmRedundant(LogEvent):
    """Disarming was requested again."""

    log_line = LogLine.notice(
        "ignoring disarm-ha command - already in disarm state ({0.state})"
    )

    state: str


@dataclass(frozen=True, slots=True)
class TrackingSuspended(LogEvent):
    """A service is not tracked while the HA stack is disarmed."""

    log_line = LogLine.info("disarm: suspending HA tracking for service '{0.service}'")

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ArmRedundant(LogEvent):
    """Arming was requested, but the HA stack is armed."""

    log_line = LogLine.notice("ignoring arm-ha command - HA stack is not disarmed")


@dataclass(frozen=True, slots=True)
class MovedWhileDisarmed(LogEvent):
    """A service changed its node while the HA stack was disarmed."""

    log_line = LogLine.info(
        "service '{0.service}': updating node '{0.old}' => '{0.new}' (changed "
        "while disarmed)"
    )

    service: ServiceId
    old: NodeId
    new: NodeId


@dataclass(frozen=True, slots=True)
class DisarmModeUnknown(LogEvent):
    """The disarm mode is unknown."""

    log_line = LogLine.error("unknown disarm-mode '{0.mode}', ignoring")

    mode: str


@dataclass(frozen=True, slots=True)
class DisarmDeferred(LogEvent):
    """Disarming waits for a service that is fenced or recovered."""

    log_line = LogLine.warning(
        "deferring disarm - service '{0.service}' is in '{0.state}' state"
    )

    service: ServiceId
    state: ServiceState


@dataclass(frozen=True, slots=True)
class DisarmDeferredByMove(LogEvent):
    """Disarming waits for the end of a motion."""

    log_line = LogLine.info(
        "deferring disarm - service '{0.service}' is in '{0.state}' state"
    )

    service: ServiceId
    state: ServiceState


@dataclass(frozen=True, slots=True)
class ServiceFrozen(LogEvent):
    """A service was frozen by disarming."""

    log_line = LogLine.info("disarm: freezing service '{0.service}' (was '{0.state}')")

    service: ServiceId
    state: ServiceState


@dataclass(frozen=True, slots=True)
class ClusterDisarmed(LogEvent):
    """All LRMs are disarmed."""

    log_line = LogLine.info("all LRMs disarmed, HA stack is now fully disarmed")
