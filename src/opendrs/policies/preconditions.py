"""Preconditions of a decision, and notes about guests that cannot be moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import islice

from opendrs.arrays import AssignmentState, describe_skipped
from opendrs.metrics import LoadModel, missing_metrics
from opendrs.model import GuestId, NodeId, NodeState, Snapshot, format_list
from opendrs.policies.base import DecisionReason
from opendrs.rules import CompiledRules

MAX_REASONS = 3  # for which nodes are closed
MAX_NOTES = 5  # guests of which it is told why they may go nowhere


def unmet_precondition(
    snapshot: Snapshot, load_model: LoadModel
) -> tuple[DecisionReason, str] | None:
    """Return why *snapshot* cannot be judged now, or None if it can."""
    in_progress = migration_in_progress(snapshot)
    if in_progress is not None:
        return in_progress
    missing = missing_metrics(snapshot, load_model)
    if missing:
        return DecisionReason.METRICS_MISSING, f"{missing}; a plan needs it of all"
    if not any(node.online for node in snapshot.nodes.values()):
        return DecisionReason.METRICS_MISSING, "no node is online"
    return None


def migration_in_progress(snapshot: Snapshot) -> tuple[DecisionReason, str] | None:
    """Return that guests are being migrated, and which; None when none is.

    A migration of which a node does not answer is not waited for: that node may stay
    away. Its guest stays where it is, and counts on both nodes.
    """
    migrating = sorted(
        guest.id
        for guest in snapshot.guests.values()
        if guest.migrating_to is not None
        and all(snapshot.nodes[name].reachable for name in guest.occupied_nodes)
    )
    if not migrating:
        return None
    return (
        DecisionReason.MIGRATION_IN_PROGRESS,
        f"on the move: {format_list(migrating)}",
    )


def planning_notes(state: AssignmentState) -> tuple[str, ...]:
    """Return what stands in the way of moves on *state*."""
    return cluster_notes(state.snapshot, state.rules, state.move_groups.skipped)


def cluster_notes(
    snapshot: Snapshot, rules: CompiledRules, skipped: Mapping[GuestId, str]
) -> tuple[str, ...]:
    """Return what stands in the way: dead nodes, contradictions, fixed guests."""
    unreachable = sorted(
        name for name, node in snapshot.nodes.items() if node.state is NodeState.UNKNOWN
    )
    return (
        *(f"node {name} is unknown and left out" for name in unreachable),
        *(f"contradiction: {contradiction}" for contradiction in rules.contradictions),
        *describe_skipped(skipped),
    )


def unplaceable_guests(state: AssignmentState) -> tuple[str, ...]:
    """Return why the first few of those that might be moved may go nowhere."""
    return tuple(
        f"nowhere to go: {format_list(names)}: {group_by_detail(infeasible)}"
        for group, infeasible in islice(state.unplaceable_groups(), MAX_NOTES)
        for names in [[guest.id for guest in group]]
    )


def group_by_detail(infeasible: Mapping[NodeId, str]) -> str:
    """Return why nodes are closed: those with one reason together.

    Of many reasons those of most nodes are told.
    """
    nodes: defaultdict[str, list[str]] = defaultdict(list)
    for node, detail in infeasible.items():
        nodes[detail].append(node)
    ranked = sorted(nodes.items(), key=lambda each: -len(each[1]))
    sentences = [
        f"{format_list(names)}: {detail}" for detail, names in ranked[:MAX_REASONS]
    ]
    if omitted := sum(len(names) for _, names in ranked[MAX_REASONS:]):
        sentences.append(f"{omitted} more for other reasons")
    return "; ".join(sentences)
