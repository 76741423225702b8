"""Execute a plan: start each step when dependencies, guard and limits allow it.

A round queries the running tasks and starts the steps that may start. Everything that
is needed after a crash is in the store: the intention is recorded before a step starts,
and its task id right after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from opendrs.controller.clock import ExponentialBackoff
from opendrs.controller.drained_nodes import with_drained_nodes
from opendrs.controller.execution_context import ExecutionContext
from opendrs.controller.history import add_recent_actions, recent_actions
from opendrs.controller.in_flight import OpenMigrations
from opendrs.controller.plan_progress import PlanProgress
from opendrs.controller.power_failures import exclude_nodes, find_power_failures
from opendrs.controller.protection import (
    ExecutionProtection,
    load_before,
    stand_back,
)
from opendrs.controller.reservations import add_reservations
from opendrs.controller.step_groups import (
    GroupSteps,
    StepGroup,
    binding_rules,
    group_steps,
)
from opendrs.controller.task_tracker import TaskTracker
from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.guard import Rejection, RejectionReason, check, check_concurrency
from opendrs.model import (
    Action,
    MigrationLoad,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    Transfer,
)
from opendrs.ports import Outcome, StepRecord


@dataclass(frozen=True, slots=True)
class ExecutionReport:
    """Result of the execution of a plan.

    Attributes:
        records: One record per step, in the order of the plan. All have an outcome,
            except those that a stop left to the next process.
    """

    records: tuple[StepRecord, ...] = ()

    def count(self, outcome: Outcome) -> int:
        """Return the number of steps with *outcome*."""
        return sum(record.outcome is outcome for record in self.records)

    @property
    def all_done(self) -> bool:
        """Return True if the outcome of every step is done."""
        return self.count(Outcome.DONE) == len(self.records)

    @property
    def summary(self) -> str:
        """Return the number of steps of each outcome that occurs, as text."""
        counts = [(str(outcome), self.count(outcome)) for outcome in Outcome]
        unfinished = sum(record.outcome is None for record in self.records)
        counts.append(("unfinished", unfinished))
        parts = (f"{count} {outcome}" for outcome, count in counts if count)
        return ", ".join(parts) or "nothing to do"


# Rejections that may not apply any more once running steps of this plan have ended.
_TEMPORARY_REASONS = frozenset(
    {
        RejectionReason.TARGET_OFFLINE,
        RejectionReason.METRICS_MISSING,
        RejectionReason.INSUFFICIENT_MEMORY,
        RejectionReason.MEMORY_OVERCOMMITTED,
        RejectionReason.INSUFFICIENT_STORAGE,
        RejectionReason.RULE_VIOLATED,
        RejectionReason.NODE_UNREACHABLE,
        RejectionReason.NODE_NOT_EMPTY,
    }
)

SETTLE_TIME = 10.0  # seconds until the metrics show that a step has ended


def execute(plan: Plan, context: ExecutionContext, *, run: str) -> ExecutionReport:
    """Execute *plan* and return the record of each step.

    A failure of the platform is an outcome. Only a failure of the store ends the
    execution early; `recover` then follows the steps that were started.

    Args:
        plan: The plan.
        context: Dependencies of the execution.
        run: Unique name of the execution.

    Raises:
        StoreError: A record could not be written.
    """
    return _PlanExecution(plan, run, context).run()


class _PlanExecution:
    """State of one execution: pending, running and finished steps."""

    def __init__(self, plan: Plan, run: str, context: ExecutionContext) -> None:
        self._context = context
        self._progress = PlanProgress(plan, run, context)
        self._running: list[TaskTracker] = []
        self._groups: list[StepGroup] = []
        self._last_ended_at: float | None = None
        self._observe_backoff = ExponentialBackoff(
            context.poll_interval, context.limits.migration_timeout
        )
        self._stall_backoff = ExponentialBackoff(0.0, context.limits.migration_timeout)
        self._open_migrations = OpenMigrations(context.store)
        self._recent_actions = recent_actions(
            context.store, context.limits, context.clock.now()
        )
        self._power_failures = find_power_failures(context.store, context.clock.now())
        self._protection = ExecutionProtection(context)

    def run(self) -> ExecutionReport:
        """Run until every step has an outcome, or is left open by a stop."""
        while True:
            self._poll_tasks()
            self._start_ready()
            if not self._progress.pending and all(
                tracker.is_left_open for tracker in self._running
            ):
                for tracker in self._running:
                    self._progress.record_end(tracker.record)
                return ExecutionReport(self._progress.records)
            self._context.observer.steps_polled()
            self._context.clock.sleep(self._context.poll_interval)

    def _poll_tasks(self) -> None:
        """Poll the running steps and record those that ended."""
        for tracker in self._running:
            if tracker.is_running:
                tracker.poll()
        for group in self._groups:
            group.cancel_if_failed()
        for tracker in self._running:
            if not tracker.is_running:
                self._record_end(tracker)
        self._running = [tracker for tracker in self._running if tracker.is_running]

    def _record_end(self, tracker: TaskTracker) -> None:
        """Record the end of a step that was started."""
        self._progress.record_end(tracker.record)
        self._open_migrations.finish(tracker.record)
        self._last_ended_at = self._context.clock.monotonic()
        self._protection.record_end(self._context.clock.now())
        self._refresh_power_failures((tracker.step,))

    def _refresh_power_failures(self, steps: GroupSteps) -> None:
        """Read the power failures again if *steps* power a node on or off."""
        context = self._context
        if any(isinstance(step.action, PowerOn | PowerOff) for step in steps):
            now = context.clock.now()
            self._power_failures = find_power_failures(context.store, now)

    def _start_ready(self) -> None:
        if self._is_stopped():
            return
        self._progress.skip_blocked()
        # An observation takes a second on some platforms; avoid needless ones.
        busy = len(self._running) >= self._context.limits.max_parallel_migrations
        if busy or not any(map(self._progress.is_ready, self._progress.pending)):
            return
        snapshot = self._observe()
        if snapshot is not None:
            self._process_ready(snapshot)

    def _is_stopped(self) -> bool:
        """Return True if no further step may start; the pending ones are skipped."""
        detail = self._context.stop_reason() if self._progress.pending else ""
        if self._context.cancellation.stop_requested:
            detail = "stopped by the operator"
        self._progress.skip(self._progress.pending if detail else (), detail)
        return not self._progress.pending

    def _observe(self) -> Snapshot | None:
        """Return the current snapshot, or None if the cluster is unreachable."""
        now = self._context.clock.monotonic()
        if self._observe_backoff.is_waiting(now):
            return None
        pending = self._progress.pending
        try:
            snapshot = self._context.platform.observe()
        except PlatformUnavailableError as error:
            self._observe_backoff.record_failure(now)
            if self._observe_backoff.is_exhausted(now):
                self._progress.skip(pending, f"cluster unreachable: {error}")
            else:
                self._progress.report_waiting(pending, str(error))
            return None
        except PlatformError as error:
            self._progress.skip(pending, f"cluster unreachable: {error}")
            return None
        self._observe_backoff.reset()
        counted = self._open_migrations.add_to(snapshot)
        drained = with_drained_nodes(counted, self._context.store)
        reliable = exclude_nodes(drained, self._power_failures)
        reserved = add_reservations(reliable, self._context.store)
        return stand_back(
            add_recent_actions(reserved, self._recent_actions), self._context.protection
        )

    def _process_ready(self, snapshot: Snapshot) -> None:
        """Start, reject or defer every step group that is ready."""
        pending = self._progress.pending
        ready = [
            group
            for group in group_steps(pending, snapshot.rules)
            if all(self._progress.is_ready(step, group) for step in group)
        ]
        if not ready and not self._running:
            detail = "depends on a step of the same move group"
            self._progress.skip(pending, detail)
        for group in ready:
            if self._is_stopped():
                return
            snapshot = self._process_group(group, snapshot)

    def _process_group(self, group: GroupSteps, snapshot: Snapshot) -> Snapshot:
        """Start, reject or defer *group*; return *snapshot* with what was started."""
        actions = [step.action for step in group]
        limits = self._context.limits
        rejection = check(actions, snapshot, limits) or self._protection.check(
            _migrations(group), snapshot
        )
        if rejection is not None and not self._is_temporary(rejection):
            self._progress.reject(group, rejection)
        elif rejection is not None:
            self._defer(group, rejection)
        elif (over_limit := check_concurrency(actions, snapshot, limits)) is not None:
            if self._may_stay_over_limit(actions, snapshot):
                self._progress.reject(group, over_limit)
            else:
                self._defer(group, over_limit)
        else:
            self._start(group, snapshot)
            for migration in _migrations(group):
                snapshot = snapshot.with_in_flight(migration)
            return exclude_nodes(snapshot, self._power_failures)
        return snapshot

    def _is_temporary(self, rejection: Rejection) -> bool:
        """Return True if a running step, or one that just ended, may be the cause."""
        if rejection.reason not in _TEMPORARY_REASONS:
            return False
        if self._running:
            return True
        now = self._context.clock.monotonic()
        return (
            self._last_ended_at is not None and now - self._last_ended_at < SETTLE_TIME
        )

    def _may_stay_over_limit(
        self, actions: Sequence[Action], snapshot: Snapshot
    ) -> bool:
        """Return True if only migrations of unreachable nodes prevent *actions*.

        The end of a migration is not visible while one of its nodes is unreachable.
        """
        limits = self._context.limits
        return (
            not self._running
            and check_concurrency(
                actions, _without_unreachable_migrations(snapshot), limits
            )
            is None
        )

    def _defer(self, group: GroupSteps, rejection: Rejection) -> None:
        """Let *group* wait for running steps, or else at most for the timeout."""
        now = self._context.clock.monotonic()
        if self._running:
            self._stall_backoff.reset()
        else:
            self._stall_backoff.record_failure(now)
        if self._stall_backoff.is_exhausted(now):
            self._progress.reject(group, rejection)
        else:
            self._progress.report_waiting(group, rejection.detail)

    def _start(self, group: GroupSteps, snapshot: Snapshot) -> None:
        """Record all steps of *group*, then start them until one fails to start."""
        self._stall_backoff.reset()
        self._open_migrations.start(_migrations(group), snapshot)
        self._protection.record_start(_migrations(group), snapshot)
        trackers = [
            TaskTracker(
                step,
                self._progress.record_intention(step, _load_before(step, snapshot)),
                self._context,
            )
            for step in group
        ]
        if len(trackers) > 1:
            self._groups.append(
                StepGroup(trackers, binding_rules(group, snapshot.rules))
            )
        self._running += trackers
        self._refresh_power_failures(group)
        for position, tracker in enumerate(trackers):
            tracker.start()
            if not tracker.was_accepted:
                for remaining in trackers[position + 1 :]:
                    remaining.finish(
                        Outcome.SKIPPED,
                        f"step {tracker.step.id} of the same move group failed",
                    )
                return


def _without_unreachable_migrations(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* without the migrations from or to an unreachable node."""
    guests = {
        name: replace(guest, migrating_to=None)
        if not all(snapshot.nodes[node].reachable for node in guest.occupied_nodes)
        else guest
        for name, guest in snapshot.guests.items()
    }
    return replace(snapshot, guests=guests)


def _load_before(step: Step, snapshot: Snapshot) -> MigrationLoad | None:
    if isinstance(step.action, PowerOn | PowerOff):
        return None
    return load_before(step.action, snapshot)


def _migrations(group: GroupSteps) -> list[Transfer]:
    actions = [step.action for step in group]
    return [one for one in actions if not isinstance(one, PowerOn | PowerOff)]
