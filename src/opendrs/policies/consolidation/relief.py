"""Relief: the move that lowers the risk most comes first, while it is worth it.

The host most likely to lack CPU is looked at first. Of its guests, and of the hosts
that may receive, that pair is taken by which the sum of both risks falls most, as
long as it falls by the price of a migration. A host that is overloaded on average may
also send a guest to a host without any, or to one that is woken for it.
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.consolidation.chances import Chances
from opendrs.policies.consolidation.fleet import DIGITS
from opendrs.policies.consolidation.histories import Floats, Integers, Truths
from opendrs.policies.consolidation.packing import Shift
from opendrs.policies.consolidation.strategy import Foresight

RECEIVERS = 64  # hosts with the least risk that are tried before all others
ROOMLESS = 3  # guests in a row that find no place before a host is given up


class Relief:
    """Decides who leaves hosts that may lack CPU.

    Args:
        way: How.
        chances: The hosts and guests, changed by what is decided.
        free: Which guests may move; who has moved is taken off.
    """

    def __init__(self, way: Foresight, chances: Chances, free: Truths) -> None:
        self._way, self._chances, self._free = way, chances, free
        self._fleet, self._places = chances.fleet, chances.places
        self._on = chances.occupied()
        self._least: Integers | None = None

    def shifts(self) -> list[Shift]:
        """Return who leaves, in this order."""
        waiting = self._promising()
        found: list[Shift] = []
        while waiting.any():
            host = int(np.argmax(np.where(waiting, self._chances.risk, -1.0)))
            move = self._best(host)
            if move is None:
                waiting[host] = False
            else:
                found.append(self._put(*move))
        return found

    def place(self, guest: int) -> Shift | None:
        """Return where *guest* goes, whose own host says that it should leave.

        To the host by which the risk falls most, if that is worth the price; else,
        if its own host is overloaded, to one without guests or to one that is woken.
        """
        move = self._of(np.array([guest])) or self._out(np.array([guest]))
        return None if move is None else self._put(*move)

    def _put(self, guest: int, target: int) -> Shift:
        shift = Shift(guest, int(self._chances.host[guest]), target)
        self._chances.put(guest, target)
        self._free[guest] = False
        self._on[target] = True
        self._least = None
        return shift

    def _promising(self) -> Truths:
        """Return which hosts may have a guest whose leaving is worth the price.

        By the hosts with the least risk, whatever else stands in the way.
        """
        chances, price = self._chances, self._way.price
        risky = self._on & (chances.risk > price)
        guests = np.flatnonzero(self._free & risky[chances.host])
        eased = chances.eased(guests)
        guests, eased = guests[eased > price], eased[eased > price]
        found = np.zeros(len(self._on), np.bool_)
        hosts = self._receivers()
        if len(hosts):
            burdened = chances.burdened(guests, hosts)
            burdened[chances.host[guests, None] == hosts] = np.inf
            guests = guests[eased - burdened.min(axis=1) > price]
            found[chances.host[guests]] = True
        return found | (self._on & chances.overloaded(self._way.full))

    def _receivers(self) -> Integers:
        """Return the occupied hosts with the least risk."""
        if self._least is None:
            hosts = np.flatnonzero(self._on)
            order = np.argsort(self._chances.risk[hosts], kind="stable")
            self._least = np.sort(hosts[order[:RECEIVERS]])
        return self._least

    def _best(self, host: int) -> tuple[int, int] | None:
        """Return who leaves *host* and where to, or None if that is worth nothing."""
        guests = np.flatnonzero(self._free & (self._chances.host == host))
        if not len(guests):
            return None
        return self._of(guests) or self._out(guests)

    def _of(self, guests: Integers) -> tuple[int, int] | None:
        """Return who of *guests* goes to which occupied host."""
        eased = self._chances.eased(guests)
        worth = eased > self._way.price
        guests, eased = guests[worth], eased[worth]
        if not len(guests):
            return None
        found, wanted = self._pair(guests, eased, self._receivers())
        if found is None and wanted and self._on.sum() > RECEIVERS:
            first = np.argsort(-np.round(eased, DIGITS), kind="stable")[:ROOMLESS]
            hosts = np.flatnonzero(self._on)
            found, _ = self._pair(guests[first], eased[first], hosts)
        return found

    def _pair(
        self, guests: Integers, eased: Floats, hosts: Integers
    ) -> tuple[tuple[int, int] | None, bool]:
        """Return the best pair, and whether there were any but for room and rules."""
        gain = eased[:, None] - self._chances.burdened(guests, hosts)
        gain[self._chances.host[guests, None] == hosts] = -1.0
        if not (gain > self._way.price).any():
            return None, False
        gain[~self._chances.has_room(guests, hosts, self._way.relief)] = -1.0
        return self._open_pair(guests, gain, hosts), True

    def _open_pair(
        self, guests: Integers, gain: Floats, hosts: Integers
    ) -> tuple[int, int] | None:
        """Return the pair of most gain that no rule closes."""
        found, most = None, self._way.price
        best = np.round(gain.max(axis=1), DIGITS)
        for row in np.argsort(-best, kind="stable")[:ROOMLESS].tolist():
            if best[row] <= most:
                break
            open_ = self._places.open_to(int(guests[row]))[hosts]
            open_gain = np.round(np.where(open_, gain[row], -1.0), DIGITS)
            place = int(np.argmax(open_gain))
            if open_gain[place] > most:
                found = int(guests[row]), int(hosts[place])
                most = float(open_gain[place])
        return found

    def _out(self, guests: Integers) -> tuple[int, int] | None:
        """Return who of *guests* goes to a host without any, if theirs is overloaded.

        Whoever is alone has nothing to gain by that.
        """
        chances, host = self._chances, int(self._chances.host[guests[0]])
        alone = chances.count[host] == 1 and not self._fleet.stuck[host]
        if alone or not chances.overloaded(self._way.full)[host]:
            return None
        eased = self._chances.eased(guests)
        row = int(np.argmax(np.round(eased, DIGITS)))
        hosts = self._aside(int(guests[row]))[:1]
        if not len(hosts):
            return None
        burdened = self._chances.burdened(guests[row : row + 1], hosts)[0, 0]
        worth = eased[row] - burdened > self._way.price
        return (int(guests[row]), int(hosts[0])) if worth else None

    def _aside(self, guest: int) -> Integers:
        """Return the hosts without guests for *guest*, those that run before others.

        The thriftiest first, and of those the smallest.
        """
        idle = self._fleet.known & ~self._on
        hosts: Integers = np.zeros(0, np.int64)
        for tier in (idle, self._fleet.wakeable & ~self._chances.woken):
            hosts = self._open(guest, tier)
            if len(hosts):
                cpu, thrift = self._fleet.cpu[hosts], self._fleet.thrift[hosts]
                hosts = hosts[np.lexsort((cpu, thrift))]
                break
        return hosts

    def _open(self, guest: int, among: Truths) -> Integers:
        """Return the hosts of *among* that have room for *guest*, and may take it."""
        hosts: Integers = np.flatnonzero(among)
        one = np.array([guest])
        hosts = hosts[self._chances.has_room(one, hosts, self._way.relief)[0]]
        return hosts[self._places.open_to(guest)[hosts]] if len(hosts) else hosts
