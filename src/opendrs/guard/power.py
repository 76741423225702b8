"""Whether a node may be woken or put to sleep."""

from __future__ import annotations

from opendrs.guard.refusal import Objection, Refusal
from opendrs.model import Limits, Node, NodeState, PowerOff, PowerOn, Snapshot


def power_objection(
    action: PowerOn | PowerOff, fresh: Snapshot, limits: Limits
) -> Objection | None:
    """Return what speaks against *action*: only an empty node may sleep.

    And not one that was woken just now, lest it be woken again at once.
    """
    node = fresh.nodes.get(action.node)
    if node is None:
        detail = f"{action.node} is no longer a node of the cluster"
        return Objection(Refusal.OUT_OF_DATE, detail)
    if isinstance(action, PowerOff):
        return _against_sleep(node, fresh) or _against_sleep_again(node, fresh, limits)
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


def _against_sleep_again(
    node: Node, fresh: Snapshot, limits: Limits
) -> Objection | None:
    if node.woken_at is None:
        return None
    elapsed = max(0.0, (fresh.taken_at - node.woken_at).total_seconds())
    if elapsed >= limits.cooldown:
        return None
    detail = (
        f"{node.id} was woken {elapsed:.0f} s ago and stays on for "
        f"{limits.cooldown:.0f} s"
    )
    return Objection(Refusal.COOLING_DOWN, detail)
