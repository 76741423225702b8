"""The PlanetLab experiment as CloudSim 3.0.3 runs it, defects included.

What is known to be wrong with that model is kept, for comparison with published
results: a guest that asks for nothing at an update vanishes for good; memory binds
only at the start; hosts start and stop at once, draw nothing while idle, and the
first interval is free; LR and LRR are the same; and see the metrics.

Source:
    CloudSim 3.0.3, package power; Beloglazov and Buyya, CCPE 24 (2012) 1397-1420.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import numpy as np

from opendrs.errors import ConfigurationError
from opendrs.sim.consolidation.hardware import (
    HOST_GUESTS,
    HOST_MEMORY,
    HOSTS,
    INTERVAL,
    MIGRATION_BANDWIDTH,
    Floats,
    Guests,
    Hosts,
    Integers,
)
from opendrs.sim.consolidation.ledger import Ledger, Result
from opendrs.sim.consolidation.packing import Packing
from opendrs.sim.consolidation.schemes import Baseline, Migrating, Scheme
from opendrs.sim.consolidation.selectors import selector
from opendrs.sim.consolidation.sharing import (
    NOBODY,
    Flights,
    Residents,
    Shares,
    divide,
)
from opendrs.sim.consolidation.traces import PERCENT, Trace
from opendrs.sim.consolidation.watches import MOST, View, watch
from opendrs.sim.consolidation.watching import Watcher

FIRST = 0.1  # s after which the first event can follow

Progress = Callable[[int, int], None]  # updates done, of how many


def simulate(
    trace: Trace,
    scheme: Scheme,
    hosts: int = HOSTS,
    *,
    progress: Progress | None = None,
    watcher: Watcher | None = None,
) -> Result:
    """Return what a day of *trace* costs under *scheme*.

    Args:
        trace: What guests ask for.
        scheme: What is done about it.
        hosts: How many there are.
        progress: Called after each update.
        watcher: Told after each update what has come of it: after 300.1 s first,
            then each 300 s, and once more when the last migrations are over.

    Raises:
        ConfigurationError: The guests do not all fit on so many hosts.
    """
    return _Run(trace, scheme, hosts).result(progress, watcher)


def place(trace: Trace, scheme: Scheme, hosts: int = HOSTS) -> None:
    """Try the first placement only.

    Raises:
        ConfigurationError: The guests do not all fit on so many hosts.
    """
    _Run(trace, scheme, hosts)


def simulate_days(
    days: Mapping[str, Trace], scheme: Scheme, hosts: int = HOSTS
) -> dict[str, Result]:
    """Return `simulate` for each of *days*."""
    return {day: simulate(trace, scheme, hosts) for day, trace in days.items()}


class _Run:
    def __init__(self, trace: Trace, scheme: Scheme, hosts: int) -> None:
        self._scheme = scheme
        self._hosts = Hosts.of(hosts)
        self._guests = Guests.of(len(trace.names))
        self._ledger = Ledger(self._hosts, always_on=scheme is Baseline.NPA)
        # A sample beyond the last repeats it.
        self._samples = np.pad(trace.percent / PERCENT, ((0, 0), (0, 1)), mode="edge")
        self._residents = self._first_placement()

    def result(
        self, progress: Progress | None = None, watcher: Watcher | None = None
    ) -> Result:
        """Run, and return what it cost."""
        time, seen = INTERVAL + FIRST, list[Floats]()
        seed = self._scheme.seed if isinstance(self._scheme, Migrating) else 0
        rng = random.Random(seed)  # noqa: S311
        count = self._samples.shape[1] - 2
        for step in range(count):
            shares = self._update(time, NOBODY)
            self._show(watcher)
            seen = [*seen[1 - MOST :], self._load(time)]
            if isinstance(self._scheme, Migrating):
                history = np.stack(seen, axis=1)
                self._migrate(time, self._decide(self._scheme, shares, history, rng))
            time += INTERVAL
            if progress is not None:
                progress(step + 1, count)
        self._show(watcher)
        return self._ledger.result()

    def _show(self, watcher: Watcher | None) -> None:
        if watcher is not None:
            watcher(self._ledger.sums(), self._ledger.load())

    def _load(self, time: float) -> Floats:
        """Return the load of each guest, on a line between two samples."""
        before = math.floor(time / INTERVAL)
        low, high = self._samples[:, before], self._samples[:, before + 1]
        load: Floats = low + (high - low) / INTERVAL * (time - before * INTERVAL)
        return load

    def _request(self, time: float) -> Floats:
        return self._load(time) * self._guests.mips

    def _update(self, time: float, flights: Flights) -> Shares:
        """Divide the CPU anew; guests that ask for nothing vanish."""
        shares = divide(self._hosts, self._residents, flights, self._request(time))
        self._ledger.note(time, shares)
        stays = (shares.requested > 0) | shares.leaving
        self._residents = Residents(
            self._residents.guest[stays], self._residents.host[stays]
        )
        return shares

    def _decide(
        self, scheme: Migrating, shares: Shares, history: Floats, rng: random.Random
    ) -> Flights:
        request = history[:, -1] * self._guests.mips
        view = View(self._hosts, self._guests, self._residents, request, history)
        packing = Packing(view, shares, watch(scheme, view))
        return Flights.of(packing.moves(selector(scheme.selector, view, rng)))

    def _migrate(self, time: float, flights: Flights) -> None:
        """Carry *flights* out; all of them end before the next decision."""
        duration = self._guests.memory / MIGRATION_BANDWIDTH
        travellers = np.unique(flights.guest)
        self._ledger.migrated(len(flights.guest), duration[travellers])
        if len(flights.guest):
            self._update(time, flights)
        for each in np.unique(duration[travellers]).tolist():
            self._update(time + each, flights)
            arrived = duration[flights.guest] == each
            self._settle(flights.where(arrived))
            flights = flights.where(~arrived)
            self._update(time + each, flights)

    def _settle(self, arrived: Flights) -> None:
        """Make those who *arrived* the last residents of their targets."""
        placed: dict[int, int] = {}
        pairs = zip(arrived.guest.tolist(), arrived.target.tolist(), strict=True)
        for guest, target in pairs:
            placed.pop(guest, None)
            placed[guest] = target
        moved = np.array(list(placed), dtype=np.int64)
        targets = np.array(list(placed.values()), dtype=np.int64)
        others = ~np.isin(self._residents.guest, moved)
        self._residents = Residents(
            np.concatenate([self._residents.guest[others], moved]),
            np.concatenate([self._residents.host[others], targets]),
        )

    def _first_placement(self) -> Residents:
        """Place all guests at their full size: by power, or the first that fits."""
        free, used = self._hosts.total.copy(), np.zeros(len(self._hosts.total))
        memory = np.full(len(free), HOST_MEMORY)
        slots = np.full(len(free), HOST_GUESTS)
        host: list[int] = []
        for mips, size in zip(self._guests.mips, self._guests.memory, strict=True):
            room = (free >= mips) & (self._hosts.core >= mips)
            room &= (memory >= size) & (slots > 0)
            able = np.flatnonzero(room)
            if not len(able):
                raise ConfigurationError(
                    f"guest {len(host) + 1} of {len(self._guests.mips)} finds no room "
                    f"on {len(free)} hosts"
                )
            target = int(able[self._best(used, able, mips)])
            free[target] -= mips
            used[target] += mips
            memory[target] -= size
            slots[target] -= 1
            host.append(target)
        return Residents(np.arange(len(host)), np.array(host, dtype=np.int64))

    def _best(self, used: Floats, able: Integers, mips: float) -> int:
        if isinstance(self._scheme, Baseline):
            return 0
        # All hosts are taken to draw idle power until the first update.
        after = self._hosts.power((used[able] + mips) / self._hosts.total[able], able)
        idle = self._hosts.power(np.zeros(len(able)), able)
        return int(np.argmin(after - idle))
