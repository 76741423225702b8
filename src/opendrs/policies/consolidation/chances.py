"""The hosts while it is being decided who moves: how likely each lacks CPU by now."""

from __future__ import annotations

import numpy as np

from opendrs.policies.consolidation.fleet import Crowd, Fleet, Places
from opendrs.policies.consolidation.forecast import drift, overload, scatter
from opendrs.policies.consolidation.histories import Floats, Integers, Truths
from opendrs.policies.consolidation.packing import Packing


class Chances(Packing):
    """Who is where, and the risk of each host: how much of the time it lacks CPU.

    Attributes:
        scatter: Variance of the next sample of each guest; shape (guests,).
        variance: Of the load of each host; shape (hosts,).
        risk: Part of the time for which each host will lack CPU; shape (hosts,).
        arriving: Memory that is moved to each host, less what leaves it.
    """

    def __init__(self, last_n: int, fleet: Fleet, crowd: Crowd, places: Places) -> None:
        super().__init__(last_n, fleet, crowd, places)
        hosts = len(fleet.cpu)
        self.scatter = scatter(
            crowd.samples, crowd.lengths, self.need, crowd.most, last_n
        )
        change = drift(crowd.samples, crowd.lengths, self.need, self.scatter) - 1
        self.load += np.bincount(crowd.host, change * self.need, hosts)
        self.need *= 1 + change
        guests = np.bincount(crowd.host, self.scatter, hosts)
        self.variance = guests + fleet.own.var(axis=1)
        self.risk = overload(self.load, self.variance, fleet.cpu)
        self.arriving = np.zeros(hosts)

    def occupied(self) -> Truths:
        """Return which known hosts have guests by now, or somebody who stays."""
        busy = (self.count > 0) | self.fleet.stuck
        return (self.fleet.known & busy) | self.woken

    def overloaded(self, full: float) -> Truths:
        """Return which known hosts need more than *full* of their CPU on average."""
        return np.asarray(self.fleet.known & (self.load > full * self.fleet.cpu))

    def eased(self, guests: Integers) -> Floats:
        """Return by how much the risk of its host falls once each of *guests* left."""
        host = self.host[guests]
        load = self.load[host] - self.need[guests]
        variance = self.variance[host] - self.scatter[guests]
        return self.risk[host] - overload(load, variance, self.fleet.cpu[host])

    def burdened(self, guests: Integers, hosts: Integers) -> Floats:
        """Return by how much the risk of *hosts* grows with each of *guests*.

        Returns:
            Shape (guests, hosts).
        """
        load = self.load[hosts] + self.need[guests, None]
        variance = self.variance[hosts] + self.scatter[guests, None]
        return overload(load, variance, self.fleet.cpu[hosts]) - self.risk[hosts]

    def has_room(self, guests: Integers, hosts: Integers, most: float) -> Truths:
        """Return whether *hosts* have room for each of *guests*, whatever the rules.

        Args:
            guests: Who would go there.
            hosts: Where.
            most: Part of a host's CPU up to which it may be filled on average.

        Returns:
            Shape (guests, hosts).
        """
        asked, free = self.crowd.need[guests], self.room[hosts]
        filled = self.load[hosts] + self.need[guests, None]
        fits = filled <= most * self.fleet.cpu[hosts]
        fits &= asked[:, 0, None] <= free[:, 0]
        fits &= asked[:, 1, None] <= free[:, 1]
        return np.asarray(fits & (self.host[guests, None] != hosts))

    def withdraw(self, guest: int) -> None:
        """Take *guest* off its host; where it goes is not known here."""
        source = int(self.host[guest])
        super().withdraw(guest)
        self.variance[source] -= self.scatter[guest]
        self._judge(np.array([source]))

    def _carry(self, guest: int, source: int, target: int) -> None:
        super()._carry(guest, source, target)
        self.variance[source] -= self.scatter[guest]
        self.variance[target] += self.scatter[guest]
        self.arriving[source] -= self.crowd.memory[guest]
        self.arriving[target] += self.crowd.memory[guest]
        self._judge(np.array([source, target]))

    def _judge(self, hosts: Integers) -> None:
        self.risk[hosts] = overload(
            self.load[hosts], self.variance[hosts], self.fleet.cpu[hosts]
        )
