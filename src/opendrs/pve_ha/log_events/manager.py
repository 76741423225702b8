"""Log events of the manager's rounds: nodes, scheduling, rules and group migration."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.log_events.base import (
    LogEvent,
    LogLines,
    error,
    hardware_warning,
    info,
    mail,
    notice,
    warning,
)
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
    """The manager thinks otherwise of a node."""

    node: NodeId
    old: PveNodeState
    new: PveNodeState


@dataclass(frozen=True, slots=True)
class GoneNodeDeleted(LogEvent):
    """A node that left the cluster is forgotten."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencingStarted(LogEvent):
    """A mail: a node is to be fenced."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencingAcknowledged(LogEvent):
    """The agent of a node is certainly dead: its lock was taken."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencingSucceeded(LogEvent):
    """A mail: a node was fenced."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencedWithoutServices(LogEvent):
    """A node waits for its fencing though it has no service."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class MasterOffline(LogEvent):
    """The node of the master is not in the cluster."""


@dataclass(frozen=True, slots=True)
class SchedulerSelected(LogEvent):
    """The way to count usage, at the beginning."""

    mode: str


@dataclass(frozen=True, slots=True)
class SchedulerSwitched(LogEvent):
    """Usage is counted in another way from now on."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class SchedulerUnknown(LogEvent):
    """The way to count usage has no meaning."""

    mode: str


@dataclass(frozen=True, slots=True)
class SchedulerFallback(LogEvent):
    """Something is not known that counting usage needs."""

    mode: str
    detail: str


@dataclass(frozen=True, slots=True)
class ServiceAdded(LogEvent):
    """A service is managed from now on."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class ServiceRemoved(LogEvent):
    """A service is not managed any more."""

    service: ServiceId
    reason: RemovalReason


@dataclass(frozen=True, slots=True)
class RuleDropped(LogEvent):
    """A rule cannot be kept and is left out."""

    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class ServiceUsageUnknown(LogEvent):
    """A service does not count, since its usage is not known."""

    service: ServiceId
    detail: str


@dataclass(frozen=True, slots=True)
class StartScoringFailed(LogEvent):
    """Nodes could not be compared for a start."""

    service: ServiceId
    mode: str
    detail: str


@dataclass(frozen=True, slots=True)
class MoveScoringFailed(LogEvent):
    """Moves could not be compared."""

    detail: str


@dataclass(frozen=True, slots=True)
class Overcommitted(LogEvent):
    """Something uses more than it has."""

    resource: str
    owner: str


@dataclass(frozen=True, slots=True)
class RebalanceQueued(LogEvent):
    """A move makes the load more even."""

    command: ServiceCommand
    service: ServiceId
    target: NodeId
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class ServiceStateChanged(LogEvent):
    """A service passed to another state."""

    service: ServiceId
    old: ServiceState
    new: ServiceState
    parameters: StateParameters


@dataclass(frozen=True, slots=True)
class GroupMigrationStarted(LogEvent):
    """Groups are to become rules."""


@dataclass(frozen=True, slots=True)
class GroupMigrationNode(LogEvent):
    """How a node is."""

    node: NodeId
    state: PveNodeState


@dataclass(frozen=True, slots=True)
class GroupMigrationLrm(LogEvent):
    """How an agent is."""

    node: NodeId
    state: str
    mode: str


@dataclass(frozen=True, slots=True)
class GroupMigrationVersion(LogEvent):
    """What a node runs."""

    node: NodeId
    version: str


@dataclass(frozen=True, slots=True)
class GroupRulesWritten(LogEvent):
    """Rules stand in place of the groups."""


@dataclass(frozen=True, slots=True)
class GroupsRemovedFromServices(LogEvent):
    """No service is in a group any more."""


@dataclass(frozen=True, slots=True)
class GroupsDeleted(LogEvent):
    """There are no groups any more."""


