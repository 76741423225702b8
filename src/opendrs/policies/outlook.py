"""Whether a cluster can be judged, and what an operator should know of it."""

from __future__ import annotations

from opendrs.model import NodeState, Snapshot
from opendrs.policies.base import Reason
from opendrs.policies.board import Board
from opendrs.policies.units import summary
from opendrs.scoring.usage import UsageMode, unmeasured


def not_ready(snapshot: Snapshot, mode: UsageMode) -> tuple[Reason, str] | None:
    """Return why *snapshot* cannot be judged now, or None if it can."""
    moving = sorted(
        guest.id for guest in snapshot.guests.values() if guest.migrating_to is not None
    )
    if moving:
        return Reason.MIGRATION_UNDER_WAY, f"on the move: {', '.join(moving)}"
    missing = unmeasured(snapshot, mode)
    if missing:
        return Reason.NOT_MEASURED, f"not measured: {', '.join(missing)}"
    if not any(node.online for node in snapshot.nodes.values()):
        return Reason.NOT_MEASURED, "no node is online"
    return None


def notes(board: Board) -> tuple[str, ...]:
    """Return what stands in the way: dead nodes, contradictions, fixed guests."""
    unseen = sorted(
        name
        for name, node in board.snapshot.nodes.items()
        if node.state is NodeState.UNKNOWN
    )
    return (
        *(f"node {name} is unknown and left out" for name in unseen),
        *(f"contradiction: {found}" for found in board.rules.contradictions),
        *summary(board.units.left_alone),
    )
