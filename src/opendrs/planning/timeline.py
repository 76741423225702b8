"""Simulated timeline of a plan: start, end and bandwidth share of each step."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from opendrs.model import (
    Limits,
    Network,
    NodeId,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    Transfer,
)
from opendrs.planning.migration_duration import Certainty, estimate_duration

Link: TypeAlias = NodeId | Network


@dataclass(slots=True)
class _TimelineRun:
    """Migration in progress.

    Attributes:
        links: Links that it shares: of its nodes, and networks.
        deadline: Time at which the migration timeout ends.
        updated_at: Time of the last change of its speed.
        remaining: Fraction that remained at that time.
        duration: Total duration in seconds at the current speed.
    """

    links: tuple[Link, ...]
    deadline: float
    updated_at: float
    remaining: float = 1.0
    duration: float = math.inf

    def set_duration(self, now: float, duration: float) -> None:
        """Change the speed from *now* on."""
        if self.duration > 0:
            self.remaining = max(
                0.0, self.remaining - (now - self.updated_at) / self.duration
            )
        self.updated_at, self.duration = now, duration

    @property
    def end(self) -> float:
        """Return the time at which it ends if nothing changes."""
        if self.remaining <= 0:
            return self.updated_at
        return min(self.updated_at + self.remaining * self.duration, self.deadline)


class PlanTimeline:
    """Simulation of a plan.

    Args:
        plan: The plan.
        snapshot: The cluster before the plan.
        limits: Limits of parallel migrations, and migration timeout.
        bandwidth: Bytes per second over the link of one node.

    Attributes:
        start: Start of each step, in seconds.
        end: End of each step, in seconds.
        non_converging: Whether each step temporarily does not converge, because the
            dirty rate is at least its share of the bandwidth.
        now: Current time, in seconds.
        max_parallel: Largest number of parallel migrations.
    """

    def __init__(
        self, plan: Plan, snapshot: Snapshot, limits: Limits, bandwidth: float
    ) -> None:
        self.start = [0.0] * len(plan.steps)
        self.end = [0.0] * len(plan.steps)
        self.non_converging = [False] * len(plan.steps)
        self.now = 0.0
        self.max_parallel = 0
        self._steps = plan.steps
        self._snapshot = snapshot
        self._limits = limits
        self._bandwidth = bandwidth
        self._open_dependencies = [len(set(step.depends_on)) for step in plan.steps]
        self._dependents = _dependents_of(plan.steps)
        self._ready = [
            index for index, count in enumerate(self._open_dependencies) if not count
        ]
        self._blocked: defaultdict[Link, list[int]] = defaultdict(list)
        self._migrations_over: Counter[Link] = Counter()
        self._running_over: defaultdict[Link, set[int]] = defaultdict(set)
        self._running: dict[int, _TimelineRun] = {}
        self._ends: list[tuple[float, int]] = []  # some are outdated

    def run(self) -> None:
        """Advance until all steps have ended."""
        heapq.heapify(self._ready)
        while self._ready or self._running:
            self._start_ready()
            if self._running:
                self._advance()

    def _start_ready(self) -> None:
        while self._ready and len(self._running) < self._limits.max_parallel_migrations:
            index = heapq.heappop(self._ready)
            action = self._steps[index].action
            if isinstance(action, PowerOn | PowerOff):
                self.start[index] = self.now
                self._finish_step(index)
                continue
            links = links_of(action, self._limits)
            saturated = [
                link
                for link in links
                if self._migrations_over[link] >= self._max_parallel_over(link)
            ]
            if saturated:
                self._blocked[saturated[0]].append(index)
            else:
                self._start(index, links)

    def _max_parallel_over(self, link: Link) -> float:
        """Return the largest number of parallel migrations over *link*."""
        if isinstance(link, Network):
            return (
                math.inf
                if link.max_parallel_migrations is None
                else link.max_parallel_migrations
            )
        return self._limits.max_migrations_per_node

    def _start(self, index: int, links: tuple[Link, ...]) -> None:
        self.start[index] = self.now
        deadline = self.now + self._limits.migration_timeout
        self._running[index] = _TimelineRun(links, deadline, self.now)
        self._migrations_over.update(links)
        for link in links:
            self._running_over[link].add(index)
        self._update_durations(links)
        self.max_parallel = max(self.max_parallel, len(self._running))

    def _advance(self) -> None:
        """Advance to the end of the next migration, and of all that end with it."""
        advanced = False
        while self._ends and (not advanced or self._ends[0][0] <= self.now):
            end, index = heapq.heappop(self._ends)
            if index in self._running and self._running[index].end == end:
                self.now, advanced = end, True
                self._finish_migration(index)

    def _finish_migration(self, index: int) -> None:
        links = self._running.pop(index).links
        self._migrations_over.subtract(links)
        for link in links:
            self._running_over[link].discard(index)
            for blocked in self._blocked.pop(link, ()):
                heapq.heappush(self._ready, blocked)
        self._update_durations(links)
        self._finish_step(index)

    def _finish_step(self, index: int) -> None:
        self.end[index] = self.now
        for dependent in self._dependents[index]:
            self._open_dependencies[dependent] -= 1
            if not self._open_dependencies[dependent]:
                heapq.heappush(self._ready, dependent)

    def _update_durations(self, links: Iterable[Link]) -> None:
        """Update the speed of the migrations over *links*."""
        for index in {each for link in links for each in self._running_over[link]}:
            run = self._running[index]
            bandwidth = min(
                bandwidth_of(link, self._bandwidth) / self._migrations_over[link]
                for link in run.links
            )
            estimate = estimate_duration(
                self._steps[index].action, self._snapshot, bandwidth
            )
            never_completes = estimate.certainty is Certainty.NEVER_COMPLETES
            self.non_converging[index] |= never_completes
            run.set_duration(
                self.now, math.inf if never_completes else estimate.seconds or 0.0
            )
            heapq.heappush(self._ends, (run.end, index))


def links_of(action: Transfer, limits: Limits) -> tuple[Link, ...]:
    """Return the links that *action* shares: of its nodes, and networks."""
    ends = (action.source, action.target)
    return (*dict.fromkeys(ends), *limits.networks_between(*ends))


def bandwidth_of(link: Link, bandwidth: float) -> float:
    """Return the bytes per second over *link*; *bandwidth* for the link of a node."""
    if isinstance(link, Network):
        return math.inf if link.bandwidth is None else link.bandwidth
    return bandwidth


def _dependents_of(steps: Iterable[Step]) -> list[list[int]]:
    """Return the indices of the steps that depend on each step."""
    steps = tuple(steps)
    index_of = {step.id: index for index, step in enumerate(steps)}
    dependents: list[list[int]] = [[] for _ in steps]
    for index, step in enumerate(steps):
        for dependency in set(step.depends_on):
            dependents[index_of[dependency]].append(index)
    return dependents
