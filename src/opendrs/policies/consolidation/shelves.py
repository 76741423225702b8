"""Where there is room for a guest, by what hosts are filled up to."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from opendrs.policies.consolidation.fleet import DIGITS, Crowd, Fleet, Places
from opendrs.policies.consolidation.histories import Histories, Integers, Truths
from opendrs.policies.consolidation.packing import Packing
from opendrs.policies.consolidation.power import power_columns
from opendrs.policies.consolidation.strategy import Placement, Strategy

BATCH = 8  # hosts whose history is looked at together


class Aim(Enum):
    """Why a guest is moved."""

    RELIEF = "relief"
    EMPTYING = "emptying"


class Shelves(Packing):
    """Who is where, and up to what each host is filled.

    Attributes:
        rows: CPU in use on each host, sample by sample; shape (hosts, samples).
        lengths: How many samples of each row count; shape (hosts,).
    """

    def __init__(
        self, strategy: Strategy, fleet: Fleet, crowd: Crowd, places: Places
    ) -> None:
        super().__init__(strategy.last_n, fleet, crowd, places)
        self.strategy = strategy
        self.rows = self.used()
        self.lengths = np.zeros(len(fleet.cpu), np.int64)
        np.maximum.at(self.lengths, crowd.host, crowd.lengths)
        self._full = strategy.full * fleet.cpu
        self._most = {
            Aim.EMPTYING: strategy.target * fleet.cpu,
            Aim.RELIEF: strategy.relief * fleet.cpu,
        }

    def histories(self, hosts: Integers | None = None) -> Histories:
        """Return the load of *hosts*, or of all, as parts of their CPU."""
        which = slice(None) if hosts is None else hosts
        parts = self.rows[which] / self.fleet.cpu[which, None]
        return Histories(parts, self.lengths[which])

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
        length = self.lengths[target]
        undo = super().put(guest, target)

        def back() -> None:
            undo()
            self.lengths[target] = length

        return back

    def withdraw(self, guest: int) -> None:
        """Take *guest* off its host; where it goes is not known here."""
        self.rows[int(self.host[guest])] -= self.crowd.samples[guest]
        super().withdraw(guest)

    def _carry(self, guest: int, source: int, target: int) -> None:
        super()._carry(guest, source, target)
        self.rows[source] -= self.crowd.samples[guest]
        self.rows[target] += self.crowd.samples[guest]
        length = self.crowd.lengths[guest]
        self.lengths[target] = max(self.lengths[target], length)

    def _fits(self, guest: int, aim: Aim) -> Truths:
        need = self.crowd.need[guest]
        fits = self.load + self.need[guest] <= self._most[aim]
        fits &= self.room[:, 0] >= need[0]
        fits &= self.room[:, 1] >= need[1]
        fits[self.host[guest]] = False
        open_ = fits.any() and self.places.open_to(guest)
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
            return np.lexsort((cpu, self.fleet.thrift[hosts]))
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
