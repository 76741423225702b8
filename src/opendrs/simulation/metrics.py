"""Metrics of a run: energy, service level, migrations; Pareto front of two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from opendrs.simulation.hardware import HostSpecs
from opendrs.simulation.workload import Floats, Mask

JOULES_PER_KWH = 3_600_000
DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationMetrics:
    """Metrics of a run.

    Attributes:
        energy_kwh: Energy of all hosts, including power-on, power-off and powered-off.
        lower_bound_kwh: Energy if all work were done at full load on the most efficient
            hosts; no policy can need less.
        migrations: Number of migrations that ended or were running.
        migrations_per_guest_day: The same per guest and day.
        migration_seconds: Mean seconds of a migration; None without any.
        slatah: Time in which active hosts served less than requested, as a fraction of
            the time in which they were active; all hosts together.
        slatah_mean: Mean of that fraction over the hosts that were ever active.
        pdm: CPU missing because of migrations, as a fraction of the requested CPU.
        slav: `slatah` times `pdm`.
        esv: Energy in kWh times `slav`.
        shortfall: CPU missing for any reason, as a fraction of the requested CPU.
        overload_time_fraction: Time in which more CPU was requested of active hosts
            than they have, as a fraction of the time in which they were active.
        active_hosts: Mean number of hosts with guests.
        hosts_on: Mean number of hosts that were not powered off.
        shutdowns: Number of power-offs.
        power_ons: Number of power-ons.
        guests: Number of guests, constant during the run.
        hours: Simulated hours.
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
        """Return the energy divided by the lower bound."""
        return self.energy_kwh / self.lower_bound_kwh if self.lower_bound_kwh else 1.0


@dataclass(slots=True)
class MetricsRecorder:
    """Accumulates the energy and the service of the hosts.

    Each metric is a sum over hosts that depends only on the load of that host. So an
    interval is first added as if nothing changed in it. Each change then corrects its
    own host for the rest of the interval.

    Attributes:
        hosts: The hosts.
        joules: Energy so far.
        active: Seconds for which each host had guests.
        underserved: Seconds for which each host served less than requested.
        overloaded: Seconds for which more was requested of each host than it has.
        missing: MIPS seconds missing on full hosts.
        missing_slow_cores: MIPS seconds missing because cores were too slow.
        missing_migrations: MIPS seconds missing because of migrations.
        requested: MIPS seconds requested.
        powered_on: Seconds for which each host was not powered off.
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
        """Add *seconds* in which nothing changes.

        Args:
            seconds: Duration.
            requested: MIPS requested of each host, as far as its cores are fast enough.
            unserved: MIPS requested beyond that.
            active: True for hosts with guests.
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
        """Replace the contribution of *host* to the last *seconds*.

        Args:
            host: Row of the host.
            seconds: Seconds until the end of the interval that was added.
            before: MIPS requested, MIPS beyond its cores, and True with guests, as
                they were added.
            after: The correct values.
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
        """Add *seconds* in which *host* is on without guests."""
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
            seconds: Simulated seconds.
            guests: Number of guests.
            durations: Durations of the completed migrations.
            in_flight: Number of running migrations.
            power_actions: Number of power-offs and of power-ons.
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
    """Sums since the start of the run.

    Attributes:
        seconds: Simulated seconds.
        joules: Energy of all hosts.
        powered_on: Host seconds not powered off.
        active: Host seconds with guests.
        overloaded: Host seconds with more requested than available.
        requested: MIPS seconds requested by guests.
        capacity: MIPS seconds of active hosts.
        migrations: Number of selected migrations.
    """

    seconds: float
    joules: float
    powered_on: float
    active: float
    overloaded: float
    requested: float
    capacity: float
    migrations: int


METRIC_LABELS: Mapping[str, str] = {
    "energy_kwh": "energy (kWh)",
    "lower_bound_kwh": "lower bound of energy (kWh)",
    "bound_ratio": "energy / lower bound",
    "migrations_per_guest_day": "migrations per guest and day",
    "migration_seconds": "mean migration time (s)",
    "migration_time": "mean migration time (s)",
    "slatah": "fraction of time with unmet demand (SLATAH)",
    "slatah_mean": "SLATAH, mean over hosts",
    "pdm": "fraction of CPU lost to migrations (PDM)",
    "slav": "SLA violation (SLAV)",
    "esv": "energy x SLAV (ESV)",
    "shortfall": "fraction of CPU demand unmet",
    "overload_time_fraction": "fraction of time in overload",
    "overload": "fraction of time at full demand",
    "overall_violation": "fraction of CPU demand unmet",
    "average_violation": "mean fraction of CPU unmet, while unmet",
    "active_hosts": "mean hosts with guests",
    "hosts_on": "mean hosts powered on",
    "shutdowns": "power-offs",
    "power_ons": "power-ons",
    "time_to_shutdown": "mean time to power-off (s)",
    "guests_left": "guests at the end",
    "hours": "simulated time (h)",
}
"""Headings of the metrics in tables and plots; others are their names in words."""


def metric_label(metric: str) -> str:
    """Return the heading of a metric in tables and plots."""
    return METRIC_LABELS.get(metric, metric.replace("_", " "))


IntervalObserver = Callable[[CumulativeMetrics, Floats], None]
"""Called after each interval. The second argument is the load of each host at its
end, as a fraction of its CPU: 0 without guests, NaN while powered off."""


def pareto_front(first: Sequence[float], second: Sequence[float]) -> Mask:
    """Return True for the points that no other point dominates.

    A point dominates another if it is better in one metric and no worse in the other.
    Points with NaN neither dominate nor are on the front.

    Args:
        first: One metric of each point; less is better.
        second: The other metric; less is better.
    """
    x, y = np.array(first, np.float64), np.array(second, np.float64)
    known = ~(np.isnan(x) | np.isnan(y))
    front = np.zeros(len(x), np.bool_)
    best, best_at = np.inf, np.nan
    for index in np.lexsort((y, x)).tolist():
        if not known[index]:
            continue
        # In this order, only earlier points can dominate a point.
        if y[index] < best:
            best, best_at = y[index], x[index]
            front[index] = True
        elif y[index] == best and x[index] == best_at:
            front[index] = True
    return front
