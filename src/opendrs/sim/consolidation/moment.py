"""What is asked of hosts within one interval, while guests come and go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.sim.consolidation.hardware import Floats, Integers
from opendrs.sim.consolidation.journal import Journal


@dataclass(frozen=True, slots=True)
class Flight:
    """A guest on its way; in seconds since the beginning."""

    guest: int
    target: int
    start: float
    end: float


class Moment:
    """What is asked of each host at this moment of an interval.

    Args:
        journal: Where changes are noted.
        host: Where each guest is; kept up to date by the owner.
        asked: MIPS that each guest asks for.
        cores: On how many cores.
        loss: Part of it that is missing and spent while a guest moves.

    Attributes:
        load: MIPS asked of each host, as far as its cores are fast enough.
        slow: MIPS asked for beyond that.
        count: How many guests are on each host.
    """

    def __init__(
        self,
        journal: Journal,
        host: Integers,
        asked: Floats,
        cores: Floats,
        loss: float,
    ) -> None:
        self._journal, self._host, self._asked = journal, host, asked
        self._cores, self._loss = cores, loss
        core, hosts = journal.machines.core, len(journal.machines.cpu)
        given = np.minimum(asked, cores * core[host])
        self.load: Floats = np.bincount(host, given, hosts).astype(np.float64)
        self.slow: Floats = np.bincount(host, asked - given, hosts).astype(np.float64)
        self.count = np.bincount(host, minlength=hosts)

    def depart(self, flight: Flight, left: float) -> None:
        """Note that a guest takes off *left* seconds before the end."""
        extra = self._asked[flight.guest] * self._loss
        self._change(flight.target, left, extra, 0.0, 0)

    def arrive(self, flight: Flight, left: float) -> None:
        """Note that a guest lands *left* seconds before the end."""
        source = int(self._host[flight.guest])
        asked = float(self._asked[flight.guest])
        core, cores = self._journal.machines.core, self._cores[flight.guest]
        gone = min(asked, cores * core[source])
        come = min(asked, cores * core[flight.target])
        extra = asked * self._loss
        self._change(source, left, -gone, gone - asked, -1)
        self._change(flight.target, left, come - extra, asked - come, 1)

    def _change(
        self, host: int, left: float, asked: float, slow: float, guests: int
    ) -> None:
        """Change what is asked of *host* for the *left* seconds of the interval."""
        journal = self._journal
        before = self._state(host)
        self.load[host] = max(0.0, self.load[host] + asked)
        self.slow[host] = max(0.0, self.slow[host] + slow)
        self.count[host] += guests
        after = self._state(host)
        journal.correct(host, left, before, after)
        if before[2] != after[2]:
            idle = self._journal.machines.watts_at(host, 0.0)
            journal.idle(host, left if before[2] else -left, idle)

    def _state(self, host: int) -> tuple[float, float, bool]:
        return float(self.load[host]), float(self.slow[host]), self.count[host] > 0
