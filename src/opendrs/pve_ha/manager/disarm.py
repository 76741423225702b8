"""Disarming the HA stack without stopping its services."""

from __future__ import annotations

from dataclasses import replace

from opendrs.pve_ha import log_events
from opendrs.pve_ha.manager.manager_round import ManagerRound
from opendrs.pve_ha.states import (
    MOVING_STATES,
    DisarmMode,
    DisarmState,
    LrmMode,
    ServiceId,
    ServiceState,
)
from opendrs.pve_ha.status_files import DisarmStatus, ServiceStatus

UNSAFE_STATES = frozenset({ServiceState.FENCE, ServiceState.RECOVERY})
DISARM_FREEZABLE_STATES = frozenset(
    {
        ServiceState.STARTED,
        ServiceState.STOPPED,
        ServiceState.REQUEST_STOP,
        ServiceState.REQUEST_START,
        ServiceState.REQUEST_START_BALANCE,
    }
)


def process_disarm(round_: ManagerRound, disarm: DisarmStatus) -> frozenset[ServiceId]:
    """Freeze or release all services while disarmed, and write the status.

    Returns:
        Services that must settle first; empty if nothing remains for this round.
    """
    if disarm.mode not in set(DisarmMode):
        round_.step.log(log_events.DisarmModeUnknown(disarm.mode))
        return frozenset()
    deferred = _deferred_services(round_)
    if deferred:
        return deferred
    if disarm.mode == DisarmMode.FREEZE:
        _freeze_all(round_)
    else:
        for service, status in round_.services.items():
            round_.set_status(service, _without_queued_command(status))
    _update_disarm_state(round_, disarm)
    round_.write_status()
    return frozenset()


def _deferred_services(round_: ManagerRound) -> frozenset[ServiceId]:
    deferred = set()
    for service, status in sorted(round_.services.items()):
        if status.state in UNSAFE_STATES:
            round_.step.log(log_events.DisarmDeferred(service, status.state))
            deferred.add(service)
        elif status.state in MOVING_STATES:
            round_.step.log(log_events.DisarmDeferredByMove(service, status.state))
            deferred.add(service)
    return frozenset(deferred)


def _freeze_all(round_: ManagerRound) -> None:
    for service, status in sorted(round_.services.items()):
        if status.state in DISARM_FREEZABLE_STATES:
            round_.step.log(log_events.ServiceFrozen(service, status.state))
            frozen_status = replace(
                _without_queued_command(status),
                state=ServiceState.FREEZE,
                uid=round_.new_uid(),
            )
            round_.set_status(service, frozen_status)


def _without_queued_command(status: ServiceStatus) -> ServiceStatus:
    return ServiceStatus(
        state=status.state,
        node=status.node,
        uid=status.uid,
        maintenance_node=status.maintenance_node,
    )


def _update_disarm_state(round_: ManagerRound, disarm: DisarmStatus) -> None:
    lrms_disarmed = all(
        round_.lrm_modes.get(node) is LrmMode.DISARM
        for node in round_.nodes.online_nodes()
    )
    if lrms_disarmed and disarm.state is not DisarmState.DISARMED:
        round_.step.log(log_events.ClusterDisarmed())
        disarm = replace(disarm, state=DisarmState.DISARMED)
        round_.disarm = disarm
    round_.disarmed = disarm.state is DisarmState.DISARMED
