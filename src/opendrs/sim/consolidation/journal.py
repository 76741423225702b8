"""What a run of the default model cost, and how well guests were served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from opendrs.sim.consolidation.hardware import Floats, Truths
from opendrs.sim.consolidation.machines import Machines

JOULES = 3_600_000  # in a kWh
DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
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
        wakes: How often a host was woken.
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
    wakes: int
    guests: int
    hours: float

    @property
    def bound_ratio(self) -> float:
        """Return how many times the lower bound was needed."""
        return self.energy_kwh / self.lower_bound_kwh if self.lower_bound_kwh else 1.0


@dataclass(slots=True)
class Journal:
    """Adds up what hosts draw and give.

    All that counts is a sum over hosts of something that depends on what is asked
    of that host alone. So an interval is added up as if nothing changed in it, and
    each change then corrects its own host for the rest of the interval.

    Attributes:
        machines: The hosts.
        joules: Energy so far.
        active: Seconds for which each host had guests.
        short: Seconds for which each gave less than was asked.
        overloaded: Seconds for which more was asked of each than it has.
        missing: MIPS seconds that were missing on full hosts.
        slow: The same on cores that are too slow.
        moving: The same because of migrations.
        asked: MIPS seconds that were asked for.
        on: Seconds for which each host was not asleep.
    """

    machines: Machines
    joules: float = 0.0
    missing: float = 0.0
    slow: float = 0.0
    moving: float = 0.0
    asked: float = 0.0
    active: Floats = field(init=False)
    short: Floats = field(init=False)
    overloaded: Floats = field(init=False)
    on: Floats = field(init=False)

    def __post_init__(self) -> None:
        hosts = len(self.machines.cpu)
        self.active, self.short = np.zeros(hosts), np.zeros(hosts)
        self.overloaded, self.on = np.zeros(hosts), np.zeros(hosts)

    def add(self, time: float, asked: Floats, slow: Floats, active: Truths) -> None:
        """Add *time* seconds in which nothing changes.

        Args:
            time: How long.
            asked: MIPS asked of each host, as far as its cores are fast enough.
            slow: MIPS asked for beyond what its cores give.
            active: Whether each has guests.
        """
        cpu = self.machines.cpu
        watts = self.machines.power(asked / cpu)
        self.joules += time * float(watts[active].sum())
        over = active & (asked > cpu)
        self.active[active] += time
        self.overloaded[over] += time
        self.short[active & (over | (slow > 0))] += time
        self.missing += time * float((asked[over] - cpu[over]).sum())
        self.slow += time * float(slow.sum())
        self.on[active] += time

    def correct(
        self,
        host: int,
        time: float,
        before: tuple[float, float, bool],
        after: tuple[float, float, bool],
    ) -> None:
        """Replace what was added of *host* for the last *time* seconds.

        Args:
            host: Which host.
            time: Seconds until the end of what was added.
            before: MIPS asked, MIPS beyond its cores, and whether it has guests, as
                was added.
            after: The same as it was.
        """
        for sign, (asked, slow, active) in ((-1.0, before), (1.0, after)):
            if not active:
                continue
            cpu = float(self.machines.cpu[host])
            over = asked > cpu
            self.joules += sign * time * self.machines.watts_at(host, asked / cpu)
            self.active[host] += sign * time
            self.on[host] += sign * time
            self.overloaded[host] += sign * time * over
            self.short[host] += sign * time * (over or slow > 0)
            self.missing += sign * time * max(0.0, asked - cpu)
            self.slow += sign * time * slow

    def idle(self, host: int, time: float, watts: float) -> None:
        """Add *time* seconds in which *host* is on and has no guests."""
        self.joules += time * watts
        self.on[host] += time

    def account(
        self,
        *,
        seconds: float,
        guests: int,
        durations: Sequence[float],
        under_way: int,
        switched: tuple[int, int],
    ) -> Account:
        """Return the metrics.

        Args:
            seconds: How long was simulated.
            guests: How many there are.
            durations: How long each migration took that is over.
            under_way: How many are not.
            switched: How many hosts were put to sleep, and how many woken.
        """
        time = float(self.active.sum())
        slatah = _part(float(self.short.sum()), time)
        used = self.active > 0
        pdm = _part(self.moving, self.asked)
        energy = self.joules / JOULES
        moves = len(durations) + under_way
        return Account(
            energy_kwh=energy,
            lower_bound_kwh=self.asked * self.machines.least_watts / JOULES,
            migrations=moves,
            migrations_per_guest_day=_part(moves, guests * seconds / DAY),
            migration_seconds=_part(sum(durations), len(durations))
            if durations
            else None,
            slatah=slatah,
            slatah_mean=float(np.mean(self.short[used] / self.active[used]))
            if used.any()
            else 0.0,
            pdm=pdm,
            slav=slatah * pdm,
            esv=energy * slatah * pdm,
            shortfall=_part(self.missing + self.slow + self.moving, self.asked),
            overload_time_fraction=_part(float(self.overloaded.sum()), time),
            active_hosts=time / seconds,
            hosts_on=float(self.on.sum()) / seconds,
            shutdowns=switched[0],
            wakes=switched[1],
            guests=guests,
            hours=seconds / 3600,
        )


def _part(share: float, whole: float) -> float:
    return share / whole if whole else 0.0
