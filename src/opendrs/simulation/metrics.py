"""Metrics of a run: energy, service level, migrations; Pareto front of two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from opendrs.simulation.hardware import HostSpecs
from opendrs.simulation.workload import Floats, Mask

JOULES_PER_KWH = 3_600_000  # in a kWh
DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationMetrics:
    """The metrics of a run.

    Attributes:
        energy_kwh: Energy of all hosts, with waking, shutting down and sleeping.
        lower_bound_kwh: Energy if all work were done at full load on the hosts that
            give most for it; no policy can need less.
        migrations: How many guests arrived on another host, or were on the way.
        migrations_per_guest_day: The same for each guest and day.
        migration_seconds: Mean seconds that a migration took; None without any.
        slatah: Time in which active hosts gave less than was asked for, as part of
            the time in which they were active; all hosts together.
        slatah_mean: The mean of that part over the hosts that were ever active.
        pdm: CPU that was missing because of migrations, as part of what was asked.
        slav: `slatah` times `pdm`.
        esv: Energy in kWh times `slav`.
        shortfall: CPU that was missing for any reason, as part of what was asked.
        overload_time_fraction: Time in which more was asked of active hosts than
            they have, as part of the time in which they were active.
        active_hosts: How many had guests, on average.
        hosts_on: How many were not asleep, on average.
        shutdowns: How often a host was put to sleep.
        power_ons: How often a host was woken.
        guests: How many there are, from first to last.
        hours: How long was simulated.
    """

    energy_kwh: float
    lower_bound_kwh: float
    migrations: int
    migrations_per_guest_day: float
    migration_seconds: float | None
    slatah: float
    slatah_mean: float
    pdm: float
    slav: float
    esv: float
    shortfall: float
    overload_time_fraction: float
    active_hosts: float
    hosts_on: float
    shutdowns: int
    power_ons: int
    guests: int
    hours: float

    @property
    def bound_ratio(self) -> float:
        """Return how many times the lower bound was needed."""
        return self.energy_kwh / self.lower_bound_kwh if self.lower_bound_kwh else 1.0


@dataclass(slots=True)
class MetricsRecorder:
    """Adds up what hosts draw and give.

    All that counts is a sum over hosts of something that depends on what is asked
    of that host alone. So an interval is added up as if nothing changed in it, and
    each change then corrects its own host for the rest of the interval.

    Attributes:
        hosts: The hosts.
        joules: Energy so far.
        active: Seconds for which each host had guests.
        underserved: Seconds for which each gave less than was asked.
        overloaded: Seconds for which more was asked of each than it has.
        missing: MIPS seconds that were missing on full hosts.
        missing_slow_cores: The same on cores that are too slow.
        missing_migrations: The same because of migrations.
        requested: MIPS seconds that were asked for.
        powered_on: Seconds for which each host was not asleep.
    """

    hosts: HostSpecs
    joules: float = 0.0
    missing: float = 0.0
    missing_slow_cores: float = 0.0
    missing_migrations: float = 0.0
    requested: float = 0.0
    active: Floats = field(init=False)
    underserved: Floats = field(init=False)
    overloaded: Floats = field(init=False)
    powered_on: Floats = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.hosts.cpu)
        self.active, self.underserved = np.zeros(count), np.zeros(count)
        self.overloaded, self.powered_on = np.zeros(count), np.zeros(count)

    def add_interval(
        self, seconds: float, requested: Floats, unserved: Floats, active: Mask
    ) -> None:
        """Add *seconds* seconds in which nothing changes.

        Args:
            seconds: How long.
            requested: MIPS asked of each host, as far as its cores are fast enough.
            unserved: MIPS asked for beyond what its cores give.
            active: Whether each has guests.
        """
        cpu = self.hosts.cpu
        watts = self.hosts.power(requested / cpu)
        self.joules += seconds * float(watts[active].sum())
        is_overloaded = active & (requested > cpu)
        self.active[active] += seconds
        self.overloaded[is_overloaded] += seconds
        self.underserved[active & (is_overloaded | (unserved > 0))] += seconds
        self.missing += seconds * float(
            (requested[is_overloaded] - cpu[is_overloaded]).sum()
        )
        self.missing_slow_cores += seconds * float(unserved.sum())
        self.powered_on[active] += seconds

    def correct_host(
        self,
        host: int,
        seconds: float,
        before: tuple[float, float, bool],
        after: tuple[float, float, bool],
    ) -> None:
        """Replace what was added of *host* for the last *seconds* seconds.

        Args:
            host: Which host.
            seconds: Seconds until the end of what was added.
            before: MIPS asked, MIPS beyond its cores, and whether it has guests, as
                was added.
            after: The same as it was.
        """
        for sign, (requested, unserved, active) in ((-1.0, before), (1.0, after)):
            if not active:
                continue
            cpu = float(self.hosts.cpu[host])
            is_overloaded = requested > cpu
            self.joules += sign * seconds * self.hosts.watts_at(host, requested / cpu)
            self.active[host] += sign * seconds
            self.powered_on[host] += sign * seconds
            self.overloaded[host] += sign * seconds * is_overloaded
            self.underserved[host] += sign * seconds * (is_overloaded or unserved > 0)
            self.missing += sign * seconds * max(0.0, requested - cpu)
            self.missing_slow_cores += sign * seconds * unserved

    def add_idle(self, host: int, seconds: float, watts: float) -> None:
        """Add *seconds* seconds in which *host* is on and has no guests."""
        self.joules += seconds * watts
        self.powered_on[host] += seconds

    def result(
        self,
        *,
        seconds: float,
        guests: int,
        durations: Sequence[float],
        in_flight: int,
        power_actions: tuple[int, int],
    ) -> SimulationMetrics:
        """Return the metrics.

        Args:
            seconds: How long was simulated.
            guests: How many there are.
            durations: How long each migration took that is over.
            in_flight: How many are not.
            power_actions: How many hosts were put to sleep, and how many woken.
        """
        active_time = float(self.active.sum())
        slatah = _ratio(float(self.underserved.sum()), active_time)
        was_active = self.active > 0
        pdm = _ratio(self.missing_migrations, self.requested)
        energy = self.joules / JOULES_PER_KWH
        migrations = len(durations) + in_flight
        return SimulationMetrics(
            energy_kwh=energy,
            lower_bound_kwh=self.requested
            * self.hosts.min_watts_per_mips
            / JOULES_PER_KWH,
            migrations=migrations,
            migrations_per_guest_day=_ratio(migrations, guests * seconds / DAY),
            migration_seconds=_ratio(sum(durations), len(durations))
            if durations
            else None,
            slatah=slatah,
            slatah_mean=float(
                np.mean(self.underserved[was_active] / self.active[was_active])
            )
            if was_active.any()
            else 0.0,
            pdm=pdm,
            slav=slatah * pdm,
            esv=energy * slatah * pdm,
            shortfall=_ratio(
                self.missing + self.missing_slow_cores + self.missing_migrations,
                self.requested,
            ),
            overload_time_fraction=_ratio(float(self.overloaded.sum()), active_time),
            active_hosts=active_time / seconds,
            hosts_on=float(self.powered_on.sum()) / seconds,
            shutdowns=power_actions[0],
            power_ons=power_actions[1],
            guests=guests,
            hours=seconds / 3600,
        )


def _ratio(part: float, total: float) -> float:
    return part / total if total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CumulativeMetrics:
    """What has been added up since the beginning.

    Attributes:
        seconds: How long that is.
        joules: Energy of all hosts.
        powered_on: Host seconds in which hosts were not asleep.
        active: Host seconds in which they had guests.
        overloaded: Host seconds in which more was asked of them than they have.
        requested: MIPS seconds that guests asked for.
        capacity: MIPS seconds that active hosts had.
        migrations: How many were decided.
    """

    seconds: float
    joules: float
    powered_on: float
    active: float
    overloaded: float
    requested: float
    capacity: float
    migrations: int


IntervalObserver = Callable[[CumulativeMetrics, Floats], None]


"""Called after each interval; the second is the load of each host at its end: what
is asked of it as part of its CPU, 0 without guests, NaN while it sleeps."""


def pareto_front(first: Sequence[float], second: Sequence[float]) -> Mask:
    """Return which points no other point beats.

    A point beats another when it is better in one measure and no worse in the other.
    What is not known (NaN) neither beats nor is on the front.

    Args:
        first: One measure of each point; less is better.
        second: The other.
    """
    x, y = np.array(first, np.float64), np.array(second, np.float64)
    known = ~(np.isnan(x) | np.isnan(y))
    front = np.zeros(len(x), np.bool_)
    best, best_at = np.inf, np.nan
    for index in np.lexsort((y, x)).tolist():
        if not known[index]:
            continue
        # In this order a point is beaten only by what came before.
        if y[index] < best:
            best, best_at = y[index], x[index]
            front[index] = True
        elif y[index] == best and x[index] == best_at:
            front[index] = True
    return front
