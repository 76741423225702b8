"""The other end of a controller: it answers, records all it hears of, and kills."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from opendrs.errors import OpenDRSError, PlatformUnavailableError, StoreError
from soak.checker import InvariantChecker
from soak.cluster import Cluster
from soak.platform import FaultyPlatform
from soak.process import KilledError

STUCK = 100_000  # calls without a cycle; the longest outage takes some 10,000
KILL, FREEZE, FREEZE_SERVER = "SIGKILL", "SIGSTOP", "SIGSTOP of the server"
_SILENT = ("log", "store")  # calls at which no process dies
_PLATFORM_METHODS = ("observe", "start", "find", "status", "abort", "now", "monotonic")


@dataclass(frozen=True, kw_only=True)
class ControllerEnd:
    """When a controller dies, or is stopped.

    Attributes:
        method: It dies at a call of this method; empty for any.
        times: It dies at the last of so many calls; 0 for none.
        before: Whether it dies before the call takes effect, or after.
        delay: Real seconds after the call at which it is killed; None for at once.
        dies_after: Cycles after which it dies in any case.
        stop_after: Cycles after which it is stopped.
        signals: Number of signals that stop it; with 2 it aborts what runs.
        by: KILL, FREEZE or FREEZE_SERVER; the last does not end it.
    """

    method: str = ""
    times: int = 0
    before: bool = True
    delay: float | None = None
    dies_after: int = 1000
    stop_after: int = 1000
    signals: int = 1
    by: str = KILL

    def __str__(self) -> str:
        if not self.times:
            return f"stopped by {self.signals} signals after {self.stop_after} cycles"
        when = "before" if self.before else "after"
        return f"{self.by} {when} call {self.times} of {self.method or 'any'}"


def draw_end(draw: random.Random, *, forked: bool) -> ControllerEnd:
    """Draw how a controller ends; only a forked one can be killed at any instant."""
    cycles = draw.randint(2, 16)
    if draw.random() < 0.08:
        return ControllerEnd(stop_after=cycles, signals=draw.choice([1, 1, 2]))
    method = ""
    times = int(draw.expovariate(1 / 2000)) + 1
    if draw.random() < 0.6:  # where it matters most
        often, rarely = ["start", "writing", "written"], ["abort", "find", "observe"]
        changes = ["changing", "committing", "changed"]  # of anything in the store
        method = draw.choice([*often, *often, *often, *changes, *rarely])
        times = draw.randint(1, 30 if method in changes else 8)
    return ControllerEnd(
        method=method,
        times=times,
        before=draw.random() < 0.5,
        delay=draw.uniform(0, 0.004) if forked and draw.random() < 0.5 else None,
        dies_after=cycles,
    )


def draw_end_in_group(draw: random.Random) -> ControllerEnd:
    """Draw how a leader is lost to the controllers that wait for its lease."""
    ending = draw_end(draw, forked=False)
    (by,) = draw.choices([KILL, FREEZE, FREEZE_SERVER], [6, 4, 1])
    # Between the check of the lease and the start, nothing can protect: see
    # docs/reference/configuration.md.
    before = ending.before and by == KILL
    return replace(ending, by=by, before=before)


class Endpoint:
    """Answers controllers, and lets each end as drawn.

    Args:
        cluster: The truth.
        platform: The part of it that can be seen.
        checker: Follows what is recorded.
        draw: Draws failures of the disk.

    Attributes:
        cycles: Cycles in which controllers decided.
        outcomes: Outcomes that were recorded, and intentions.
        away_until: True time until which the store cannot be used.
    """

    def __init__(
        self,
        cluster: Cluster,
        platform: FaultyPlatform,
        checker: InvariantChecker,
        draw: random.Random,
    ) -> None:
        self._cluster = cluster
        self._platform = platform
        self._checker = checker
        self._draw = draw
        self._ending = ControllerEnd()
        self._calls_left = 0
        self._first_cycle = 0
        self._calls = 0
        self._delay: float | None = None
        self._aborting = False
        self.cycles = 0
        self.outcomes: Counter[str] = Counter()
        self.away_until = -math.inf

    def begin(self, ending: ControllerEnd) -> None:
        """Answer a new controller."""
        self._ending = ending
        self._calls_left = ending.times
        self._first_cycle = self.cycles
        self._calls = 0
        self._delay = None
        self._aborting = False

    def answer(self, method: str, *arguments: Any) -> Any:  # noqa: ANN401
        """Return what *method* returns, or the error it raises.

        Raises:
            KilledError: The controller dies now.
        """
        self._calls += 1
        if self._calls > STUCK:
            self._cluster.report_event("stuck", calls=STUCK)
            raise KilledError("stuck")
        dies = self._dies(method)
        if dies and self._ending.before:
            self._kill(method)
        found: object
        try:
            found = self._answer(method, *arguments)
        except OpenDRSError as error:
            found = error
        self._checker.tick(self._cluster.now)
        if dies and not self._ending.before:
            self._kill(method, found)
        return found

    def answer_former(self, previous: str, method: str, *arguments: Any) -> object:  # noqa: ANN401
        """Return what a former leader is answered; it must not change anything.

        It may try to commit: the server has ended its transaction, because it was idle
        for the time of the lease. After *previous* `committing`, the call `changed`
        shows that the commit succeeded.
        """
        commits = (previous, method) == ("committing", "changed")
        if commits or method in ("start", "abort"):
            facts = " ".join(map(str, arguments))
            self._cluster.report_event("former", method=method, facts=facts)
        if method in ("start", "abort"):
            return PlatformUnavailableError("too late")
        if method not in _PLATFORM_METHODS and method != "sleep":
            return None
        try:
            with self._platform.unnoticed():
                return getattr(self._platform, method)(*arguments)
        except OpenDRSError as error:
            return error

    def spare(self) -> None:
        """Let the controller live on."""
        self._ending = ControllerEnd(dies_after=self._ending.dies_after + 4)

    def resume(self) -> None:
        """Go on with the leader, after time has passed with others."""
        self._cluster.report_event("resumed")

    def report_stuck(self, detail: str) -> None:
        """Report that no controller takes over."""
        self._cluster.report_event("no-leader", detail=detail)

    def delay(self) -> float | None:
        """Return after how many real seconds to kill a process; None to let it live."""
        return self._delay

    def _dies(self, method: str) -> bool:
        if method in _SILENT:
            return False
        if self.cycles - self._first_cycle >= self._ending.dies_after:
            return True
        if self._ending.method not in ("", method) or not self._calls_left:
            return False
        self._calls_left -= 1
        return not self._calls_left

    def _kill(self, method: str, answer: object = None) -> None:
        if self._ending.delay is None:
            when = "before" if self._ending.before else "after"
            raise KilledError(f"{when} {method}", self._ending.by, answer)
        self._delay = self._ending.delay

    def _answer(self, method: str, *arguments: Any) -> object:  # noqa: ANN401
        if method in _PLATFORM_METHODS:
            return getattr(self._platform, method)(*arguments)
        return getattr(self, "_" + method)(*arguments)

    def _sleep(self, seconds: float) -> int:
        """Let time pass, and return the number of signals that arrived so far."""
        self._platform.sleep(seconds)
        if self.cycles - self._first_cycle < self._ending.stop_after:
            return 0
        if self._ending.signals > 1 and not self._aborting:
            self._aborting = True
            self._cluster.report_event("abort-all")
        return self._ending.signals

    def _store(self) -> None:
        if self._cluster.now < self.away_until:
            raise StoreError("the store is away")

    def _writing(self, run: str, step: str, outcome: str | None, *action: str) -> None:
        if self._draw.random() < self._platform.errors / 20:
            raise StoreError("disk full")
        facts = _action_facts(action)
        self._cluster.report_event(
            "writing", run=run, step=step, outcome=outcome, **facts
        )

    def _written(self, run: str, step: str, outcome: str | None, *action: str) -> None:
        facts = _action_facts(action)
        self._cluster.report_event(
            "written", run=run, step=step, outcome=outcome, **facts
        )
        self.outcomes[outcome or "open"] += 1

    def _changing(self) -> None:
        """Do nothing: it is an opportunity to die."""

    def _committing(self) -> None:
        """Do nothing: it is an opportunity to die."""

    def _changed(self) -> None:
        """Do nothing: it is an opportunity to die."""

    def _cycle(self, run: str, moves: list[tuple[str, str]]) -> None:
        self._cluster.report_event("cycle", run=run, moves=moves)
        self.cycles += 1
        self._calls = 0

    def _log(self, message: str) -> None:
        self._cluster.report_event("log", message=message)


def _action_facts(action: Sequence[str]) -> dict[str, str]:
    return dict(zip(("kind", "guest", "source", "target"), action, strict=True))
