"""The log events of the HA manager: typed values with the messages of Proxmox VE."""

from __future__ import annotations

from opendrs.pve_ha.log_events import (
    crm_commands,
    jobs,
    lrm,
    manager,
    processes,
    services,
)
from opendrs.pve_ha.log_events.base import LogEvent as LogEvent
from opendrs.pve_ha.log_events.base import LogLevel as LogLevel
from opendrs.pve_ha.log_events.base import LogLine as LogLine
from opendrs.pve_ha.log_events.base import LogLines as LogLines
from opendrs.pve_ha.log_events.crm_commands import (
    AffinityMoveQueued as AffinityMoveQueued,
)
from opendrs.pve_ha.log_events.crm_commands import (
    AntiAffinityConflict as AntiAffinityConflict,
)
from opendrs.pve_ha.log_events.crm_commands import ArmRedundant as ArmRedundant
from opendrs.pve_ha.log_events.crm_commands import ClusterDisarmed as ClusterDisarmed
from opendrs.pve_ha.log_events.crm_commands import (
    CrmCommandReceived as CrmCommandReceived,
)
from opendrs.pve_ha.log_events.crm_commands import (
    CrmCommandRedundant as CrmCommandRedundant,
)
from opendrs.pve_ha.log_events.crm_commands import (
    CrmCommandUnknown as CrmCommandUnknown,
)
from opendrs.pve_ha.log_events.crm_commands import DisarmDeferred as DisarmDeferred
from opendrs.pve_ha.log_events.crm_commands import (
    DisarmDeferredByMove as DisarmDeferredByMove,
)
from opendrs.pve_ha.log_events.crm_commands import (
    DisarmModeUnknown as DisarmModeUnknown,
)
from opendrs.pve_ha.log_events.crm_commands import DisarmRedundant as DisarmRedundant
from opendrs.pve_ha.log_events.crm_commands import (
    MaintenanceNotActive as MaintenanceNotActive,
)
from opendrs.pve_ha.log_events.crm_commands import (
    MaintenanceRedundant as MaintenanceRedundant,
)
from opendrs.pve_ha.log_events.crm_commands import (
    MaintenanceRejected as MaintenanceRejected,
)
from opendrs.pve_ha.log_events.crm_commands import (
    MovedWhileDisarmed as MovedWhileDisarmed,
)
from opendrs.pve_ha.log_events.crm_commands import NodeNotOnline as NodeNotOnline
from opendrs.pve_ha.log_events.crm_commands import NoSuchService as NoSuchService
from opendrs.pve_ha.log_events.crm_commands import ServiceFrozen as ServiceFrozen
from opendrs.pve_ha.log_events.crm_commands import (
    TrackingSuspended as TrackingSuspended,
)
from opendrs.pve_ha.log_events.jobs import JobCommandUnknown as JobCommandUnknown
from opendrs.pve_ha.log_events.jobs import (
    LiveMigrationUnsupported as LiveMigrationUnsupported,
)
from opendrs.pve_ha.log_events.jobs import (
    ServiceAlreadyRunning as ServiceAlreadyRunning,
)
from opendrs.pve_ha.log_events.jobs import ServiceLocked as ServiceLocked
from opendrs.pve_ha.log_events.jobs import ServiceMoveFailed as ServiceMoveFailed
from opendrs.pve_ha.log_events.jobs import ServiceMoveFinished as ServiceMoveFinished
from opendrs.pve_ha.log_events.jobs import ServiceMoveStarted as ServiceMoveStarted
from opendrs.pve_ha.log_events.jobs import (
    ServiceNeedsIntervention as ServiceNeedsIntervention,
)
from opendrs.pve_ha.log_events.jobs import ServiceNotConfigured as ServiceNotConfigured
from opendrs.pve_ha.log_events.jobs import ServiceOnOtherNode as ServiceOnOtherNode
from opendrs.pve_ha.log_events.jobs import ServiceStarted as ServiceStarted
from opendrs.pve_ha.log_events.jobs import ServiceStartFailed as ServiceStartFailed
from opendrs.pve_ha.log_events.jobs import ServiceStarting as ServiceStarting
from opendrs.pve_ha.log_events.jobs import ServiceStillRunning as ServiceStillRunning
from opendrs.pve_ha.log_events.jobs import ServiceStopped as ServiceStopped
from opendrs.pve_ha.log_events.jobs import ServiceStopping as ServiceStopping
from opendrs.pve_ha.log_events.jobs import (
    ServiceStoppingToRelocate as ServiceStoppingToRelocate,
)
from opendrs.pve_ha.log_events.jobs import (
    ServiceStoppingWithTimeout as ServiceStoppingWithTimeout,
)
from opendrs.pve_ha.log_events.jobs import ServiceTypeUnknown as ServiceTypeUnknown
from opendrs.pve_ha.log_events.lrm import FencingRequired as FencingRequired
from opendrs.pve_ha.log_events.lrm import (
    FencingRequiredInMaintenance as FencingRequiredInMaintenance,
)
from opendrs.pve_ha.log_events.lrm import JobCrashed as JobCrashed
from opendrs.pve_ha.log_events.lrm import JobFailed as JobFailed
from opendrs.pve_ha.log_events.lrm import LrmDisarmed as LrmDisarmed
from opendrs.pve_ha.log_events.lrm import (
    LrmDisarmedInMaintenance as LrmDisarmedInMaintenance,
)
from opendrs.pve_ha.log_events.lrm import LrmIdle as LrmIdle
from opendrs.pve_ha.log_events.lrm import LrmRestarted as LrmRestarted
from opendrs.pve_ha.log_events.lrm import (
    LrmRestartedInMaintenance as LrmRestartedInMaintenance,
)
from opendrs.pve_ha.log_events.lrm import LrmStatusNotUpdated as LrmStatusNotUpdated
from opendrs.pve_ha.log_events.lrm import LrmStatusUnwritable as LrmStatusUnwritable
from opendrs.pve_ha.log_events.lrm import MaintenanceContinued as MaintenanceContinued
from opendrs.pve_ha.log_events.lrm import NodeDrainStarted as NodeDrainStarted
from opendrs.pve_ha.log_events.lrm import RetriesExhausted as RetriesExhausted
from opendrs.pve_ha.log_events.lrm import ServicesFrozen as ServicesFrozen
from opendrs.pve_ha.log_events.lrm import ServicesStopped as ServicesStopped
from opendrs.pve_ha.log_events.lrm import (
    ServiceStatusNotUpdated as ServiceStatusNotUpdated,
)
from opendrs.pve_ha.log_events.lrm import ShutdownForced as ShutdownForced
from opendrs.pve_ha.log_events.lrm import ShutdownPolicyIgnored as ShutdownPolicyIgnored
from opendrs.pve_ha.log_events.lrm import ShutdownPolicyUnknown as ShutdownPolicyUnknown
from opendrs.pve_ha.log_events.lrm import ShutdownRequested as ShutdownRequested
from opendrs.pve_ha.log_events.lrm import ShutdownWithServices as ShutdownWithServices
from opendrs.pve_ha.log_events.lrm import StartRetried as StartRetried
from opendrs.pve_ha.log_events.manager import (
    FencedWithoutServices as FencedWithoutServices,
)
from opendrs.pve_ha.log_events.manager import FencingAcknowledged as FencingAcknowledged
from opendrs.pve_ha.log_events.manager import FencingStarted as FencingStarted
from opendrs.pve_ha.log_events.manager import FencingSucceeded as FencingSucceeded
from opendrs.pve_ha.log_events.manager import GoneNodeDeleted as GoneNodeDeleted
from opendrs.pve_ha.log_events.manager import (
    GroupMigrationAborted as GroupMigrationAborted,
)
from opendrs.pve_ha.log_events.manager import (
    GroupMigrationFailed as GroupMigrationFailed,
)
from opendrs.pve_ha.log_events.manager import GroupMigrationLrm as GroupMigrationLrm
from opendrs.pve_ha.log_events.manager import GroupMigrationNode as GroupMigrationNode
from opendrs.pve_ha.log_events.manager import (
    GroupMigrationPostponed as GroupMigrationPostponed,
)
from opendrs.pve_ha.log_events.manager import (
    GroupMigrationStarted as GroupMigrationStarted,
)
from opendrs.pve_ha.log_events.manager import (
    GroupMigrationSucceeded as GroupMigrationSucceeded,
)
from opendrs.pve_ha.log_events.manager import (
    GroupMigrationVersion as GroupMigrationVersion,
)
from opendrs.pve_ha.log_events.manager import GroupRulesWritten as GroupRulesWritten
from opendrs.pve_ha.log_events.manager import GroupsDeleted as GroupsDeleted
from opendrs.pve_ha.log_events.manager import (
    GroupsRemovedFromServices as GroupsRemovedFromServices,
)
from opendrs.pve_ha.log_events.manager import MasterOffline as MasterOffline
from opendrs.pve_ha.log_events.manager import MoveScoringFailed as MoveScoringFailed
from opendrs.pve_ha.log_events.manager import NodeStateChanged as NodeStateChanged
from opendrs.pve_ha.log_events.manager import Overcommitted as Overcommitted
from opendrs.pve_ha.log_events.manager import RebalanceQueued as RebalanceQueued
from opendrs.pve_ha.log_events.manager import RuleDropped as RuleDropped
from opendrs.pve_ha.log_events.manager import SchedulerFallback as SchedulerFallback
from opendrs.pve_ha.log_events.manager import SchedulerSelected as SchedulerSelected
from opendrs.pve_ha.log_events.manager import SchedulerSwitched as SchedulerSwitched
from opendrs.pve_ha.log_events.manager import SchedulerUnknown as SchedulerUnknown
from opendrs.pve_ha.log_events.manager import ServiceAdded as ServiceAdded
from opendrs.pve_ha.log_events.manager import ServiceRemoved as ServiceRemoved
from opendrs.pve_ha.log_events.manager import ServiceStateChanged as ServiceStateChanged
from opendrs.pve_ha.log_events.manager import ServiceUsageUnknown as ServiceUsageUnknown
from opendrs.pve_ha.log_events.manager import StartScoringFailed as StartScoringFailed
from opendrs.pve_ha.log_events.processes import ClusterIdle as ClusterIdle
from opendrs.pve_ha.log_events.processes import (
    DisarmedMasterElected as DisarmedMasterElected,
)
from opendrs.pve_ha.log_events.processes import (
    InconsistentRoundSkipped as InconsistentRoundSkipped,
)
from opendrs.pve_ha.log_events.processes import LockAcquired as LockAcquired
from opendrs.pve_ha.log_events.processes import ManagerDisarmed as ManagerDisarmed
from opendrs.pve_ha.log_events.processes import (
    ManagerLockReleased as ManagerLockReleased,
)
from opendrs.pve_ha.log_events.processes import (
    ManagerLockReleaseFailed as ManagerLockReleaseFailed,
)
from opendrs.pve_ha.log_events.processes import ManagerRearmed as ManagerRearmed
from opendrs.pve_ha.log_events.processes import (
    ManagerStatusUnreadable as ManagerStatusUnreadable,
)
from opendrs.pve_ha.log_events.processes import (
    ProcessStateChanged as ProcessStateChanged,
)
from opendrs.pve_ha.log_events.processes import ShutdownReceived as ShutdownReceived
from opendrs.pve_ha.log_events.processes import UnexpectedError as UnexpectedError
from opendrs.pve_ha.log_events.services import FallbackDropped as FallbackDropped
from opendrs.pve_ha.log_events.services import FallbackRedundant as FallbackRedundant
from opendrs.pve_ha.log_events.services import FallbackStarted as FallbackStarted
from opendrs.pve_ha.log_events.services import (
    GracefulStopRequested as GracefulStopRequested,
)
from opendrs.pve_ha.log_events.services import HardStopRequested as HardStopRequested
from opendrs.pve_ha.log_events.services import (
    LeftoverLockRemoved as LeftoverLockRemoved,
)
from opendrs.pve_ha.log_events.services import LocationCorrected as LocationCorrected
from opendrs.pve_ha.log_events.services import MigrationSelected as MigrationSelected
from opendrs.pve_ha.log_events.services import MotionFailed as MotionFailed
from opendrs.pve_ha.log_events.services import MotionStarted as MotionStarted
from opendrs.pve_ha.log_events.services import NodesExhausted as NodesExhausted
from opendrs.pve_ha.log_events.services import RecoveryFailed as RecoveryFailed
from opendrs.pve_ha.log_events.services import RelocationFailed as RelocationFailed
from opendrs.pve_ha.log_events.services import RelocationSelected as RelocationSelected
from opendrs.pve_ha.log_events.services import (
    RelocationSucceeded as RelocationSucceeded,
)
from opendrs.pve_ha.log_events.services import (
    RequestedStateUnknown as RequestedStateUnknown,
)
from opendrs.pve_ha.log_events.services import ServiceRecovered as ServiceRecovered
from opendrs.pve_ha.log_events.services import (
    ServiceRecoveredInPlace as ServiceRecoveredInPlace,
)
from opendrs.pve_ha.log_events.services import (
    ServiceUnrecoverable as ServiceUnrecoverable,
)
from opendrs.pve_ha.log_events.services import StartFailed as StartFailed
from opendrs.pve_ha.log_events.services import StartNodeSelected as StartNodeSelected
from opendrs.pve_ha.log_events.services import (
    StartPlacementRedundant as StartPlacementRedundant,
)
from opendrs.pve_ha.log_events.services import StopFailed as StopFailed
from opendrs.pve_ha.log_events.services import StopRedundant as StopRedundant
from opendrs.pve_ha.log_events.services import TargetOffline as TargetOffline
from opendrs.pve_ha.log_events.services import TargetReached as TargetReached
from opendrs.pve_ha.log_events.services import WrongNode as WrongNode

LOG_LINES: LogLines = {
    **processes.PROCESS_LINES,
    **manager.NODE_LINES,
    **manager.ROUND_LINES,
    **services.SERVICE_LINES,
    **crm_commands.CRM_COMMAND_LINES,
    **manager.GROUP_LINES,
    **lrm.LRM_LINES,
    **jobs.JOB_LINES,
}


def log_level(event: LogEvent) -> LogLevel:
    """Return how important *event* is."""
    return LOG_LINES[type(event)].level


def log_message(event: LogEvent) -> str:
    """Return what Proxmox VE writes about *event*."""
    return LOG_LINES[type(event)].template.format(event)
