"""Metrics of a run as in CloudSim: energy, SLA violations, migrations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from opendrs.simulation.cloudsim.cpu_sharing import CpuShares
from opendrs.simulation.cloudsim.hardware import CloudSimHosts
from opendrs.simulation.metrics import CumulativeMetrics
from opendrs.simulation.workload import Floats, Mask

JOULES_PER_KWH = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSimMetrics:
    """Metrics of a run, as CloudSim 3.0.3 defines them.

    Attributes:
        energy: Joules.
        migrations: Number of started migrations.
        slatah: Fraction of the active time of hosts in which they allocated less
            than requested, all hosts together.
        pdm: Fraction of the requested MIPS that was missing during migrations.
        overall_violation: Fraction of the requested MIPS that was missing.
        average_violation: Mean missing fraction over the intervals of guests in
            which any was missing.
        shutdowns: Number of times a host became inactive; a host that was never
            used counts as one.
        time_to_shutdown: Mean seconds from the start of a host to its shutdown.
        migration_time: Mean seconds of a migration; None without any.
        overload: Fraction of the active time of hosts in which at least all their
            MIPS were requested.
        active_hosts: Mean number of active hosts.
        guests_left: Number of guests that had not vanished at the end.
    """

    energy: float
    migrations: int
    slatah: float
    pdm: float
    overall_violation: float
    average_violation: float
    shutdowns: int
    time_to_shutdown: float
    migration_time: float | None
    overload: float
    active_hosts: float
    guests_left: int

    @property
    def energy_kwh(self) -> float:
        """The energy in kWh."""
        return self.energy / JOULES_PER_KWH

    @property
    def slav(self) -> float:
        """SLATAH times PDM."""
        return self.slatah * self.pdm

    @property
    def esv(self) -> float:
        """Energy in kWh times SLAV."""
        return self.energy_kwh * self.slav


@dataclass(slots=True)
class CloudSimRecorder:
    """Accumulates metrics between one division of the CPU and the next.

    Attributes:
        hosts: The hosts.
        always_on: True if all hosts draw full power all the time.
    """

    hosts: CloudSimHosts
    always_on: bool = False
    _time: float = 0.0
    _shares: CpuShares | None = None
    _active: Mask = field(init=False)
    _since: Floats = field(init=False)
    _uptimes: list[Floats] = field(default_factory=list)
    _durations: list[Floats] = field(default_factory=list)
    _energy: float = 0.0
    _migrations: int = 0
    _active_time: float = 0.0
    _capacity: float = 0.0
    _short_time: float = 0.0
    _overload_time: float = 0.0
    _requested: float = 0.0
    _allocated: float = 0.0
    _missing_during_migration: float = 0.0
    _violations: int = 0
    _violated: float = 0.0

    def __post_init__(self) -> None:
        self._active = np.ones(len(self.hosts.mips), np.bool_)
        self._since = np.zeros(len(self.hosts.mips))

    def record(self, time: float, shares: CpuShares) -> None:
        """Record that the CPU is divided into *shares* from *time* on.

        An earlier record of the same time is replaced.
        """
        if time > self._time:
            self._accumulate(time - self._time, shares)
        self._time, self._shares = time, shares

    def record_migrations(self, migrations: int, durations: Floats) -> None:
        """Record started migrations.

        Args:
            migrations: Number of migrations.
            durations: Duration of each guest's migration; a guest with two targets
                at once counts once.
        """
        self._migrations += migrations
        self._durations.append(durations)

    def _accumulate(self, elapsed: float, shares: CpuShares) -> None:
        previous = self._shares
        if self.always_on:
            at_full = np.ones(len(self.hosts.mips))
            self._energy += elapsed * float(self.hosts.power(at_full).sum())
        if previous is None:
            return
        if not self.always_on:
            self._energy += elapsed * self._mean_power(previous.load, shares.load)
        self._accumulate_hosts(elapsed, previous)
        self._accumulate_guests(elapsed, previous)

    def _mean_power(self, before: Floats, after: Floats) -> float:
        """Return the watts of all hosts; hosts that were idle before draw none."""
        running = np.flatnonzero(before > 0)
        first = self.hosts.power(before[running], running)
        last = self.hosts.power(after[running], running)
        return float((first + (last - first) / 2).sum())

    def _accumulate_hosts(self, elapsed: float, previous: CpuShares) -> None:
        active = previous.used > 0
        self._active_time += elapsed * int(active.sum())
        self._capacity += elapsed * float(self.hosts.mips[active].sum())
        self._short_time += elapsed * int(
            (active & (previous.used < previous.requested_on_host)).sum()
        )
        overloaded = active & (previous.requested_on_host >= self.hosts.mips)
        self._overload_time += elapsed * int(overloaded.sum())
        self._record_power_states(active)

    def _record_power_states(self, active: Mask) -> None:
        stopped = self._active & ~active
        self._uptimes.append(self._time - self._since[stopped])
        self._since[active & ~self._active] = self._time
        self._active = active

    def _accumulate_guests(self, elapsed: float, previous: CpuShares) -> None:
        self._requested += elapsed * float(previous.requested.sum())
        self._allocated += elapsed * float(previous.allocated.sum())
        missing = previous.requested - previous.allocated
        short = missing > 0
        self._violations += int(short.sum())
        self._violated += float((missing[short] / previous.requested[short]).sum())
        self._missing_during_migration += elapsed * float(
            missing[previous.migrating & short].sum()
        )

    def sums(self) -> CumulativeMetrics:
        """Return the sums so far; idle hosts count as powered off."""
        total_time = len(self.hosts.mips) * self._time
        return CumulativeMetrics(
            seconds=self._time,
            joules=self._energy,
            powered_on=total_time if self.always_on else self._active_time,
            active=self._active_time,
            overloaded=self._overload_time,
            requested=self._requested,
            capacity=self._capacity,
            migrations=self._migrations,
        )

    def load(self) -> Floats:
        """Return the latest load of each host; NaN where it is off."""
        assert self._shares is not None  # noqa: S101 - called after `record`
        running = (self._shares.used > 0) | self.always_on
        load: Floats = np.where(
            running, self._shares.requested_on_host / self.hosts.mips, np.nan
        )
        return load

    def result(self) -> CloudSimMetrics:
        """Return the metrics after the last record."""
        if self._shares is not None:
            self._record_power_states(self._shares.used > 0)
        uptimes = np.concatenate(self._uptimes or [np.zeros(0)])
        durations = np.concatenate(self._durations or [np.zeros(0)])
        guests_left = (
            0 if self._shares is None else int((self._shares.requested > 0).sum())
        )
        return CloudSimMetrics(
            energy=self._energy,
            migrations=self._migrations,
            slatah=_ratio(self._short_time, self._active_time),
            pdm=_ratio(self._missing_during_migration, self._requested),
            overall_violation=_ratio(
                self._requested - self._allocated, self._requested
            ),
            average_violation=_ratio(self._violated, self._violations),
            shutdowns=len(uptimes),
            time_to_shutdown=_ratio(float(uptimes.sum()), len(uptimes)),
            migration_time=float(durations.mean()) if len(durations) else None,
            overload=_ratio(self._overload_time, self._active_time),
            active_hosts=_ratio(self._active_time, self._time),
            guests_left=guests_left,
        )


def _ratio(share: float, whole: float) -> float:
    return share / whole if whole else 0.0
