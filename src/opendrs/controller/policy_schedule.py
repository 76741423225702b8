"""Decisions of several policies on one platform, one cycle after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.controller.consent import ApprovedPlan
from opendrs.controller.cycle import DecisionSource, Evaluation
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.scheduling import (
    calendar_of,
    describe_entry,
    waiting_entries,
)
from opendrs.controller.status import SCHEDULE_PREFIX, STARTED_AT, cycle_starts
from opendrs.model import Limits, Snapshot, Step, time_as_text
from opendrs.policies import Decision, Drain, Policy
from opendrs.ports import Clock, Store


@dataclass(frozen=True, slots=True)
class ScheduledPolicy:
    """Entry of the schedule.

    Attributes:
        settings: Its settings.
        source: Its decision source.
        is_requested: Function that returns True if its decision is requested before
            it is due.
    """

    settings: ScheduleSettings
    source: DecisionSource
    is_requested: Callable[[], bool] = lambda: False


class PolicySchedule:
    """Decision source that chooses the entry of the schedule that is due.

    The starts of cycles are kept in the store, so that a restart continues the
    schedule. In a cycle without a due entry, only nodes in maintenance are drained;
    such a cycle starts *interval* seconds after any other one.

    Args:
        entries: The entries, in the order of the file.
        interval: Seconds between two cycles, if no entry is due.
        limits: Limits of the operator.
        store: The store; it must not change while the schedule is used.
        clock: The time.
    """

    def __init__(
        self,
        entries: Sequence[ScheduledPolicy],
        interval: float,
        limits: Limits,
        store: Store,
        clock: Clock,
    ) -> None:
        self._entries = {each.settings.name: each for each in entries}
        self._settings = tuple(each.settings for each in entries)
        self._interval = interval
        self._maintenance = Drain(limits=limits)
        self._store = store
        self._clock = clock
        self._started = cycle_starts(store)
        self._waiting: tuple[str, ...] = ()
        self._current: ScheduledPolicy | None = None
        self._last_cycle: float | None = None
        self._reported_open: tuple[str, ...] | None = None
        self._is_requested = True  # requests of before the start

    @property
    def policy(self) -> Policy[Any]:
        """Return the policy of the present cycle."""
        if self._current is None:
            return self._maintenance
        return self._current.source.policy

    def is_due(self) -> bool:
        """Return True if a cycle is due now."""
        self._update()
        if self._waiting or self._last_cycle is None:
            return True
        return self._clock.monotonic() - self._last_cycle >= self._interval

    def request_cycle(self) -> None:
        """Consider in the next cycle which entries have a requested decision."""
        self._is_requested = True

    def start_cycle(self) -> None:
        """Choose the entry for the cycle that starts now, and record its start.

        After `request_cycle`, open entries whose decision is requested follow those
        that are due.

        Raises:
            StoreError: The store cannot be written.
        """
        self._update()
        if self._is_requested:
            self._waiting = tuple(dict.fromkeys((*self._waiting, *self._requested())))
            self._is_requested = False
        self._last_cycle = self._clock.monotonic()
        self._current = None
        if self._waiting:
            name, *others = self._waiting
            self._waiting = tuple(others)
            self._current = self._entries[name]
            self._started[name] = self._clock.now()
            started_at = time_as_text(self._started[name])
            self._store.save(f"{SCHEDULE_PREFIX}{name}", {STARTED_AT: started_at})

    def cycle_failed(self) -> None:
        """Record that the cluster was unreachable: the entry is still due."""
        if self._current is not None:
            self._waiting = (self._current.settings.name, *self._waiting)

    def reconcile(self) -> None:
        """Settle open requests of all entries."""
        for entry in self._entries.values():
            entry.source.reconcile()

    def evaluations(self, snapshot: Snapshot) -> Iterator[Evaluation[Any]]:
        """Yield the decisions of the chosen entry, or that about maintenance."""
        if self._current is not None:
            yield from self._current.source.evaluations(snapshot)
            return
        policy = self._maintenance
        yield Evaluation(None, policy.decide(snapshot, None), policy=policy)

    def record_decision(
        self, decision: Decision[Any], run: str, started: Sequence[Step]
    ) -> None:
        """Record the decision of the chosen entry."""
        if self._current is not None:
            self._current.source.record_decision(decision, run, started)

    def record_approved(self, approved: ApprovedPlan) -> None:
        """Record that a plan of an earlier cycle is about to be executed."""
        for entry in self._entries.values():
            entry.source.record_approved(approved)

    def _update(self) -> None:
        """Determine the entries that wait for a cycle."""
        now = self._clock.now()
        # A time that stays ahead of a clock that was set back would block its entry.
        self._started = {name: min(at, now) for name, at in self._started.items()}
        self._waiting = waiting_entries(
            self._settings, self._started, now, self._waiting
        )
        self._report_open(now)

    def _requested(self) -> Iterator[str]:
        """Yield the names of the open entries whose decision is requested."""
        now = self._clock.now()
        for name, entry in self._entries.items():
            if calendar_of(entry.settings).is_open(now) and entry.is_requested():
                yield name

    def _report_open(self, now: datetime) -> None:
        """Log the entries that are open, and the others, if that has changed."""
        names = tuple(
            each.name for each in self._settings if calendar_of(each).is_open(now)
        )
        if names == self._reported_open:
            return
        self._reported_open = names
        states = {each.name: describe_entry(each, now) for each in self._settings}
        listed = "; ".join(f"{name}: {state}" for name, state in states.items())
        effect = (
            "" if names else "no policy runs, only nodes in maintenance are drained; "
        )
        log_event(
            LogEventCode.SCHEDULE_CHANGED,
            f"schedule: {effect}{listed}",
            open=list(names),
            entries=states,
        )
