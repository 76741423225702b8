"""Move guests from the busiest host to less busy ones when they are far apart.

The rebalancing of Incus, in its own forms for comparison, and by default without
their defects: sums that overflow, cores that are added to bytes, hosts that are
compared by what they were before the moves, and a rule for equals that fills the
fuller host. Whatever the form, it differs from Incus in these:

- Rules, memory with its headroom, processors, and what may move always bind, and
  guests that a rule keeps together move as one. Only running guests move.
- A node without measurements stops the decision, and so does a guest on the move.
- Each cycle is one run: there is no interval, and no first run that is skipped.
- Architectures are gone through in order of name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from opendrs.arrays import AssignmentState, MobilityFilter
from opendrs.metrics import LoadModel, format_missing, nodes_missing_metrics
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
from opendrs.policies.base import Decision, DecisionReason, require_ratio
from opendrs.policies.preconditions import migration_in_progress, planning_notes
from opendrs.policies.threshold_rebalance.compatibility import IncusVersion, NodePoints
from opendrs.policies.threshold_rebalance.node_ranking import (
    CpuMetric,
    NodeRanking,
    node_points,
)
from opendrs.policies.threshold_rebalance.selection import RebalanceRun, RunSettings

RebalanceMemory = dict[str, list[str]]  # when each guest was moved, and where to


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRebalance:
    """Even the busiest host and the least busy, a few guests at a time.

    Attributes:
        compatibility: Whose arithmetic: corrected, or that of a version of Incus.
        threshold: From how far apart the busiest and the least busy are evened, as
            a part of the points of the busiest.
        min_load: Part of its resources, in [0, 1], from which a host is busy at all.
        max_migrations: Guests moved at most in one run; guests that stay together are one.
        cooldown: Seconds for which a guest that was moved is left alone.
        cpu_metric: What tells how busy the processors of a node are.
        load_model: What a guest counts for: its limits, or measured use.
        excluded_labels: Labels of nodes that are neither source nor target.
        limits: What the operator allows.

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
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in ("threshold", "min_load"):
            require_ratio(name, getattr(self, name), 1.0)
        require_ratio("cooldown", self.cooldown, MAX_DURATION)
        if self.max_migrations < 0:
            raise ValueError(
                f"max_migrations must be at least 0, not {self.max_migrations}"
            )

    def initial_memory(self) -> RebalanceMemory:
        """Return the memory of who has moved nobody yet."""
        return {}

    def decide(
        self, snapshot: Snapshot, memory: RebalanceMemory
    ) -> Decision[RebalanceMemory]:
        """Return who leaves the busiest hosts, and for where.

        Args:
            snapshot: The cluster now.
            memory: Whom the runs before have moved when.
        """
        in_progress = migration_in_progress(snapshot)
        if in_progress is not None:
            return Decision(in_progress[0], memory, detail=in_progress[1])
        kept = self._valid_memory(memory, snapshot)
        nodes, missing = self._participating_nodes(snapshot)
        if missing or not nodes:
            unmeasured = [snapshot.nodes[name] for name in missing]
            sentences = nodes_missing_metrics(
                unmeasured, LoadModel.DYNAMIC
            ) or format_missing("node", {"load_average": missing})
            detail = "; ".join(sentences) or "no node takes part"
            return Decision(DecisionReason.METRICS_MISSING, kept, detail=detail)
        ranking = NodeRanking(snapshot, nodes, self.compatibility)
        before = self._load_metrics(snapshot)
        details = [
            self._run_settings.balanced_detail(ranking.gap(g)) for g in ranking.groups
        ]
        if None not in details:
            detail = "; ".join(filter(None, details)) or "there is nobody to compare"
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
    ) -> tuple[dict[NodeId, NodePoints], tuple[NodeId, ...]]:
        """Return the nodes that take part, and who of them was not measured."""
        excluded = frozenset(self.excluded_labels)
        nodes = [
            node
            for node in snapshot.nodes.values()
            if node.online and not node.labels & excluded
        ]
        points, missing = node_points(nodes, self.cpu_metric)
        if (
            self.load_model is LoadModel.DYNAMIC
        ):  # what guests use is weighed against that
            unmeasured = {node.id for node in nodes if node.usage.resources is None}
            missing = tuple(sorted(unmeasured.union(missing)))
        return points, missing

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
        state = AssignmentState(snapshot, self.limits, mobility_filter)
        run = RebalanceRun(
            state, ranking, self._run_settings, self._cooldown_reasons(snapshot, kept)
        )
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
            "; ".join(run.details),
            before,
            after,
            (*planning_notes(state), *run.skipped_notes, *sequenced.notes),
        )

    def _load_metrics(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the measures of the hosts that are furthest apart.

        Nothing where something was not measured.
        """
        nodes, missing = self._participating_nodes(snapshot)
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
        """Return what of *memory* still counts.

        A guest that is not where it was to go was not moved, or went on by itself. One
        that is not seen is where it was if that node does not answer. A time in the
        future is taken to be now.
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
    ) -> dict[GuestId, str]:
        """Return why each guest that was moved too lately is left alone.

        Incus knows of the moves of its own rebalancing only.
        """
        known = set(kept)
        if not self.compatibility.is_incus:
            known |= {
                guest.id
                for guest in snapshot.guests.values()
                if guest.migrated_at is not None
                and self._is_cooling_down(guest.migrated_at, snapshot)
            }
        detail = f"it was moved less than {self.cooldown:g} s ago"
        return {GuestId(name): detail for name in sorted(known)}

    def _is_cooling_down(self, migrated_at: datetime, snapshot: Snapshot) -> bool:
        # A time in the future is treated as now.
        elapsed = max(0.0, (snapshot.taken_at - migrated_at).total_seconds())
        return elapsed < self.cooldown


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
