"""Groups of steps that start together because of strict affinity rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from opendrs.controller.task_tracker import TaskTracker
from opendrs.model import (
    Affinity,
    GuestId,
    Migration,
    NodeId,
    Rule,
    Step,
)
from opendrs.ports import Outcome

GroupSteps = tuple[Step, ...]
_Key = tuple[GuestId, NodeId, NodeId, int]


def group_steps(steps: Sequence[Step], rules: Iterable[Rule]) -> tuple[GroupSteps, ...]:
    """Return *steps* in groups that start together, ordered by their first step.

    Migrations of guests that strict affinity rules keep together, directly or through
    other guests, form a group if they have the same source and target. So do stopped
    ones with them: the HA manager of Proxmox VE moves all with one request. Every other
    step is a group of its own.
    """
    representatives = _group_representatives(rules)
    occurrences: Counter[tuple[GuestId, NodeId, NodeId]] = Counter()
    groups: dict[_Key | str, list[Step]] = {}
    for step in steps:
        key: _Key | str = step.id
        action = step.action
        if isinstance(action, Migration) and action.guest in representatives:
            # A second migration of a guest along the same path starts later.
            move = (action.guest, action.source, action.target)
            occurrences[move] += 1
            representative = representatives[action.guest]
            key = (representative, action.source, action.target, occurrences[move])
        groups.setdefault(key, []).append(step)
    return tuple(map(tuple, groups.values()))


def binding_rules(group: Sequence[Step], rules: Iterable[Rule]) -> tuple[Affinity, ...]:
    """Return the strict affinity rules of the guests of *group*."""
    guests = {step.action.guest for step in group if isinstance(step.action, Migration)}
    return tuple(rule for rule in _strict_affinities(rules) if rule.guests & guests)


def _strict_affinities(rules: Iterable[Rule]) -> Iterable[Affinity]:
    return (rule for rule in rules if isinstance(rule, Affinity) and rule.strict)


def _group_representatives(rules: Iterable[Rule]) -> dict[GuestId, GuestId]:
    """Return a representative of its move group for each guest with affinity rules."""
    groups: list[set[GuestId]] = []
    for rule in _strict_affinities(rules):
        merged = set(rule.guests)
        for group in [group for group in groups if group & merged]:
            merged |= group
            groups.remove(group)
        groups.append(merged)
    return {guest: min(group) for group in groups for guest in group}


class StepGroup:
    """Steps that were started together because of strict affinity rules.

    If a step fails before any is done, the others are aborted, so that the guests
    stay together on the source. If they are separated nevertheless, the detail of the
    last step to end reports the violated rules.

    Args:
        trackers: Trackers of the steps.
        rules: Strict affinity rules of the guests.
    """

    def __init__(
        self, trackers: Sequence[TaskTracker], rules: Sequence[Affinity]
    ) -> None:
        self._trackers = tuple(trackers)
        self._rules = tuple(rules)
        for tracker in self._trackers:
            tracker.outcome_detail = self._rule_detail

    def cancel_if_failed(self) -> None:
        """Abort the running steps if another step failed and none is done."""
        ended = [tracker for tracker in self._trackers if not tracker.is_running]
        if not ended or any(tracker.is_done for tracker in ended):
            return
        step_ids = ", ".join(tracker.step.id for tracker in ended)
        for tracker in self._trackers:
            if tracker.is_running:
                tracker.request_abort(
                    f"cancelled: step {step_ids} of the same move group failed"
                )

    def _rule_detail(self, outcome: Outcome) -> str:
        """Return the violated rules as text if the last step ends with *outcome*."""
        outcomes = [
            tracker.record.outcome
            for tracker in self._trackers
            if not tracker.is_running
        ]
        all_outcomes = {*outcomes, outcome}
        if len(outcomes) < len(self._trackers) - 1 or all_outcomes == {Outcome.DONE}:
            return ""
        if not all_outcomes & {Outcome.DONE, Outcome.LOST}:
            return ""
        verb = "may be" if Outcome.LOST in all_outcomes else "is"
        rules = ", ".join(str(rule) for rule in self._rules)
        return f"rule {verb} violated now: {rules}"
