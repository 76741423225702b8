"""Estimated schedule of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import Action, Limits, Plan, PowerOff, PowerOn, Snapshot, StepId
from opendrs.planning.migration_duration import (
    Certainty,
    DurationEstimate,
    estimate_duration,
)
from opendrs.planning.timeline import PlanTimeline, bandwidth_of, links_of

ASSUMED_BANDWIDTH = 125e6  # bytes a second, 1 Gbit/s: where the operator names none


@dataclass(frozen=True, slots=True)
class ScheduledStep:
    """When a step begins and ends, in seconds from the start of the plan.

    Attributes:
        step: The step.
        start: When it is started.
        end: When it has ended: at once where nothing is known of how long it takes,
            and when patience ends where it would never end.
        alone: How long it takes when nothing else is under way.
        non_converging: Whether it makes no headway for a time, because the guest writes as
            fast as its share of the links lets it be sent.
    """

    step: StepId
    start: float
    end: float
    alone: DurationEstimate
    non_converging: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the steps of a plan begin and end.

    Attributes:
        steps: One for each step, in the order of the plan.
        seconds: How long all takes.
        at_least: Whether something is not known that may make it longer.
        max_parallel: How many moves are under way at once, at most.
        critical_path: The steps that take longest one after another, because each waits for
            the one before: with however many at once, it is not faster than that.
        critical_path_seconds: How long they take.
        bandwidth: Bytes a second over the link of one node.
        assumed: Whether nobody has named the bandwidth.
    """

    steps: tuple[ScheduledStep, ...]
    seconds: float
    at_least: bool
    max_parallel: int
    critical_path: tuple[StepId, ...]
    critical_path_seconds: float
    bandwidth: float
    assumed: bool


def estimate_schedule(plan: Plan, snapshot: Snapshot, limits: Limits) -> Schedule:
    """Return when the steps of *plan* begin and end.

    A step is started as soon as all it waits for has ended and the limits of its
    nodes and of the cluster allow it, the first in the plan first. Moves from and to
    one node share its link evenly, those over a network share that as well, and each
    goes as fast as the fullest of them lets it. Guests that are started together are
    taken one by one.

    Args:
        plan: The steps.
        snapshot: The cluster.
        limits: How many moves may run at once, the bandwidth, and the patience after
            which a move is aborted.
    """
    bandwidth = limits.bandwidth or ASSUMED_BANDWIDTH
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
        assumed=limits.bandwidth is None,
    )


def _unshared_bandwidth(action: Action, limits: Limits, bandwidth: float) -> float:
    """Return the bytes a second of *action* while nothing else is under way."""
    if isinstance(action, PowerOn | PowerOff):
        return bandwidth
    return min(bandwidth_of(link, bandwidth) for link in links_of(action, limits))


def _critical_path(
    plan: Plan, alone: dict[StepId, DurationEstimate]
) -> tuple[tuple[StepId, ...], float]:
    """Return the steps that take longest one after another, and how long."""
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
