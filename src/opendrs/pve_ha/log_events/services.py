"""Log events of the manager about one service."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.log_events.base import LogEvent, LogLines, error, info, warning
from opendrs.pve_ha.states import NameList, ServiceCommand, ServiceId, StartNodeChoice


@dataclass(frozen=True, slots=True)
class StartNodeSelected(LogEvent):
    """A node was chosen for a start."""

    service: ServiceId
    choice: StartNodeChoice
    nodes: NameList


@dataclass(frozen=True, slots=True)
class RequestedStateUnknown(LogEvent):
    """The configuration asks for a state that does not exist."""

    service: ServiceId
    state: str


@dataclass(frozen=True, slots=True)
class TargetOffline(LogEvent):
    """A service cannot go to a node that is not online."""

    service: ServiceId
    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class TargetReached(LogEvent):
    """A service is where it is to go."""

    service: ServiceId
    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class MotionStarted(LogEvent):
    """A queued motion begins."""

    service: ServiceId
    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class HardStopRequested(LogEvent):
    """A service is to stop at once."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class GracefulStopRequested(LogEvent):
    """A service is to stop within some time."""

    service: ServiceId
    timeout: int


@dataclass(frozen=True, slots=True)
class StopRedundant(LogEvent):
    """A service that is to stop has stopped."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class RelocationSucceeded(LogEvent):
    """A service started after failures elsewhere."""

    service: ServiceId
    node: NodeId
    failed_nodes: NameList


@dataclass(frozen=True, slots=True)
class StartFailed(LogEvent):
    """A service could not start and tries another node."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class RelocationFailed(LogEvent):
    """A service could not start anywhere."""

    service: ServiceId
    failed_nodes: NameList


@dataclass(frozen=True, slots=True)
class ServiceUnrecoverable(LogEvent):
    """A service failed in a way nothing can be done about."""

    service: ServiceId
    code: int


@dataclass(frozen=True, slots=True)
class FallbackStarted(LogEvent):
    """A service goes back to a node that ended its maintenance."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class FallbackDropped(LogEvent):
    """A service does not go back to the node it left."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class FallbackRedundant(LogEvent):
    """A service is on the node it was to go back to."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class MigrationSelected(LogEvent):
    """A running guest migrates to a better node."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class RelocationSelected(LogEvent):
    """A service relocates to a better node."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class NodesExhausted(LogEvent):
    """Every node was tried, so the current one is tried again."""

    service: ServiceId
    failed_nodes: NameList


@dataclass(frozen=True, slots=True)
class StopFailed(LogEvent):
    """A service could not be stopped."""

    service: ServiceId
    code: int


@dataclass(frozen=True, slots=True)
class WrongNode(LogEvent):
    """A service is not where it should have been moved from."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class StartPlacementRedundant(LogEvent):
    """A service that was to be placed at its start runs."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class MotionFailed(LogEvent):
    """A service could not be moved."""

    service: ServiceId
    code: int


@dataclass(frozen=True, slots=True)
class LocationCorrected(LogEvent):
    """A stopped service was moved by others."""

    service: ServiceId
    old: NodeId
    new: NodeId


@dataclass(frozen=True, slots=True)
class ServiceRecovered(LogEvent):
    """A service of a fenced node gets another one."""

    service: ServiceId
    old: NodeId
    new: NodeId


@dataclass(frozen=True, slots=True)
class ServiceRecoveredInPlace(LogEvent):
    """A service gets its fenced node again."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class LeftoverLockRemoved(LogEvent):
    """A lock that a dead node left was removed."""

    lock: str
    service: ServiceId


@dataclass(frozen=True, slots=True)
class RecoveryFailed(LogEvent):
    """No node may run the service of a fenced one."""

    service: ServiceId
    node: NodeId


SERVICE_LINES: LogLines = {
    StartNodeSelected: info(
        "service {0.service}: re-balance selected {0.choice} node {0.nodes} for startup"
    ),
    RequestedStateUnknown: error(
        "service '{0.service}' - unknown state '{0.state}' in service configuration"
    ),
    TargetOffline: error(
        "ignore service '{0.service}' {0.command} request - node '{0.target}' not online"
    ),
    TargetReached: info(
        "ignore service '{0.service}' {0.command} request - service already on node "
        "'{0.target}'"
    ),
    MotionStarted: info("{0.command} service '{0.service}' to node '{0.target}'"),
    HardStopRequested: info(
        "request immediate service hard-stop for service '{0.service}'"
    ),
    GracefulStopRequested: info(
        "request graceful stop with timeout '{0.timeout}' for service '{0.service}'"
    ),
    StopRedundant: info(
        "ignore service '{0.service}' stop request - service already stopped"
    ),
    RelocationSucceeded: info(
        "relocation policy successful for '{0.service}' on node '{0.node}', failed "
        "nodes: {0.failed_nodes}"
    ),
    StartFailed: warning(
        "starting service {0.service} on node '{0.node}' failed, relocating service."
    ),
    RelocationFailed: error(
        "recovery policy for service {0.service} failed, entering error state. "
        "Failed nodes: {0.failed_nodes}"
    ),
    ServiceUnrecoverable: error(
        "service '{0.service}' got unrecoverable error (exit code {0.code})"
    ),
    FallbackStarted: info(
        "moving service '{0.service}' back to '{0.node}', node came back from "
        "maintenance."
    ),
    FallbackDropped: info(
        "dropping maintenance fallback node '{0.node}' for '{0.service}'"
    ),
    FallbackRedundant: info(
        "service '{0.service}': clearing stale maintenance node '{0.node}' setting "
        "(is current node)"
    ),
    MigrationSelected: info(
        "migrate service '{0.service}' to node '{0.node}' (running)"
    ),
    RelocationSelected: info("relocate service '{0.service}' to node '{0.node}'"),
    NodesExhausted: warning(
        "Start Error Recovery: Tried all available nodes for service "
        "'{0.service}', retry start on current node. Tried nodes: {0.failed_nodes}"
    ),
    StopFailed: error("service '{0.service}' stop failed (exit code {0.code})"),
    WrongNode: error(
        "service '{0.service}' - migration failed: service registered on wrong node!"
    ),
    StartPlacementRedundant: info(
        "service '{0.service}' - rebalance-on-start request ignored - service "
        "already running"
    ),
    MotionFailed: error(
        "service '{0.service}' - migration failed (exit code {0.code})"
    ),
    LocationCorrected: info(
        "fixup service '{0.service}' location ({0.old} => {0.new})"
    ),
    ServiceRecovered: info(
        "recover service '{0.service}' from fenced node '{0.old}' to node '{0.new}'"
    ),
    ServiceRecoveredInPlace: info(
        "recover service '{0.service}' to previous failed and fenced node "
        "'{0.node}' again"
    ),
    LeftoverLockRemoved: warning(
        "removed leftover lock '{0.lock}' from recovered service '{0.service}' to "
        "allow its start."
    ),
    RecoveryFailed: error(
        "recovering service '{0.service}' from fenced node '{0.node}' failed, no "
        "recovery node found"
    ),
}
