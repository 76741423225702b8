"""Backtest: each policy decides over a record, with the controller's own cycle.

The rows are the policies, and three references without a policy: the recorded
placement, the first placement kept unchanged, and the best plan of `optimize` at each
instant, carried out at once and at no cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import process_time
from typing import Any

import numpy as np

from opendrs.controller import (
    run_cycle,
)
from opendrs.controller.cycle import CycleResult
from opendrs.model import (
    GIB,
    ColdMigration,
    Disk,
    DiskMove,
    GuestId,
    Limits,
    LiveMigration,
    NodeId,
    Plan,
    Snapshot,
    disk_named,
)
from opendrs.optimizer import ScaledIterationLimit
from opendrs.policies import Drain, Policy
from opendrs.policies.optimize import Optimize
from opendrs.ports import Outcome
from opendrs.simulation.backtest.context import (
    PolicyWindows,
    cycle_context,
    schedule_context,
)
from opendrs.simulation.backtest.disks import moved_disks
from opendrs.simulation.backtest.load import placement_of
from opendrs.simulation.backtest.meter import (
    MINUTE,
    BacktestMetrics,
    PlacementMeter,
    SeriesPoint,
    mean_difference,
    total_gib,
)
from opendrs.simulation.backtest.platform import RecordedPlatform
from opendrs.simulation.backtest.record import LoadRecord
from opendrs.simulation.datacenter import LINK_BANDWIDTH

_EPSILON = 1e-6  # seconds; times of the simulated clock are sums
_BEST_SEARCH = ScaledIterationLimit(
    per_group=100, least=100_000, most=4_000_000, count=20
)  # a tenth of a decision of `optimize`: it begins with the best placement before it

Progress = Callable[[str, int, int], None]  # row, snapshots done, all snapshots


class RowKind(StrEnum):
    """Kind of a row. The values are stable."""

    RECORDED = "recorded"
    """The placement as recorded."""
    STATIC = "static"
    """The first placement; nothing migrates."""
    BEST = "best"
    """The best plan at each instant, carried out at once."""
    POLICY = "policy"
    """A policy."""
    SCHEDULE = "schedule"
    """The policies of a schedule, each at its times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestSettings:
    """Settings of a backtest.

    Attributes:
        policies: The policies by the name of their row.
        limits: Limits of the operator; of each policy as well.
        schedule: Policies with their windows, for a row of their own; None for none.
        every: Seconds between two decisions of a policy, at least; decisions are made
            when a snapshot was taken.
        seed: Seed of the dirty rates that are not recorded.
        with_best: False to omit the best plan, and with it the regret.
    """

    policies: Mapping[str, Policy[Any]]
    limits: Limits
    schedule: PolicyWindows | None = None
    every: float = 0.0
    seed: int = 1
    with_best: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestRow:
    """Result of one row.

    Attributes:
        name: Name of the row.
        kind: Kind of the row.
        metrics: Metrics of the placement over time.
        series: Metrics during each snapshot.
        regret: Mean over time of its imbalance minus that of the best plan; None if
            unknown, or without the best plan.
        migrations: Number of migrations that were done.
        unfinished_steps: Steps by their outcome, other than done.
        gib: Memory of the migrated guests, in GiB; None if that of one is unknown.
        migration_minutes: Summed duration of the migrations; None if unknown.
        disk_moves: Number of disks that were moved to another storage.
        disk_gib: Size of these disks, in GiB; None if that of one is unknown.
        relocations: Guests placed on another node because theirs was off.
        reasons: Number of decisions by reason.
        cpu_seconds: CPU time.
    """

    name: str
    kind: RowKind
    metrics: BacktestMetrics
    series: tuple[SeriesPoint, ...]
    regret: float | None = None
    migrations: int = 0
    unfinished_steps: Mapping[str, int] = field(default_factory=dict)
    gib: float | None = 0.0
    migration_minutes: float | None = 0.0
    disk_moves: int = 0
    disk_gib: float | None = 0.0
    relocations: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    cpu_seconds: float = 0.0


