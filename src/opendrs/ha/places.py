"""Where services take up room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

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
        current, target = self.current, self.target
        if target is None or target == current:
            return () if current is None else (current,)
        return (target,) if current is None else (current, target)


NOWHERE = Places()


@lru_cache(maxsize=1 << 16)
def _known_places(
    current: NodeId | None, target: NodeId | None, *, running: bool
) -> Places:
    return Places(current, target, running)


def places_of(status: ServiceStatus, is_online: Mapping[NodeId, object]) -> Places:
    """Return where a service takes up room.

    Args:
        status: Where it stands.
        is_online: The nodes that are online, as its keys.
    """
    state = status.state
    if state is ServiceState.STARTED and status.target is None:
        here = status.node if status.node in is_online else None
        return _known_places(here, None, running=status.running)
    current = status.node if state in SETTLED and status.node in is_online else None
    target = status.target if state in ARRIVING and status.target in is_online else None
    if state is ServiceState.STARTED:
        return _known_places(current, target, running=status.running)
    return Places(current, target, current is not None)
