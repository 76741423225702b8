"""What the operator wants of a service, as a state."""

from __future__ import annotations

from opendrs.ha.documents import ServiceConfig
from opendrs.ha.states import Requested, ServiceState


def state_wanted(config: ServiceConfig) -> ServiceState:
    """Return the state in which a service goes on, once it is somewhere."""
    if config.state == Requested.STARTED:
        return ServiceState.STARTED
    return ServiceState.REQUEST_STOP
