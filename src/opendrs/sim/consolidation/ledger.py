"""What a run cost, and what it kept of what it promised."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from opendrs.sim.consolidation.hardware import Floats, Hosts, Truths
from opendrs.sim.consolidation.sharing import Shares
from opendrs.sim.consolidation.watching import Sums

JOULES = 3_600_000  # in a kWh


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The metrics of a run, as CloudSim 3.0.3 defines them.

    Attributes:
        energy: Joules.
        migrations: How many were started.
        slatah: Part of the active time of hosts in which they gave less than was
            asked for, all hosts together.
        pdm: Part of the MIPS asked for that was missing during migrations.
        overall_violation: Part of the MIPS asked for that was missing.
        average_violation: Mean part that was missing, over the intervals of
            guests in which any was.
        shutdowns: How many times a host became inactive; one that was never used
            counts as one.
        time_to_shutdown: Mean seconds from the start of a host to its shutdown.
        migration_time: Mean seconds that a migration took; None without any.
        overload: Part of the active time of hosts in which all their MIPS were
            asked for or more.
        active_hosts: How many were active, on average.
        guests_left: How many had not vanished at the end.
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
        return self.energy / JOULES

    @property
    def slav(self) -> float:
        """SLATAH times PDM."""
        return self.slatah * self.pdm

    @property
    def esv(self) -> float:
        """Energy in kWh times SLAV."""
        return self.energy_kwh * self.slav


@dataclass(slots=True)
class Ledger:
    """Adds up what happens between one division of the CPU and the next.

    Attributes:
        hosts: The hosts.
        always_on: Whether all hosts draw full power all the time.
    """

    hosts: Hosts
    always_on: bool = False
    _time: float = 0.0
    _shares: Shares | None = None
    _active: Truths = field(init=False)
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
    _missing_on_the_way: float = 0.0
    _violations: int = 0
    _violated: float = 0.0

    def __post_init__(self) -> None:
        self._active = np.ones(len(self.hosts.total), np.bool_)
        self._since = np.zeros(len(self.hosts.total))

    def note(self, time: float, shares: Shares) -> None:
        """Note that from *time* on the CPU is divided into *shares*.

        What was noted of the same time before is forgotten.
        """
        if time > self._time:
            self._account(time - self._time, shares)
        self._time, self._shares = time, shares

    def migrated(self, migrations: int, durations: Floats) -> None:
        """Note that so many *migrations* started.

        Args:
            migrations: How many.
            durations: How long each guest is on the way; one that goes to two
                places at once counts once.
        """
        self._migrations += migrations
        self._durations.append(durations)

    def _account(self, passed: float, now: Shares) -> None:
        past = self._shares
        if self.always_on:
            at_full = np.ones(len(self.hosts.total))
            self._energy += passed * float(self.hosts.power(at_full).sum())
        if past is None:
            return
        if not self.always_on:
            self._energy += passed * self._mean_power(past.load, now.load)
        self._account_hosts(passed, past)
        self._account_guests(passed, past)

    def _mean_power(self, before: Floats, after: Floats) -> float:
        """Return the watts of all hosts; what was idle before draws none."""
        on = np.flatnonzero(before > 0)
        first = self.hosts.power(before[on], on)
        last = self.hosts.power(after[on], on)
        return float((first + (last - first) / 2).sum())

    def _account_hosts(self, passed: float, past: Shares) -> None:
        active = past.used > 0
        self._active_time += passed * int(active.sum())
        self._capacity += passed * float(self.hosts.total[active].sum())
        self._short_time += passed * int((active & (past.used < past.asked)).sum())
        overloaded = active & (past.asked >= self.hosts.total)
        self._overload_time += passed * int(overloaded.sum())
        self._note_power(active)

    def _note_power(self, active: Truths) -> None:
        stopped = self._active & ~active
        self._uptimes.append(self._time - self._since[stopped])
        self._since[active & ~self._active] = self._time
        self._active = active

    def _account_guests(self, passed: float, past: Shares) -> None:
        self._requested += passed * float(past.requested.sum())
        self._allocated += passed * float(past.allocated.sum())
        missing = past.requested - past.allocated
        short = missing > 0
        self._violations += int(short.sum())
        self._violated += float((missing[short] / past.requested[short]).sum())
        self._missing_on_the_way += passed * float(missing[past.leaving & short].sum())

    def sums(self) -> Sums:
        """Return what has been added up so far; idle hosts count as off."""
        everyone = len(self.hosts.total) * self._time
        return Sums(
            seconds=self._time,
            joules=self._energy,
            on=everyone if self.always_on else self._active_time,
            active=self._active_time,
            overloaded=self._overload_time,
            asked=self._requested,
            capacity=self._capacity,
            migrations=self._migrations,
        )

    def load(self) -> Floats:
        """Return the load of each host as last noted; NaN where it is off."""
        assert self._shares is not None  # noqa: S101 - something has been noted
        on = (self._shares.used > 0) | self.always_on
        load: Floats = np.where(on, self._shares.asked / self.hosts.total, np.nan)
        return load

    def result(self) -> Result:
        """Return the metrics once the last division has been noted."""
        if self._shares is not None:
            self._note_power(self._shares.used > 0)
        uptimes = np.concatenate(self._uptimes or [np.zeros(0)])
        durations = np.concatenate(self._durations or [np.zeros(0)])
        left = 0 if self._shares is None else int((self._shares.requested > 0).sum())
        return Result(
            energy=self._energy,
            migrations=self._migrations,
            slatah=_part(self._short_time, self._active_time),
            pdm=_part(self._missing_on_the_way, self._requested),
            overall_violation=_part(self._requested - self._allocated, self._requested),
            average_violation=_part(self._violated, self._violations),
            shutdowns=len(uptimes),
            time_to_shutdown=_part(float(uptimes.sum()), len(uptimes)),
            migration_time=float(durations.mean()) if len(durations) else None,
            overload=_part(self._overload_time, self._active_time),
            active_hosts=_part(self._active_time, self._time),
            guests_left=left,
        )


def _part(share: float, whole: float) -> float:
    return share / whole if whole else 0.0
