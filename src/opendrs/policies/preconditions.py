"""Preconditions of a decision, and notes about guests that cannot be migrated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import islice

from opendrs.arrays import SelectionState, SkippedGuest, describe_skipped
from opendrs.metrics import LoadModel, missing_metrics
from opendrs.model import GuestId, NodeId, NodeState, Snapshot, format_list
from opendrs.policies.base import DecisionReason
from opendrs.rules import CompiledRules

MAX_REASONS = 3  # reasons for infeasible nodes in one note
MAX_NOTES = 5  # notes about guests without a feasible node


def unmet_precondition(
    snapshot: Snapshot, load_model: LoadModel
) -> tuple[DecisionReason, str] | None:
    """Return why no decision is possible for *snapshot*, or None."""
    in_progress = migration_in_progress(snapshot)
    if in_progress is not None:
        return in_progress
    missing = missing_metrics(snapshot, load_model)
    if missing:
        return DecisionReason.METRICS_MISSING, f"{missing}; required for a plan"
    if not any(node.online for node in snapshot.nodes.values()):
        return DecisionReason.METRICS_MISSING, "no node is online"
    return None


def migration_in_progress(snapshot: Snapshot) -> tuple[DecisionReason, str] | None:
    """Return the migrations in progress as a reason, or None.

    A migration from or to an unreachable node is ignored, because that node may stay
    unreachable. Its guest is skipped, and counts on both nodes.
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
        f"migration in progress: {format_list(migrating)}",
    )


def planning_notes(state: SelectionState) -> tuple[str, ...]:
    """Return notes about unreachable nodes, contradictions and skipped guests."""
    return cluster_notes(state.snapshot, state.rules, state.move_groups.skipped)


def cluster_notes(
    snapshot: Snapshot, rules: CompiledRules, skipped: Mapping[GuestId, SkippedGuest]
) -> tuple[str, ...]:
    """Return notes about unreachable nodes, contradictions and skipped guests."""
    unreachable = sorted(
        name for name, node in snapshot.nodes.items() if node.state is NodeState.UNKNOWN
    )
    return (
        *(f"node unreachable, ignored: {name}" for name in unreachable),
        *(f"contradiction: {contradiction}" for contradiction in rules.contradictions),
        *describe_skipped(skipped),
    )


def unplaceable_guests(state: SelectionState) -> tuple[str, ...]:
    """Return why the first few movable groups have no feasible node."""
    return tuple(
        f"no feasible node for {format_list(names)}: {group_by_detail(infeasible)}"
        for group, infeasible in islice(state.unplaceable_groups(), MAX_NOTES)
        for names in [[guest.id for guest in group]]
    )


def group_by_detail(infeasible: Mapping[NodeId, str]) -> str:
    """Return why nodes are infeasible, grouped by reason.

    If there are many reasons, those of most nodes are included.
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
