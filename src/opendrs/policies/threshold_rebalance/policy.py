"""Policy that migrates guests from the most loaded node to less loaded ones.

It is the rebalancing of Incus, in the original forms for comparison, and by default
with their defects fixed. The defects are: sums overflow, cores are added to bytes,
nodes are compared by their load before the moves, and the rule for ties fills the
fuller node. All forms differ from Incus in the following:

- Rules, memory with headroom, CPU compatibility and mobility always apply. Guests of a
  strict affinity rule migrate as one. Only running guests migrate.
- A migration in progress prevents a decision. So does a node without metrics in the
  original forms; the corrected one leaves such a node out.
- Each cycle is one run: there is no interval, and the first run is not skipped.
- Architectures are processed in order of name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from opendrs.arrays import MobilityFilter, SelectionState, SkippedGuest, SkipReason
from opendrs.metrics import (
    LoadModel,
    format_missing,
    has_known_load,
    nodes_missing_metrics,
)
from opendrs.model import (
    DEFAULT_LIMITS,
    MAX_DURATION,
    Guest,
    GuestId,
    Limits,
    NodeId,
    NodeState,
    Seconds,
    Snapshot,
)
from opendrs.planning import GroupMove, sequence_in_order
from opendrs.policies.balance_gates import gated
from opendrs.policies.base import Decision, DecisionReason, require_ratio
from opendrs.policies.preconditions import (
    MIN_MEASURED,
    MeasuredPart,
    migration_in_progress,
    planning_notes,
)
from opendrs.policies.threshold_rebalance.compatibility import IncusVersion, ScoredNode
from opendrs.policies.threshold_rebalance.node_ranking import (
    CpuMetric,
    NodeRanking,
    scored_nodes,
)
from opendrs.policies.threshold_rebalance.selection import RebalanceRun, RunSettings
from opendrs.policies.tolerated_failures import keeps_tolerance

RebalanceMemory = dict[str, list[str]]  # by guest: migration time and target


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRebalance:
    """Reduction of the gap between the most and the least loaded node, in batches.

    Attributes:
        compatibility: Version whose arithmetic is used: corrected, or a version of
            Incus.
        threshold: Difference above which nodes are balanced, as a fraction of the
            score of the most loaded node.
        min_load: Fraction of its resources, in [0, 1], from which a node counts as
            loaded.
        max_migrations: Most groups that migrate in one run; a move group counts as one.
        cooldown: Seconds in which a migrated guest is not migrated again.
        cpu_metric: Metric of the CPU load of a node.
        load_model: Demand of a guest: its limits, or measured use.
        excluded_labels: Labels of nodes that are neither source nor target.
        repair_first: True to repair violated strict rules before this policy decides.
        limits: Limits of the operator.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "threshold-rebalance"
    compatibility: IncusVersion = IncusVersion.CORRECTED
    threshold: float = 0.2  # cluster.rebalance.threshold
    min_load: float = 0.0
    max_migrations: int = 1  # cluster.rebalance.batch
    cooldown: Seconds = 21_600.0  # cluster.rebalance.cooldown: 6 hours
    cpu_metric: CpuMetric = CpuMetric.AUTO
    load_model: LoadModel = LoadModel.STATIC
    excluded_labels: tuple[str, ...] = ()
    repair_first: bool = True
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in ("threshold", "min_load"):
            require_ratio(name, getattr(self, name), 1.0)
        require_ratio("cooldown", self.cooldown, MAX_DURATION)
        if self.max_migrations < 0:
            raise ValueError(
                f"max_migrations: expected at least 0, got {self.max_migrations}"
            )

    def initial_memory(self) -> RebalanceMemory:
        """Return the memory before the first migration."""
        return {}

    @keeps_tolerance
    @gated(LoadModel.DYNAMIC)
    def decide(
        self, snapshot: Snapshot, memory: RebalanceMemory
    ) -> Decision[RebalanceMemory]:
        """Return the migrations from the most loaded nodes to less loaded ones.

        Args:
            snapshot: Current state of the cluster.
            memory: Time and target of the migrations of previous runs.
        """
        in_progress = migration_in_progress(snapshot)
        if in_progress is not None:
            return Decision(in_progress[0], memory, detail=in_progress[1])
        kept = self._valid_memory(memory, snapshot)
        nodes, missing = self._participating_nodes(snapshot)
        detail = _describe_missing(snapshot, missing)
        is_stopped = self.compatibility.is_incus or len(nodes) < MIN_MEASURED
        if not nodes or (missing and is_stopped):
            detail = detail or "no participating node"
            return Decision(DecisionReason.METRICS_MISSING, kept, detail=detail)
        part = MeasuredPart.without(snapshot, missing, detail)
        return part.name_unmeasured(self._decide(part.snapshot, nodes, kept))

    def _decide(
        self,
        snapshot: Snapshot,
        nodes: Mapping[NodeId, ScoredNode],
        kept: RebalanceMemory,
    ) -> Decision[RebalanceMemory]:
        """Return the decision on the measured *nodes* of *snapshot*."""
        ranking = NodeRanking(snapshot, nodes, self.compatibility)
        before = self._load_metrics(snapshot)
        details = [
            self._run_settings.balanced_detail(ranking.gap(g)) for g in ranking.groups
        ]
        if None not in details:
            detail = "; ".join(filter(None, details)) or "no nodes to compare"
            return Decision(
                DecisionReason.BALANCED,
                kept,
                detail=detail,
                before=before,
                after=before,
            )
        return self._run(snapshot, ranking, kept, before)

    @property
    def _run_settings(self) -> RunSettings:
        return RunSettings(
            compatibility=self.compatibility,
            load_model=self.load_model,
            threshold=self.threshold,
            min_load=self.min_load,
            max_migrations=self.max_migrations,
        )

    def _participating_nodes(
        self, snapshot: Snapshot
    ) -> tuple[dict[NodeId, ScoredNode], tuple[NodeId, ...]]:
        """Return the participating nodes, and those with missing metrics."""
        excluded = frozenset(self.excluded_labels)
        nodes = [
            node
            for node in snapshot.nodes.values()
            if node.online and not node.labels & excluded
        ]
        scored, missing = scored_nodes(nodes, self.cpu_metric)
        if self.load_model is LoadModel.DYNAMIC:  # requires the usage of the node
            unmeasured = {node.id for node in nodes if node.usage.resources is None}
            missing = tuple(sorted(unmeasured.union(missing)))
        return {n: each for n, each in scored.items() if n not in missing}, missing

    def _run(
        self,
        snapshot: Snapshot,
        ranking: NodeRanking,
        kept: RebalanceMemory,
        before: Mapping[str, float],
    ) -> Decision[RebalanceMemory]:
        mobility_filter = MobilityFilter(
            load_model=self.load_model,
            allow_cold_migration=False,
            include_unlimited=self.compatibility.is_incus,
        )
        state = SelectionState(snapshot, self.limits, mobility_filter)
        in_cooldown = self._cooldown_reasons(snapshot, kept)
        run = RebalanceRun(state, ranking, self._run_settings, in_cooldown)
        sequenced = sequence_in_order(run.moves, snapshot, state.rules, self.limits)
        after = (
            self._load_metrics(snapshot.apply(*sequenced.actions))
            if sequenced.ordered_moves
            else before
        )
        return Decision(
            DecisionReason.IMPROVES_BALANCE if sequenced.ordered_moves else run.reason,
            {**kept, **_record_migrations(sequenced.ordered_moves, snapshot.taken_at)},
            sequenced.plan,
            ("after the plan, " if sequenced.ordered_moves else "")
            + "; ".join(run.details),
            before,
            after,
            (*planning_notes(state), *run.skipped_notes, *sequenced.notes),
            {**in_cooldown, **state.move_groups.skipped},
        )

    def _load_metrics(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the metrics of the nodes with the largest difference.

        The result is empty if a metric of a node that is not left out is missing.
        """
        nodes, missing = self._participating_nodes(snapshot)
        missing = tuple(n for n in missing if snapshot.nodes[n].capacity is not None)
        ranking = NodeRanking(snapshot, nodes, self.compatibility)
        gaps = [ranking.gap(group) for group in ranking.groups]
        if missing or not gaps:
            return {}
        widest = max(gaps, key=lambda gap: gap.difference)
        return {
            "difference": widest.difference,
            "highest_score": widest.highest / 100,
            "lowest_score": widest.lowest / 100,
        }

    def _valid_memory(
        self, memory: RebalanceMemory, snapshot: Snapshot
    ) -> RebalanceMemory:
        """Return the entries of *memory* that are still valid.

        An entry is dropped if the guest is not on the target: it was not migrated
        there, or has migrated since. A guest that is not in the snapshot is assumed to
        be on its target if that node is unreachable. Times in the future are set to
        now.
        """
        now = snapshot.taken_at
        return {
            name: [min(datetime.fromisoformat(at), now).isoformat(), node]
            for name, (at, node) in memory.items()
            if _may_be_on(node, snapshot.guests.get(GuestId(name)), snapshot)
            and self._is_cooling_down(datetime.fromisoformat(at), snapshot)
        }

    def _cooldown_reasons(
        self, snapshot: Snapshot, kept: RebalanceMemory
    ) -> dict[GuestId, SkippedGuest]:
        """Return why guests in cooldown are skipped.

        Incus considers only the migrations of its own rebalancing.
        """
        known = set(kept)
        if not self.compatibility.is_incus:
            known |= {
                guest.id
                for guest in snapshot.guests.values()
                if guest.migrated_at is not None
                and self._is_cooling_down(guest.migrated_at, snapshot)
            }
        detail = f"migrated less than {self.cooldown:g} s ago"
        reason = SkippedGuest(SkipReason.COOLDOWN, detail)
        names = (GuestId(name) for name in sorted(known))
        return {name: reason for name in names if name in snapshot.guests}

    def _is_cooling_down(self, migrated_at: datetime, snapshot: Snapshot) -> bool:
        # A time in the future is treated as now.
        elapsed = max(0.0, (snapshot.taken_at - migrated_at).total_seconds())
        return elapsed < self.cooldown


def _describe_missing(snapshot: Snapshot, missing: Iterable[NodeId]) -> str:
    """Return the missing metrics of the nodes *missing*, with their fields."""
    nodes = [snapshot.nodes[name] for name in missing]
    measured = [each.id for each in nodes if has_known_load(each, LoadModel.DYNAMIC)]
    return "; ".join(
        (
            *nodes_missing_metrics(nodes, LoadModel.DYNAMIC),
            *format_missing("node", {"load_average": measured}),
        )
    )


def _may_be_on(name: str, guest: Guest | None, snapshot: Snapshot) -> bool:
    if guest is not None:
        return guest.node == name
    node = snapshot.nodes.get(NodeId(name))
    return node is not None and node.state is NodeState.UNKNOWN


def _record_migrations(moves: Iterable[GroupMove], at: datetime) -> RebalanceMemory:
    targets: dict[GuestId, NodeId] = {
        guest.id: move.target for move in moves for guest in move.guests
    }
    return {name: [at.isoformat(), node] for name, node in sorted(targets.items())}
