"""Help the guest that is worst off, one at a time.

The balancer that A. Derumier proposed for Proxmox VE's HA manager in April 2022: it
looks at guests rather than at how even nodes are. Guests that wait for processors,
or are on a node short of memory, are ranked by TOPSIS with weights from AHP, and the
first that finds a place is moved. What is missing of the proposal or contradicts
itself is read like this:

- The criterion that has two names there, total_cpu and totalcpu, is one.
- Criteria that are 0 for all stay so, and of equals the name decides.
- Only guests that run and are not on the move are moved.
- Pressure is a part of the time, and the threshold of 0.75 a part of it too.
- The guest that was moved last stays until another is moved, or, if asked for, for
  some time. A look lost to a change costs a whole interval, as there.

Whatever it would do, rules, memory with its headroom, processors, and what may move
always bind, and guests that a rule keeps together move as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from opendrs.arrays import AssignmentState, MobilityFilter
from opendrs.metrics import AhpMethod, LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    MAX_DURATION,
    GuestId,
    Limits,
    Seconds,
    Snapshot,
)
from opendrs.planning import sequence_in_order
from opendrs.policies.base import Decision, DecisionReason, require_ratio
from opendrs.policies.preconditions import migration_in_progress, planning_notes
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

MOBILITY_FILTER = MobilityFilter(
    load_model=LoadModel.DYNAMIC, allow_cold_migration=False, only_ha_managed=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureRelief:
    """Move the guest that is in most trouble to where it would best start.

    Attributes:
        cpu_pressure_threshold: Part of the time, in [0, 1], above which a guest that waits for
            cpu is in trouble.
        memory_threshold: Part of a node's memory, in [0, 1], above which its guests are.
        memory_threshold_ksm: The same for a node on which much memory is merged (KSM).
        ksm_threshold: Part of a node's memory, in [0, 1], above which much of it is.
        min_uptime: Seconds that a guest must have run; 0 to take no account of it.
        interval: Seconds from one check to the next.
        settle_time: Seconds for which no guest may have changed its state or its node.
        remigration_delay: Seconds after which the guest that was moved last may be moved
            again; None for when another one was.
        weights: How weights are drawn from the preferences among the criteria.
        limits: What the operator allows.

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
        """Return the memory of who has not looked yet."""
        return initial_memory()

    def decide(
        self, snapshot: Snapshot, memory: PressureMemory
    ) -> Decision[PressureMemory]:
        """Return the move of the guest that is worst off, if one is due.

        Args:
            snapshot: The cluster now.
            memory: What was seen and done in the cycles before.
        """
        updated = update_changes(memory, snapshot)
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
            detail="no guest is in trouble",
            before=before,
            after=before,
            notes=missing_metrics_notes(snapshot),
        )

    @property
    def thresholds(self) -> PressureThresholds:
        """Return from when on a guest is in trouble."""
        return PressureThresholds(
            cpu_pressure=self.cpu_pressure_threshold,
            memory=self.memory_threshold,
            memory_ksm=self.memory_threshold_ksm,
            ksm=self.ksm_threshold,
        )

    def _interval_not_elapsed(
        self, memory: PressureMemory, snapshot: Snapshot
    ) -> tuple[DecisionReason, str] | None:
        """Return that it is too early for a check; the time begins at first sight."""
        remaining = self.interval - seconds_since(
            memory["checked_at"], snapshot.taken_at
        )
        if remaining <= 0:
            return None
        detail = f"the next check is in {remaining:g} s; there is one every {self.interval:g} s"
        return DecisionReason.INTERVAL_NOT_ELAPSED, detail

    def _unmet_precondition(
        self, memory: PressureMemory, snapshot: Snapshot
    ) -> tuple[DecisionReason, str] | None:
        """Return why the cluster cannot be judged now, or None if it can."""
        elapsed = unchanged_for(memory, snapshot)
        if elapsed < self.settle_time:
            detail = f"a guest changed {elapsed:g} s ago; {self.settle_time:g} s must be quiet"
            return DecisionReason.CLUSTER_SETTLING, detail
        if not any(has_metrics(node) for node in snapshot.nodes.values()):
            return DecisionReason.METRICS_MISSING, "no node is online and measured"
        return migration_in_progress(snapshot)

    def _relieve(
        self,
        snapshot: Snapshot,
        memory: PressureMemory,
        starved: Sequence[StarvedGuest],
        before: Mapping[str, float],
    ) -> Decision[PressureMemory]:
        state = AssignmentState(snapshot, self.limits, MOBILITY_FILTER)
        selector = ReliefSelector(
            state, self.thresholds, self._skip_reasons(state, memory)
        )
        move = selector.select(starved, self.weights)
        notes = (
            *selector.notes(),
            *planning_notes(state),
            *missing_metrics_notes(snapshot),
        )
        count = f"guests in trouble: {len(starved)}"
        if move is None:
            return Decision(
                DecisionReason.NO_CANDIDATE,
                memory,
                detail=f"{count}; none of them may move anywhere",
                before=before,
                after=before,
                notes=notes,
            )
        sequenced = sequence_in_order([move], snapshot, state.rules, self.limits)
        return Decision(
            DecisionReason.RELIEVES_PRESSURE,
            record_migration(memory, move.name, snapshot.taken_at),
            sequenced.plan,
            f"{count}; one is helped",
            before,
            pressure_metrics(snapshot.apply(*sequenced.actions), self.thresholds),
            (*notes, *sequenced.notes),
        )

    def _skip_reasons(
        self, state: AssignmentState, memory: PressureMemory
    ) -> dict[GuestId, str]:
        """Return why guests that may move are left alone all the same."""
        reasons = {}
        for group in state.move_groups.movable.values():
            is_last = self._was_migrated_last(group[0].id, memory, state.snapshot)
            for guest in group:
                if guest.uptime is None and self.min_uptime:
                    reasons[guest.id] = "how long it has run is not known"
                elif guest.uptime is not None and guest.uptime < self.min_uptime:
                    reasons[guest.id] = (
                        f"it has run for less than {self.min_uptime:g} s"
                    )
                elif is_last:
                    reasons[guest.id] = "it was the last to be moved"
        return reasons

    def _was_migrated_last(
        self, leader: GuestId, memory: PressureMemory, snapshot: Snapshot
    ) -> bool:
        if memory["last_group"] != leader:
            return False
        elapsed = seconds_since(memory["last_migrated_at"], snapshot.taken_at)
        return self.remigration_delay is None or elapsed < self.remigration_delay
