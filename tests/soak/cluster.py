"""A cluster of hosts and guests in true time, which reports all that truly happens.

It imports nothing of opendrs. What it reports is judged in `soak.checker`; what a
controller can see of it is in `soak.platform`.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

GIB = 1 << 30
MIGRATE, RESTART, RELOCATE, POWER_ON, POWER_OFF = (
    "live-migration",
    "cold-migration",
    "relocation",
    "power-on",
    "power-off",
)
MOVES = (MIGRATE, RESTART, RELOCATE)
SWITCHES = (POWER_ON, POWER_OFF)
CONTROLLER, OPERATOR = "controller", "operator"

ReportEvent = Callable[..., None]


class ImpossibleError(Exception):
    """An action that a hypervisor rejects."""


@dataclass(slots=True)
class TrueHost:
    """A host.

    Attributes:
        name: Its name.
        cpu: Its cores.
        memory: Its memory, in bytes.
        own: Memory that it uses by itself.
        on: Whether it is powered on.
        silent_until: True time until which it answers no question.
    """

    name: str
    cpu: float
    memory: int
    own: int
    on: bool = True
    silent_until: float = -math.inf


@dataclass(slots=True)
class Guest:
    """A guest.

    Attributes:
        name: Its name.
        host: The host it is on.
        cores: Its limit.
        memory: Its limit, in bytes.
        used: Memory in use.
        load: Busy cores.
        since: True time at which it started.
        running: Whether it runs.
        live: Whether it can migrate live.
        tags: Its tags.
        job: The migration or relocation under way.
    """

    name: str
    host: str
    cores: float
    memory: int
    used: int
    load: float
    since: float
    running: bool = True
    live: bool = True
    tags: tuple[str, ...] = ()
    job: Job | None = None


@dataclass(slots=True)
class Job:
    """An action under way, and ever after.

    Attributes:
        id: Its name on the platform.
        kind: MIGRATE, RESTART, RELOCATE, POWER_ON or POWER_OFF.
        guest: The guest; empty for a switch.
        source: The host that it leaves; of a switch, the host.
        target: The host that it enters; of a switch, the host.
        by: CONTROLLER or OPERATOR.
        began: True time of its start.
        ends: True time at which it ends by itself; infinite if it never does.
        fails: Error with which it ends; empty if it succeeds.
        ignores_abort: Whether it ignores an abort.
        state: "running", "done" or "failed".
    """

    id: str
    kind: str
    guest: str
    source: str
    target: str
    by: str
    began: float
    ends: float
    fails: str = ""
    ignores_abort: bool = False
    state: str = "running"

    @property
    def hosts(self) -> tuple[str, str]:
        """Return the hosts that take part."""
        return (self.source, self.target)


@dataclass(frozen=True, slots=True)
class Rule:
    """A placement rule.

    Attributes:
        kind: "affinity", "anti-affinity", "node-affinity", "pin" or "tag-exclusion".
        guests: The guests it binds.
        hosts: Of a node affinity: the hosts they belong on.
        tag: Of a tag exclusion: guests with it never migrate.
        strict: Whether it must hold.
    """

    kind: str
    guests: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    tag: str = ""
    strict: bool = True


@dataclass
class Cluster:
    """The truth: hosts, guests, jobs, and the time that passes for all of them.

    Args:
        draw: Draws what jobs do.
        report: Called with each true event: its time, its name, and facts.
    """

    draw: random.Random
    report: ReportEvent = lambda *_, **__: None
    now: float = 0.0
    hosts: dict[str, TrueHost] = field(default_factory=dict)
    guests: dict[str, Guest] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    jobs: dict[str, Job] = field(default_factory=dict)
    _agenda: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass, with all that happens meanwhile."""
        until = self.now + seconds
        while self._agenda and self._agenda[0][0] <= until:
            at, _, happen = heapq.heappop(self._agenda)
            self.now = max(self.now, at)
            happen()
        self.now = until

    def schedule(self, time: float, happen: Callable[[], None]) -> None:
        """Let *happen* be called at true *time*."""
        heapq.heappush(self._agenda, (time, next(self._numbers), happen))

    def report_event(self, event: str, **facts: object) -> None:
        """Report an event that happens now."""
        self.report(self.now, event, **facts)

    def answers(self, host: str) -> bool:
        """Return whether *host* answers questions."""
        found = self.hosts[host]
        return found.on and found.silent_until <= self.now

    def running(self) -> list[Job]:
        """Return the jobs under way, the oldest first."""
        return [job for job in self.jobs.values() if job.state == "running"]

    def on_host(self, host: str) -> list[Guest]:
        """Return the guests on *host*, stopped ones included."""
        return [guest for guest in self.guests.values() if guest.host == host]

    def begin(self, kind: str, guest: str, source: str, target: str, by: str) -> Job:
        """Begin an action, if it is possible.

        Raises:
            ImpossibleError: It is not.
        """
        self._require_possible(kind, guest, source, target)
        number = next(self._numbers)
        job = Job(f"{kind}-{number}", kind, guest, source, target, by, self.now, 0.0)
        self._draw_duration(job)
        self.jobs[job.id] = job
        if guest:
            self.guests[guest].job = job
        self.report_event(
            "job", job=job.id, kind=kind, guest=guest, source=source, target=target,
            by=by,
        )  # fmt: skip
        if job.ends < math.inf:
            self.schedule(job.ends, lambda: self.end(job, job.fails))
        return job

    def end(self, job: Job, error: str = "") -> None:
        """End *job*, unless it has ended."""
        if job.state != "running":
            return
        job.state = "failed" if error else "done"
        job.fails = error
        guest = self.guests.get(job.guest)
        if guest is not None and guest.job is job:
            guest.job = None
            if not error:
                guest.host = job.target
                guest.since = self.now if job.kind == RESTART else guest.since
        elif job.kind in SWITCHES and not error:
            self.hosts[job.target].on = job.kind == POWER_ON
        self.report_event("job-end", job=job.id, error=error)

    def abort(self, job: Job) -> None:
        """End *job* within seconds, unless it ignores that."""
        self.report_event("abort", job=job.id)
        if not job.ignores_abort:
            delay = self.draw.uniform(0.0, 3.0)
            self.schedule(self.now + delay, lambda: self.end(job, "aborted on request"))

    def add(self, guest: Guest) -> None:
        """Let *guest* appear; a guest of that name is replaced by it."""
        self.guests[guest.name] = guest
        self.report_event(
            "guest", guest=guest.name, host=guest.host, memory=guest.memory,
            used=guest.used, running=guest.running, live=guest.live, tags=guest.tags,
            since=guest.since,
        )  # fmt: skip

    def remove(self, guest: Guest) -> None:
        """Let *guest* vanish; what is done with it fails."""
        self._interrupt(guest, "the guest was deleted")
        del self.guests[guest.name]
        self.report_event("guest-removed", guest=guest.name)

    def switch(self, guest: Guest, *, on: bool) -> None:
        """Start or stop *guest*; what is done with it fails."""
        self._interrupt(guest, "the guest was shut down")
        guest.running = on
        guest.since = self.now
        self.report_event("guest-switched", guest=guest.name, running=on)

    def resize(self, guest: Guest, used: int) -> None:
        """Let *guest* use that many bytes."""
        guest.used = max(1, min(guest.memory, used))
        self.report_event("guest-memory", guest=guest.name, used=guest.used)

    def disconnect(self, host: str, seconds: float, *, cut: bool) -> None:
        """Let *host* answer nothing; *cut* ends migrations over its link as well."""
        until = self.now + seconds
        self.hosts[host].silent_until = max(self.hosts[host].silent_until, until)
        self.report_event("silent", host=host, seconds=round(seconds), cut=cut)
        for job in self.running() if cut else ():
            if job.kind == MIGRATE and host in job.hosts:
                self.end(job, f"the connection to {host} broke")
        self.schedule(until, lambda: self._answer_again(host))

    def crash(self, host: str, seconds: float) -> None:
        """Let *host* lose power for a time; its guests start again on other hosts."""
        self.hosts[host].on = False
        self.report_event("crash", host=host, seconds=round(seconds))
        for job in self.running():
            if host in job.hosts:
                self.end(job, f"{host} failed")
        others = online_hosts(self)
        for guest in self.on_host(host) if others else ():
            self.add(replace(guest, host=self.draw.choice(others), since=self.now))
        self.schedule(self.now + seconds, lambda: self._power_on_again(host))

    def _power_on_again(self, host: str) -> None:
        if not self.hosts[host].on:
            self.hosts[host].on = True
            self.report_event("back", host=host)

    def _answer_again(self, host: str) -> None:
        if self.hosts[host].silent_until <= self.now:
            self.report_event("answers", host=host)

    def _interrupt(self, guest: Guest, detail: str) -> None:
        if guest.job is not None:
            self.end(guest.job, detail)

    def _draw_duration(self, job: Job) -> None:
        """Draw how long *job* takes, and how it ends."""
        draw = self.draw
        if job.kind == MIGRATE:
            speed = draw.choice([0.05, 0.1, 0.3, 1.0]) * GIB
            seconds = 1.0 + self.guests[job.guest].used / speed
            if draw.random() < 0.08:
                seconds = math.inf  # it does not converge
        else:
            usual = {RESTART: 12.0, RELOCATE: 6.0, POWER_ON: 90.0, POWER_OFF: 15.0}
            seconds = usual[job.kind] * draw.uniform(0.7, 1.5)
        if draw.random() < 0.07:
            job.fails = "internal error on the host"
            seconds = min(seconds, 600.0) * draw.random()
        job.ignores_abort = draw.random() < 0.03
        job.ends = job.began + seconds

    def _require_possible(self, kind: str, guest: str, source: str, to: str) -> None:
        busy = {host for job in self.running() for host in job.hosts}
        target = self.hosts.get(to)
        if target is None:
            raise ImpossibleError(f"there is no host {to}")
        if kind == POWER_ON:
            _require(not target.on and to not in busy, f"{to} is on already")
            return
        _require(target.on and not self._shutting_down(to), f"{to} is off")
        if kind == POWER_OFF:
            return  # no hypervisor would mind what runs on it
        found = self.guests.get(guest)
        _require(found is not None and found.host == source, f"{guest} is elsewhere")
        assert found is not None
        _require(found.job is None, f"{guest} is locked: {found.job}")
        _require(found.running != (kind == RELOCATE), f"{guest} does not run, or does")
        _require(source != to, f"{guest} is on {to}")
        _require(not self._shutting_down(source), f"{source} shuts down")
        _require(kind != MIGRATE or found.live, f"{guest} cannot migrate live")

    def _shutting_down(self, host: str) -> bool:
        return any(j.kind == POWER_OFF and j.target == host for j in self.running())


def _require(possible: bool, detail: str) -> None:  # noqa: FBT001 - an assertion
    if not possible:
        raise ImpossibleError(detail)


def online_hosts(cluster: Cluster) -> list[str]:
    """Return the hosts that are on and stay on, in order."""
    powering_off = {job.target for job in cluster.running() if job.kind == POWER_OFF}
    return sorted(
        h.name for h in cluster.hosts.values() if h.on and h.name not in powering_off
    )
