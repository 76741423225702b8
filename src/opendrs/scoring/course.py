"""A plan played through: what runs when, and how fast."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from opendrs.model import (
    Limits,
    Move,
    Network,
    NodeId,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
)
from opendrs.scoring.duration import Certainty, estimate

Link: TypeAlias = NodeId | Network


@dataclass(slots=True)
class _Run:
    """A move under way.

    Attributes:
        links: What it takes a share of: the links of its nodes, and networks.
        deadline: When patience ends.
        since: When it was last looked at how fast it goes.
        left: The part of it that was still to be done then.
        whole: Seconds it takes in all at the bandwidth it has had since.
    """

    links: tuple[Link, ...]
    deadline: float
    since: float
    left: float = 1.0
    whole: float = math.inf

    def change(self, now: float, whole: float) -> None:
        """Go on at another speed from *now* on."""
        if self.whole > 0:
            self.left = max(0.0, self.left - (now - self.since) / self.whole)
        self.since, self.whole = now, whole

    @property
    def end(self) -> float:
        """Return when it ends if nothing changes."""
        if self.left <= 0:
            return self.since
        return min(self.since + self.left * self.whole, self.deadline)


class Course:
    """One way a plan may go.

    Args:
        plan: The steps.
        snapshot: The cluster.
        limits: How many moves may run at once, and when they are aborted.
        bandwidth: Bytes a second over the link of one node.

    Attributes:
        begin: When each step was started.
        end: When each step has ended.
        stalls: Whether each step made no headway for a time, because its guest writes
            as fast as it is sent.
        now: How much time has passed.
        most_at_once: How many moves were under way at once, at most.
    """

    def __init__(
        self, plan: Plan, snapshot: Snapshot, limits: Limits, bandwidth: float
    ) -> None:
        self.begin = [0.0] * len(plan.steps)
        self.end = [0.0] * len(plan.steps)
        self.stalls = [False] * len(plan.steps)
        self.now = 0.0
        self.most_at_once = 0
        self._steps = plan.steps
        self._snapshot = snapshot
        self._limits = limits
        self._bandwidth = bandwidth
        self._open = [len(set(step.after)) for step in plan.steps]
        self._followers = _followers(plan.steps)
        self._ready = [at for at, count in enumerate(self._open) if not count]
        self._parked: defaultdict[Link, list[int]] = defaultdict(list)
        self._busy: Counter[Link] = Counter()
        self._here: defaultdict[Link, set[int]] = defaultdict(set)
        self._running: dict[int, _Run] = {}
        self._ends: list[tuple[float, int]] = []  # of which some no longer hold

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
            links = links_of(action, self._limits)
            full = [each for each in links if self._busy[each] >= self._most(each)]
            if full:
                self._parked[full[0]].append(at)
            else:
                self._start(at, links)

    def _most(self, link: Link) -> float:
        """Return how many moves may take a share of *link* at once."""
        if isinstance(link, Network):
            return math.inf if link.moves is None else link.moves
        return self._limits.moves_per_node

    def _start(self, at: int, links: tuple[Link, ...]) -> None:
        self.begin[at] = self.now
        deadline = self.now + self._limits.patience
        self._running[at] = _Run(links, deadline, self.now)
        self._busy.update(links)
        for link in links:
            self._here[link].add(at)
        self._pace(links)
        self.most_at_once = max(self.most_at_once, len(self._running))

    def _pass(self) -> None:
        """Let time pass until a move has ended, and all that end with it."""
        passed = False
        while self._ends and (not passed or self._ends[0][0] <= self.now):
            end, at = heapq.heappop(self._ends)
            if at in self._running and self._running[at].end == end:
                self.now, passed = end, True
                self._arrive(at)

    def _arrive(self, at: int) -> None:
        links = self._running.pop(at).links
        self._busy.subtract(links)
        for link in links:
            self._here[link].discard(at)
            for parked in self._parked.pop(link, ()):
                heapq.heappush(self._ready, parked)
        self._pace(links)
        self._conclude(at)

    def _conclude(self, at: int) -> None:
        self.end[at] = self.now
        for follower in self._followers[at]:
            self._open[follower] -= 1
            if not self._open[follower]:
                heapq.heappush(self._ready, follower)

    def _pace(self, links: Iterable[Link]) -> None:
        """Look again how fast the moves over *links* go."""
        for at in {each for link in links for each in self._here[link]}:
            run = self._running[at]
            share = min(
                speed_of(link, self._bandwidth) / self._busy[link] for link in run.links
            )
            taken = estimate(self._steps[at].action, self._snapshot, share)
            endless = taken.certainty is Certainty.ENDLESS
            self.stalls[at] |= endless
            run.change(self.now, math.inf if endless else taken.seconds or 0.0)
            heapq.heappush(self._ends, (run.end, at))


def links_of(action: Move, limits: Limits) -> tuple[Link, ...]:
    """Return what *action* takes a share of: links of nodes, and networks."""
    ends = (action.source, action.target)
    return (*ends, *limits.over(*ends))


def speed_of(link: Link, bandwidth: float) -> float:
    """Return the bytes a second over *link*; *bandwidth* over that of a node."""
    if isinstance(link, Network):
        return math.inf if link.bandwidth is None else link.bandwidth
    return bandwidth


def _followers(steps: Iterable[Step]) -> list[list[int]]:
    """Return the places of the steps that wait for each."""
    steps = tuple(steps)
    place = {step.id: at for at, step in enumerate(steps)}
    followers: list[list[int]] = [[] for _ in steps]
    for at, step in enumerate(steps):
        for earlier in set(step.after):
            followers[place[earlier]].append(at)
    return followers
