"""What the manager does about a service, by the state it is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from opendrs.ha.handlers.endings import on_error, on_freeze, on_recovery
from opendrs.ha.handlers.moving import on_motion
from opendrs.ha.handlers.started import on_started
from opendrs.ha.handlers.starting import on_request_start
from opendrs.ha.handlers.stopping import on_request_stop, on_stopped
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.round import Round
from opendrs.ha.states import ServiceState

Handler = Callable[[Round, ServiceId], None]


def on_fence(_: Round, __: ServiceId) -> None:
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