def run_backtest(
    record: LoadRecord, settings: BacktestSettings, progress: Progress | None = None
) -> Iterator[BacktestRow]:
    """Yield the rows: recorded, static, best, each policy, then the schedule.

    Args:
        record: The recorded load.
        settings: The policies, and when they decide.
        progress: Called during each row.
    """

    def notify(name: str, done: int) -> None:
        if progress is not None:
            progress(name, done, len(record))

    best = _best_row(record, settings, notify) if settings.with_best else None

    def with_regret(row: MeteredRow) -> BacktestRow:
        if best is None:
            return row[1]
        return replace(row[1], regret=mean_difference(row[0], best[0]))

    yield with_regret(_recorded_row(record, notify))
    yield with_regret(_static_row(record, settings))
    if best is not None:
        yield best[1]
    for name, policy in settings.policies.items():
        yield with_regret(_policy_row(name, policy, record, settings, notify))
    if settings.schedule is not None:
        row = _schedule_row(settings.schedule, record, settings, notify)
        yield with_regret(row)


Notify = Callable[[str, int], None]
MeteredRow = tuple[PlacementMeter, BacktestRow]


def _recorded_row(record: LoadRecord, notify: Notify) -> MeteredRow:
    """Return the metrics of the recorded placement, and its migrations."""
    started_at = process_time()
    meter = PlacementMeter(record)
    disks: list[Disk] = []
    former: Snapshot | None = None
    for index, offset in enumerate(record.offsets):
        snapshot = record.snapshot(index)
        placement = placement_of(record, index, snapshot)
        meter.add(placement, offset, float(record.holds[index]))
        disks += moved_disks(former or snapshot, snapshot)
        former = snapshot
        notify(RowKind.RECORDED, index + 1)
    both = record.active[:-1] & record.active[1:]
    moved = both & (record.node_of[:-1] != record.node_of[1:])
    transferred = float(record.usage[:-1, :, 1][moved].sum()) / GIB
    return meter, BacktestRow(
        name=RowKind.RECORDED.value,
        kind=RowKind.RECORDED,
        metrics=meter.metrics(),
        series=meter.series(),
        migrations=int(moved.sum()),
        gib=None if np.isnan(transferred) else transferred,
        migration_minutes=0.0 if not moved.any() else None,
        disk_moves=len(disks),
        disk_gib=total_gib(disk.size for disk in disks),
        cpu_seconds=process_time() - started_at,
    )


def _static_row(record: LoadRecord, settings: BacktestSettings) -> MeteredRow:
    """Return the metrics of the first placement."""
    started_at = process_time()
    platform = _platform(record, settings)
    platform.finish()
    return platform.meter, BacktestRow(
        name=RowKind.STATIC.value,
        kind=RowKind.STATIC,
        metrics=platform.meter.metrics(),
        series=platform.meter.series(),
        relocations=platform.relocations,
        cpu_seconds=process_time() - started_at,
    )


def _best_row(
    record: LoadRecord, settings: BacktestSettings, notify: Notify
) -> MeteredRow:
    """Return the metrics of the best plan of `optimize` at each instant."""
    started_at = process_time()
    platform = _platform(record, settings)
    policy = Optimize(
        budget="unlimited",
        threshold=0.0,
        min_improvement=0.0,
        migration_cost_weight=0.0,
        seed=settings.seed,
        limits=settings.limits,
    )
    reasons: Counter[str] = Counter()
    for index in _decision_times(platform, record, settings.every):
        decision = policy.decide_until(platform.observe(), _BEST_SEARCH)
        reasons[decision.reason.value] += 1
        platform.place(_targets(decision.plan))
        notify(RowKind.BEST, index + 1)
    return platform.meter, BacktestRow(
        name=RowKind.BEST.value,
        kind=RowKind.BEST,
        metrics=platform.meter.metrics(),
        series=platform.meter.series(),
        regret=0.0,
        gib=None,
        migration_minutes=None,
        disk_gib=None,
        relocations=platform.relocations,
        reasons=dict(sorted(reasons.items())),
        cpu_seconds=process_time() - started_at,
    )


def _targets(plan: Plan) -> dict[GuestId, NodeId]:
    """Return the last target of each guest that *plan* migrates."""
    actions = (step.action for step in plan.steps)
    return {
        action.guest: action.target
        for action in actions
        if isinstance(action, LiveMigration | ColdMigration)
    }


