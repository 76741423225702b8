"""Whether a cluster can be judged, and what an operator should know of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import islice

from opendrs.model import GuestId, NodeId, NodeState, Snapshot, first_few
from opendrs.policies.base import Reason
from opendrs.policies.board import Board
from opendrs.policies.units import summary
from opendrs.rules import CompiledRules
from opendrs.scoring.usage import UsageMode, without_figures

MOST_REASONS = 3  # for which nodes are closed
MOST_TOLD = 5  # guests of which it is told why they may go nowhere


def not_ready(snapshot: Snapshot, mode: UsageMode) -> tuple[Reason, str] | None:
    """Return why *snapshot* cannot be judged now, or None if it can."""
    moving = under_way(snapshot)
    if moving is not None:
        return moving
    missing = without_figures(snapshot, mode)
    if missing:
        return Reason.NOT_MEASURED, f"{missing}; a plan needs it of all"
    if not any(node.online for node in snapshot.nodes.values()):
        return Reason.NOT_MEASURED, "no node is online"
    return None


def under_way(snapshot: Snapshot) -> tuple[Reason, str] | None:
    """Return that guests are being migrated, and which; None when none is.

    A migration of which a node does not answer is not waited for: that node may stay
    away. Its guest stays where it is, and counts on both nodes.
    """
    moving = sorted(
        guest.id
        for guest in snapshot.guests.values()
        if guest.migrating_to is not None
        and all(snapshot.nodes[name].reachable for name in guest.locations)
    )
    if not moving:
        return None
    return Reason.MIGRATION_UNDER_WAY, f"on the move: {first_few(moving)}"


def notes(board: Board) -> tuple[str, ...]:
    """Return what stands in the way of moves on *board*."""
    return obstacles(board.snapshot, board.rules, board.units.left_alone)


def obstacles(
    snapshot: Snapshot, rules: CompiledRules, left_alone: Mapping[GuestId, str]
) -> tuple[str, ...]:
    """Return what stands in the way: dead nodes, contradictions, fixed guests."""
    unseen = sorted(
        name for name, node in snapshot.nodes.items() if node.state is NodeState.UNKNOWN
    )
    return (
        *(f"node {name} is unknown and left out" for name in unseen),
        *(f"contradiction: {found}" for found in rules.contradictions),
        *summary(left_alone),
    )


def dead_ends(board: Board) -> tuple[str, ...]:
    """Return why the first few of those that might be moved may go nowhere."""
    return tuple(
        f"nowhere to go: {first_few(names)}: {by_reason(closed)}"
        for unit, closed in islice(board.dead_ends(), MOST_TOLD)
        for names in [[guest.id for guest in unit]]
    )


def by_reason(closed: Mapping[NodeId, str]) -> str:
    """Return why nodes are closed: those with one reason together.

    Of many reasons those of most nodes are told.
    """
    nodes: defaultdict[str, list[str]] = defaultdict(list)
    for node, why in closed.items():
        nodes[why].append(node)
    ranked = sorted(nodes.items(), key=lambda each: -len(each[1]))
    told = [f"{first_few(names)}: {why}" for why, names in ranked[:MOST_REASONS]]
    if further := sum(len(names) for _, names in ranked[MOST_REASONS:]):
        told.append(f"{further} more for other reasons")
    return "; ".join(told)
