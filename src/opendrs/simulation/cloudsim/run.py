"""The PlanetLab experiment as CloudSim 3.0.3 runs it, including its defects.

Known defects of that model are kept for comparison with published results. A guest that
requests nothing at an update vanishes for good. Memory is respected only at the start.
Hosts start and stop at once and draw nothing while idle. The first interval is free. LR
and LRR are the same. See also the metrics.

Source:
    CloudSim 3.0.3, package power; Beloglazov and Buyya, CCPE 24 (2012) 1397-1420.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import numpy as np

from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import format_count
from opendrs.simulation.cloudsim.cpu_sharing import (
    NO_MIGRATIONS,
    CpuShares,
    HostedGuests,
    HostMigrations,
    share_cpu,
)
from opendrs.simulation.cloudsim.hardware import (
    HOST_MEMORY,
    INTERVAL,
    MAX_GUESTS_PER_HOST,
    MIGRATION_BANDWIDTH,
    CloudSimGuests,
    CloudSimHosts,
)
from opendrs.simulation.cloudsim.metrics import CloudSimMetrics, CloudSimRecorder
from opendrs.simulation.cloudsim.overload import (
    HISTORY_LENGTH,
    CloudSimView,
    overload_check,
)
from opendrs.simulation.cloudsim.placement import CloudSimPlacement
from opendrs.simulation.cloudsim.schemes import (
    CloudSimBaseline,
    CloudSimScheme,
    MigrationScheme,
)
from opendrs.simulation.cloudsim.selection import cloudsim_selector
from opendrs.simulation.hardware import HOST_COUNT
from opendrs.simulation.metrics import IntervalObserver
from opendrs.simulation.traces import Trace
from opendrs.simulation.traces.planetlab import PERCENT
from opendrs.simulation.workload import Floats, Integers

FIRST_EVENT = 0.1  # s: least time between events in CloudSim

Progress = Callable[[int, int], None]  # updates done, total updates


def simulate(
    trace: Trace,
    scheme: CloudSimScheme,
    hosts: int = HOST_COUNT,
    *,
    progress: Progress | None = None,
    observer: IntervalObserver | None = None,
) -> CloudSimMetrics:
    """Return the metrics of a day of *trace* under *scheme*.

    Args:
        trace: CPU requested by the guests.
        scheme: Migration scheme, or a baseline without migrations.
        hosts: Number of hosts.
        progress: Called after each update.
        observer: Called with the result of each update: first after 300.1 s, then
            every 300 s, and once more after the last migrations.

    Raises:
        ConfigurationError: The guests do not fit on the hosts.
    """
    return _CloudSimRun(trace, scheme, hosts).run(progress, observer)


def check_placement(
    trace: Trace, scheme: CloudSimScheme, hosts: int = HOST_COUNT
) -> None:
    """Check that the initial placement is possible.

    Raises:
        ConfigurationError: The guests do not fit on the hosts.
    """
    _CloudSimRun(trace, scheme, hosts)


def simulate_days(
    days: Mapping[str, Trace], scheme: CloudSimScheme, hosts: int = HOST_COUNT
) -> dict[str, CloudSimMetrics]:
    """Return `simulate` for each of *days*."""
    return {day: simulate(trace, scheme, hosts) for day, trace in days.items()}


class _CloudSimRun:
    def __init__(self, trace: Trace, scheme: CloudSimScheme, hosts: int) -> None:
        self._scheme = scheme
        self._hosts = CloudSimHosts.alternating(hosts)
        self._guests = CloudSimGuests.of_four_sizes(len(trace.names))
        self._metrics = CloudSimRecorder(
            self._hosts, always_on=scheme is CloudSimBaseline.NPA
        )
        # Beyond the last sample, that sample is repeated.
        self._samples = np.pad(trace.percent / PERCENT, ((0, 0), (0, 1)), mode="edge")
        self._residents = self._initial_placement()

    def run(
        self, progress: Progress | None = None, observer: IntervalObserver | None = None
    ) -> CloudSimMetrics:
        """Run the simulation and return its metrics."""
        time, loads = INTERVAL + FIRST_EVENT, list[Floats]()
        seed = self._scheme.seed if isinstance(self._scheme, MigrationScheme) else 0
        rng = random.Random(seed)  # noqa: S311
        count = self._samples.shape[1] - 2
        for step in range(count):
            shares = self._update(time, NO_MIGRATIONS)
            self._report(observer)
            loads = [*loads[1 - HISTORY_LENGTH :], self._load(time)]
            if isinstance(self._scheme, MigrationScheme):
                history = np.stack(loads, axis=1)
                self._migrate(time, self._decide(self._scheme, shares, history, rng))
            time += INTERVAL
            if progress is not None:
                progress(step + 1, count)
        self._report(observer)
        return self._metrics.result()

    def _report(self, observer: IntervalObserver | None) -> None:
        if observer is not None:
            observer(self._metrics.sums(), self._metrics.load())

    def _load(self, time: float) -> Floats:
        """Return the load of each guest, interpolated between samples."""
        before = math.floor(time / INTERVAL)
        low, high = self._samples[:, before], self._samples[:, before + 1]
        load: Floats = low + (high - low) / INTERVAL * (time - before * INTERVAL)
        return load

    def _request(self, time: float) -> Floats:
        return self._load(time) * self._guests.mips

    def _update(self, time: float, migrations: HostMigrations) -> CpuShares:
        """Divide the CPU again and remove guests that request nothing."""
        shares = share_cpu(
            self._hosts, self._residents, migrations, self._request(time)
        )
        self._metrics.record(time, shares)
        remaining = (shares.requested > 0) | shares.migrating
        self._residents = HostedGuests(
            self._residents.guest[remaining], self._residents.host[remaining]
        )
        return shares

    def _decide(
        self,
        scheme: MigrationScheme,
        shares: CpuShares,
        history: Floats,
        rng: random.Random,
    ) -> HostMigrations:
        request = history[:, -1] * self._guests.mips
        view = CloudSimView(
            self._hosts, self._guests, self._residents, request, history
        )
        placement = CloudSimPlacement(view, shares, overload_check(scheme, view))
        return HostMigrations.of(
            placement.moves(cloudsim_selector(scheme.selector, view, rng))
        )

    def _migrate(self, time: float, migrations: HostMigrations) -> None:
        """Execute *migrations*; all of them end before the next decision."""
        duration = self._guests.memory / MIGRATION_BANDWIDTH
        migrating = np.unique(migrations.guest)
        self._metrics.record_migrations(len(migrations.guest), duration[migrating])
        if len(migrations.guest):
            self._update(time, migrations)
        for each in np.unique(duration[migrating]).tolist():
            self._update(time + each, migrations)
            arrived = duration[migrations.guest] == each
            self._finish_migrations(migrations.where(arrived))
            migrations = migrations.where(~arrived)
            self._update(time + each, migrations)

    def _finish_migrations(self, arrived: HostMigrations) -> None:
        """Make the guests of *arrived* the last residents of their targets."""
        placed: dict[int, int] = {}
        pairs = zip(arrived.guest.tolist(), arrived.target.tolist(), strict=True)
        for guest, target in pairs:
            placed.pop(guest, None)
            placed[guest] = target
        guests = np.array(list(placed), dtype=np.int64)
        targets = np.array(list(placed.values()), dtype=np.int64)
        others = ~np.isin(self._residents.guest, guests)
        self._residents = HostedGuests(
            np.concatenate([self._residents.guest[others], guests]),
            np.concatenate([self._residents.host[others], targets]),
        )

    def _initial_placement(self) -> HostedGuests:
        """Place all guests at full size: least power increase, or first fit."""
        free, used = self._hosts.mips.copy(), np.zeros(len(self._hosts.mips))
        memory = np.full(len(free), HOST_MEMORY)
        slots = np.full(len(free), MAX_GUESTS_PER_HOST)
        host: list[int] = []
        for mips, size in zip(self._guests.mips, self._guests.memory, strict=True):
            fits = (free >= mips) & (self._hosts.core_mips >= mips)
            fits &= (memory >= size) & (slots > 0)
            feasible = np.flatnonzero(fits)
            if not len(feasible):
                raise ConfigurationError(
                    f"guest {len(host) + 1} of {len(self._guests.mips)}: does not fit "
                    f"on {format_count(len(free), 'host')}; add hosts",
                    code=DiagnosticCode.INCONSISTENT,
                )
            target = int(feasible[self._best_host(used, feasible, mips)])
            free[target] -= mips
            used[target] += mips
            memory[target] -= size
            slots[target] -= 1
            host.append(target)
        return HostedGuests(np.arange(len(host)), np.array(host, dtype=np.int64))

    def _best_host(self, used: Floats, feasible: Integers, mips: float) -> int:
        if isinstance(self._scheme, CloudSimBaseline):
            return 0
        # Until the first update, all hosts are treated as drawing idle power.
        after = self._hosts.power(
            (used[feasible] + mips) / self._hosts.mips[feasible], feasible
        )
        idle = self._hosts.power(np.zeros(len(feasible)), feasible)
        return int(np.argmin(after - idle))
