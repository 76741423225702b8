"""Carrying out a plan.

A round asks after what runs, and starts what may. Nothing that is needed to go
on after a crash stands in this process alone: an intention is written before
its step is started, and the name of its task right after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opendrs.controller.band import Band
from opendrs.controller.history import past, recalled
from opendrs.controller.in_flight import InFlight
from opendrs.controller.ledger import Ledger
from opendrs.controller.means import Means
from opendrs.controller.patience import Patience
from opendrs.controller.pursuit import Pursuit
from opendrs.controller.report import Report
from opendrs.controller.switches import power_failures, without
from opendrs.controller.units import Unit, binding, units
from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.guard import Objection, Refusal, objection, room_for
from opendrs.model import Action, Move, Plan, PowerOff, PowerOn, Snapshot
from opendrs.ports import Outcome

# What may pass once the moves of this plan that are under way have ended.
_PASSING = frozenset(
    {
        Refusal.TARGET_OFFLINE,
        Refusal.NOT_MEASURED,
        Refusal.TARGET_FULL,
        Refusal.OVERBOOKED,
        Refusal.BREAKS_RULE,
        Refusal.NODE_NOT_SEEN,
        Refusal.NODE_NOT_EMPTY,
    }
)
SETTLING = 10.0  # seconds until measurements show what has ended


def execute(plan: Plan, means: Means, *, run: str) -> Report:
    """Carry out *plan* and return what came of each step.

    What a platform fails to do is an outcome. Only when the store fails, the
    execution ends early; `resume` then follows what was started.

    Args:
        plan: What to do.
        means: With what.
        run: What this execution is called; no other is called the same.

    Raises:
        StoreError: The record could not be kept.
    """
    return _Execution(plan, run, means).to_the_end()


class _Execution:
    """One execution: what is still to start, what runs, what has ended."""

    def __init__(self, plan: Plan, run: str, means: Means) -> None:
        self._means = means
        self._ledger = Ledger(plan, run, means)
        self._under_way: list[Pursuit] = []
        self._bands: list[Band] = []
        self._last_end: float | None = None
        self._sight = Patience(means.poll, means.limits.patience)
        self._standstill = Patience(0.0, means.limits.patience)
        self._in_flight = InFlight(means.store)
        self._past = past(means.store, means.limits, means.clock.now())
        self._power_failures = power_failures(means.store, means.clock.now())

    def to_the_end(self) -> Report:
        """Go on until every step has an outcome."""
        while True:
            self._look()
            self._start_what_may()
            if not self._ledger.to_start and not self._under_way:
                return Report(self._ledger.records)
            self._means.clock.sleep(self._means.poll)

    def _look(self) -> None:
        """Ask after what runs, and note what has ended."""
        for pursuit in self._under_way:
            if pursuit.running:
                pursuit.look()
        for band in self._bands:
            band.hold_together()
        for pursuit in self._under_way:
            if not pursuit.running:
                self._close(pursuit)
        self._under_way = [pursuit for pursuit in self._under_way if pursuit.running]

    def _close(self, pursuit: Pursuit) -> None:
        """Record how a step has ended that was to be started."""
        self._ledger.close(pursuit.record)
        self._in_flight.end(pursuit.record)
        self._last_end = self._means.clock.monotonic()
        self._refresh_power_failures((pursuit.step,))

    def _refresh_power_failures(self, steps: Unit) -> None:
        """Read the failures again if *steps* power a node on or off."""
        means = self._means
        if any(isinstance(step.action, PowerOn | PowerOff) for step in steps):
            self._power_failures = power_failures(means.store, means.clock.now())

    def _start_what_may(self) -> None:
        if self._means.brake.stopping:
            self._ledger.skip(self._ledger.to_start, "stopped by the operator")
        self._ledger.skip_the_hopeless()
        # Without this, a cluster would be observed for nothing while it is
        # busy, which some platforms take a second for.
        busy = len(self._under_way) >= self._means.limits.moves_at_once
        if busy or not any(map(self._ledger.is_ready, self._ledger.to_start)):
            return
        fresh = self._seen()
        if fresh is not None:
            self._judge(fresh)

    def _seen(self) -> Snapshot | None:
        """Return the cluster as it is, or None when it cannot be seen now."""
        now = self._means.clock.monotonic()
        if self._sight.waits(now):
            return None
        waiting = self._ledger.to_start
        try:
            fresh = self._means.platform.observe()
        except PlatformUnavailableError as error:
            self._sight.failed(now)
            if self._sight.exhausted(now):
                self._ledger.skip(waiting, f"the cluster cannot be seen: {error}")
            else:
                self._ledger.wait(waiting, str(error))
            return None
        except PlatformError as error:
            self._ledger.skip(waiting, f"the cluster cannot be seen: {error}")
            return None
        self._sight.succeeded()
        sure = without(self._in_flight.counted(fresh), self._power_failures)
        return recalled(sure, self._past)

    def _judge(self, fresh: Snapshot) -> None:
        """Start, refuse or put off every unit that is ready."""
        waiting = self._ledger.to_start
        ready = [
            unit
            for unit in units(waiting, fresh.rules)
            if all(self._ledger.is_ready(step, unit) for step in unit)
        ]
        if not ready and not self._under_way:
            why = "it is to start together with a step that waits for it"
            self._ledger.skip(waiting, why)
        for unit in ready:
            fresh = self._judge_one(unit, fresh)

    def _judge_one(self, unit: Unit, fresh: Snapshot) -> Snapshot:
        """Return the cluster with what was started."""
        actions = [step.action for step in unit]
        limits = self._means.limits
        against = objection(actions, fresh, limits)
        if against is not None and not self._may_pass(against):
            self._ledger.refuse(unit, against.detail)
        elif against is not None:
            self._put_off(unit, against)
        elif (busy := room_for(actions, fresh, limits)) is not None:
            if self._may_stay_busy(actions, fresh):
                self._ledger.refuse(unit, busy.detail)
            else:
                self._put_off(unit, busy)
        else:
            self._start(unit, fresh)
            for move in _moves(unit):
                fresh = fresh.during(move)
            return without(fresh, self._power_failures)
        return fresh

    def _may_pass(self, against: Objection) -> bool:
        """Return whether it may be an effect of what runs, or ended just now."""
        if against.refusal not in _PASSING:
            return False
        if self._under_way:
            return True
        now = self._means.clock.monotonic()
        return self._last_end is not None and now - self._last_end < SETTLING

    def _may_stay_busy(self, actions: Sequence[Action], fresh: Snapshot) -> bool:
        """Return whether only migrations that cannot be waited for prevent *actions*.

        Nothing shows when a migration ends of which a node does not answer.
        """
        limits = self._means.limits
        return (
            not self._under_way
            and room_for(actions, _with_seen_migrations(fresh), limits) is None
        )

    def _put_off(self, unit: Unit, why: Objection) -> None:
        """Let *unit* wait: for what runs here, or else until patience ends."""
        now = self._means.clock.monotonic()
        if self._under_way:
            self._standstill.succeeded()
        else:
            self._standstill.failed(now)
        if self._standstill.exhausted(now):
            self._ledger.refuse(unit, why.detail)
        else:
            self._ledger.wait(unit, why.detail)

    def _start(self, unit: Unit, fresh: Snapshot) -> None:
        """Start *unit*: all intentions first, and no further than one that fails."""
        self._standstill.succeeded()
        self._in_flight.begin(_moves(unit), fresh)
        pursuits = [
            Pursuit(step, self._ledger.intend(step), self._means) for step in unit
        ]
        if len(pursuits) > 1:
            self._bands.append(Band(pursuits, binding(unit, fresh.rules)))
        self._under_way += pursuits
        self._refresh_power_failures(unit)
        for position, pursuit in enumerate(pursuits):
            pursuit.start()
            if not pursuit.started_cleanly:
                for rest in pursuits[position + 1 :]:
                    rest.end(Outcome.SKIPPED, f"{pursuit.step.id}, bound to it, failed")
                return


def _with_seen_migrations(fresh: Snapshot) -> Snapshot:
    """Return *fresh* without the migrations of which a node does not answer."""
    guests = {
        name: replace(guest, migrating_to=None)
        if not all(fresh.nodes[place].reachable for place in guest.locations)
        else guest
        for name, guest in fresh.guests.items()
    }
    return replace(fresh, guests=guests)


def _moves(unit: Unit) -> list[Move]:
    actions = [step.action for step in unit]
    return [one for one in actions if not isinstance(one, PowerOn | PowerOff)]
