"""Where services take up room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opendrs.ha.documents import ServiceStatus
from opendrs.ha.states import MOVING, ServiceState
from opendrs.model import NodeId

SETTLED = MOVING | {
    ServiceState.STARTED,
    ServiceState.REQUEST_STOP,
    ServiceState.FENCE,
    ServiceState.FREEZE,
    ServiceState.ERROR,
    ServiceState.RECOVERY,
}
ARRIVING = MOVING | {ServiceState.REQUEST_START_BALANCE}


@dataclass(frozen=True, slots=True)
class Places:
    """Where a service takes up room.

    Attributes:
        current: The node it is on, if it is online and the service is settled.
        target: The online node it moves to.
        running: Whether it is known to run.
    """

    current: NodeId | None = None
    target: NodeId | None = None
    running: bool = False

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Return the nodes on which it takes up room, the current one first."""
        both = (self.current, self.target if self.target != self.current else None)
        return tuple(node for node in both if node is not None)


NOWHERE = Places()


def places_of(status: ServiceStatus, is_online: Mapping[NodeId, object]) -> Places:
    """Return where a service takes up room.

    Args:
        status: Where it stands.
        is_online: The nodes that are online, as its keys.
    """
    state = status.state
    current = status.node if state in SETTLED and status.node in is_online else None
    target = status.target if state in ARRIVING and status.target in is_online else None
    if state is ServiceState.STARTED:
        return Places(current, target, status.running)
    return Places(current, target, current is not None)
