"""The hosts while it is being decided who moves: what is where by now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from opendrs.policies.consolidation.fleet import Crowd, Fleet, Places
from opendrs.policies.consolidation.histories import Floats, Histories, Integers, Truths
from opendrs.policies.consolidation.power import power_columns
from opendrs.policies.consolidation.strategy import Placement, Strategy

NOWHERE = -1  # where a guest is that has left, and has no place yet
BATCH = 8  # hosts whose history is looked at together
DIGITS = 9  # so that between equals the name decides rather than rounding


class Aim(Enum):
    """Why a guest is moved."""

    RELIEF = "relief"
    EMPTYING = "emptying"


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
        rows: The same, sample by sample; shape (hosts, samples).
        lengths: How many samples of each row count; shape (hosts,).
        count: How many guests of the crowd are on each host.
    """

    def __init__(
        self, strategy: Strategy, fleet: Fleet, crowd: Crowd, places: Places
    ) -> None:
        self.strategy, self.fleet, self.crowd = strategy, fleet, crowd
        self._places = places
        hosts, width = fleet.own.shape
        self.host = crowd.host.copy()
        self.need = _recent(crowd.samples, crowd.lengths, strategy.last_n)
        self.rows = fleet.own + _on_hosts(crowd.samples, crowd.host, hosts)
        self.lengths = np.zeros(hosts, np.int64)
        np.maximum.at(self.lengths, crowd.host, crowd.lengths)
        own = np.where(fleet.known, width, 0)
        self.load = np.bincount(crowd.host, self.need, hosts) + _recent(
            fleet.own, own, strategy.last_n
        )
        self.count = np.bincount(crowd.host, minlength=hosts)
        self._room = fleet.room.copy()
        self._full = strategy.full * fleet.cpu
        self._most = {
            Aim.EMPTYING: strategy.target * fleet.cpu,
            Aim.RELIEF: strategy.relief * fleet.cpu,
        }
        self.woken = np.zeros(hosts, np.bool_)
        self._thrift = np.round(fleet.watts[fleet.curve, -1] / fleet.cpu, DIGITS)

    def histories(self, hosts: Integers | None = None) -> Histories:
        """Return the load of *hosts*, or of all, as parts of their CPU."""
        which = slice(None) if hosts is None else hosts
        parts = self.rows[which] / self.fleet.cpu[which, None]
        return Histories(parts, self.lengths[which])

    def guests_on(self, host: int) -> Integers:
        """Return the guests of the crowd that are on *host* by now."""
        return np.flatnonzero(self.host == host)

    def target(self, guest: int, receiving: Truths, aim: Aim) -> int | None:
        """Return where *guest* goes, or None where nowhere is room.

        Args:
            guest: Who goes.
            receiving: The running hosts that may receive.
            aim: Why it goes. For relief empty hosts may receive too, and others
                be woken.
        """
        fits = self._fits(guest, aim)
        occupied = (self.count > 0) | self.fleet.stuck
        running = receiving & fits
        tiers = [running & occupied]
        if aim is Aim.RELIEF:
            tiers += [
                running & ~occupied,
                self.fleet.wakeable & ~self.woken & fits,
            ]
        for place, tier in enumerate(tiers):
            hosts = np.flatnonzero(tier)
            if len(hosts):
                order = self._best_first(guest, hosts, aim, empty=place > 0)
                found = self._first_bounded(guest, hosts[order])
                if found is not None:
                    return found
        return None

    def put(self, guest: int, target: int) -> Callable[[], None]:
        """Move *guest* to *target*; return how to undo that."""
        source = int(self.host[guest])
        rooms = self._room[[source, target]].copy()
        before = self.lengths[target], self.woken[target]
        self._carry(guest, source, target)
        freed = self._room[source] + self.crowd.need[guest]
        self._room[source] = np.minimum(freed, self.fleet.most[source])
        self._room[target] -= self.crowd.need[guest]

        def undo() -> None:
            self._carry(guest, target, source)
            self._room[[source, target]] = rooms
            self.lengths[target], self.woken[target] = before

        return undo

    def withdraw(self, guest: int) -> None:
        """Take *guest* off its host; where it goes is not known here."""
        source = int(self.host[guest])
        self.host[guest] = NOWHERE
        self.load[source] -= self.need[guest]
        self.rows[source] -= self.crowd.samples[guest]
        self.count[source] -= 1

    def _carry(self, guest: int, source: int, target: int) -> None:
        self.host[guest] = target
        self.load[source] -= self.need[guest]
        self.load[target] += self.need[guest]
        self.rows[source] -= self.crowd.samples[guest]
        self.rows[target] += self.crowd.samples[guest]
        self.count[source] -= 1
        self.count[target] += 1
        length = self.crowd.lengths[guest]
        self.lengths[target] = max(self.lengths[target], length)
        self.woken[target] |= self.fleet.wakeable[target]
        self._places.moved(guest, target)

    def _fits(self, guest: int, aim: Aim) -> Truths:
        need = self.crowd.need[guest]
        fits = self.load + self.need[guest] <= self._most[aim]
        fits &= self._room[:, 0] >= need[0]
        fits &= self._room[:, 1] >= need[1]
        fits[self.host[guest]] = False
        open_ = fits.any() and self._places.open_to(guest)
        return np.asarray(fits & open_)

    def _best_first(
        self, guest: int, hosts: Integers, aim: Aim, *, empty: bool
    ) -> Integers:
        load, cpu = self.load[hosts], self.fleet.cpu[hosts]
        if self.strategy.placement is Placement.POWER_AWARE:
            watts, curve = self.fleet.watts, self.fleet.curve[hosts]
            after = power_columns(watts, curve, (load + self.need[guest]) / cpu)
            now = power_columns(watts, curve, np.clip(load / cpu, 0, 1))
            return np.argsort(np.round(after - now, DIGITS), kind="stable")
        if empty:
            return np.lexsort((cpu, self._thrift[hosts]))
        if self.strategy.placement is Placement.SPREAD and aim is Aim.RELIEF:
            return np.argsort(np.round(load / cpu, DIGITS), kind="stable")
        spare = np.round(self._most[aim][hosts] - load, DIGITS)
        return np.argsort(spare, kind="stable")

    def _first_bounded(self, guest: int, hosts: Integers) -> int | None:
        """Return the first of *hosts* that would keep the bound on overload."""
        if self.strategy.bound >= 1:
            return int(hosts[0])
        added = self.crowd.samples[guest]
        for start in range(0, len(hosts), BATCH):
            some = hosts[start : start + BATCH]
            over = self.rows[some] + added > self._full[some, None]
            time = np.maximum(self.lengths[some], self.crowd.lengths[guest])
            able = over.sum(axis=1) <= self.strategy.bound * time
            if able.any():
                return int(some[np.argmax(able)])
        return None


def _recent(samples: Floats, lengths: Integers, count: int) -> Floats:
    """Return the mean of the last *count* samples of each row, or of fewer."""
    total = samples[:, -count:].sum(axis=1)
    mean: Floats = total / np.clip(lengths, 1, count)
    return mean


def _on_hosts(samples: Floats, host: Integers, hosts: int) -> Floats:
    """Return the sum of the guests' *samples* on each host."""
    columns = [np.bincount(host, each, hosts) for each in samples.T]
    return np.stack(columns, axis=1) if columns else np.zeros((hosts, 0))
