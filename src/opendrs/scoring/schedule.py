"""When the steps of a plan begin and end, as far as one can tell."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import Action, Limits, Plan, PowerOff, PowerOn, Snapshot, StepId
from opendrs.scoring.course import Course, links_of, speed_of
from opendrs.scoring.duration import Certainty, Estimate, estimate

ASSUMED_BANDWIDTH = 125e6  # bytes a second, 1 Gbit/s: where the operator names none


@dataclass(frozen=True, slots=True)
class Span:
    """When a step begins and ends, in seconds from the start of the plan.

    Attributes:
        step: The step.
        begin: When it is started.
        end: When it has ended: at once where nothing is known of how long it takes,
            and when patience ends where it would never end.
        alone: How long it takes when nothing else is under way.
        stalls: Whether it makes no headway for a time, because the guest writes as
            fast as its share of the links lets it be sent.
    """

    step: StepId
    begin: float
    end: float
    alone: Estimate
    stalls: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the steps of a plan begin and end.

    Attributes:
        spans: One for each step, in the order of the plan.
        seconds: How long all takes.
        at_least: Whether something is not known that may make it longer.
        most_at_once: How many moves are under way at once, at most.
        chain: The steps that take longest one after another, because each waits for
            the one before: with however many at once, it is not faster than that.
        chain_seconds: How long they take.
        bandwidth: Bytes a second over the link of one node.
        assumed: Whether nobody has named the bandwidth.
    """

    spans: tuple[Span, ...]
    seconds: float
    at_least: bool
    most_at_once: int
    chain: tuple[StepId, ...]
    chain_seconds: float
    bandwidth: float
    assumed: bool


def schedule(plan: Plan, snapshot: Snapshot, limits: Limits) -> Schedule:
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
        step.id: estimate(step.action, snapshot, _alone(step.action, limits, bandwidth))
        for step in plan.steps
    }
    course = Course(plan, snapshot, limits, bandwidth)
    course.run()
    chain, chain_seconds = _longest_chain(plan, alone)
    return Schedule(
        spans=tuple(
            Span(
                step.id,
                course.begin[at],
                course.end[at],
                alone[step.id],
                course.stalls[at],
            )
            for at, step in enumerate(plan.steps)
        ),
        seconds=course.now,
        at_least=any(
            each.certainty is not Certainty.ESTIMATED for each in alone.values()
        ),
        most_at_once=course.most_at_once,
        chain=chain,
        chain_seconds=chain_seconds,
        bandwidth=bandwidth,
        assumed=limits.bandwidth is None,
    )


def _alone(action: Action, limits: Limits, bandwidth: float) -> float:
    """Return the bytes a second of *action* while nothing else is under way."""
    if isinstance(action, PowerOn | PowerOff):
        return bandwidth
    return min(speed_of(link, bandwidth) for link in links_of(action, limits))


def _longest_chain(
    plan: Plan, alone: dict[StepId, Estimate]
) -> tuple[tuple[StepId, ...], float]:
    """Return the steps that take longest one after another, and how long."""
    end: dict[StepId, float] = {}
    before: dict[StepId, StepId | None] = {}
    for step in plan.steps:
        last = max(step.after, key=lambda each: end[each], default=None)
        before[step.id] = last
        begin = 0.0 if last is None else end[last]
        end[step.id] = begin + (alone[step.id].seconds or 0.0)
    chain: list[StepId] = []
    at = max(end, key=lambda each: end[each], default=None)
    longest = 0.0 if at is None else end[at]
    while at is not None:
        chain.append(at)
        at = before[at]
    return tuple(reversed(chain)), longest
