"""Context of the cycles of a backtest: the controller's own, without observers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.controller import (
    CancellationToken,
    CycleContext,
    ExecutionContext,
    ExecutionObserver,
    NullObserver,
    RecordedDecision,
)
from opendrs.controller.consent import ConsentApproval
from opendrs.controller.cycle import DecisionSource, PolicyDecisionSource
from opendrs.controller.policy_schedule import PolicySchedule, ScheduledPolicy
from opendrs.controller.power_failures import LOOKBACK
from opendrs.model import Limits
from opendrs.policies import Policy
from opendrs.ports import CycleRecord, StepRecord
from opendrs.simulation.backtest.platform import RecordedPlatform
from opendrs.simulation.backtest.record import LoadRecord
from opendrs.store.memory import MemoryStore

POLL_INTERVAL = 5.0  # seconds between two polls of running migrations


def cycle_context(policy: Policy[Any], platform: RecordedPlatform) -> CycleContext:
    """Return the context of the cycles of *policy* on *platform*."""
    store = BacktestStore(policy.limits)
    source = PolicyDecisionSource(policy, store)
    return _context(source, policy.limits, store, platform)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyWindows:
    """Policies with their windows.

    Attributes:
        entries: The entries of the schedule, each with its policy.
        interval: Seconds between two cycles, if no entry is due.
    """

    entries: Sequence[tuple[ScheduleSettings, Policy[Any]]]
    interval: float


def schedule_context(
    windows: PolicyWindows,
    limits: Limits,
    record: LoadRecord,
    platform: RecordedPlatform,
) -> tuple[CycleContext, PolicySchedule]:
    """Return the context of the cycles of a schedule, and the schedule.

    An entry is due at the snapshot that is closest to the end of its interval.

    Args:
        windows: The policies, and when they decide.
        limits: Limits of the operator.
        record: The recorded load.
        platform: The platform.
    """
    store, tolerance = BacktestStore(limits), record.interval / 2
    entries = [
        ScheduledPolicy(
            replace(each, interval=max(each.interval - tolerance, tolerance)),
            PolicyDecisionSource(policy, store, each.name),
        )
        for each, policy in windows.entries
    ]
    schedule = PolicySchedule(entries, windows.interval, limits, store, platform.clock)
    return _context(schedule, limits, store, platform), schedule


def _context(
    source: DecisionSource,
    limits: Limits,
    store: BacktestStore,
    platform: RecordedPlatform,
) -> CycleContext:
    return CycleContext(
        command="backtest",
        execution=ExecutionContext(
            platform=platform,
            clock=platform.clock,
            store=store,
            limits=limits,
            observer=NullObserver(),
            cancellation=CancellationToken(),
            poll_interval=POLL_INTERVAL,
        ),
        observe=platform.observe,
        decision_source=source,
        approval=ConsentApproval(lambda _: True),
        observer=_SilentObserver(),
    )


class BacktestStore(MemoryStore):
    """Store that keeps only what later decisions depend on.

    Args:
        limits: Limits of the operator; steps are kept for their cooldown.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._retention = max(LOOKBACK, timedelta(seconds=limits.cooldown))

    def record_cycle(self, cycle: CycleRecord) -> None:
        """Forget steps that ended too long ago; the record itself is not needed."""
        oldest = cycle.decided_at - self._retention
        self._records = {
            key: record
            for key, record in self._records.items()
            if record.ended_at is None or record.ended_at >= oldest
        }


class _SilentObserver:
    """Cycle observer that ignores all events."""

    def recovery_started(self, records: Sequence[StepRecord]) -> None:
        """Do nothing."""

    def decision_recorded(self, decided: RecordedDecision) -> None:
        """Do nothing."""

    def running_steps(self) -> AbstractContextManager[ExecutionObserver]:
        """Return an observer that ignores all events."""
        return nullcontext(NullObserver())
