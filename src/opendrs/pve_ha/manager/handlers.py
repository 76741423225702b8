"""The manager's transitions of a service, one handler for each service state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.effects import RemoveServiceLock, SetServiceNode, SetServiceState
from opendrs.pve_ha.manager.manager_round import NO_NODE, ManagerRound
from opendrs.pve_ha.states import (
    VIRTUAL_MACHINE,
    ExitCode,
    LrmMode,
    NameList,
    NodePreference,
    PveNodeState,
    RequestedState,
    ServiceId,
    ServiceState,
    StartNodeChoice,
    service_type,
)
from opendrs.pve_ha.status_files import (
    QueuedMotion,
    QueuedStop,
    ServiceConfig,
    ServiceStatus,
)


def requested_service_state(config: ServiceConfig) -> ServiceState:
    """Return the state in which a service goes on, once it is somewhere."""
    if config.state == RequestedState.STARTED:
        return ServiceState.STARTED
    return ServiceState.REQUEST_STOP


def start_motion(
    round_: ManagerRound, service: ServiceId, motion: QueuedMotion, *, log_start: bool
) -> bool:
    """Begin *motion* if there is anything to it, and return whether it began.

    Args:
        round_: The round under way.
        service: The service that was asked to move.
        motion: Where to, and how.
        log_start: Whether the beginning is told.
    """
    current_node, target = round_.services[service].node, motion.target
    if not round_.nodes.is_online(target):
        round_.step.log(log_events.TargetOffline(service, motion.command, target))
        return False
    if target == current_node:
        round_.step.log(log_events.TargetReached(service, motion.command, target))
        return False
    if log_start:
        round_.step.log(log_events.MotionStarted(service, motion.command, target))
    round_.change_state(
        service, ServiceState(motion.command), node=current_node, target=target
    )
    return True


def on_request_start(round_: ManagerRound, service: ServiceId) -> None:
    """Choose a node to start on, if that is wanted, and start there."""
    current_node = round_.services[service].node
    if round_.scheduling.rebalance_on_start:
        selected = round_.select_node(service, NodePreference.BEST_SCORE)
        choice = (
            StartNodeChoice.CURRENT if selected == current_node else StartNodeChoice.NEW
        )
        names = NameList(() if selected is None else (selected,))
        round_.step.log(log_events.StartNodeSelected(service, choice, names))
        if choice is StartNodeChoice.NEW:
            round_.change_state(
                service,
                ServiceState.REQUEST_START_BALANCE,
                node=current_node,
                target=NO_NODE if selected is None else selected,
            )
            return
    round_.change_state(service, ServiceState.STARTED, node=current_node)


START_FAILURE_CODES = (ExitCode.ERROR, ExitCode.WRONG_NODE)


def on_started(round_: ManagerRound, service: ServiceId) -> None:
    """Keep a service running, where it should be."""
    if _is_settled(round_, service) or not _has_operational_node(round_, service):
        return
    config = round_.config_of(service)
    if config.state in (RequestedState.DISABLED, RequestedState.STOPPED):
        round_.change_state(service, ServiceState.REQUEST_STOP)
    elif config.state != RequestedState.STARTED:
        round_.step.log(log_events.RequestedStateUnknown(service, config.state))
    elif round_.services[service].queued_command is not None:
        _execute_queued_command(round_, service)
    else:
        _keep_running(round_, service)


def _is_settled(round_: ManagerRound, service: ServiceId) -> bool:
    """Let a service run on if it is certain that nothing else is to be done.

    That is so of most services in most rounds. It comes to what `_keep_running`
    does of them, in a tenth of the time.
    """
    status = round_.services[service]
    config = round_.config.get(service)
    if (
        config is None
        or config.state != RequestedState.STARTED
        or status.queued_command is not None
        or status.failed_nodes
        or status.maintenance_node is not None
        or round_.nodes.states.get(status.node) is not PveNodeState.ONLINE
        or not round_.selector.certainly_stays(
            service, status.node, failback=config.failback
        )
    ):
        return False
    result = None if status.uid is None else round_.job_results.get(status.uid)
    if result == ExitCode.SUCCESS and (
        round_.state.recheck_services or not status.running
    ):
        round_.services[service] = ServiceStatus(
            state=status.state,
            node=status.node,
            uid=round_.new_uid(),
            target=status.target,
            timeout=status.timeout,
            running=True,
        )
    return result is None or result == ExitCode.SUCCESS


def _has_operational_node(round_: ManagerRound, service: ServiceId) -> bool:
    """Return whether there is a node to decide about; fence one that is lost."""
    node = round_.services[service].node
    if round_.nodes.is_online(node):
        return True
    if round_.nodes.is_offline_delayed(node):
        round_.change_state(service, ServiceState.FENCE)
    if not round_.is_in_maintenance(node):
        return False
    status = round_.services[service]
    round_.set_status(service, replace(status, maintenance_node=node))
    return True


def _execute_queued_command(round_: ManagerRound, service: ServiceId) -> None:
    status = round_.services[service]
    round_.set_status(service, replace(status, queued_command=None))
    match status.queued_command:
        case QueuedMotion() as motion:
            start_motion(round_, service, motion, log_start=True)
        case QueuedStop(timeout):
            event = (
                log_events.HardStopRequested(service)
                if timeout == 0
                else log_events.GracefulStopRequested(service, timeout)
            )
            round_.step.log(event)
            round_.change_state(service, ServiceState.REQUEST_STOP, timeout=timeout)
            round_.step.emit(SetServiceState(service, RequestedState.STOPPED))
            config = round_.config_of(service)
            round_.config[service] = replace(config, state=RequestedState.STOPPED)


def _keep_running(round_: ManagerRound, service: ServiceId) -> None:
    result = round_.result_of(service)
    preference = NodePreference.NONE
    if result == ExitCode.SUCCESS:
        _record_success(round_, service)
    elif result in START_FAILURE_CODES:
        if not _can_relocate(round_, service):
            return
        preference = NodePreference.TRY_NEXT
    elif result is not None:
        _enter_error_state(round_, service, result)
        return
    node = round_.select_node(service, preference)
    if node is not None and node != round_.services[service].node:
        _move_service(round_, service, node)
    else:
        _keep_node(round_, service, preference, node)


def _record_success(round_: ManagerRound, service: ServiceId) -> None:
    status = round_.services[service]
    if status.failed_nodes:
        round_.step.log(
            log_events.RelocationSucceeded(
                service, status.node, NameList(status.failed_nodes)
            )
        )
    if status.failed_nodes or not status.running:
        round_.set_status(service, replace(status, failed_nodes=(), running=True))


def _record_failure(round_: ManagerRound, service: ServiceId) -> tuple[NodeId, ...]:
    status = round_.services[service]
    failed_nodes = (*status.failed_nodes, status.node)
    round_.set_status(
        service, replace(status, failed_nodes=failed_nodes, running=False)
    )
    return failed_nodes


def _can_relocate(round_: ManagerRound, service: ServiceId) -> bool:
    """Return whether a service that did not start may try another node."""
    failed_nodes = _record_failure(round_, service)
    if len(failed_nodes) <= round_.config_of(service).max_relocate:
        node = round_.services[service].node
        round_.step.log(log_events.StartFailed(service, node))
        return True
    round_.step.log(log_events.RelocationFailed(service, NameList(failed_nodes)))
    round_.change_state(service, ServiceState.ERROR)
    return False


def _enter_error_state(round_: ManagerRound, service: ServiceId, code: int) -> None:
    _record_failure(round_, service)
    round_.step.log(log_events.ServiceUnrecoverable(service, code))
    round_.change_state(service, ServiceState.ERROR)


def _move_service(round_: ManagerRound, service: ServiceId, node: NodeId) -> None:
    """Move a service to a better node."""
    status = round_.services[service]
    fallback_node = status.maintenance_node
    if fallback_node is not None and fallback_node != status.node:
        event = (
            log_events.FallbackStarted(service, fallback_node)
            if fallback_node == node
            else log_events.FallbackDropped(service, fallback_node)
        )
        round_.step.log(event)
        round_.set_status(service, replace(status, maintenance_node=None))
    if service_type(service) == VIRTUAL_MACHINE:
        round_.step.log(log_events.MigrationSelected(service, node))
        state = ServiceState.MIGRATE
    else:
        round_.step.log(log_events.RelocationSelected(service, node))
        state = ServiceState.RELOCATE
    round_.change_state(service, state, node=status.node, target=node)


def _keep_node(
    round_: ManagerRound,
    service: ServiceId,
    preference: NodePreference,
    node: NodeId | None,
) -> None:
    status = round_.services[service]
    if preference is NodePreference.TRY_NEXT and node is None:
        failed_nodes = NameList(status.failed_nodes)
        round_.step.log(log_events.NodesExhausted(service, failed_nodes))
    if status.maintenance_node == status.node and round_.nodes.is_online(status.node):
        round_.step.log(log_events.FallbackRedundant(service, status.node))
        status = replace(status, maintenance_node=None)
    if round_.result_of(service) is not None:
        # The agent looks after the service again in its next turn.
        status = replace(status, uid=round_.new_uid())
    round_.set_status(service, status)


def on_motion(round_: ManagerRound, service: ServiceId) -> None:
    """Wait until the agent has moved a service."""
    if not _is_finished(round_, service):
        _fence_if_lost(round_, service)


def _is_finished(round_: ManagerRound, service: ServiceId) -> bool:
    """Return whether the move has ended and nothing more is to be said of it."""
    status, result = round_.services[service], round_.result_of(service)
    requested = requested_service_state(round_.config_of(service))
    match result:
        case None:
            return False
        case ExitCode.SUCCESS:
            round_.change_state(service, requested, node=status.target)
            return True
        case ExitCode.WRONG_NODE:
            round_.step.log(log_events.WrongNode(service))
            round_.change_state(service, ServiceState.ERROR)
            return False
        case ExitCode.IGNORED:
            round_.step.log(log_events.StartPlacementRedundant(service))
            round_.change_state(service, requested, node=status.node)
            return False
        case code:
            round_.step.log(log_events.MotionFailed(service, code))
            round_.change_state(service, requested, node=status.node)
            return True


def _fence_if_lost(round_: ManagerRound, service: ServiceId) -> None:
    if round_.nodes.is_offline_delayed(round_.services[service].node):
        round_.change_state(service, ServiceState.FENCE)


def on_request_stop(round_: ManagerRound, service: ServiceId) -> None:
    """Wait until the agent has stopped a service."""
    result = round_.result_of(service)
    if result == ExitCode.SUCCESS:
        round_.change_state(service, ServiceState.STOPPED)
    elif result is not None:
        round_.step.log(log_events.StopFailed(service, result))
        round_.change_state(service, ServiceState.ERROR)
    elif round_.nodes.is_offline_delayed(round_.services[service].node):
        round_.change_state(service, ServiceState.FENCE)


def on_stopped(round_: ManagerRound, service: ServiceId) -> None:
    """Do with a stopped service what is asked for."""
    _correct_location(round_, service)
    if _execute_queued_motion(round_, service):
        return
    config, node = round_.config_of(service), round_.services[service].node
    if config.state == RequestedState.DISABLED:
        return
    if round_.nodes.is_offline_delayed(node) and not round_.is_in_maintenance(node):
        round_.change_state(service, ServiceState.FENCE)
    elif config.state == RequestedState.STARTED:
        round_.change_state(service, ServiceState.REQUEST_START, node=node)
    elif config.state != RequestedState.STOPPED:
        round_.step.log(log_events.RequestedStateUnknown(service, config.state))


def _correct_location(round_: ManagerRound, service: ServiceId) -> None:
    status, node = round_.services[service], round_.config_of(service).node
    if status.node != node:
        round_.step.log(log_events.LocationCorrected(service, status.node, node))
        round_.set_status(service, replace(status, node=node))


def _execute_queued_motion(round_: ManagerRound, service: ServiceId) -> bool:
    status = round_.services[service]
    if status.queued_command is None:
        return False
    round_.set_status(service, replace(status, queued_command=None))
    match status.queued_command:
        case QueuedMotion() as motion:
            return start_motion(round_, service, motion, log_start=False)
        case QueuedStop():
            round_.step.log(log_events.StopRedundant(service))
            return False


# What a node may have been doing to a guest when it died.
LEFTOVER_LOCKS = (
    "backup",
    "mounted",
    "migrate",
    "clone",
    "rollback",
    "snapshot",
    "snapshot-delete",
    "suspending",
    "suspended",
)


def on_error(round_: ManagerRound, service: ServiceId) -> None:
    """Leave a failed service alone until the operator disables it."""
    if round_.config_of(service).state == RequestedState.DISABLED:
        _stop_permanently(round_, service)


def on_freeze(round_: ManagerRound, service: ServiceId) -> None:
    """Leave a service alone until the agent of its node is at work again."""
    if round_.lrm_modes.get(round_.services[service].node) is LrmMode.ACTIVE:
        round_.change_state(service, requested_service_state(round_.config_of(service)))


def on_recovery(round_: ManagerRound, service: ServiceId) -> None:
    """Find another node for the service of a fenced one."""
    node = round_.select_node(service, NodePreference.BEST_SCORE)
    if node is not None:
        _recover(round_, service, node)
        return
    current_node = round_.services[service].node
    round_.step.log(log_events.RecoveryFailed(service, current_node))
    if round_.config_of(service).state == RequestedState.DISABLED:
        _stop_permanently(round_, service)


def _recover(round_: ManagerRound, service: ServiceId, node: NodeId) -> None:
    current_node = round_.services[service].node
    if node == current_node:
        round_.step.log(log_events.ServiceRecoveredInPlace(service, node))
    else:
        round_.step.log(log_events.ServiceRecovered(service, current_node, node))
    config = round_.config_of(service)
    if config.lock in LEFTOVER_LOCKS:
        round_.step.emit(RemoveServiceLock(service))
        round_.step.log(log_events.LeftoverLockRemoved(config.lock, service))
        config = replace(config, lock=None)
    round_.step.emit(SetServiceNode(service, node))
    round_.config[service] = replace(config, node=node)
    round_.change_state(service, requested_service_state(config), node=node)


def _stop_permanently(round_: ManagerRound, service: ServiceId) -> None:
    status = round_.services[service]
    round_.set_status(service, replace(status, failed_nodes=()))
    round_.change_state(service, ServiceState.STOPPED)


Handler = Callable[[ManagerRound, ServiceId], None]


def on_fence(_: ManagerRound, __: ServiceId) -> None:
    """Wait until the node is fenced, which is done for all its services at once."""


HANDLERS: Mapping[ServiceState, Handler] = MappingProxyType(
    {
        ServiceState.REQUEST_START: on_request_start,
        ServiceState.REQUEST_START_BALANCE: on_motion,
        ServiceState.STARTED: on_started,
        ServiceState.REQUEST_STOP: on_request_stop,
        ServiceState.STOPPED: on_stopped,
        ServiceState.MIGRATE: on_motion,
        ServiceState.RELOCATE: on_motion,
        ServiceState.FENCE: on_fence,
        ServiceState.RECOVERY: on_recovery,
        ServiceState.FREEZE: on_freeze,
        ServiceState.ERROR: on_error,
    }
)
