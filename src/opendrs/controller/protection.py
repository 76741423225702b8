"""Protection of the cluster: circuit breaker, budgets, no undoing, standing back."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.execution_context import ExecutionContext
from opendrs.controller.modes import BREAKER_KEY, RESET_KEY
from opendrs.guard import Rejection, RejectionReason, check_budgets
from opendrs.model import (
    Limits,
    Migration,
    MigrationLoad,
    NodeId,
    NodeState,
    PastMigration,
    PowerOff,
    PowerOn,
    Protection,
    Snapshot,
    Transfer,
    format_count,
    time_as_text,
    time_from_text,
)
from opendrs.ports import Outcome, StepRecord, Store
from opendrs.rules import undo_rules, without_undo_rules

SETTLE_TIME = timedelta(minutes=1)  # until a snapshot shows where a guest arrived
_NEVER_STARTED = frozenset({Outcome.REJECTED, Outcome.SKIPPED})


def protect(
    snapshot: Snapshot, store: Store, protection: Protection, *, repairs: bool = False
) -> Snapshot:
    """Return *snapshot* with what protects the cluster from its own policy.

    Nodes on which a job such as a backup runs are excluded: they receive no guests.
    Guests do not return to nodes they left; the policies `repair`, `drain` and `return`
    ignore these rules.

    Args:
        snapshot: The cluster.
        store: Contains the past migrations.
        protection: The protection.
        repairs: True if the policy balances in the plan that repairs violated strict
            rules: guests may return, and none is held back.

    Raises:
        StoreError: The store cannot be read.
    """
    snapshot = stand_back(snapshot, protection)
    if repairs:
        return without_undo_rules(snapshot)
    since = snapshot.taken_at - timedelta(seconds=protection.undo_horizon)
    done = [each for each in store.recent(since) if each.outcome is Outcome.DONE]
    rules = undo_rules(snapshot, past_migrations(done), protection)
    return replace(snapshot, rules=(*snapshot.rules, *rules)) if rules else snapshot


def stand_back(snapshot: Snapshot, protection: Protection) -> Snapshot:
    """Return *snapshot* without the online nodes on which a job runs."""
    busy = busy_nodes(snapshot, protection)
    nodes = {
        name: replace(snapshot.nodes[name], state=NodeState.EXCLUDED)
        for name in busy
        if snapshot.nodes[name].online
    }
    return replace(snapshot, nodes={**snapshot.nodes, **nodes}) if nodes else snapshot


def busy_nodes(snapshot: Snapshot, protection: Protection) -> dict[NodeId, str]:
    """Return the nodes with jobs during which they receive no guests, with the jobs."""
    jobs = set(protection.stand_back_jobs)
    return {
        name: ", ".join(sorted(jobs & set(node.jobs)))
        for name, node in snapshot.nodes.items()
        if node.jobs is not None and jobs & set(node.jobs)
    }


def past_migrations(records: Iterable[StepRecord]) -> tuple[PastMigration, ...]:
    """Return the migrations and moves of disks of *records* that were started."""
    return tuple(
        PastMigration(record.action, record.intended_at, record.load)
        for record in records
        if not isinstance(record.action, PowerOn | PowerOff)
        and record.outcome not in _NEVER_STARTED
    )


def load_before(migration: Transfer, snapshot: Snapshot) -> MigrationLoad:
    """Return the measured use of a guest and both nodes before *migration*."""
    return MigrationLoad(
        snapshot.guests[migration.guest].usage,
        snapshot.nodes[migration.source].usage,
        snapshot.nodes[migration.target].usage,
    )


class CircuitBreaker:
    """Circuit breaker: after too many failures, a person has to approve plans.

    It stays open over restarts until an operator resets it.

    Args:
        store: Contains the steps, and the state of the breaker.
        protection: Number of failures, and their window.
        limits: Contains the timeout of migrations.
        platform: Name of the platform, for the command that resets the breaker.

    Source:
        Nygard, Release It!, second edition, section "Circuit Breaker".
    """

    def __init__(
        self, store: Store, protection: Protection, limits: Limits, platform: str
    ) -> None:
        self._store = store
        self._platform = platform
        self._protection = protection
        self._limits = limits

    @property
    def opened_at(self) -> datetime | None:
        """Return the time at which the breaker opened; None if it is closed."""
        entry = self._store.load(BREAKER_KEY)
        return None if entry is None else time_from_text(str(entry.get("opened_at")))

    def update(self, now: datetime, snapshot: Snapshot | None = None) -> str | None:
        """Open the breaker if too many steps failed; return why, or None.

        Failures from before the last reset, or from before the breaker opened, do not
        count again.

        Args:
            now: The time.
            snapshot: The cluster, to find guests that did not arrive although their
                migration was reported as done; None if it was not observed.

        Raises:
            StoreError: The store cannot be read or written.
        """
        window = now - timedelta(seconds=self._protection.failure_window)
        since = max([window, *filter(None, [self._reset_at, self.opened_at])])
        records = [each for each in self._store.recent(since) if _ended(each) > since]
        failed = [each for each in records if has_failed(each, self._limits)]
        missing = [] if snapshot is None else _not_arrived(records, snapshot)
        count = len(failed) + len(missing)
        if count < self._protection.max_failures:
            return None
        last = (failed or missing)[-1]
        detail = (
            f"{format_count(count, 'failed step')} within "
            f"{self._protection.failure_window:.0f} s, last: {last.detail or last.step}"
        )
        entry = {"opened_at": time_as_text(now), "detail": detail}
        self._store.save(BREAKER_KEY, entry)
        log_event(
            LogEventCode.BREAKER_OPENED,
            f"circuit breaker opened: {detail}; plans need approval until: opendrs "
            f"breaker {self._platform} --reset",
            level=logging.ERROR,
            failures=count,
        )
        return detail

    @property
    def _reset_at(self) -> datetime | None:
        entry = self._store.load(RESET_KEY)
        return None if entry is None else time_from_text(str(entry.get("at")))


def has_failed(record: StepRecord, limits: Limits) -> bool:
    """Return True for a failed, lost or timed-out step that was started."""
    if record.outcome is Outcome.LOST:
        return record.task is not None
    if record.outcome is Outcome.ABORTED:
        duration = (_ended(record) - record.intended_at).total_seconds()
        return duration >= limits.migration_timeout
    return record.outcome is Outcome.FAILED


def _ended(record: StepRecord) -> datetime:
    return record.ended_at or record.intended_at


def _not_arrived(records: Iterable[StepRecord], snapshot: Snapshot) -> list[StepRecord]:
    """Return the last migrations that were done, of guests still on the source."""
    last = {
        record.action.guest: record
        for record in records
        if isinstance(record.action, Migration) and record.outcome is Outcome.DONE
    }
    return [
        record
        for record in last.values()
        if isinstance(record.action, Migration)
        and (guest := snapshot.guests.get(record.action.guest)) is not None
        and guest.node == record.action.source
        and guest.migrating_to is None
        and snapshot.nodes[guest.node].reachable
        and _ended(record) + SETTLE_TIME < snapshot.taken_at
    ]


class ExecutionProtection:
    """Protection during the execution of one plan.

    Args:
        context: Dependencies of the execution.

    Raises:
        StoreError: The store cannot be read.
    """

    def __init__(self, context: ExecutionContext) -> None:
        store, now = context.store, context.clock.now()
        self._protection = protection = context.protection
        self._limits = context.limits
        self._breaker = CircuitBreaker(
            store, protection, context.limits, context.platform.name
        )
        self._opened = ""
        since = now - timedelta(seconds=protection.longest_window)
        self._past = list(past_migrations(store.recent(since)))
        self._starts = context.starts

    def check(
        self, migrations: Sequence[Transfer], snapshot: Snapshot
    ) -> Rejection | None:
        """Return why steps must not start, or None.

        Args:
            migrations: Migrations and moves of disks that would start together.
            snapshot: Current state of the cluster.
        """
        if self._opened:
            detail = f"the circuit breaker is open: {self._opened}"
            return Rejection(RejectionReason.BREAKER_OPEN, detail)
        most = self._protection.max_migrations_per_cycle
        starts = self._starts.migrations + len(migrations)
        if most is not None and migrations and starts > most:
            detail = f"{format_count(most, 'migration')} per cycle is the limit"
            return Rejection(RejectionReason.BUDGET_EXCEEDED, detail)
        return check_budgets(
            migrations, snapshot, self._past, self._limits, self._protection
        )

    def record_start(self, migrations: Sequence[Transfer], snapshot: Snapshot) -> None:
        """Count *migrations*, which are about to start."""
        self._starts.migrations += len(migrations)
        self._past += [
            PastMigration(each, snapshot.taken_at, load_before(each, snapshot))
            for each in migrations
        ]

    def record_end(self, now: datetime) -> None:
        """Open the circuit breaker if too many steps have failed.

        Raises:
            StoreError: The store cannot be read or written.
        """
        self._opened = self._opened or self._breaker.update(now) or ""
