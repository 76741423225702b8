"""The hosts while it is being decided who moves: what is where by now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opendrs.policies.consolidation.fleet import Crowd, Fleet, Places
from opendrs.policies.consolidation.histories import Floats, Integers

NOWHERE = -1  # where a guest is that has left, and has no place yet


@dataclass(frozen=True, slots=True)
class Shift:
    """One guest that goes from one host to another, as places in the columns."""

    guest: int
    source: int
    target: int


class Packing:
    """Who is where, with all moves that were decided so far.

    Attributes:
        host: Where each guest is; shape (guests,).
        need: CPU each needs, over the last samples; shape (guests,).
        load: CPU in use on each host; shape (hosts,).
        count: How many guests of the crowd are on each host.
        room: Memory that is free on each host, as in `Fleet.room`.
        woken: Which hosts have to be woken for that.
    """

    def __init__(self, last_n: int, fleet: Fleet, crowd: Crowd, places: Places) -> None:
        """Take stock of *fleet* and *crowd*.

        Args:
            last_n: How many samples the need of a guest is averaged over.
            fleet: The hosts.
            crowd: The guests.
            places: Which hosts are open to whom.
        """
        self.fleet, self.crowd, self.places = fleet, crowd, places
        hosts, width = fleet.own.shape
        self.host = crowd.host.copy()
        self.need = mean_of_recent(crowd.samples, crowd.lengths, last_n)
        own = np.where(fleet.known, width, 0)
        self.load = np.bincount(crowd.host, self.need, hosts) + mean_of_recent(
            fleet.own, own, last_n
        )
        self.count = np.bincount(crowd.host, minlength=hosts)
        self.room = fleet.room.copy()
        self.woken = np.zeros(hosts, np.bool_)

    def used(self) -> Floats:
        """Return the CPU in use on each host, sample by sample.

        As if guests had been where they are by now; shape (hosts, samples).
        """
        return self.fleet.own + sums_on_hosts(
            self.crowd.samples, self.host, len(self.count)
        )

    def guests_on(self, host: int) -> Integers:
        """Return the guests of the crowd that are on *host* by now."""
        return np.flatnonzero(self.host == host)

    def put(self, guest: int, target: int) -> Callable[[], None]:
        """Move *guest* to *target*; return how to undo that."""
        source = int(self.host[guest])
        rooms = self.room[[source, target]].copy()
        woken = self.woken[target]
        self._carry(guest, source, target)
        freed = self.room[source] + self.crowd.need[guest]
        self.room[source] = np.minimum(freed, self.fleet.most[source])
        self.room[target] -= self.crowd.need[guest]

        def undo() -> None:
            self._carry(guest, target, source)
            self.room[[source, target]] = rooms
            self.woken[target] = woken

        return undo

    def withdraw(self, guest: int) -> None:
        """Take *guest* off its host; where it goes is not known here."""
        source = int(self.host[guest])
        self.host[guest] = NOWHERE
        self.load[source] -= self.need[guest]
        self.count[source] -= 1

    def _carry(self, guest: int, source: int, target: int) -> None:
        self.host[guest] = target
        self.load[source] -= self.need[guest]
        self.load[target] += self.need[guest]
        self.count[source] -= 1
        self.count[target] += 1
        self.woken[target] |= self.fleet.wakeable[target]
        self.places.moved(guest, target)


def mean_of_recent(samples: Floats, lengths: Integers, count: int) -> Floats:
    """Return the mean of the last *count* samples of each row, or of fewer."""
    total = samples[:, -count:].sum(axis=1)
    mean: Floats = total / np.clip(lengths, 1, count)
    return mean


def sums_on_hosts(samples: Floats, host: Integers, hosts: int) -> Floats:
    """Return the sum of the guests' *samples* on each host."""
    columns = [np.bincount(host, each, hosts) for each in samples.T]
    return np.stack(columns, axis=1) if columns else np.zeros((hosts, 0))
