"""Recover the unfinished steps of a previous run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from opendrs.controller.execution_context import ExecutionContext
from opendrs.controller.in_flight import OpenMigrations
from opendrs.controller.step_groups import StepGroup, binding_rules, group_steps
from opendrs.controller.task_tracker import TaskTracker
from opendrs.errors import PlatformError
from opendrs.model import PowerOff, PowerOn, Step
from opendrs.ports import Platform, StepRecord


def recover(context: ExecutionContext) -> tuple[StepRecord, ...]:
    """Follow the unfinished steps of a previous run to their end; start no step.

    Args:
        context: Dependencies of the executor. After a stop request, running steps
            are followed to their end, unless the platform is unreachable.

    Returns:
        The records that had no outcome, now with an outcome, except those that a
        stop left to the next process.

    Raises:
        StoreError: The store could not be read or written.
    """
    trackers = [
        TaskTracker(_recovered_step(record), record, context)
        for record in context.store.unfinished()
    ]
    open_migrations = OpenMigrations(context.store)
    actions = [tracker.step.action for tracker in trackers]
    open_migrations.adopt(a for a in actions if not isinstance(a, PowerOn | PowerOff))
    _poll_until_ended(trackers, _step_groups(trackers, context.platform), context)
    for tracker in trackers:
        if not tracker.is_running:
            open_migrations.finish(tracker.record)
    return tuple(tracker.record for tracker in trackers)


def _recovered_step(record: StepRecord) -> Step:
    """Return the step of *record*, which this process follows but has not started."""
    detail = (
        f"by a previous run at {record.intended_at:%Y-%m-%d %H:%M:%S} UTC; "
        "waiting for its outcome"
    )
    return Step(record.step, record.action, detail=detail)


def _poll_until_ended(
    trackers: Sequence[TaskTracker],
    groups: Sequence[StepGroup],
    context: ExecutionContext,
) -> None:
    while running := [tracker for tracker in trackers if tracker.is_running]:
        for tracker in running:
            tracker.poll()
        for group in groups:
            group.cancel_if_failed()
        running = [tracker for tracker in running if tracker.is_running]
        if all(tracker.is_left_open for tracker in running):
            return
        context.observer.steps_polled()
        context.clock.sleep(context.poll_interval)


def _step_groups(
    trackers: Sequence[TaskTracker], platform: Platform
) -> list[StepGroup]:
    """Return the groups of steps that started together; none without the rules."""
    if len(trackers) < 2:
        return []
    try:
        rules = platform.observe().rules
    except PlatformError:
        return []
    runs = groupby(
        sorted(trackers, key=lambda one: one.record.run), lambda one: one.record.run
    )
    groups: list[StepGroup] = []
    for _, run in runs:
        of_step = {tracker.step: tracker for tracker in run}
        for group in group_steps(tuple(of_step), rules):
            if len(group) > 1:
                members = [of_step[step] for step in group]
                groups.append(StepGroup(members, binding_rules(group, rules)))
    return groups
