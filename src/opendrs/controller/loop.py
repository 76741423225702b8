"""The controller: one cycle after the other, until told to stop."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from opendrs.controller.chronicle import cycle_record
from opendrs.controller.cycle import remembered, settle_in_flight
from opendrs.controller.cyclelog import CycleLog
from opendrs.controller.deciding import Decider
from opendrs.controller.execution import execute
from opendrs.controller.future_times import correct_times
from opendrs.controller.means import Means
from opendrs.controller.pace import NAP, Pace
from opendrs.controller.patience import Patience
from opendrs.controller.report import Report
from opendrs.controller.resumption import resume
from opendrs.controller.telling import tell
from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    UnsupportedError,
)
from opendrs.model import Snapshot
from opendrs.model.listing import counted

FIRST_PAUSE = 5.0  # seconds after which a platform that did not answer is asked again


class Bell:
    """Calls for a cycle before it is due; other threads may ring it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        """Call for a cycle."""
        self._event.set()

    def heard(self) -> bool:
        """Return whether it was rung since this was last asked."""
        rung = self._event.is_set()
        self._event.clear()
        return rung


@dataclass(frozen=True, slots=True, kw_only=True)
class Routine:
    """What the controller goes by.

    Attributes:
        interval: Seconds from one cycle to the next.
        gathering: Seconds from a ring of the bell to the cycle it calls for.
        observe: Returns the cluster as it is now; may raise `PlatformError`.
        require_alive: Raises an error when what runs beside the cycles does not.
    """

    interval: float
    gathering: float
    observe: Callable[[], Snapshot]
    require_alive: Callable[[], None]


class Controller:
    """Runs cycles: what was left is followed, then observe, decide, act, record.

    Args:
        routine: What it goes by.
        means: What is at hand.
        decider: Who decides.
        bell: Calls for a cycle before it is due.
    """

    def __init__(
        self, routine: Routine, means: Means, decider: Decider, bell: Bell
    ) -> None:
        self._routine = routine
        self._means = means
        self._decider = decider
        self._bell = bell
        self._pace = Pace(routine.interval, means.clock.monotonic())
        self._trouble = Patience(FIRST_PAUSE, 0)
        self._told = ""
        self._log = CycleLog(means.platform.name)
        self._cycles = 0

    def keep_on(self) -> None:
        """Run cycles until the brake is pulled, and what runs has ended.

        A platform that does not answer is told once, and asked again.

        Raises:
            PermissionDeniedError: The platform refuses for want of permission.
            UnsupportedError: It cannot do at all what is needed.
            ConfigurationError: What the operator wrote does not fit the cluster.
            StoreError: The record could not be kept.
        """
        while self._waits():
            try:
                self.once()
            except (PermissionDeniedError, UnsupportedError):
                raise
            except PlatformError as error:
                self._put_off(error)
        tell("stopped", "stopped: nothing runs any more")

    def once(self) -> Report:
        """Run one cycle and return what came of it.

        Raises:
            PlatformError: The cluster cannot be seen.
            ConfigurationError: What the operator wrote does not fit it.
            StoreError: The record could not be kept.
        """
        means, decider = self._means, self._decider
        self._pace.begun(means.clock.monotonic())
        correct_times(means.store, means.clock.now())
        self._pick_up()
        decider.settle()
        if means.brake.stopping:  # who stops what is old wants nothing new
            return Report()
        seen = self._routine.observe()
        self._see_again()
        settle_in_flight(seen, means.store, means.platform)
        snapshot = remembered(seen, decider.policy, means.store)
        judgement = decider.judge(snapshot)
        now = means.clock.now()
        run = self._name(now)
        means.store.note_cycle(
            cycle_record(run, now, snapshot, decider.policy, judgement)
        )
        if means.brake.stopping:
            decider.settle()
            return Report()
        decision = judgement.decision
        self._log.decided(decider.policy, decision, snapshot, run)
        decider.begin(snapshot, decision, run)
        report = execute(decision.plan, means, run=run)
        decider.settle()
        if report.records:
            tell("executed", f"executed: {report.summary}", run=run)
        return report

    def _pick_up(self) -> None:
        """Follow to its end what an earlier process has left."""
        left = self._means.store.unfinished()
        if left:
            tell(
                "resuming",
                f"an earlier process left {counted(len(left), 'step')} under way; "
                "following",
                steps=len(left),
            )
            resume(self._means)

    def _waits(self) -> bool:
        """Wait until a cycle is due; return False when the brake is pulled first."""
        while not self._means.brake.stopping:
            self._routine.require_alive()
            now = self._means.clock.monotonic()
            if self._bell.heard():
                self._pace.hasten(now, self._routine.gathering)
            left = self._pace.left(now)
            if left <= 0:
                return True
            self._means.clock.sleep(min(left, NAP))
        return False

    def _name(self, now: datetime) -> str:
        """Return what the execution of this cycle is called; none other is."""
        self._cycles += 1
        return f"run {now:%Y-%m-%dT%H:%M:%S.%fZ} {os.getpid()} {self._cycles}"

    def _put_off(self, error: PlatformError) -> None:
        """Take note that the cluster cannot be seen; tell it once."""
        now = self._means.clock.monotonic()
        self._trouble.failed(now)
        self._pace.hasten(now, self._trouble.pause)
        if not self._told:
            tell(
                "not-seen",
                f"the cluster cannot be seen: {error}",
                level=logging.WARNING,
            )
        self._told = str(error)

    def _see_again(self) -> None:
        self._trouble.succeeded()
        if self._told:
            tell("seen-again", "the cluster can be seen again")
        self._told = ""
