"""Preconditions of a decision, and notes about guests that cannot be migrated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from opendrs.arrays import SelectionState, SkippedGuest, describe_skipped
from opendrs.metrics import LoadModel, has_known_load, missing_metrics, unmeasured_nodes
from opendrs.model import (
    UNKNOWN_USAGE,
    GuestId,
    Limits,
    NodeId,
    NodeState,
    Snapshot,
    format_list,
)
from opendrs.policies.base import Decision, DecisionReason, MemoryT
from opendrs.rules import CompiledRules, load_notes

MIN_MEASURED = 2  # nodes between which a guest can migrate
MAX_REASONS = 3  # reasons for infeasible nodes in one note
MAX_NOTES = 5  # notes about guests without a feasible node


def unmet_precondition(
    snapshot: Snapshot, load_model: LoadModel
) -> tuple[DecisionReason, str] | None:
    """Return why no decision is possible for *snapshot*, or None."""
    in_progress = migration_in_progress(snapshot)
    if in_progress is not None:
        return in_progress
    unmeasured = unmeasured_nodes(snapshot, load_model)
    measured = {
        node.id
        for node in snapshot.nodes.values()
        if node.state in (NodeState.ONLINE, NodeState.MAINTENANCE)
        and has_known_load(replace(node, state=NodeState.ONLINE), load_model)
    }.difference(unmeasured)
    if unmeasured and len(measured) < MIN_MEASURED:
        missing = missing_metrics(snapshot, load_model)
        return DecisionReason.METRICS_MISSING, f"{missing}; required for a plan"
    if not any(node.online for node in snapshot.nodes.values()):
        return DecisionReason.METRICS_MISSING, "no node is online"
    return None


@dataclass(frozen=True, slots=True)
class MeasuredPart:
    """Cluster in which nothing is known of the nodes that are not measured.

    Such a node is neither source nor target nor staging node, and counts in no load.
    Its guests stay, and the rules among them and other guests apply.

    Attributes:
        snapshot: The cluster. Of a node with a missing metric, all metrics are unknown.
        unmeasured: The nodes that are not measured, sorted.
        detail: The missing metrics, with their fields.
    """

    snapshot: Snapshot
    unmeasured: tuple[NodeId, ...]
    detail: str

    @classmethod
    def of(cls, snapshot: Snapshot, load_model: LoadModel) -> MeasuredPart:
        """Return the part of *snapshot* whose load is known in *load_model*."""
        unmeasured = unmeasured_nodes(snapshot, load_model)
        detail = missing_metrics(snapshot, load_model) if unmeasured else ""
        return cls.without(snapshot, unmeasured, detail)

    @classmethod
    def without(
        cls, snapshot: Snapshot, unmeasured: tuple[NodeId, ...], detail: str
    ) -> MeasuredPart:
        """Return *snapshot* without what is known of the nodes *unmeasured*."""
        if not unmeasured:
            return cls(snapshot, (), "")
        unknown = {
            name: replace(snapshot.nodes[name], capacity=None, usage=UNKNOWN_USAGE)
            for name in unmeasured
        }
        known = replace(snapshot, nodes={**snapshot.nodes, **unknown})
        return cls(known, unmeasured, detail)

    def name_unmeasured(self, decision: Decision[MemoryT]) -> Decision[MemoryT]:
        """Return *decision* with the unmeasured nodes, and a note that names them."""
        if not self.unmeasured:
            return decision
        note = f"not measured, left out: {', '.join(self.unmeasured)}: {self.detail}"
        notes = (note, *decision.notes)
        return replace(decision, notes=notes, unmeasured=self.unmeasured)


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
    limits = state.cluster.limits
    return cluster_notes(state.snapshot, state.rules, limits, state.move_groups.skipped)


def cluster_notes(
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    skipped: Mapping[GuestId, SkippedGuest],
) -> tuple[str, ...]:
    """Return notes about nodes, further loads, contradictions and skipped guests."""
    unreachable = sorted(
        name for name, node in snapshot.nodes.items() if node.state is NodeState.UNKNOWN
    )
    return (
        *(f"node unreachable, ignored: {name}" for name in unreachable),
        *load_notes(snapshot, limits),
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
