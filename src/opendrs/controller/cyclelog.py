"""Decisions and broken rules, logged as events when they change."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any

from opendrs.controller.documents import violation_documents
from opendrs.controller.telling import tell
from opendrs.model import Action, Snapshot
from opendrs.model.listing import counted
from opendrs.policies import Decision, Optimize, Policy
from opendrs.policies.optimising.repairs import unresolved
from opendrs.rules import Violation, ViolationChange, violation_change

MOST_SHOWN = 3  # violations, or notes, in a line of the log; JSON has all
_MOST_EXAMINED = 100  # violations of which it is found out what prevents a repair
_NUMBER = re.compile(r"(?<![\w.-])\d[\d.,]*(?![\w-])")


class CycleLog:
    """Logs what was decided in a cycle, and the strict rules that are broken.

    What is as it was in the cycle before is logged on level debug only.

    Args:
        platform: The name of the platform.
    """

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._decided: tuple[str, str] | None = None
        self._broken: tuple[tuple[Violation, ...], ...] = ((), ())

    def decided(
        self, policy: Policy[Any], decision: Decision[Any], snapshot: Snapshot, run: str
    ) -> None:
        """Log *decision* about *snapshot*, which is carried out as *run*."""
        steps = decision.plan.steps
        actions = [step.action for step in steps]
        self._log_rules(policy, snapshot, actions)
        what = counted(len(steps), "step") if steps else "nothing to do"
        reasons = [decision.reason.value, decision.detail]
        text = f"{policy.name}: {what}; {', '.join(filter(None, reasons))}"
        if not steps:
            text = "; ".join([text, *_first(decision.notes, "note")])
        # Of the same reason, other numbers are no change.
        kind = decision.reason.value, _NUMBER.sub("#", decision.detail)
        known = not steps and kind == self._decided
        self._decided = None if steps else kind
        tell(
            "decided",
            text,
            level=logging.DEBUG if known else logging.INFO,
            run=run,
            policy=policy.name,
            reason=decision.reason,
            detail=decision.detail,
            notes=list(decision.notes),
            steps=len(steps),
        )

    def _log_rules(
        self, policy: Policy[Any], snapshot: Snapshot, actions: Iterable[Action]
    ) -> None:
        change = violation_change(snapshot, snapshot.after(*actions))
        broken = change.strict_before, change.strict_after
        if broken == self._broken:
            return
        self._broken = broken
        if not any(broken):
            tell("rules-kept", "rules: no strict rule is broken any more")
            return
        tell(
            "rules-broken",
            "; ".join(self._about_rules(policy, snapshot, change)),
            level=logging.WARNING if change.strict_after else logging.INFO,
            broken=violation_documents(change.strict_before),
            remaining=violation_documents(change.strict_after),
        )

    def _about_rules(
        self, policy: Policy[Any], snapshot: Snapshot, change: ViolationChange
    ) -> list[str]:
        """Return how many strict rules are broken, which stay so, and the cure."""
        before, after = len(change.strict_before), len(change.strict_after)
        remaining = unresolved(
            change.strict_after[:_MOST_EXAMINED], snapshot, policy.limits
        )
        shown = [
            f"cannot be kept: {one.detail}"
            if one.detail
            else f"stays broken: {one.violation}"
            for one in remaining[:MOST_SHOWN]
        ]
        parts = [
            f"rules: broken strict rules: {before}; after this plan: {after}",
            *shown,
        ]
        if after > len(shown):
            parts.append(f"and {after - len(shown)} more")
        if policy.name != Optimize.name and any(one.repairable for one in remaining):
            parts.append(
                f"to repair, configure the policy {Optimize.name}, or stop this "
                f"controller and run: opendrs apply {self._platform} --policy "
                f"{Optimize.name}"
            )
        return parts


def _first(texts: tuple[str, ...], what: str) -> list[str]:
    """Return the first of *texts*, and how many more there are."""
    shown, more = list(texts[:MOST_SHOWN]), len(texts) - MOST_SHOWN
    return [*shown, f"and {counted(more, what)} more"] if more > 0 else shown
