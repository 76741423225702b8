"""Whether a node may be woken or put to sleep."""

from __future__ import annotations

from opendrs.guard.refusal import Objection, Refusal
from opendrs.model import Node, NodeState, PowerOff, PowerOn, Snapshot


def power_objection(action: PowerOn | PowerOff, fresh: Snapshot) -> Objection | None:
    """Return what speaks against *action*: only an empty node may sleep."""
    node = fresh.nodes.get(action.node)
    if node is None:
        detail = f"{action.node} is no longer a node of the cluster"
        return Objection(Refusal.OUT_OF_DATE, detail)
    if isinstance(action, PowerOff):
        return _against_sleep(node, fresh)
    if node.online:
        return Objection(Refusal.OUT_OF_DATE, f"{node.id} is online already")
    return None


def _against_sleep(node: Node, fresh: Snapshot) -> Objection | None:
    if node.state is NodeState.OFFLINE:
        return Objection(Refusal.OUT_OF_DATE, f"{node.id} is offline already")
    if node.state is NodeState.UNKNOWN:
        detail = f"{node.id} does not answer, so nobody can tell who is on it"
        return Objection(Refusal.NODE_NOT_SEEN, detail)
    # Who is stopped takes no room, and yet could not be started any more.
    guests = fresh.guests.values()
    if there := [g.id for g in guests if node.id in (g.node, g.migrating_to)]:
        detail = f"{node.id} is not empty: {', '.join(sorted(there))}"
        return Objection(Refusal.NODE_NOT_EMPTY, detail)
    return None
