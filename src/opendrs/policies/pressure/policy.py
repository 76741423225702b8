"""Policy that relieves the most starved guest, one per decision.

It is the balancer that A. Derumier proposed for the HA manager of Proxmox VE in April
2022. It considers guests instead of the balance of nodes. Guests that are stalled for
CPU, or that run on a node short of memory, are ranked by TOPSIS with weights from AHP.
The first of them that has a feasible node is migrated. Where the proposal is incomplete
or inconsistent, it is interpreted as follows:

- The criterion with two names, total_cpu and totalcpu, is one criterion.
- Criteria that are 0 for all guests remain 0. Ties are resolved by name.
- Only running guests without a migration in progress are migrated.
- Pressure, and its threshold of 0.75, are fractions of time.
- The guest that was migrated last is not migrated again before another one or, if
  configured, for some time. A check that is prevented by a change is repeated after a
  whole interval, as in the original.

Rules, memory with headroom, CPU compatibility and mobility always apply, and guests of
a strict affinity rule migrate as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from opendrs.arrays import MobilityFilter, SelectionState, SkippedGuest, SkipReason
from opendrs.metrics import AhpMethod, LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    MAX_DURATION,
    GuestId,
    Limits,
    Seconds,
    Snapshot,
    format_count,
)
from opendrs.planning import sequence_in_order
from opendrs.policies.base import Decision, DecisionReason, require_ratio
from opendrs.policies.preconditions import (
    MeasuredPart,
    migration_in_progress,
    planning_notes,
)
from opendrs.policies.pressure.memory import (
    PressureMemory,
    initial_memory,
    record_check,
    record_migration,
    seconds_since,
    unchanged_for,
    update_changes,
)
from opendrs.policies.pressure.selection import (
    ReliefSelector,
    missing_metrics_notes,
    pressure_metrics,
)
from opendrs.policies.pressure.starvation import (
    PressureThresholds,
    StarvedGuest,
    find_starved_guests,
    has_metrics,
)
from opendrs.policies.tolerated_failures import keeps_tolerance

MOBILITY_FILTER = MobilityFilter(
    load_model=LoadModel.DYNAMIC, allow_cold_migration=False, only_ha_managed=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureRelief:
    """Migration of the most starved guest to the best node for its start.

    Attributes:
        cpu_pressure_threshold: Fraction of time, in [0, 1], above which a guest that is
            stalled for CPU is starved.
        memory_threshold: Fraction of the memory of a node, in [0, 1], above which its
            guests are starved.
        memory_threshold_ksm: The same for a node on which much memory is merged (KSM).
        ksm_threshold: Fraction of the memory of a node, in [0, 1], above which much
            memory is merged.
        min_uptime: Uptime in seconds that a guest must have; 0 to ignore the uptime.
        interval: Seconds between two checks.
        settle_time: Seconds in which no guest may have changed its state or node.
        remigration_delay: Seconds after which the guest that was migrated last may
            migrate again; None to wait until another guest was migrated.
        weights: Method that derives the weights from the preferences among criteria.
        repair_first: True to repair violated strict rules before this policy decides.
        limits: Limits of the operator.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "pressure"
    cpu_pressure_threshold: float = 0.75
    memory_threshold: float = 0.85
    memory_threshold_ksm: float = 0.8
    ksm_threshold: float = 0.2
    min_uptime: Seconds = 300.0
    interval: Seconds = 60.0
    settle_time: Seconds = 60.0
    remigration_delay: Seconds | None = None
    weights: AhpMethod = AhpMethod.ROW_MEANS
    repair_first: bool = True
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in (
            "cpu_pressure_threshold",
            "memory_threshold",
            "memory_threshold_ksm",
            "ksm_threshold",
        ):
            require_ratio(name, getattr(self, name), 1.0)
        for name in ("min_uptime", "interval", "settle_time"):
            require_ratio(name, getattr(self, name), MAX_DURATION)
        if self.remigration_delay is not None:
            require_ratio("remigration_delay", self.remigration_delay, MAX_DURATION)

    def initial_memory(self) -> PressureMemory:
        """Return the memory before the first check."""
        return initial_memory()

    @keeps_tolerance
    def decide(
        self, snapshot: Snapshot, memory: PressureMemory
    ) -> Decision[PressureMemory]:
        """Return the migration of the most starved guest, if one is due.

        Args:
            snapshot: Current state of the cluster.
            memory: State of the previous cycles.
        """
        updated = update_changes(memory, snapshot)
        part = MeasuredPart.of(snapshot, LoadModel.DYNAMIC)
        return part.name_unmeasured(self._decide(part.snapshot, updated))

    def _decide(
        self, snapshot: Snapshot, updated: PressureMemory
    ) -> Decision[PressureMemory]:
        """Return the decision on *snapshot*, of which all or nothing is measured."""
        before = pressure_metrics(snapshot, self.thresholds)
        precondition = self._interval_not_elapsed(updated, snapshot)
        if precondition is None:
            updated = record_check(updated, snapshot.taken_at)
            precondition = self._unmet_precondition(updated, snapshot)
        if precondition is not None:
            reason, detail = precondition
            return Decision(reason, updated, detail=detail, before=before, after=before)
        starved = find_starved_guests(snapshot, self.thresholds)
        if starved:
            return self._relieve(snapshot, updated, starved, before)
        return Decision(
            DecisionReason.NO_PRESSURE,
            updated,
            detail=f"{format_count(len(snapshot.guests), 'guest')} checked",
            before=before,
            after=before,
            notes=missing_metrics_notes(snapshot),
        )

    @property
    def thresholds(self) -> PressureThresholds:
        """Return the thresholds above which a guest is starved."""
        return PressureThresholds(
            cpu_pressure=self.cpu_pressure_threshold,
            memory=self.memory_threshold,
            memory_ksm=self.memory_threshold_ksm,
            ksm=self.ksm_threshold,
        )

    def _interval_not_elapsed(
        self, memory: PressureMemory, snapshot: Snapshot
    ) -> tuple[DecisionReason, str] | None:
        """Return that the next check is not due yet, or None."""
        remaining = self.interval - seconds_since(
            memory["checked_at"], snapshot.taken_at
        )
        if remaining <= 0:
            return None
        detail = (
            f"the next check is in {remaining:g} s, the interval is {self.interval:g} s"
        )
        return DecisionReason.INTERVAL_NOT_ELAPSED, detail

    def _unmet_precondition(
        self, memory: PressureMemory, snapshot: Snapshot
    ) -> tuple[DecisionReason, str] | None:
        """Return why no decision is possible now, or None."""
        elapsed = unchanged_for(memory, snapshot)
        if elapsed < self.settle_time:
            detail = (
                f"a guest changed {elapsed:g} s ago, the settle time is "
                f"{self.settle_time:g} s"
            )
            return DecisionReason.CLUSTER_SETTLING, detail
        if not any(has_metrics(node) for node in snapshot.nodes.values()):
            return DecisionReason.METRICS_MISSING, "no online node with metrics"
        return migration_in_progress(snapshot)

    def _relieve(
        self,
        snapshot: Snapshot,
        memory: PressureMemory,
        starved: Sequence[StarvedGuest],
        before: Mapping[str, float],
    ) -> Decision[PressureMemory]:
        state = SelectionState(snapshot, self.limits, MOBILITY_FILTER)
        skip_reasons = self._skip_reasons(state, memory)
        selector = ReliefSelector(state, self.thresholds, skip_reasons)
        skipped = {**skip_reasons, **state.move_groups.skipped}
        move = selector.select(starved, self.weights)
        notes = (
            *selector.notes(),
            *planning_notes(state),
            *missing_metrics_notes(snapshot),
        )
        count = f"starved guests: {len(starved)}"
        if move is None:
            return Decision(
                DecisionReason.NO_CANDIDATE,
                memory,
                detail=f"{count}; none of them has a feasible node",
                before=before,
                after=before,
                notes=notes,
                skipped=skipped,
            )
        sequenced = sequence_in_order([move], snapshot, state.rules, self.limits)
        return Decision(
            DecisionReason.RELIEVES_PRESSURE,
            record_migration(memory, move.name, snapshot.taken_at),
            sequenced.plan,
            f"{count}; 1 is relieved",
            before,
            pressure_metrics(snapshot.apply(*sequenced.actions), self.thresholds),
            (*notes, *sequenced.notes),
            skipped,
        )

    def _skip_reasons(
        self, state: SelectionState, memory: PressureMemory
    ) -> dict[GuestId, SkippedGuest]:
        """Return why movable guests are skipped by this policy."""
        reasons = {}
        for group in state.move_groups.movable.values():
            is_last = self._was_migrated_last(group[0].id, memory, state.snapshot)
            for guest in group:
                if guest.uptime is None and self.min_uptime:
                    reasons[guest.id] = SkippedGuest(
                        SkipReason.METRICS_MISSING, "uptime unknown"
                    )
                elif guest.uptime is not None and guest.uptime < self.min_uptime:
                    reasons[guest.id] = SkippedGuest(
                        SkipReason.RECENTLY_STARTED,
                        f"started less than {self.min_uptime:g} s ago",
                    )
                elif is_last:
                    reasons[guest.id] = SkippedGuest(
                        SkipReason.LAST_MIGRATED, "last migrated guest"
                    )
        return reasons

    def _was_migrated_last(
        self, leader: GuestId, memory: PressureMemory, snapshot: Snapshot
    ) -> bool:
        if memory["last_group"] != leader:
            return False
        elapsed = seconds_since(memory["last_migrated_at"], snapshot.taken_at)
        return self.remigration_delay is None or elapsed < self.remigration_delay
