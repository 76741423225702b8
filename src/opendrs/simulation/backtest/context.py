"""Context of the cycles of a backtest: the controller's own, without observers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

from opendrs.controller import (
    CancellationToken,
    CycleContext,
    ExecutionContext,
    ExecutionObserver,
    NullObserver,
    RecordedDecision,
)
from opendrs.controller.consent import ConsentApproval
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.controller.power_failures import LOOKBACK
from opendrs.model import Limits
from opendrs.policies import Policy
from opendrs.ports import CycleRecord, StepRecord
from opendrs.simulation.backtest.platform import RecordedPlatform
from opendrs.store.memory import MemoryStore

POLL_INTERVAL = 5.0  # seconds between two polls of running migrations


def cycle_context(policy: Policy[Any], platform: RecordedPlatform) -> CycleContext:
    """Return the context of the cycles of *policy* on *platform*."""
    store = BacktestStore(policy.limits)
    return CycleContext(
        command="backtest",
        execution=ExecutionContext(
            platform=platform,
            clock=platform.clock,
            store=store,
            limits=policy.limits,
            observer=NullObserver(),
            cancellation=CancellationToken(),
            poll_interval=POLL_INTERVAL,
        ),
        observe=platform.observe,
        decision_source=PolicyDecisionSource(policy, store),
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