def _policy_row(
    name: str,
    policy: Policy[Any],
    record: LoadRecord,
    settings: BacktestSettings,
    notify: Notify,
) -> MeteredRow:
    """Return the metrics of *policy*: a cycle of the controller at each decision."""
    started_at = process_time()
    platform = _platform(record, settings)
    context = cycle_context(policy, platform)
    totals = _CycleTotals()
    for index in _decision_times(platform, record, settings.every):
        totals.add(run_cycle(context))
        notify(name, index + 1)
    return totals.row(name, RowKind.POLICY, platform, started_at)


def _schedule_row(
    windows: PolicyWindows,
    record: LoadRecord,
    settings: BacktestSettings,
    notify: Notify,
) -> MeteredRow:
    """Return the metrics of a schedule: a cycle of each entry that is due."""
    started_at = process_time()
    platform, name = _platform(record, settings), RowKind.SCHEDULE.value
    context, schedule = schedule_context(windows, settings.limits, record, platform)
    totals = _CycleTotals()
    for index in _decision_times(platform, record, every=0.0):
        while schedule.is_due():
            schedule.start_cycle()
            totals.add(run_cycle(context))
        notify(name, index + 1)
    return totals.row(name, RowKind.SCHEDULE, platform, started_at)


def _platform(record: LoadRecord, settings: BacktestSettings) -> RecordedPlatform:
    return RecordedPlatform(
        record,
        seed=settings.seed,
        bandwidth=settings.limits.bandwidth or LINK_BANDWIDTH,
    )


def _decision_times(
    platform: RecordedPlatform, record: LoadRecord, every: float
) -> Iterator[int]:
    """Yield the index of the snapshot of each decision; simulate up to each.

    A decision follows the one before by at least *every* seconds, and its end. After
    the last one, the rest of the record is simulated.
    """
    offsets = np.array(record.offsets)
    earliest = 0.0
    while True:
        earliest = max(earliest, platform.clock.monotonic()) - _EPSILON
        index = int(np.searchsorted(offsets, earliest))
        if index == len(offsets):
            break
        wait = float(offsets[index]) - platform.clock.monotonic()
        if wait > 0:
            platform.clock.sleep(wait)
        platform.advance()
        yield index
        # Without a minimum, the next snapshot is the next decision.
        earliest = float(offsets[index]) + max(every, 2 * _EPSILON)
    platform.finish()


class _CycleTotals:
    """Sums over the cycles of a policy.

    Attributes:
        reasons: Number of decisions by reason.
        unfinished: Number of steps by outcome, other than done.
        memory: Bytes in use of the guest of each migration done; None if unknown.
        disks: Size of each disk moved; None if unknown.
        seconds: Summed duration of the migrations.
    """

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.unfinished: Counter[str] = Counter()
        self.memory: list[int | None] = []
        self.disks: list[int | None] = []
        self.seconds = 0.0

    def add(self, result: CycleResult) -> None:
        """Add the result of a cycle."""
        decided, report = result.decided, result.report
        if decided is None or report is None:
            return
        if not isinstance(decided.policy, Drain):  # no entry of the schedule is due
            self.reasons[decided.decision.reason.value] += 1
        for record in report.records:
            if record.outcome is not Outcome.DONE:
                self.unfinished[str(record.outcome)] += 1
            elif isinstance(record.action, DiskMove):
                guest = decided.snapshot.guests[record.action.guest]
                disk = disk_named(guest, record.action.disk)
                self.disks.append(None if disk is None else disk.size)
            elif isinstance(record.action, LiveMigration | ColdMigration):
                guest = decided.snapshot.guests[record.action.guest]
                self.memory.append(guest.usage.memory)
                if record.ended_at is not None:
                    lasted = record.ended_at - record.intended_at
                    self.seconds += lasted.total_seconds()

    def row(
        self, name: str, kind: RowKind, platform: RecordedPlatform, started_at: float
    ) -> MeteredRow:
        """Return the row of these cycles on *platform*, begun at that CPU time."""
        return platform.meter, BacktestRow(
            name=name,
            kind=kind,
            metrics=platform.meter.metrics(),
            series=platform.meter.series(),
            migrations=len(self.memory),
            unfinished_steps=dict(sorted(self.unfinished.items())),
            gib=total_gib(self.memory),
            migration_minutes=self.seconds / MINUTE,
            disk_moves=len(self.disks),
            disk_gib=total_gib(self.disks),
            relocations=platform.relocations,
            reasons=dict(sorted(self.reasons.items())),
            cpu_seconds=process_time() - started_at,
        )
