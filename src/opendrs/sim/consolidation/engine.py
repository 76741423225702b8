"""The default model: what a policy does to a data centre, without shortcuts.

Unlike in CloudSim 3.0.3, guests never vanish, memory and rules bind at every
decision, a decision knows only samples that are over, migrations take turns on the
link of a host and cost CPU on both sides, and hosts take time and energy to wake
and to shut down. The policy is `consolidate`, over columns: the same code that
decides on a platform.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opendrs.policies import Consolidate
from opendrs.policies.consolidation import Tallies
from opendrs.policies.consolidation.decision import decided
from opendrs.policies.consolidation.packing import Shift
from opendrs.sim.consolidation.beginning import first_placement
from opendrs.sim.consolidation.hardware import Floats, Integers
from opendrs.sim.consolidation.journal import Account, Journal
from opendrs.sim.consolidation.machines import Behaviour, Machines, Tenants
from opendrs.sim.consolidation.moment import Flight, Moment
from opendrs.sim.consolidation.neighbours import Apart
from opendrs.sim.consolidation.scenery import Scenery
from opendrs.sim.consolidation.timetable import timetable
from opendrs.sim.consolidation.watching import Sums, Watcher
from opendrs.sim.consolidation.workload import Workload

Progress = Callable[[int, int], None]  # intervals done, of how many


def run(  # noqa: PLR0913 - all that a run is about
    work: Workload,
    policy: Consolidate | None,
    machines: Machines,
    *,
    tenants: Tenants | None = None,
    behaviour: Behaviour | None = None,
    progress: Progress | None = None,
    watcher: Watcher | None = None,
) -> Account:
    """Return what it costs to serve *work*.

    Args:
        work: What guests ask for.
        policy: What decides after each interval; None to leave all as it is, and
            only hosts without guests asleep.
        machines: The hosts.
        tenants: The guests; None for as large as *work* tells, or the usual kinds.
        behaviour: What switching and moving takes; None for the usual.
        progress: Called after each interval.
        watcher: Told after each interval what has come of it.

    Raises:
        ConfigurationError: The guests do not all fit at the start.
    """
    guests = tenants or Tenants.serving(work, machines)
    engine = _Engine(work, policy, machines, guests, behaviour or Behaviour())
    return engine.account(progress, watcher)


class _Engine:
    def __init__(
        self,
        work: Workload,
        policy: Consolidate | None,
        machines: Machines,
        tenants: Tenants,
        behaviour: Behaviour,
    ) -> None:
        self._work, self._policy, self._machines = work, policy, machines
        self._tenants, self._behaviour = tenants, behaviour
        self._journal = Journal(machines)
        self._places = Apart(tenants.apart, len(machines.cpu))
        self.host = first_placement(machines, tenants, self._places)
        self._flights: list[Flight] = []
        self._coming = np.zeros(len(machines.cpu), np.int64)  # flights yet to land
        self._rested = np.full(len(self.host), -np.inf)
        hosts = len(machines.cpu)
        self._on = np.bincount(self.host, minlength=hosts) > 0
        self._ready = np.zeros(hosts)
        self._tallies = Tallies.none(hosts)
        self._durations: list[float] = []
        self._shutdowns = self._wakes = 0

    def account(self, progress: Progress | None, watcher: Watcher | None) -> Account:
        """Run, and return what it cost."""
        count = self._work.cpu.shape[1]
        for step in range(count):
            if step and self._policy is not None:
                self._decide(step)
            moment = self._pass(step)
            if watcher is not None:
                watcher(
                    self._sums((step + 1) * self._work.interval), self._load(moment)
                )
            if progress is not None:
                progress(step + 1, count)
        return self._journal.account(
            seconds=count * self._work.interval,
            guests=len(self.host),
            durations=self._durations,
            under_way=len(self._flights),
            switched=(self._shutdowns, self._wakes),
        )

    # One interval ----------------------------------------------------------------

    def _pass(self, step: int) -> Moment:
        """Let an interval pass, with all that is under way in it; return its end."""
        time = self._work.interval
        start, end = step * time, (step + 1) * time
        asked = self._work.cpu[:, step] * self._tenants.cpu
        self._journal.asked += time * float(asked.sum())
        now = Moment(
            self._journal, self.host, asked, self._tenants.cores, self._behaviour.loss
        )
        self._journal.add(time, now.load, now.slow, now.count > 0)
        self._rest(now.count, time)
        for when, takes_off, flight in self._events(start, end):
            if takes_off:
                now.depart(flight, end - when)
            else:
                now.arrive(flight, end - when)
                self._land(flight, when, end)
        self._journal.moving += self._behaviour.loss * sum(
            float(asked[each.guest])
            * max(0.0, min(each.end, end) - max(each.start, start))
            for each in self._flights
        )
        self._flights = [each for each in self._flights if each.end > end]
        return now

    def _rest(self, count: Integers, time: float) -> None:
        """Account for the hosts that are on without guests, and for the others."""
        idle = np.flatnonzero(self._on & (count == 0))
        for host in idle.tolist():
            self._journal.idle(host, time, self._machines.watts_at(host, 0.0))
        asleep = int((~self._on).sum())
        self._journal.joules += time * asleep * self._behaviour.asleep

    def _events(self, start: float, end: float) -> list[tuple[float, bool, Flight]]:
        """Return who takes off and who lands in an interval, in order."""
        found = [(f.end, False, f) for f in self._flights if start < f.end <= end]
        found += [
            (max(f.start, start), True, f) for f in self._flights if f.start < end
        ]
        return sorted(found, key=lambda each: (each[0], not each[1], each[2].guest))

    def _land(self, flight: Flight, when: float, end: float) -> None:
        source = int(self.host[flight.guest])
        self.host[flight.guest] = flight.target
        self._rested[flight.guest] = when
        self._durations.append(flight.end - flight.start)
        self._coming[flight.target] -= 1
        if not self._coming[source] and not (self.host == source).any():
            self._put_to_sleep(source, end - when)

    def _put_to_sleep(self, host: int, left: float) -> None:
        """Shut *host* down, *left* seconds before the end of the interval."""
        self._on[host] = False
        self._shutdowns += 1
        idle = self._machines.watts_at(host, 0.0)
        self._journal.idle(host, -left, idle)
        self._journal.joules += self._behaviour.shutdown * idle
        asleep = max(0.0, left - self._behaviour.shutdown)
        self._journal.joules += asleep * self._behaviour.asleep

    def _sums(self, seconds: float) -> Sums:
        journal = self._journal
        return Sums(
            seconds=seconds,
            joules=journal.joules,
            on=float(journal.on.sum()),
            active=float(journal.active.sum()),
            overloaded=float(journal.overloaded.sum()),
            asked=journal.asked,
            capacity=float(journal.active @ self._machines.cpu),
            migrations=len(self._durations) + len(self._flights),
        )

    def _load(self, moment: Moment) -> Floats:
        load: Floats = np.where(self._on, moment.load / self._machines.cpu, np.nan)
        return load

    # Decisions -------------------------------------------------------------------

    def _decide(self, step: int) -> None:
        """Start what the policy decides after *step* intervals."""
        policy = self._policy
        assert policy is not None  # noqa: S101 - for the type checker
        scenery = Scenery(
            policy=policy,
            work=self._work,
            machines=self._machines,
            tenants=self._tenants,
            host=self.host,
            flights=self._flights,
            rested=self._rested,
            on=self._on,
            step=step,
        )
        crowd, fleet = scenery.crowd(), scenery.fleet()
        hosts = len(self._machines.cpu)
        count = np.maximum(np.bincount(crowd.host, minlength=hosts), 1)
        memory = np.bincount(crowd.host, crowd.memory, hosts) / count
        migration = memory / self._behaviour.bandwidth / self._work.interval
        self._places.begin(self.host, self._flights)
        moves = decided(
            policy.strategy(step),
            fleet,
            crowd,
            self._places,
            (self._tallies, migration),
        )
        self._tallies = moves.tallies
        now = step * self._work.interval
        for host in np.flatnonzero(moves.packing.woken).tolist():
            self._wake(host, now)
        shifts = [*moves.relief, *(one for some in moves.emptying for one in some)]
        self._schedule(shifts, crowd.memory, now)

    def _wake(self, host: int, now: float) -> None:
        self._on[host] = True
        self._wakes += 1
        self._ready[host] = now + self._behaviour.wake
        extra = self._machines.watts_at(host, 1.0) - self._machines.watts_at(host, 0.0)
        # That it is on at all is accounted for with the hosts without guests.
        self._journal.joules += self._behaviour.wake * extra

    def _schedule(self, shifts: list[Shift], memory: Floats, now: float) -> None:
        """Let guests move once the links of both hosts are free."""
        free = np.maximum(self._ready, now)
        for flight in self._flights:
            for host in (int(self.host[flight.guest]), flight.target):
                free[host] = max(free[host], flight.end)
        guests = [shift.guest for shift in shifts]
        seconds = memory[guests] / self._behaviour.bandwidth
        flights = timetable(shifts, seconds, free)
        for flight in flights:
            self._coming[flight.target] += 1
        self._flights += flights