@dataclass(frozen=True, slots=True)
class GroupMigrationSucceeded(LogEvent):
    """Groups have become rules."""


@dataclass(frozen=True, slots=True)
class GroupMigrationAborted(LogEvent):
    """Groups cannot become rules yet."""

    detail: str


@dataclass(frozen=True, slots=True)
class GroupMigrationFailed(LogEvent):
    """Groups have not become rules."""


@dataclass(frozen=True, slots=True)
class GroupMigrationPostponed(LogEvent):
    """It will be tried again."""

    rounds: int
    seconds: int


NODE_LINES: LogLines = {
    NodeStateChanged: info(
        "node '{0.node}': state changed from '{0.old}' => '{0.new}'"
    ),
    GoneNodeDeleted: notice(
        "deleting gone node '{0.node}', not a cluster member anymore."
    ),
    FencingStarted: mail("FENCE: Try to fence node '{0.node}'"),
    FencingAcknowledged: info(
        "fencing: acknowledged - got agent lock for node '{0.node}'"
    ),
    FencingSucceeded: mail(
        "SUCCEED: fencing: acknowledged - got agent lock for node '{0.node}'"
    ),
    FencedWithoutServices: notice(
        "node '{0.node}' in fence state but no services to-fence! admin interference?!"
    ),
    MasterOffline: info("master seems offline"),
}

ROUND_LINES: LogLines = {
    SchedulerSelected: info("using scheduler mode '{0.mode}'"),
    SchedulerSwitched: info("switching scheduler mode from '{0.old}' to '{0.new}'"),
    SchedulerUnknown: warning("got unknown scheduler mode '{0.mode}', using 'basic'"),
    SchedulerFallback: warning(
        "fallback to 'basic' scheduler mode, init for '{0.mode}' failed - {0.detail}"
    ),
    ServiceAdded: info("adding new service '{0.service}' on node '{0.node}'"),
    ServiceRemoved: info("removing stale service '{0.service}' ({0.reason})"),
    RuleDropped: info("Drop rule '{0.rule}', because {0.detail}."),
    ServiceUsageUnknown: warning("unable to add service '{0.service}' - {0.detail}"),
    StartScoringFailed: error(
        "unable to score nodes according to {0.mode} usage for service "
        "'{0.service}' - {0.detail}"
    ),
    MoveScoringFailed: warning("unable to score best balancing migration - {0.detail}"),
    Overcommitted: hardware_warning("overcommitted {0.resource} on '{0.owner}'"),
    RebalanceQueued: info(
        "auto rebalance - {0.command} {0.service} to {0.target} (expected change for "
        "imbalance from {0.before:.2f} to {0.after:.2f})"
    ),
    ServiceStateChanged: info(
        "service '{0.service}': state changed from '{0.old}' to '{0.new}'{0.parameters}"
    ),
}

GROUP_LINES: LogLines = {
    GroupMigrationStarted: notice("start ha group migration..."),
    GroupMigrationNode: notice(
        "ha groups migration: node '{0.node}' is in state '{0.state}'"
    ),
    GroupMigrationLrm: notice(
        "ha groups migration: lrm '{0.node}' is in state '{0.state}' and mode "
        "'{0.mode}'"
    ),
    GroupMigrationVersion: notice(
        "ha groups migration: node '{0.node}' has version '{0.version}'"
    ),
    GroupRulesWritten: notice(
        "ha groups migration: migration to rules config successful"
    ),
    GroupsRemovedFromServices: notice(
        "ha groups migration: migration to resources config successful"
    ),
    GroupsDeleted: notice("ha groups migration: group config deletion successful"),
    GroupMigrationSucceeded: notice("ha groups migration successful"),
    GroupMigrationAborted: error("abort ha groups migration: {0.detail}"),
    GroupMigrationFailed: error("ha groups migration failed"),
    GroupMigrationPostponed: notice(
        "retry ha groups migration in {0.rounds} rounds (~ {0.seconds} seconds)"
    ),
}
