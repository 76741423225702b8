"""Judge of what a controller may start: modes, approvals, pauses and drained hosts.

It imports nothing of opendrs. It keeps account of what operators truly did, and asks
the record which plan a step belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from soak.invariants import Action, CooldownStart, Invariant, Key
from soak.record import Record, RecordedPlan

OBSERVE, ADVISE, AUTOMATIC = LEVELS = ("observe", "advise", "automatic")
REPAIRS = ("drains-nodes", "repairs-rules", "returns-guests")
FINAL = ("done", "failed", "cancelled", "rejected", "expired", "superseded")
FOLLOWING: Mapping[str, tuple[str, ...]] = {
    "proposed": ("approved", "running", *FINAL),
    "approved": ("running", "done", "failed", "cancelled", "expired"),
    "running": ("done", "failed", "cancelled"),
}
DECLINED = ("rejected", "cancelled")
Report = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredConsent:
    """Extent of what the configuration lets a controller start.

    Attributes:
        mode: The mode.
        repair: The mode of repairs while the mode is advise.
        policy_modes: The most that is allowed to each policy.
        advise_tags: Guests with such a tag need an approval.
        advise_guests: Guests that need an approval.
        automatic_guests: Guests that need no approval in mode advise.
        lifetime: Seconds in which a plan can be approved and started.
        start_timeout: Seconds for which an execution waits for the platform.
    """

    mode: str = AUTOMATIC
    repair: str = ADVISE
    policy_modes: Mapping[str, str] = field(default_factory=dict)
    advise_tags: Collection[str] = ()
    advise_guests: Collection[str] = ()
    automatic_guests: Collection[str] = ()
    lifetime: float = math.inf
    start_timeout: float = 0.0


class ConsentJudge:
    """Judges each intention by what operators did before it.

    Args:
        record: The record of the controller.
        configured: The configuration.
        report: Called with each promise that is not kept.
    """

    def __init__(
        self, record: Record, configured: ConfiguredConsent, report: Report
    ) -> None:
        self._record = record
        self._configured = configured
        self._report = report
        self._now = self._offset = 0.0
        self._mode = configured.mode
        self._paused_at = self._paused_until = -math.inf  # by the controller's clock
        self._approved: dict[str, Mapping[str, Action]] = {}
        self._declined: set[str] = set()
        self._drained: set[str] = set()
        self._drained_at_look: frozenset[str] = frozenset()
        self._tags: dict[str, Collection[str]] = {}
        self._intended: set[Key] = set()
        self._decided: dict[str, CooldownStart] = {}
        self._started_plans: set[str] = set()
        self._states: dict[str, str] = {}
        self._commands = 0

    def event(self, at: float, event: str, facts: Mapping[str, Any]) -> None:
        """Follow a true event."""
        self._now = at
        handle = getattr(self, "_on_" + event.replace("-", "_"), None)
        if handle is not None:
            handle(**facts)

    def finish(self) -> None:
        """Judge the end: no plan is left running, and all commands are recorded."""
        self._check_states()
        for name, state in self._states.items():
            if state == "running":
                self._report(Invariant.OPEN, f"plan {name} is running", name)

    # What operators do.

    def _on_command(self, command: str, **facts: Any) -> None:  # noqa: ANN401
        """Follow a command that has returned."""
        self._commands += 1
        handle = getattr(self, "_after_" + command.replace("-", "_"), None)
        if handle is not None:
            handle(**facts)
        self._check_states()

    def _after_mode(self, mode: str) -> None:
        self._mode = mode

    def _after_pause(self, seconds: float) -> None:
        self._paused_at = self._now + self._offset
        self._paused_until = self._paused_at + seconds

    def _after_resume(self) -> None:
        self._paused_until = -math.inf

    def _after_approve(self, plan: str, steps: Collection[str]) -> None:
        found = self._record.plan(plan)
        actions = {} if found is None else found.steps
        self._approved[plan] = {step: actions[step] for step in steps}

    def _after_reject(self, plan: str) -> None:
        self._declined.add(plan)

    def _after_cancel(self, plan: str) -> None:
        self._declined.add(plan)

    def _after_drain(self, host: str) -> None:
        self._drained.add(host)

    def _after_undrain(self, host: str) -> None:
        self._drained.discard(host)

    # What happens to the controller.

    def _on_clock(self, offset: float) -> None:
        for each in self._decided.values():
            each.clock_set(self._now, offset - self._offset)
        self._offset = offset
        # A clock that is set back does not make a pause longer.
        ahead = max(0.0, self._paused_at - (self._now + offset))
        self._paused_at -= ahead
        self._paused_until -= ahead

    def _on_guest(self, guest: str, tags: Collection[str], **_: object) -> None:
        self._tags[guest] = tags

    def _on_look(self, **_: object) -> None:
        self._drained_at_look = frozenset(self._drained)

    def _on_cycle(self, run: str, moves: Collection[tuple[str, str]] = ()) -> None:
        """Follow a decision; a proposed plan with the same moves is valid as long."""
        proposed = self._record.proposed_moves()
        runs = [each for each, planned in proposed.items() if planned <= {*moves}]
        for each in (run, *runs):
            self._decided[each] = CooldownStart(self._now, each, self._now)

    def _on_process(self, **_: object) -> None:
        self._check_states()

    def _on_process_end(self, **_: object) -> None:
        self._check_states()

    def _on_start(self, kind: str, guest: str, target: str, **_: object) -> None:
        if guest and target in self._drained_at_look:
            detail = f"{kind} of {guest} to {target}, which is drained"
            self._report(Invariant.DRAINED, detail, guest, target)

    def _on_writing(
        self, run: str, step: str, outcome: str | None, **action: str
    ) -> None:
        key = (run, step)
        if outcome is not None or key in self._intended or not action:
            return
        self._intended.add(key)
        names = (step, action["guest"], action["target"])
        plan = self._record.plan_of(run, step)
        if plan is None:
            self._report(Invariant.CONSENT, f"{key} belongs to no plan", *names)
            return
        done = (action["kind"], action["guest"], action["source"], action["target"])
        problem = self._problem(plan, step, done)
        if problem:
            self._report(Invariant.CONSENT, f"{plan.id} {key}: {problem}", *names)
        self._require_in_time(plan, run)

    def _problem(self, plan: RecordedPlan, step: str, action: Action) -> str:
        """Return why *step* must not start now, or nothing."""
        if plan.id in self._declined or plan.state != "running":
            return f"the plan is {plan.state}"
        if plan.steps.get(step) != action:
            return f"{action} is not the planned {plan.steps.get(step)}"
        if self._now + self._offset < self._paused_until:
            return "the controller is paused"
        mode = self._effective_mode(plan)
        if mode == OBSERVE:
            return "the mode is observe"
        approved = self._approved.get(plan.id, {})
        needs_approval = self._is_advised(action[1]) or (
            mode == ADVISE and not self._is_automatic(action[1])
        )
        if needs_approval and approved.get(step) != action:
            return f"the mode is {mode}, and it is not approved"
        return ""

    def _effective_mode(self, plan: RecordedPlan) -> str:
        configured = self._configured
        most = configured.policy_modes.get(plan.policy, AUTOMATIC)
        mode = min(self._mode, most, key=LEVELS.index)
        if mode == OBSERVE:
            return mode
        if self._record.is_breaker_open():
            return ADVISE
        repairs = configured.repair == AUTOMATIC and plan.reason in REPAIRS
        return AUTOMATIC if repairs else mode

    def _is_advised(self, guest: str) -> bool:
        tags = set(self._tags.get(guest, ()))
        return guest in self._configured.advise_guests or bool(
            tags & set(self._configured.advise_tags)
        )

    def _is_automatic(self, guest: str) -> bool:
        listed = guest in self._configured.automatic_guests
        return listed and not self._record.is_breaker_open()

    def _require_in_time(self, plan: RecordedPlan, run: str) -> None:
        """Require that a plan starts before it expires, by time and by the clock."""
        if plan.id in self._started_plans or run not in self._decided:
            return
        self._started_plans.add(plan.id)
        decided = self._decided[run]
        age = min(self._now - decided.at, decided.elapsed(self._now))
        if age > self._configured.lifetime + self._configured.start_timeout:
            detail = f"plan {plan.id} starts {age:.0f} s after the decision"
            self._report(Invariant.EXPIRED, detail, plan.id)

    def _check_states(self) -> None:
        """Require that plans change their states as they may, and none is lost."""
        states = self._record.plan_states()
        for name, before in self._states.items():
            now = states.get(name, "lost")
            if now != before and now not in FOLLOWING.get(before, ()):
                self._report(Invariant.PLAN, f"plan {name}: {before}, then {now}", name)
        for name in self._declined:
            if states.get(name) not in DECLINED:
                detail = f"plan {name} is {states.get(name)} after it was declined"
                self._report(Invariant.PLAN, detail, name)
        self._states = states
        recorded = self._record.operator_actions()
        if recorded < self._commands:
            detail = f"{recorded} of {self._commands} commands are recorded"
            self._report(Invariant.DURABLE, detail)
