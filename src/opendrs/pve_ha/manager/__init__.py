"""The work of the master: nodes, rules, service states, node selection and balancing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from opendrs.pve_ha.manager.handlers import (
    on_error,
    on_freeze,
    on_motion,
    on_recovery,
    on_request_start,
    on_request_stop,
    on_started,
    on_stopped,
)
from opendrs.pve_ha.manager.manager_round import ManagerRound
from opendrs.pve_ha.states import ServiceId, ServiceState

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
