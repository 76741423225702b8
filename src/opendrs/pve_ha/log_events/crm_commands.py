"""Log events of the manager about commands of the operator."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.log_events.base import (
    LogEvent,
    LogLines,
    error,
    info,
    notice,
    warning,
)
from opendrs.pve_ha.states import PveNodeState, ServiceCommand, ServiceId, ServiceState


@dataclass(frozen=True, slots=True)
class CrmCommandReceived(LogEvent):
    """A request was understood."""

    line: str


@dataclass(frozen=True, slots=True)
class CrmCommandUnknown(LogEvent):
    """A request has no meaning."""

    line: str


@dataclass(frozen=True, slots=True)
class NoSuchService(LogEvent):
    """A request names a service that is not managed."""

    line: str


@dataclass(frozen=True, slots=True)
class NodeNotOnline(LogEvent):
    """A request names a node that is not online."""

    line: str


@dataclass(frozen=True, slots=True)
class CrmCommandRedundant(LogEvent):
    """A service is where the request would have it."""

    line: str


@dataclass(frozen=True, slots=True)
class AntiAffinityConflict(LogEvent):
    """A motion would bring services together that must be apart."""

    line: str
    other: ServiceId
    target: NodeId
    service: ServiceId


@dataclass(frozen=True, slots=True)
class AffinityMoveQueued(LogEvent):
    """A service follows one it must be together with."""

    line: str
    command: ServiceCommand
    other: ServiceId
    target: NodeId
    service: ServiceId


@dataclass(frozen=True, slots=True)
class MaintenanceRejected(LogEvent):
    """No maintenance can begin while disarmed."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class MaintenanceRedundant(LogEvent):
    """The node is in maintenance."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class MaintenanceNotActive(LogEvent):
    """The end of a maintenance was asked for that is none."""

    node: NodeId
    state: PveNodeState


@dataclass(frozen=True, slots=True)
class DisarmRedundant(LogEvent):
    """Disarming was asked for twice."""

    state: str


@dataclass(frozen=True, slots=True)
class TrackingSuspended(LogEvent):
    """A service is on its own while disarmed."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class ArmRedundant(LogEvent):
    """Arming was asked for, and nothing is disarmed."""


@dataclass(frozen=True, slots=True)
class MovedWhileDisarmed(LogEvent):
    """A service is on another node than before."""

    service: ServiceId
    old: NodeId
    new: NodeId


@dataclass(frozen=True, slots=True)
class DisarmModeUnknown(LogEvent):
    """The way to disarm has no meaning."""

    mode: str


@dataclass(frozen=True, slots=True)
class DisarmDeferred(LogEvent):
    """A service must come to rest before all is disarmed."""

    service: ServiceId
    state: ServiceState


@dataclass(frozen=True, slots=True)
class DisarmDeferredByMove(LogEvent):
    """A service must end its move before all is disarmed."""

    service: ServiceId
    state: ServiceState


@dataclass(frozen=True, slots=True)
class ServiceFrozen(LogEvent):
    """A service is left as it is while disarmed."""

    service: ServiceId
    state: ServiceState


@dataclass(frozen=True, slots=True)
class ClusterDisarmed(LogEvent):
    """Every agent has disarmed."""


CRM_COMMAND_LINES: LogLines = {
    CrmCommandReceived: info("got crm command: {0.line}"),
    CrmCommandUnknown: error("unable to parse crm command: {0.line}"),
    NoSuchService: error("crm command error - no such service: {0.line}"),
    NodeNotOnline: error("crm command error - node not online: {0.line}"),
    CrmCommandRedundant: info(
        "ignore crm command - service already on target node: {0.line}"
    ),
    AntiAffinityConflict: error(
        "crm command '{0.line}' error - service '{0.other}' on node '{0.target}' "
        "in negative affinity with service '{0.service}'"
    ),
    AffinityMoveQueued: info(
        "crm command '{0.line}' - {0.command} service '{0.other}' to node "
        "'{0.target}' (service '{0.other}' in positive affinity with service "
        "'{0.service}')"
    ),
    MaintenanceRejected: warning(
        "ignoring maintenance command for node {0.node} - HA stack is disarmed"
    ),
    MaintenanceRedundant: info(
        "ignoring crm command - node {0.node} is already in maintenance state"
    ),
    MaintenanceNotActive: warning(
        "clearing maintenance of node {0.node} requested, but it's in state {0.state}"
    ),
    DisarmRedundant: notice(
        "ignoring disarm-ha command - already in disarm state ({0.state})"
    ),
    TrackingSuspended: info("disarm: suspending HA tracking for service '{0.service}'"),
    ArmRedundant: notice("ignoring arm-ha command - HA stack is not disarmed"),
    MovedWhileDisarmed: info(
        "service '{0.service}': updating node '{0.old}' => '{0.new}' (changed "
        "while disarmed)"
    ),
    DisarmModeUnknown: error("unknown disarm-mode '{0.mode}', ignoring"),
    DisarmDeferred: warning(
        "deferring disarm - service '{0.service}' is in '{0.state}' state"
    ),
    DisarmDeferredByMove: info(
        "deferring disarm - service '{0.service}' is in '{0.state}' state"
    ),
    ServiceFrozen: info("disarm: freezing service '{0.service}' (was '{0.state}')"),
    ClusterDisarmed: info("all LRMs disarmed, HA stack is now fully disarmed"),
}
