"""Commands of the operator to the manager, one per line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.config.rules.rule import ServiceSet
from opendrs.pve_ha.effects import ClearCrmCommands
from opendrs.pve_ha.manager.manager_round import ManagerRound
from opendrs.pve_ha.states import DisarmMode, PveNodeState, ServiceCommand, ServiceId
from opendrs.pve_ha.status_files import (
    DisarmStatus,
    QueuedMotion,
    QueuedStop,
    ServiceStatus,
)

NO_SERVICES: ServiceSet = frozenset()


def process_crm_commands(round_: ManagerRound) -> None:
    """Execute the queued commands, and log those that are invalid."""
    lines = round_.step.observation.require_files().crm_commands
    if lines:
        round_.step.emit(ClearCrmCommands())
    for line in lines:
        name, _, rest = line.partition(" ")
        pattern, handle = _COMMANDS.get(name, (_NEVER, _log_unknown))
        match = pattern.fullmatch(rest)
        if match is None:
            round_.step.log(log_events.CrmCommandUnknown(line))
        else:
            handle(round_, line, match)


def queue_motion(
    round_: ManagerRound, motion: QueuedMotion, service: ServiceId
) -> None:
    """Queue *motion* for *service* and the services that must share its node.

    Nothing is queued if the target holds a service that must not share a node with it.
    """
    line = f"{motion.command} {service} {motion.target}"
    for other in sorted(round_.rules.apart.get(service, NO_SERVICES)):
        if _blocks_target(round_.services.get(other), motion.target):
            round_.step.log(
                log_events.AntiAffinityConflict(line, other, motion.target, service)
            )
            return
    round_.step.log(log_events.CrmCommandReceived(line))
    _queue_command(round_, service, motion)
    for other in sorted(round_.rules.together.get(service, NO_SERVICES)):
        if _must_follow(round_.services.get(other), motion.target):
            round_.step.log(
                log_events.AffinityMoveQueued(
                    line, motion.command, other, motion.target, service
                )
            )
            _queue_command(round_, other, motion)


def _queue_command(
    round_: ManagerRound, service: ServiceId, command: QueuedMotion | QueuedStop
) -> None:
    round_.set_status(
        service, replace(round_.services[service], queued_command=command)
    )


def _blocks_target(status: ServiceStatus | None, target: NodeId) -> bool:
    """Return True if a service is on *target* and does not leave it."""
    if status is None or status.node != target:
        return False
    return not status.target or status.target == target


def _must_follow(status: ServiceStatus | None, target: NodeId) -> bool:
    """Return True if a service is neither on *target* nor migrating to it."""
    return status is not None and target not in (status.node, status.target)


def _handle_motion(round_: ManagerRound, line: str, arguments: re.Match[str]) -> None:
    service, target = ServiceId(arguments[1]), NodeId(arguments[2])
    if service not in round_.services:
        round_.step.log(log_events.NoSuchService(line))
    elif not round_.nodes.is_online(target):
        round_.step.log(log_events.NodeNotOnline(line))
    elif round_.services[service].node == target:
        round_.step.log(log_events.CrmCommandRedundant(line))
    else:
        queue_motion(
            round_,
            QueuedMotion(ServiceCommand(line.partition(" ")[0]), target),
            service,
        )


def _handle_stop(round_: ManagerRound, line: str, arguments: re.Match[str]) -> None:
    service = ServiceId(arguments[1])
    if service not in round_.services:
        round_.step.log(log_events.NoSuchService(line))
        return
    round_.step.log(log_events.CrmCommandReceived(line))
    _queue_command(round_, service, QueuedStop(int(arguments[2])))


def _enable_maintenance(
    round_: ManagerRound, line: str, arguments: re.Match[str]
) -> None:
    node = NodeId(arguments[1])
    state = round_.nodes.state_of(node)
    if round_.disarm is not None:
        round_.step.log(log_events.MaintenanceRejected(node))
    elif state is PveNodeState.ONLINE:
        round_.maintenance_requests.add(node)
    elif state is PveNodeState.MAINTENANCE:
        round_.step.log(log_events.MaintenanceRedundant(node))
    else:
        round_.step.log(log_events.NodeNotOnline(line))


def _disable_maintenance(
    round_: ManagerRound, _: str, arguments: re.Match[str]
) -> None:
    node = NodeId(arguments[1])
    state = round_.nodes.state_of(node)
    if state is not PveNodeState.MAINTENANCE:
        round_.step.log(log_events.MaintenanceNotActive(node, state))
    round_.maintenance_requests.discard(node)


def _disarm(round_: ManagerRound, line: str, arguments: re.Match[str]) -> None:
    if round_.disarm is not None:
        round_.step.log(log_events.DisarmRedundant(round_.disarm.state))
        return
    round_.step.log(log_events.CrmCommandReceived(line))
    if arguments[1] == DisarmMode.IGNORE:
        for service in sorted(round_.services):
            round_.step.log(log_events.TrackingSuspended(service))
    round_.disarm = DisarmStatus(arguments[1])


def _arm(round_: ManagerRound, line: str, _: re.Match[str]) -> None:
    if round_.disarm is None:
        round_.step.log(log_events.ArmRedundant())
        return
    round_.step.log(log_events.CrmCommandReceived(line))
    if round_.disarm.mode == DisarmMode.IGNORE:
        _update_locations(round_)
    round_.disarm = None


def _update_locations(round_: ManagerRound) -> None:
    """Read the nodes of the services that were not tracked while disarmed."""
    for service, status in sorted(round_.services.items()):
        config = round_.config.get(service)
        if config is not None and config.node != status.node:
            round_.step.log(
                log_events.MovedWhileDisarmed(service, status.node, config.node)
            )
            round_.set_status(service, replace(status, node=config.node))


def _log_unknown(round_: ManagerRound, line: str, _: re.Match[str]) -> None:
    round_.step.log(log_events.CrmCommandUnknown(line))


_NEVER = re.compile(r"(?!)")
_SERVICE_AND_NODE = re.compile(r"\s*(\S+)\s+(\S+)\s*")
_NODE = re.compile(r"\s*(\S+)\s*")
CommandHandler = Callable[[ManagerRound, str, re.Match[str]], None]
_COMMANDS: Mapping[str, tuple[re.Pattern[str], CommandHandler]] = MappingProxyType(
    {
        "migrate": (_SERVICE_AND_NODE, _handle_motion),
        "relocate": (_SERVICE_AND_NODE, _handle_motion),
        "stop": (re.compile(r"\s*(\S+)\s+(\d+)\s*"), _handle_stop),
        "enable-node-maintenance": (_NODE, _enable_maintenance),
        "disable-node-maintenance": (_NODE, _disable_maintenance),
        "disarm-ha": (re.compile(r"\s*(freeze|ignore)\s*"), _disarm),
        "arm-ha": (re.compile(r"\s*"), _arm),
    }
)
