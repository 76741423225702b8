"""Log events of the manager about one service."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.log_events.base import LogEvent, LogLine
from opendrs.pve_ha.states import NameList, ServiceCommand, ServiceId, StartNodeChoice


@dataclass(frozen=True, slots=True)
class StartNodeSelected(LogEvent):
    """A node was selected for a start."""

    log_line = LogLine.info(
        "service {0.service}: re-balance selected {0.choice} node {0.nodes} for startup"
    )

    service: ServiceId
    choice: StartNodeChoice
    nodes: NameList


@dataclass(frozen=True, slots=True)
class RequestedStateUnknown(LogEvent):
    """The requested state of a service is unknown."""

    log_line = LogLine.error(
        "service '{0.service}' - unknown state '{0.state}' in service configuration"
    )

    service: ServiceId
    state: str


@dataclass(frozen=True, slots=True)
class TargetOffline(LogEvent):
    """The target of a motion is not online."""

    log_line = LogLine.error(
        "ignore service '{0.service}' {0.command} request - node '{0.target}' not "
        "online"
    )

    service: ServiceId
    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class TargetReached(LogEvent):
    """A service already is on the target of its motion."""

    log_line = LogLine.info(
        "ignore service '{0.service}' {0.command} request - service already on node "
        "'{0.target}'"
    )

    service: ServiceId
    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class MotionStarted(LogEvent):
    """A queued motion started."""

    log_line = LogLine.info("{0.command} service '{0.service}' to node '{0.target}'")

    service: ServiceId
    command: ServiceCommand
    target: NodeId


@dataclass(frozen=True, slots=True)
class HardStopRequested(LogEvent):
    """A service must stop immediately."""

    log_line = LogLine.info(
        "request immediate service hard-stop for service '{0.service}'"
    )

    service: ServiceId


@dataclass(frozen=True, slots=True)
class GracefulStopRequested(LogEvent):
    """A service must stop within a timeout, in seconds."""

    log_line = LogLine.info(
        "request graceful stop with timeout '{0.timeout}' for service '{0.service}'"
    )

    service: ServiceId
    timeout: int


@dataclass(frozen=True, slots=True)
class StopRedundant(LogEvent):
    """A service that should stop is already stopped."""

    log_line = LogLine.info(
        "ignore service '{0.service}' stop request - service already stopped"
    )

    service: ServiceId


@dataclass(frozen=True, slots=True)
class RelocationSucceeded(LogEvent):
    """A service started after failures on other nodes."""

    log_line = LogLine.info(
        "relocation policy successful for '{0.service}' on node '{0.node}', failed "
        "nodes: {0.failed_nodes}"
    )

    service: ServiceId
    node: NodeId
    failed_nodes: NameList


@dataclass(frozen=True, slots=True)
class StartFailed(LogEvent):
    """A service failed to start and is relocated."""

    log_line = LogLine.warning(
        "starting service {0.service} on node '{0.node}' failed, relocating service."
    )

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class RelocationFailed(LogEvent):
    """A service failed to start on all nodes that were tried."""

    log_line = LogLine.error(
        "recovery policy for service {0.service} failed, entering error state. "
        "Failed nodes: {0.failed_nodes}"
    )

    service: ServiceId
    failed_nodes: NameList


@dataclass(frozen=True, slots=True)
class ServiceUnrecoverable(LogEvent):
    """A job of a service failed with an error that is not retried."""

    log_line = LogLine.error(
        "service '{0.service}' got unrecoverable error (exit code {0.code})"
    )

    service: ServiceId
    code: int


@dataclass(frozen=True, slots=True)
class FallbackStarted(LogEvent):
    """A service returns to a node whose maintenance has ended."""

    log_line = LogLine.info(
        "moving service '{0.service}' back to '{0.node}', node came back from "
        "maintenance."
    )

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class FallbackDropped(LogEvent):
    """A service does not return to the node that it left for a maintenance."""

    log_line = LogLine.info(
        "dropping maintenance fallback node '{0.node}' for '{0.service}'"
    )

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class FallbackRedundant(LogEvent):
    """A service already is on the node to which it should return."""

    log_line = LogLine.info(
        "service '{0.service}': clearing stale maintenance node '{0.node}' setting "
        "(is current node)"
    )

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class MigrationSelected(LogEvent):
    """A virtual machine migrates to a better node."""

    log_line = LogLine.info(
        "migrate service '{0.service}' to node '{0.node}' (running)"
    )

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class RelocationSelected(LogEvent):
    """A service relocates to a better node."""

    log_line = LogLine.info("relocate service '{0.service}' to node '{0.node}'")

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class NodesExhausted(LogEvent):
    """All nodes were tried, so the current node is tried again."""

    log_line = LogLine.warning(
        "Start Error Recovery: Tried all available nodes for service "
        "'{0.service}', retry start on current node. Tried nodes: {0.failed_nodes}"
    )

    service: ServiceId
    failed_nodes: NameList


@dataclass(frozen=True, slots=True)
class StopFailed(LogEvent):
    """A service failed to stop."""

    log_line = LogLine.error("service '{0.service}' stop failed (exit code {0.code})")

    service: ServiceId
    code: int


@dataclass(frozen=True, slots=True)
class WrongNode(LogEvent):
    """A service was not on the source of its migration."""

    log_line = LogLine.error(
        "service '{0.service}' - migration failed: service registered on wrong node!"
    )

    service: ServiceId


@dataclass(frozen=True, slots=True)
class StartPlacementRedundant(LogEvent):
    """A service selected for placement at its start already runs."""

    log_line = LogLine.info(
        "service '{0.service}' - rebalance-on-start request ignored - service "
        "already running"
    )

    service: ServiceId


@dataclass(frozen=True, slots=True)
class MotionFailed(LogEvent):
    """A migration or relocation failed."""

    log_line = LogLine.error(
        "service '{0.service}' - migration failed (exit code {0.code})"
    )

    service: ServiceId
    code: int


@dataclass(frozen=True, slots=True)
class LocationCorrected(LogEvent):
    """A stopped service was moved manually."""

    log_line = LogLine.info("fixup service '{0.service}' location ({0.old} => {0.new})")

    service: ServiceId
    old: NodeId
    new: NodeId


@dataclass(frozen=True, slots=True)
class ServiceRecovered(LogEvent):
    """A service of a fenced node was assigned to another node."""

    log_line = LogLine.info(
        "recover service '{0.service}' from fenced node '{0.old}' to node '{0.new}'"
    )

    service: ServiceId
    old: NodeId
    new: NodeId


@dataclass(frozen=True, slots=True)
class ServiceRecoveredInPlace(LogEvent):
    """A service was assigned to its fenced node again."""

    log_line = LogLine.info(
        "recover service '{0.service}' to previous failed and fenced node "
        "'{0.node}' again"
    )

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class LeftoverLockRemoved(LogEvent):
    """The lock left by an operation on a fenced node was removed."""

    log_line = LogLine.warning(
        "removed leftover lock '{0.lock}' from recovered service '{0.service}' to "
        "allow its start."
    )

    lock: str
    service: ServiceId


@dataclass(frozen=True, slots=True)
class RecoveryFailed(LogEvent):
    """No node is allowed for a service of a fenced node."""

    log_line = LogLine.error(
        "recovering service '{0.service}' from fenced node '{0.node}' failed, no "
        "recovery node found"
    )

    service: ServiceId
    node: NodeId
