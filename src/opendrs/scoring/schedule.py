"""When the steps of a plan begin and end, as far as one can tell."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from opendrs.model import (
    Limits,
    NodeId,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    StepId,
)
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
    """

    step: StepId
    begin: float
    end: float
    alone: Estimate


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
    one node share its link evenly, and each goes as fast as the fuller of its two
    links lets it. Guests that are started together are taken one by one.

    Args:
        plan: The steps.
        snapshot: The cluster.
        limits: How many moves may run at once, the bandwidth, and the patience after
            which a move is aborted.
    """
    bandwidth = limits.bandwidth or ASSUMED_BANDWIDTH
    alone = {step.id: estimate(step.action, snapshot, bandwidth) for step in plan.steps}
    course = _Course(plan, snapshot, limits, bandwidth)
    course.run()
    chain, chain_seconds = _longest_chain(plan, alone)
    return Schedule(
        spans=tuple(
            Span(step.id, course.begin[at], course.end[at], alone[step.id])
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


@dataclass(slots=True)
class _Run:
    """A move under way.

    Attributes:
        nodes: From where to where.
        left: The part of it that is still to be done.
        whole: Seconds it takes in all at the bandwidth it has now.
        deadline: When patience ends.
    """

    nodes: tuple[NodeId, NodeId]
    left: float
    whole: float
    deadline: float

    def end(self, now: float) -> float:
        """Return when it ends if nothing changes."""
        if self.left <= 0:
            return now
        return min(now + self.left * self.whole, self.deadline)


class _Course:
    """One way the plan may go.

    Attributes:
        begin: When each step was started.
        end: When each step has ended.
        now: How much time has passed.
        most_at_once: How many moves were under way at once, at most.
    """

    def __init__(
        self, plan: Plan, snapshot: Snapshot, limits: Limits, bandwidth: float
    ) -> None:
        self.begin = [0.0] * len(plan.steps)
        self.end = [0.0] * len(plan.steps)
        self.now = 0.0
        self.most_at_once = 0
        self._steps = plan.steps
        self._snapshot = snapshot
        self._limits = limits
        self._bandwidth = bandwidth
        self._open = [len(set(step.after)) for step in plan.steps]
        self._followers = _followers(plan.steps)
        self._ready = [at for at, count in enumerate(self._open) if not count]
        self._parked: defaultdict[NodeId, list[int]] = defaultdict(list)
        self._busy: Counter[NodeId] = Counter()
        self._here: defaultdict[NodeId, set[int]] = defaultdict(set)
        self._running: dict[int, _Run] = {}

    def run(self) -> None:
        """Go on until all is done."""
        heapq.heapify(self._ready)
        while self._ready or self._running:
            self._start_what_may()
            if self._running:
                self._pass()

    def _start_what_may(self) -> None:
        while self._ready and len(self._running) < self._limits.moves_at_once:
            at = heapq.heappop(self._ready)
            action = self._steps[at].action
            if isinstance(action, PowerOn | PowerOff):
                self.begin[at] = self.now
                self._conclude(at)
                continue
            nodes = (action.source, action.target)
            full = [
                each
                for each in nodes
                if self._busy[each] >= self._limits.moves_per_node
            ]
            if full:
                self._parked[full[0]].append(at)
            else:
                self._start(at, nodes)

    def _start(self, at: int, nodes: tuple[NodeId, NodeId]) -> None:
        self.begin[at] = self.now
        deadline = self.now + self._limits.patience
        self._running[at] = _Run(nodes, 1.0, 0.0, deadline)
        self._busy.update(nodes)
        for node in nodes:
            self._here[node].add(at)
        self._pace(nodes)
        self.most_at_once = max(self.most_at_once, len(self._running))

    def _pass(self) -> None:
        """Let time pass until the next move has ended."""
        ends = {at: run.end(self.now) for at, run in self._running.items()}
        then = min(ends.values())
        for run in self._running.values():
            if run.whole:
                run.left = max(0.0, run.left - (then - self.now) / run.whole)
        self.now = then
        for at in sorted(at for at, end in ends.items() if end <= then):
            nodes = self._running.pop(at).nodes
            self._busy.subtract(nodes)
            for node in nodes:
                self._here[node].discard(at)
                for parked in self._parked.pop(node, ()):
                    heapq.heappush(self._ready, parked)
            self._pace(nodes)
            self._conclude(at)

    def _conclude(self, at: int) -> None:
        self.end[at] = self.now
        for follower in self._followers[at]:
            self._open[follower] -= 1
            if not self._open[follower]:
                heapq.heappush(self._ready, follower)

    def _pace(self, nodes: Iterable[NodeId]) -> None:
        """Look again how fast the moves on *nodes* go."""
        for at in {each for node in nodes for each in self._here[node]}:
            run = self._running[at]
            share = self._bandwidth / max(self._busy[node] for node in run.nodes)
            taken = estimate(self._steps[at].action, self._snapshot, share)
            endless = taken.certainty is Certainty.ENDLESS
            run.whole = math.inf if endless else taken.seconds or 0.0


def _followers(steps: Iterable[Step]) -> list[list[int]]:
    """Return the places of the steps that wait for each."""
    steps = tuple(steps)
    place = {step.id: at for at, step in enumerate(steps)}
    followers: list[list[int]] = [[] for _ in steps]
    for at, step in enumerate(steps):
        for earlier in set(step.after):
            followers[place[earlier]].append(at)
    return followers
