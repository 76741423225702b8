"""Clearance: hosts are emptied while the others can carry what is asked of them.

How many hosts can go is reckoned first, as if what they do could be divided evenly
among those that stay. Then they are emptied one by one, the least thrifty first and
of those the one with the least memory to move: all of a host's guests or none, each
to where the risk grows least, and only as long as the risk of the hosts that stay
keeps the bound on average.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opendrs.policies.consolidation.chances import Chances
from opendrs.policies.consolidation.fleet import DIGITS
from opendrs.policies.consolidation.forecast import overload
from opendrs.policies.consolidation.histories import Integers, Truths
from opendrs.policies.consolidation.packing import Shift, sums_on_hosts
from opendrs.policies.consolidation.strategy import Foresight

GRAIN = 0.003  # difference of risk below which links decide that have less to do


class Clearance:
    """Decides which hosts are emptied, and where their guests go.

    Args:
        way: How.
        chances: The hosts and guests, changed by what is decided.
        free: Which guests may move.
    """

    def __init__(self, way: Foresight, chances: Chances, free: Truths) -> None:
        self._way, self._chances, self._free = way, chances, free
        self._cpu = chances.fleet.cpu
        # Who is beyond help receives nobody, and keeps no other host awake.
        self._on = chances.occupied() & ~chances.overloaded(way.full)

    def shifts(self, sources: Truths) -> list[list[Shift]]:
        """Return who leaves each host that is emptied, in this order.

        Args:
            sources: Which hosts may be emptied; shape (hosts,).
        """
        hosts = self._in_order(self._clearable(sources))
        hosts = hosts[: self._spared(hosts)]
        receiving = self._on.copy()
        receiving[hosts] = False
        found: list[list[Shift]] = []
        failures = 0
        for host in hosts[: self._way.emptied].tolist():
            if failures >= self._way.attempts:
                break
            shifts = self._clear(host, receiving)
            failures = 0 if shifts else failures + 1
            self._on[host] = receiving[host] = not shifts
            found += [shifts] if shifts else []
        return found

    def _clearable(self, sources: Truths) -> Integers:
        """Return the hosts of *sources* whose guests are known, and may all move."""
        chances = self._chances
        fixed = np.zeros(len(sources), np.bool_)
        measured = np.isfinite(chances.crowd.need).all(axis=1)
        fixed[chances.host[~(self._free & measured)]] = True
        busy = (chances.count > 0) & (chances.load <= self._way.underload * self._cpu)
        found = sources & busy & ~fixed & ~chances.fleet.stuck
        return np.flatnonzero(found & self._on & ~chances.woken)

    def _in_order(self, hosts: Integers) -> Integers:
        chances = self._chances
        memory = np.bincount(chances.host, chances.crowd.memory, len(self._on))
        thrift = chances.fleet.thrift
        return hosts[np.lexsort((np.round(memory[hosts], DIGITS), -thrift[hosts]))]

    def _spared(self, hosts: Integers) -> int:
        """Return how many of the first *hosts* could go by the sums of the others.

        An upper limit: CPU as if it could be divided evenly, memory as if it could
        be filled to the last byte.
        """
        chances, on = self._chances, self._on
        cpu = self._cpu[on].sum() - np.cumsum(self._cpu[hosts])
        left = on.sum() - np.arange(1, len(hosts) + 1)
        enough = (left >= 1) & (cpu > 0)
        each = np.where(enough, 1 / np.maximum(left, 1), 1.0)
        load, variance = chances.load[on].sum(), chances.variance[on].sum()
        risk = overload(load * each, variance * each, np.where(enough, cpu, 1.0) * each)
        able = enough & (risk <= self._way.bound) & self._memory_suffices(hosts)
        return int(np.flatnonzero(able).max(initial=-1)) + 1

    def _memory_suffices(self, hosts: Integers) -> Truths:
        """Return whether the others have the memory, with each of *hosts* gone too."""
        chances = self._chances
        free = np.maximum(chances.room, 0.0)
        asked = sums_on_hosts(chances.crowd.need, chances.host, len(free))
        room = free[self._on].sum(axis=0) - np.cumsum(free[hosts], axis=0)
        return np.asarray((np.cumsum(asked[hosts], axis=0) <= room).all(axis=1))

    def _clear(self, host: int, receiving: Truths) -> list[Shift]:
        """Return how all guests leave *host*; nothing if that cannot be."""
        guests = self._chances.guests_on(host)
        order = np.lexsort((guests, -self._chances.need[guests]))
        undo: list[Callable[[], None]] = []
        found: list[Shift] = []
        for guest in guests[order].tolist():
            target = self._target(guest, receiving)
            if target is None:
                break
            undo.append(self._chances.put(guest, target))
            found.append(Shift(guest, host, target))
        if len(found) == len(guests) and self._bounded(host):
            self._free[guests] = False
            return found
        for back in reversed(undo):
            back()
        return []

    def _target(self, guest: int, receiving: Truths) -> int | None:
        chances, one = self._chances, np.array([guest])
        hosts = np.flatnonzero(receiving)
        hosts = hosts[chances.has_room(one, hosts, self._way.target)[0]]
        if not len(hosts):
            return None
        hosts = hosts[chances.places.open_to(guest)[hosts]]
        if not len(hosts):
            return None
        grains = np.floor(chances.burdened(one, hosts)[0] / GRAIN)
        arriving = np.maximum(chances.arriving[hosts], 0)
        return int(hosts[np.lexsort((arriving, grains))[0]])

    def _bounded(self, host: int) -> bool:
        """Return whether the others keep the bound on average without *host*."""
        left = self._on.copy()
        left[host] = False
        return bool(left.any()) and bool(
            self._chances.risk[left].mean() <= self._way.bound
        )
