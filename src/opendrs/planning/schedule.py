"""Estimated schedule of a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from opendrs.model import (
    Action,
    DiskMove,
    Limits,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    StepId,
)
from opendrs.planning.migration_duration import (
    Certainty,
    DurationEstimate,
    estimate_duration,
)
from opendrs.planning.timeline import PlanTimeline, bandwidth_of, links_of

ASSUMED_BANDWIDTH = 125e6  # bytes per second, 1 Gbit/s; if none is known


class BandwidthSource(StrEnum):
    """Source of the bandwidth of an estimate. The values are stable."""

    CONFIGURED = "configured"
    """The limits of the operator."""
    MEASURED = "measured"
    """Recent migrations in this cluster."""
    ASSUMED = "assumed"
    """The default of 1 Gbit/s."""


@dataclass(frozen=True, slots=True)
class ScheduledStep:
    """Estimated start and end of a step, in seconds from the start of the plan.

    Attributes:
        step: Id of the step.
        start: Start.
        end: End. Equal to `start` if the duration is unknown; the migration timeout if
            the step never completes.
        alone: Duration if no other step is in progress.
        non_converging: Whether it temporarily does not converge, because the dirty rate
            is at least its share of the bandwidth.
        moves_disk: Whether it moves a disk to another storage.
    """

    step: StepId
    start: float
    end: float
    alone: DurationEstimate
    non_converging: bool
    moves_disk: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """Estimated schedule of a plan.

    Attributes:
        steps: One entry per step, in the order of the plan.
        seconds: Total duration.
        at_least: Whether the duration is a lower bound, because of unknown values.
        max_parallel: Largest number of parallel migrations.
        critical_path: Longest chain of dependent steps: a lower bound of the duration
            for any number of parallel migrations.
        critical_path_seconds: Duration of the critical path.
        bandwidth: Bytes per second over the link of one node.
        bandwidth_source: Source of that bandwidth.
    """

    steps: tuple[ScheduledStep, ...]
    seconds: float
    at_least: bool
    max_parallel: int
    critical_path: tuple[StepId, ...]
    critical_path_seconds: float
    bandwidth: float
    bandwidth_source: BandwidthSource


def estimate_schedule(plan: Plan, snapshot: Snapshot, limits: Limits) -> Schedule:
    """Return the estimated start and end of the steps of *plan*.

    A step starts as soon as its dependencies have ended and the limits of its nodes,
    networks and cluster allow it, the first in the plan first. Migrations share the
    link of a node, and that of a network, evenly. Each migration has the bandwidth of
    its most contended link. The guests of a move group are estimated one by one.

    Args:
        plan: The plan.
        snapshot: The cluster before the plan; its bandwidth counts if the limits have
            none.
        limits: Limits of parallel migrations, bandwidth, and migration timeout.
    """
    bandwidth, source = link_bandwidth(snapshot, limits)
    alone = {
        step.id: estimate_duration(
            step.action, snapshot, _unshared_bandwidth(step.action, limits, bandwidth)
        )
        for step in plan.steps
    }
    timeline = PlanTimeline(plan, snapshot, limits, bandwidth)
    timeline.run()
    critical_path, critical_path_seconds = _critical_path(plan, alone)
    return Schedule(
        steps=tuple(
            ScheduledStep(
                step.id,
                timeline.start[index],
                timeline.end[index],
                alone[step.id],
                timeline.non_converging[index],
                isinstance(step.action, DiskMove),
            )
            for index, step in enumerate(plan.steps)
        ),
        seconds=timeline.now,
        at_least=any(
            each.certainty is not Certainty.ESTIMATED for each in alone.values()
        ),
        max_parallel=timeline.max_parallel,
        critical_path=critical_path,
        critical_path_seconds=critical_path_seconds,
        bandwidth=bandwidth,
        bandwidth_source=source,
    )


def link_bandwidth(snapshot: Snapshot, limits: Limits) -> tuple[float, BandwidthSource]:
    """Return the bytes per second over the link of one node, and their source."""
    if limits.bandwidth is not None:
        return limits.bandwidth, BandwidthSource.CONFIGURED
    if snapshot.bandwidth is not None:
        return snapshot.bandwidth, BandwidthSource.MEASURED
    return ASSUMED_BANDWIDTH, BandwidthSource.ASSUMED


def _unshared_bandwidth(action: Action, limits: Limits, bandwidth: float) -> float:
    """Return the bytes per second of *action* if no other action is in progress."""
    if isinstance(action, PowerOn | PowerOff):
        return bandwidth
    return min(bandwidth_of(link, bandwidth) for link in links_of(action, limits))


def _critical_path(
    plan: Plan, alone: dict[StepId, DurationEstimate]
) -> tuple[tuple[StepId, ...], float]:
    """Return the longest chain of dependent steps, and its duration."""
    end: dict[StepId, float] = {}
    predecessor: dict[StepId, StepId | None] = {}
    for step in plan.steps:
        last = max(step.depends_on, key=lambda each: end[each], default=None)
        predecessor[step.id] = last
        start = 0.0 if last is None else end[last]
        end[step.id] = start + (alone[step.id].seconds or 0.0)
    path: list[StepId] = []
    current = max(end, key=lambda each: end[each], default=None)
    longest = 0.0 if current is None else end[current]
    while current is not None:
        path.append(current)
        current = predecessor[current]
    return tuple(reversed(path)), longest


def estimate_starts(
    steps: Sequence[Step], seconds: Mapping[str, float | None], limits: Limits
) -> dict[StepId, float]:
    """Return the estimated start of each step, in seconds after the first one.

    Steps start in the order of the plan as soon as their dependencies have ended and
    the limits of parallel migrations allow it. Unlike `estimate_schedule`, it needs no
    snapshot: the durations are given.

    Args:
        steps: The steps, in the order of the plan.
        seconds: Duration of each step; None if unknown. A step without one, and those
            that depend on it, have no start.
        limits: Limits of parallel migrations.
    """
    starts: dict[StepId, float] = {}
    ends: dict[StepId, float] = {}
    running: list[tuple[float, Step]] = []
    known = {name: each for name, each in seconds.items() if each is not None}
    waiting = [step for step in steps if step.id in known]
    now = 0.0
    while waiting:
        running = [each for each in running if each[0] > now]
        for step in [*waiting]:
            if len(running) >= limits.max_parallel_migrations:
                break
            is_ready = all(ends.get(each, math.inf) <= now for each in step.depends_on)
            if is_ready and _may_start(step, [each for _, each in running], limits):
                starts[step.id] = now
                ends[step.id] = now + known[step.id]
                running.append((ends[step.id], step))
                waiting.remove(step)
        if not running:
            break
        now = min(end for end, _ in running)
    return starts


def _may_start(step: Step, running: Sequence[Step], limits: Limits) -> bool:
    """Return True if *step* may start beside the *running* ones."""
    if isinstance(step.action, PowerOn | PowerOff):
        return True
    migrations = [
        each.action
        for each in running
        if not isinstance(each.action, PowerOn | PowerOff)
    ]
    return len(migrations) < limits.max_parallel_migrations and all(
        sum(node in {each.source, each.target} for each in migrations)
        < limits.max_migrations_per_node
        for node in (step.action.source, step.action.target)
    )
