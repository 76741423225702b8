"""Whether a node may be woken or put to sleep."""

from __future__ import annotations

from opendrs.guard.refusal import Objection, Refusal
from opendrs.model import NodeState, PowerOff, PowerOn, Snapshot


def power_objection(action: PowerOn | PowerOff, fresh: Snapshot) -> Objection | None:
    """Return what speaks against *action*: only an empty node may sleep."""
    node = fresh.nodes.get(action.node)
    if node is None:
        detail = f"{action.node} is no longer a node of the cluster"
        return Objection(Refusal.OUT_OF_DATE, detail)
    if isinstance(action, PowerOn):
        if node.online:
            return Objection(Refusal.OUT_OF_DATE, f"{node.id} is online already")
        return None
    if node.state is NodeState.OFFLINE:
        return Objection(Refusal.OUT_OF_DATE, f"{node.id} is offline already")
    if guests := [g.id for g in fresh.guests.values() if node.id in g.locations]:
        detail = f"{node.id} is not empty: {', '.join(sorted(guests))}"
        return Objection(Refusal.NODE_NOT_EMPTY, detail)
    return None
