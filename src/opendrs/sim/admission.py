"""What a data centre takes on, as things are."""

from __future__ import annotations

from collections.abc import Mapping

from opendrs.errors import PlatformError, UnsupportedError
from opendrs.model import (
    Action,
    Guest,
    GuestId,
    GuestState,
    Migration,
    Mobility,
    Move,
    Node,
    NodeId,
    PowerOff,
    PowerOn,
)


def require_possible(
    action: Action, nodes: Mapping[NodeId, Node], guests: Mapping[GuestId, Guest]
) -> None:
    """Check that *action* can begin, as a hypervisor would check it.

    Raises:
        PlatformError: It is not possible as things are.
        UnsupportedError: The guest cannot be moved in this way.
    """
    if isinstance(action, PowerOn | PowerOff):
        _require_switch(action, nodes, guests)
        return
    _require_guest(action, guests.get(action.guest))
    target = nodes.get(action.target)
    if target is None or not target.online or target.id == action.source:
        raise PlatformError(f"{action.guest} cannot be moved to {action.target}")


def _require_guest(move: Move, guest: Guest | None) -> None:
    if guest is None or guest.node != move.source:
        raise PlatformError(f"{move.guest} is not on {move.source}")
    if guest.migrating_to is not None:
        raise PlatformError(f"{guest.id} is being moved already")
    if guest.state is not GuestState.RUNNING:
        raise PlatformError(f"{guest.id} does not run: its state is {guest.state}")
    tied = isinstance(move, Migration) and guest.mobility is Mobility.STOPPED
    if tied or guest.mobility is Mobility.NEVER:
        why = guest.obstacle or "the platform does not say why"
        raise UnsupportedError(f"{guest.id} cannot be moved: {why}")


def _require_switch(
    switch: PowerOn | PowerOff,
    nodes: Mapping[NodeId, Node],
    guests: Mapping[GuestId, Guest],
) -> None:
    if switch.node not in nodes:
        raise PlatformError(f"{switch.node} is not known")
    there = any(switch.node in guest.locations for guest in guests.values())
    if isinstance(switch, PowerOff) and there:
        raise PlatformError(f"{switch.node} is not empty")
