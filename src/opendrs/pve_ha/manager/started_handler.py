"""State transitions of started services: stops, motions, failures and failback."""

from __future__ import annotations

from dataclasses import replace

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.effects import SetServiceState
from opendrs.pve_ha.manager.manager_round import ManagerRound
from opendrs.pve_ha.states import (
    VIRTUAL_MACHINE,
    ExitCode,
    NameList,
    NodePreference,
    PveNodeState,
    RequestedState,
    ServiceId,
    ServiceState,
    service_type,
)
from opendrs.pve_ha.status_files import (
    QueuedMotion,
    QueuedStop,
    ServiceStatus,
)

START_FAILURE_CODES = (ExitCode.ERROR, ExitCode.WRONG_NODE)


def start_motion(
    round_: ManagerRound, service: ServiceId, motion: QueuedMotion, *, log_start: bool
) -> bool:
    """Start *motion* if it is possible and needed, and return True if it started.

    Args:
        round_: Round in progress.
        service: Service to move.
        motion: Command and target.
        log_start: Log the start.
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


def on_started(round_: ManagerRound, service: ServiceId) -> None:
    """Keep a service running on a suitable node."""
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
    """Keep a service running if it is certain that no action is needed.

    That holds for most services in most rounds. The result is that of `_keep_running`,
    in a tenth of the time.
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
    """Return True if the node of a service is operational; fence a lost node."""
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
    """Return True if a service that failed to start may try another node."""
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
        # A new uid makes the LRM check the service again in its next step.
        status = replace(status, uid=round_.new_uid())
    round_.set_status(service, status)
