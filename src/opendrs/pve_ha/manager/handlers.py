"""State transitions of services in the manager, one handler for each state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.effects import RemoveServiceLock, SetServiceNode
from opendrs.pve_ha.manager.manager_round import NO_NODE, ManagerRound
from opendrs.pve_ha.manager.started_handler import on_started, start_motion
from opendrs.pve_ha.states import (
    ExitCode,
    LrmMode,
    NameList,
    NodePreference,
    RequestedState,
    ServiceId,
    ServiceState,
    StartNodeChoice,
)
from opendrs.pve_ha.status_files import (
    QueuedMotion,
    QueuedStop,
    ServiceConfig,
)


def requested_service_state(config: ServiceConfig) -> ServiceState:
    """Return the state that follows once a service has reached its node."""
    if config.state == RequestedState.STARTED:
        return ServiceState.STARTED
    return ServiceState.REQUEST_STOP


def on_request_start(round_: ManagerRound, service: ServiceId) -> None:
    """Select a node if rebalance on start is enabled, and start the service."""
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


def on_motion(round_: ManagerRound, service: ServiceId) -> None:
    """Wait until the LRM has moved a service."""
    if not _is_finished(round_, service):
        _fence_if_lost(round_, service)


def _is_finished(round_: ManagerRound, service: ServiceId) -> bool:
    """Return True if the move has ended and no further action is needed."""
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
    """Wait until the LRM has stopped a service."""
    result = round_.result_of(service)
    if result == ExitCode.SUCCESS:
        round_.change_state(service, ServiceState.STOPPED)
    elif result is not None:
        round_.step.log(log_events.StopFailed(service, result))
        round_.change_state(service, ServiceState.ERROR)
    elif round_.nodes.is_offline_delayed(round_.services[service].node):
        round_.change_state(service, ServiceState.FENCE)


def on_stopped(round_: ManagerRound, service: ServiceId) -> None:
    """Execute what is requested for a stopped service."""
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


# Locks of operations that may have been in progress when a node failed.
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
    """Leave a failed service unchanged until the operator disables it."""
    if round_.config_of(service).state == RequestedState.DISABLED:
        _stop_permanently(round_, service)


def on_freeze(round_: ManagerRound, service: ServiceId) -> None:
    """Leave a service unchanged until the LRM of its node is active again."""
    if round_.lrm_modes.get(round_.services[service].node) is LrmMode.ACTIVE:
        round_.change_state(service, requested_service_state(round_.config_of(service)))


def on_recovery(round_: ManagerRound, service: ServiceId) -> None:
    """Select another node for the service of a fenced node."""
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
    """Wait for fencing, which is done for all services of a node at once."""


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
