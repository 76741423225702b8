"""Nodes and guests that options name, with a suggestion for unknown ones."""

from __future__ import annotations

from opendrs.config import suggestion
from opendrs.errors import UnknownGuestError, UnknownNodeError
from opendrs.escapes import repr_value
from opendrs.model import Guest, GuestId, NodeId, Snapshot


def require_node(option: str, name: str, snapshot: Snapshot) -> NodeId:
    """Return the id of the node *name*.

    Args:
        option: Option that names it, for the message.
        name: Name of the node.
        snapshot: The cluster.

    Raises:
        UnknownNodeError: There is no such node.
    """
    if name not in snapshot.nodes:
        guess = suggestion(name, snapshot.nodes)
        raise UnknownNodeError(f"{option}: unknown node {repr_value(name)}{guess}")
    return NodeId(name)


def require_guest(option: str, name: str, snapshot: Snapshot) -> Guest:
    """Return the guest *name*.

    Args:
        option: Option that names it, for the message.
        name: Name of the guest.
        snapshot: The cluster.

    Raises:
        UnknownGuestError: There is no such guest.
    """
    guest = snapshot.guests.get(GuestId(name))
    if guest is None:
        guess = suggestion(name, snapshot.guests)
        raise UnknownGuestError(f"{option}: unknown guest {repr_value(name)}{guess}")
    return guest
