"""Who moves where at a decision, as CloudSim 3.0.3 decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from opendrs.sim.consolidation.hardware import Floats, Integers, Truths
from opendrs.sim.consolidation.selectors import Select
from opendrs.sim.consolidation.sharing import Shares
from opendrs.sim.consolidation.watches import View, Watch

Move = tuple[int, int]  # a guest and its target


class Packing:
    """The hosts at a decision, with everything moved that was decided so far.

    Power is compared with that of the last update, not with that after the moves
    decided since: what has received looks dearer than it is, as in the original.
    """

    def __init__(self, view: View, shares: Shares, watch: Watch) -> None:
        self._view, self._watch = view, watch
        self._core, self._total = view.hosts.core, view.hosts.total
        self._used, self._free = shares.used.copy(), shares.free.copy()
        self._idle, self._load = shares.used == 0, shares.load
        self._power = view.hosts.power(shares.load)
        self._request: list[float] = view.request.tolist()
        self._guests = _by_host(view)

    def moves(self, select: Select) -> list[Move]:
        """Return who leaves overloaded hosts, then who leaves emptied ones."""
        overloaded = self._watch.overloaded
        leaving = [
            guest
            for host in np.flatnonzero(overloaded).tolist()
            for guest in self._relieve(host, select)
        ]
        relief = self._place_each(self._largest_first(leaving), ~overloaded)
        for guest, host in relief:
            self._guests[host].append(guest)
        return relief + self._empty(~overloaded & ~self._idle)

    def _relieve(self, host: int, select: Select) -> list[int]:
        """Return who leaves *host* until it is overloaded no more."""
        staying, leaving = list(self._guests[host]), []
        while staying:
            guest = select(staying)
            staying.remove(guest)
            leaving.append(guest)
            if not staying or not self._watch.is_overloaded_by(staying, host):
                break
        return leaving

    def _largest_first(self, guests: Iterable[int]) -> list[int]:
        return sorted(guests, key=lambda guest: -self._request[guest])

    def _place_each(self, guests: Iterable[int], allowed: Truths) -> list[Move]:
        """Place whom there is room for; the others stay."""
        found = []
        for guest in guests:
            host = self._target(guest, allowed)
            if host is not None:
                self._put(guest, host)
                found.append((guest, host))
        return found

    def _empty(self, allowed: Truths) -> list[Move]:
        """Empty hosts, the least loaded first, all of a host's guests or none."""
        moves, sources = [], allowed.copy()
        for host in self._least_loaded_first(allowed):
            guests = self._guests[host]
            if sources[host] and guests:
                allowed[host] = False
                found = self._place_all(self._largest_first(guests), allowed)
                sources[[target for _, target in found]] = False
                moves += found
        return moves

    def _least_loaded_first(self, hosts: Truths) -> list[int]:
        asked = np.flatnonzero(hosts & (self._load < 1))
        order = asked[np.argsort(self._load[asked], kind="stable")]
        return [int(host) for host in order]

    def _place_all(self, guests: Sequence[int], allowed: Truths) -> list[Move]:
        found: list[Move] = []
        undone: list[Callable[[], None]] = []
        for guest in guests:
            host = self._target(guest, allowed)
            if host is None:
                for undo in reversed(undone):
                    undo()
                return []
            undone.append(self._put(guest, host))
            found.append((guest, host))
        return found

    def _target(self, guest: int, allowed: Truths) -> int | None:
        """Return where the power grows least; the first among equals."""
        request = self._request[guest]
        room = allowed & (self._free >= request) & (self._core >= request)
        hosts = np.flatnonzero(room)
        if not len(hosts):
            return None
        ordered = hosts[np.argsort(self._growth(request, hosts), kind="stable")]
        exempt = self._used[ordered] == 0
        first = self._watch.first_free(guest, ordered, exempt)
        return None if first is None else int(ordered[first])

    def _growth(self, request: float, hosts: Integers) -> Floats:
        after = (self._used[hosts] + request) / self._total[hosts]
        return self._view.hosts.power(after, hosts) - self._power[hosts]

    def _put(self, guest: int, host: int) -> Callable[[], None]:
        used, free = self._used[host], self._free[host]
        self._used[host] += self._request[guest]
        self._free[host] -= self._request[guest]
        forget = self._watch.add(guest, host)

        def undo() -> None:
            forget()
            self._used[host], self._free[host] = used, free

        return undo


def _by_host(view: View) -> list[list[int]]:
    guests: list[list[int]] = [[] for _ in view.hosts.total]
    pairs = zip(
        view.residents.guest.tolist(), view.residents.host.tolist(), strict=True
    )
    for guest, host in pairs:
        guests[host].append(guest)
    return guests
