"""Migrations selected at a decision, as in CloudSim 3.0.3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from opendrs.simulation.cloudsim.cpu_sharing import CpuShares
from opendrs.simulation.cloudsim.overload import CloudSimView, OverloadCheck
from opendrs.simulation.cloudsim.selection import SelectGuest
from opendrs.simulation.workload import Floats, Integers, Mask

HostMove = tuple[int, int]  # a guest and its target


class CloudSimPlacement:
    """State of the hosts at a decision, including the moves selected so far.

    The power increase is relative to the last update, not to the moves selected since.
    So
    a host that has received a guest seems more expensive than it is, as in the
    original.
    """

    def __init__(
        self, view: CloudSimView, shares: CpuShares, check: OverloadCheck
    ) -> None:
        self._view, self._check = view, check
        self._core, self._total = view.hosts.core_mips, view.hosts.mips
        self._used, self._free = shares.used.copy(), shares.free.copy()
        self._idle, self._load = shares.used == 0, shares.load
        self._power = view.hosts.power(shares.load)
        self._request: list[float] = view.request.tolist()
        self._guests = _by_host(view)

    def moves(self, select: SelectGuest) -> list[HostMove]:
        """Return the moves off overloaded hosts, then those off drained ones."""
        overloaded = self._check.overloaded
        evicted = [
            guest
            for host in np.flatnonzero(overloaded).tolist()
            for guest in self._relieve(host, select)
        ]
        relief = self._place_each(self._largest_first(evicted), ~overloaded)
        for guest, host in relief:
            self._guests[host].append(guest)
        return relief + self._drain_hosts(~overloaded & ~self._idle)

    def _relieve(self, host: int, select: SelectGuest) -> list[int]:
        """Return the guests to evict from *host* until it is not overloaded."""
        remaining, evicted = list(self._guests[host]), []
        while remaining:
            guest = select(remaining)
            remaining.remove(guest)
            evicted.append(guest)
            if not remaining or not self._check.is_overloaded_with(remaining, host):
                break
        return evicted

    def _largest_first(self, guests: Iterable[int]) -> list[int]:
        return sorted(guests, key=lambda guest: -self._request[guest])

    def _place_each(self, guests: Iterable[int], allowed: Mask) -> list[HostMove]:
        """Place the guests for which there is a target; the others stay."""
        moves = []
        for guest in guests:
            host = self._target(guest, allowed)
            if host is not None:
                self._place(guest, host)
                moves.append((guest, host))
        return moves

    def _drain_hosts(self, allowed: Mask) -> list[HostMove]:
        """Drain hosts, least loaded first; all guests of a host or none."""
        moves, sources = [], allowed.copy()
        for host in self._least_loaded_first(allowed):
            guests = self._guests[host]
            if sources[host] and guests:
                allowed[host] = False
                placed = self._place_all(self._largest_first(guests), allowed)
                sources[[target for _, target in placed]] = False
                moves += placed
        return moves

    def _least_loaded_first(self, hosts: Mask) -> list[int]:
        candidates = np.flatnonzero(hosts & (self._load < 1))
        order = candidates[np.argsort(self._load[candidates], kind="stable")]
        return [int(host) for host in order]

    def _place_all(self, guests: Sequence[int], allowed: Mask) -> list[HostMove]:
        moves: list[HostMove] = []
        undos: list[Callable[[], None]] = []
        for guest in guests:
            host = self._target(guest, allowed)
            if host is None:
                for undo in reversed(undos):
                    undo()
                return []
            undos.append(self._place(guest, host))
            moves.append((guest, host))
        return moves

    def _target(self, guest: int, allowed: Mask) -> int | None:
        """Return the host where the power increases least; the first of equal ones."""
        request = self._request[guest]
        fits = allowed & (self._free >= request) & (self._core >= request)
        hosts = np.flatnonzero(fits)
        if not len(hosts):
            return None
        ordered = hosts[np.argsort(self._growth(request, hosts), kind="stable")]
        exempt = self._used[ordered] == 0
        first = self._check.first_free(guest, ordered, exempt)
        return None if first is None else int(ordered[first])

    def _growth(self, request: float, hosts: Integers) -> Floats:
        after = (self._used[hosts] + request) / self._total[hosts]
        return self._view.hosts.power(after, hosts) - self._power[hosts]

    def _place(self, guest: int, host: int) -> Callable[[], None]:
        used, free = self._used[host], self._free[host]
        self._used[host] += self._request[guest]
        self._free[host] -= self._request[guest]
        undo_check = self._check.add(guest, host)

        def undo() -> None:
            undo_check()
            self._used[host], self._free[host] = used, free

        return undo


def _by_host(view: CloudSimView) -> list[list[int]]:
    guests: list[list[int]] = [[] for _ in view.hosts.mips]
    pairs = zip(
        view.residents.guest.tolist(), view.residents.host.tolist(), strict=True
    )
    for guest, host in pairs:
        guests[host].append(guest)
    return guests
