"""Log events of the manager's rounds: nodes, scheduling, rules and group migration."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.log_events.base import LogEvent, LogLine
from opendrs.pve_ha.states import (
    PveNodeState,
    RemovalReason,
    ServiceCommand,
    ServiceId,
    ServiceState,
    StateParameters,
)


@dataclass(frozen=True, slots=True)
class NodeStateChanged(LogEvent):
    """The state of a node changed."""

    log_line = LogLine.info(
        "node '{0.node}': state changed from '{0.old}' => '{0.new}'"
    )

    node: NodeId
    old: PveNodeState
    new: PveNodeState


@dataclass(frozen=True, slots=True)
class GoneNodeDeleted(LogEvent):
    """A node that left the cluster was deleted."""

    log_line = LogLine.notice(
        "deleting gone node '{0.node}', not a cluster member anymore."
    )

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencingStarted(LogEvent):
    """A mail: fencing of a node started."""

    log_line = LogLine.mail("FENCE: Try to fence node '{0.node}'")

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencingAcknowledged(LogEvent):
    """A node is fenced: the manager acquired the lock of its LRM."""

    log_line = LogLine.info(
        "fencing: acknowledged - got agent lock for node '{0.node}'"
    )

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencingSucceeded(LogEvent):
    """A mail: a node was fenced."""

    log_line = LogLine.mail(
        "SUCCEED: fencing: acknowledged - got agent lock for node '{0.node}'"
    )

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencedWithoutServices(LogEvent):
    """A node is in the fence state without any service."""

    log_line = LogLine.notice(
        "node '{0.node}' in fence state but no services to-fence! admin interference?!"
    )

    node: NodeId


@dataclass(frozen=True, slots=True)
class MasterOffline(LogEvent):
    """The node of the master is not operational."""

    log_line = LogLine.info("master seems offline")


@dataclass(frozen=True, slots=True)
class SchedulerSelected(LogEvent):
    """The scheduler mode of a new master."""

    log_line = LogLine.info("using scheduler mode '{0.mode}'")

    mode: str


@dataclass(frozen=True, slots=True)
class SchedulerSwitched(LogEvent):
    """The scheduler mode changed."""

    log_line = LogLine.info("switching scheduler mode from '{0.old}' to '{0.new}'")

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class SchedulerUnknown(LogEvent):
    """The scheduler mode is unknown."""

    log_line = LogLine.warning("got unknown scheduler mode '{0.mode}', using 'basic'")

    mode: str


@dataclass(frozen=True, slots=True)
class SchedulerFallback(LogEvent):
    """A value that the scheduler mode requires is unknown."""

    log_line = LogLine.warning(
        "fallback to 'basic' scheduler mode, init for '{0.mode}' failed - {0.detail}"
    )

    mode: str
    detail: str


@dataclass(frozen=True, slots=True)
class ServiceAdded(LogEvent):
    """A service was added."""

    log_line = LogLine.info("adding new service '{0.service}' on node '{0.node}'")

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class ServiceRemoved(LogEvent):
    """A service was removed."""

    log_line = LogLine.info("removing stale service '{0.service}' ({0.reason})")

    service: ServiceId
    reason: RemovalReason


@dataclass(frozen=True, slots=True)
class RuleDropped(LogEvent):
    """A rule in conflict was dropped."""

    log_line = LogLine.info("Drop rule '{0.rule}', because {0.detail}.")

    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class ServiceUsageUnknown(LogEvent):
    """A service is not counted because its usage is unknown."""

    log_line = LogLine.warning("unable to add service '{0.service}' - {0.detail}")

    service: ServiceId
    detail: str


@dataclass(frozen=True, slots=True)
class StartScoringFailed(LogEvent):
    """The nodes could not be scored for a start."""

    log_line = LogLine.error(
        "unable to score nodes according to {0.mode} usage for service "
        "'{0.service}' - {0.detail}"
    )

    service: ServiceId
    mode: str
    detail: str


@dataclass(frozen=True, slots=True)
class MoveScoringFailed(LogEvent):
    """Moves could not be scored."""

    log_line = LogLine.warning("unable to score best balancing migration - {0.detail}")

    detail: str


@dataclass(frozen=True, slots=True)
class Overcommitted(LogEvent):
    """Usage exceeds the limit of a service or the capacity of a node."""

    log_line = LogLine.hardware_warning("overcommitted {0.resource} on '{0.owner}'")

    resource: str
    owner: str


@dataclass(frozen=True, slots=True)
class RebalanceQueued(LogEvent):
    """Automatic rebalancing queued a move."""

    log_line = LogLine.info(
        "auto rebalance - {0.command} {0.service} to {0.target} (expected change for "
        "imbalance from {0.before:.2f} to {0.after:.2f})"
    )

    command: ServiceCommand
    service: ServiceId
    target: NodeId
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class ServiceStateChanged(LogEvent):
    """The state of a service changed."""

    log_line = LogLine.info(
        "service '{0.service}': state changed from '{0.old}' to '{0.new}'{0.parameters}"
    )

    service: ServiceId
    old: ServiceState
    new: ServiceState
    parameters: StateParameters


@dataclass(frozen=True, slots=True)
class GroupMigrationStarted(LogEvent):
    """An attempt to convert groups to rules started."""

    log_line = LogLine.notice("start ha group migration...")


@dataclass(frozen=True, slots=True)
class GroupMigrationNode(LogEvent):
    """State of a node, before the conversion of groups."""

    log_line = LogLine.notice(
        "ha groups migration: node '{0.node}' is in state '{0.state}'"
    )

    node: NodeId
    state: PveNodeState


@dataclass(frozen=True, slots=True)
class GroupMigrationLrm(LogEvent):
    """State and mode of an LRM, before the conversion of groups."""

    log_line = LogLine.notice(
        "ha groups migration: lrm '{0.node}' is in state '{0.state}' and mode "
        "'{0.mode}'"
    )

    node: NodeId
    state: str
    mode: str


@dataclass(frozen=True, slots=True)
class GroupMigrationVersion(LogEvent):
    """Version of a node, before the conversion of groups."""

    log_line = LogLine.notice(
        "ha groups migration: node '{0.node}' has version '{0.version}'"
    )

    node: NodeId
    version: str


@dataclass(frozen=True, slots=True)
class GroupRulesWritten(LogEvent):
    """The rules made from groups were written."""

    log_line = LogLine.notice(
        "ha groups migration: migration to rules config successful"
    )


@dataclass(frozen=True, slots=True)
class GroupsRemovedFromServices(LogEvent):
    """All services were removed from their groups."""

    log_line = LogLine.notice(
        "ha groups migration: migration to resources config successful"
    )


@dataclass(frozen=True, slots=True)
class GroupsDeleted(LogEvent):
    """The groups were deleted."""

    log_line = LogLine.notice("ha groups migration: group config deletion successful")


@dataclass(frozen=True, slots=True)
class GroupMigrationSucceeded(LogEvent):
    """The conversion of groups succeeded."""

    log_line = LogLine.notice("ha groups migration successful")


@dataclass(frozen=True, slots=True)
class GroupMigrationAborted(LogEvent):
    """The conversion of groups was aborted."""

    log_line = LogLine.error("abort ha groups migration: {0.detail}")

    detail: str


@dataclass(frozen=True, slots=True)
class GroupMigrationFailed(LogEvent):
    """The conversion of groups failed."""

    log_line = LogLine.error("ha groups migration failed")


@dataclass(frozen=True, slots=True)
class GroupMigrationPostponed(LogEvent):
    """The conversion of groups will be retried."""

    log_line = LogLine.notice(
        "retry ha groups migration in {0.rounds} rounds (~ {0.seconds} seconds)"
    )

    rounds: int
    seconds: int
