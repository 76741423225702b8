"""Planning and carrying out, as `apply` and `demo` do it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from opendrs.cli.anytime import Within
from opendrs.cli.signals import pulled_by_signals
from opendrs.cli.sources import Source, observe
from opendrs.controller import (
    Brake,
    Means,
    Report,
    Watcher,
    correct_times,
    decide,
    execute,
    remembered,
    resume,
    settle_in_flight,
)
from opendrs.errors import PlatformError
from opendrs.model import Snapshot
from opendrs.policies import Decision, Optimize, Policy
from opendrs.ports import Outcome, StepRecord, Store

NOT_DONE, FAILURE = 1, 3
_FAILURES = (Outcome.FAILED, Outcome.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be performed.

    Attributes:
        source: Where.
        policy: What decides.
        store: Where it is recorded.
        seconds: For how long the policy searches; None for as long as it takes.
        poll: Seconds between two looks at what runs.
    """

    source: Source
    policy: Policy[Any]
    store: Store
    seconds: float | None = None
    poll: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What was seen, decided and done.

    Attributes:
        task: What was to be performed.
        resumed: What an interrupted run had started, and what came of it.
        before: The cluster that was decided about.
        decision: What was decided.
        report: What came of it; None when it was not carried out.
        after: The cluster afterwards; None when nothing was done, or when it
            could not be seen.
        measures: What the policy measures afterwards.
    """

    task: Task
    resumed: tuple[StepRecord, ...]
    before: Snapshot
    decision: Decision[Any]
    report: Report | None = None
    after: Snapshot | None = None
    measures: Mapping[str, float] = field(default_factory=dict)


class Audience(Protocol):
    """Who is shown the performance."""

    def interrupted(self, records: Sequence[StepRecord]) -> None:
        """Take note that an interrupted run had started *records*."""

    def decided(self, performance: Performance) -> None:
        """Take note of the decision."""

    def watcher(self, brake: Brake) -> AbstractContextManager[Watcher]:
        """Return whom to tell what happens."""

    def finished(self, performance: Performance) -> None:
        """Take note of the end."""


def perform(task: Task, audience: Audience, consent: Callable[[], bool]) -> int:
    """Resume, plan, ask, act; return the exit status.

    Args:
        task: What to perform.
        audience: Who is shown it.
        consent: Asked before anything is started.

    Raises:
        KeyboardInterrupt: The operator stopped it before there was a plan.
        ConfigurationError: A rule of the configuration does not fit the cluster.
        PlatformError: The cluster cannot be seen.
        StoreError: The record could not be kept.
    """
    correct_times(task.store, task.source.clock.now())
    resumed = _resume(task, audience)
    decided = _decide(task, resumed)
    audience.decided(decided)
    if not decided.decision.plan.steps:
        audience.finished(decided)
        return 0
    if not consent():
        return NOT_DONE
    brake = Brake()
    with pulled_by_signals(brake):
        with audience.watcher(brake) as watcher:
            report = _execute(decided, watcher, brake)
        audience.finished(_seen_again(decided, report))
    return exit_status(report, brake)


def _resume(task: Task, audience: Audience) -> tuple[StepRecord, ...]:
    """Follow to its end what an interrupted run has started."""
    unfinished = task.store.unfinished()
    if not unfinished:
        return ()
    audience.interrupted(unfinished)
    brake = Brake()
    with pulled_by_signals(brake), audience.watcher(brake) as watcher:
        resumed = resume(_means(task, watcher, brake))
    if brake.stopping:  # who stops what is old wants nothing new
        raise KeyboardInterrupt
    return resumed


def _decide(task: Task, resumed: tuple[StepRecord, ...]) -> Performance:
    """Return what is seen now, and what to do about it."""
    seen = observe(task.source)
    settle_in_flight(seen, task.store, task.source.platform)
    snapshot = remembered(seen, task.policy, task.store)
    policy = task.policy
    if task.seconds is not None and isinstance(policy, Optimize):
        policy = Within(policy, task.seconds)
    decision = decide(snapshot, policy, task.store)
    return Performance(task=task, resumed=resumed, before=snapshot, decision=decision)


def _execute(decided: Performance, watcher: Watcher, brake: Brake) -> Report:
    task = decided.task
    now = task.source.clock.now()
    run = f"apply {now:%Y-%m-%dT%H:%M:%S.%fZ} {os.getpid()}"
    return execute(decided.decision.plan, _means(task, watcher, brake), run=run)


def _means(task: Task, watcher: Watcher, brake: Brake) -> Means:
    return Means(
        platform=task.source.platform,
        clock=task.source.clock,
        store=task.store,
        limits=task.policy.limits,
        watcher=watcher,
        brake=brake,
        poll=task.poll,
    )


def _seen_again(decided: Performance, report: Report) -> Performance:
    policy = decided.task.policy
    try:
        after = decided.task.source.platform.observe()
    except PlatformError:  # what was done must be told all the same
        return replace(decided, report=report)
    measures = policy.decide(after, policy.initial_memory()).before
    return replace(decided, report=report, after=after, measures=measures)


def exit_status(report: Report, brake: Brake) -> int:
    """Return 0 when all was done, 1 when some was not, 3 when some failed."""
    if report.complete:
        return 0
    # What the operator gave up did not fail.
    failures = _FAILURES if brake.aborting else (*_FAILURES, Outcome.ABORTED)
    return FAILURE if any(map(report.count, failures)) else NOT_DONE
