"""Faults of a cluster, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from soak.cluster import (
    GIB,
    MIGRATE,
    OPERATOR,
    Cluster,
    Guest,
    ImpossibleError,
    online_hosts,
)
from soak.endpoint import Endpoint
from soak.platform import FaultyPlatform

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
JUMPS = (3 * MINUTE, 20 * MINUTE, 2 * HOUR, 2 * DAY, 30 * DAY)


@dataclass(kw_only=True)
class Faults:
    """Lets things go wrong, at intervals, until it is stopped.

    Attributes:
        cluster: The truth.
        platform: What the controller sees of it.
        draw: Draws what happens when.
        pause: Mean seconds from one event to the next.
        endpoint: What the controller has of its store.
    """

    cluster: Cluster
    platform: FaultyPlatform
    draw: random.Random
    pause: float
    endpoint: Endpoint
    _stopped: bool = False
    _added: int = 0

    def begin(self) -> None:
        """Begin."""
        self._schedule()

    def stop(self) -> None:
        """Let nothing more go wrong, and end what is wrong with platform and clock."""
        self._stopped = True
        self.platform.errors = self.platform.slow = 0.0
        self.platform.down_until = self.cluster.now
        self.endpoint.away_until = self.cluster.now
        self.set_clock(0.0)
        for host in self.cluster.hosts.values():
            if host.silent_until > self.cluster.now:
                host.silent_until = self.cluster.now
                self.cluster.report_event("answers", host=host.name)

    def set_clock(self, offset: float) -> None:
        """Set the clock to *offset* ahead of true time."""
        self.platform.offset = offset
        self.cluster.report_event("clock", offset=round(offset))

    def jump(self) -> None:
        """Set the clock forward or back, or right again."""
        if self.platform.offset and self.draw.random() < 0.6:
            self.set_clock(0.0)
        else:
            size = self.draw.choice(JUMPS) * self.draw.uniform(0.5, 1.0)
            self.set_clock(self.platform.offset + self.draw.choice([-1, 1]) * size)

    def _schedule(self) -> None:
        after = self.draw.expovariate(1 / self.pause)
        self.cluster.schedule(self.cluster.now + after, self._inject)

    def _inject(self) -> None:
        if self._stopped:
            return
        kinds: Sequence[tuple[Callable[[], None], int]] = (
            (self._shift_load, 12),
            (self._silence, 4),
            (self.jump, 2),
            (self._resize, 2),
            (self._outage, 1),
            (self._switch, 1),
            (self._appear, 1),
            (self._vanish, 1),
            (self._operate, 1),
            (self._forget, 1),
            (self._crash, 1),
            (self._store_away, 1),
        )
        (chosen,) = self.draw.choices(
            [kind for kind, _ in kinds], [weight for _, weight in kinds]
        )
        chosen()
        self._schedule()

    def _guest(self) -> Guest | None:
        names = sorted(self.cluster.guests)
        return self.cluster.guests[self.draw.choice(names)] if names else None

    def _shift_load(self) -> None:
        """Let the guests of one host be busy, and those of another idle."""
        busy, idle = self.draw.sample(sorted(self.cluster.hosts), 2)
        for name, part in ((busy, 0.9), (idle, 0.1)):
            for guest in self.cluster.on_host(name):
                guest.load = guest.cores * part * self.draw.uniform(0.5, 1.0)

    def _silence(self) -> None:
        """Let a host fall silent, preferably one that takes part in a migration."""
        involved = sorted({h for job in self.cluster.running() for h in job.hosts})
        prefer = involved and self.draw.random() < 0.7
        host = self.draw.choice(involved if prefer else sorted(self.cluster.hosts))
        seconds = self.draw.choice([20.0, 120.0, 600.0, 1500.0])
        seconds *= self.draw.uniform(0.3, 1.0)
        self.cluster.disconnect(host, seconds, cut=self.draw.random() < 0.2)

    def _crash(self) -> None:
        hosts = online_hosts(self.cluster)
        if len(hosts) > 2:
            self.cluster.crash(self.draw.choice(hosts), self.draw.uniform(100, 1500))

    def _resize(self) -> None:
        guest = self._guest()
        if guest is not None:
            self.cluster.resize(guest, int(guest.memory * self.draw.uniform(0.3, 1.0)))

    def _outage(self) -> None:
        seconds = self.draw.choice([15.0, 90.0, 900.0]) * self.draw.uniform(0.3, 1.0)
        self.platform.down_until = self.cluster.now + seconds
        self.cluster.report_event("down", seconds=round(seconds))

    def _store_away(self) -> None:
        seconds = self.draw.choice([15.0, 90.0, 900.0]) * self.draw.uniform(0.3, 1.0)
        self.endpoint.away_until = self.cluster.now + seconds
        self.cluster.report_event("store-away", seconds=round(seconds))

    def _switch(self) -> None:
        guest = self._guest()
        if guest is not None and guest.host in online_hosts(self.cluster):
            self.cluster.switch(guest, on=not guest.running)

    def _appear(self) -> None:
        hosts = online_hosts(self.cluster)
        if not hosts or len(self.cluster.guests) > 24:
            return
        self._added += 1
        memory = self.draw.choice([2, 4, 8]) * GIB
        self.cluster.add(
            Guest(
                f"new{self._added}", self.draw.choice(hosts), 2.0, memory,
                int(memory * self.draw.uniform(0.3, 1.0)), 1.0, self.cluster.now,
            )
        )  # fmt: skip

    def _vanish(self) -> None:
        guest = self._guest()
        if guest is not None and len(self.cluster.guests) > 4:
            self.cluster.remove(guest)

    def _operate(self) -> None:
        """Let an operator migrate a guest by hand."""
        guest, hosts = self._guest(), online_hosts(self.cluster)
        if guest is None or not hosts:
            return
        target = self.draw.choice(hosts)
        try:
            self.cluster.begin(MIGRATE, guest.name, guest.host, target, OPERATOR)
        except ImpossibleError:
            return

    def _forget(self) -> None:
        """Let the platform lose the tasks of a host, as a restarted service does."""
        jobs = self.cluster.running()
        if jobs:
            job = self.draw.choice(jobs)
            self.platform.forgotten.add(job.id)
            self.cluster.report_event("forgotten", job=job.id)
