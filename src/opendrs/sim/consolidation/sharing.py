"""How the CPU of each host is divided among its guests.

A guest that leaves gets nine tenths of its share, one that arrives a tenth; where
more is asked than there is, all are scaled and cut off to whole MIPS.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.sim.consolidation.hardware import Floats, Hosts, Integers, Truths

LEAVING, ARRIVING = 0.9, 0.1
CLIPPED = 1.01  # a load that little above 1 is rounding


@dataclass(frozen=True, slots=True)
class Residents:
    """Who is on which host, in the order they came; each of shape (residents,)."""

    guest: Integers
    host: Integers


@dataclass(frozen=True, slots=True)
class Flights:
    """Who is on the way where, in the order they started; shape (flights,)."""

    guest: Integers
    target: Integers

    @staticmethod
    def of(moves: list[tuple[int, int]]) -> Flights:
        """Return *moves*, of a guest to a host each."""
        return Flights(*np.array(moves, dtype=np.int64).reshape(-1, 2).T)

    def where(self, chosen: Truths) -> Flights:
        """Return those that are *chosen*."""
        return Flights(self.guest[chosen], self.target[chosen])


NOBODY = Flights(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class Shares:
    """What everybody gets from now on.

    Attributes:
        guest: The residents.
        requested: MIPS that each of them asks for.
        allocated: MIPS that each of them gets.
        leaving: Whether each of them is on the way elsewhere.
        used: MIPS in use on each host; shape (hosts,).
        asked: MIPS that are asked for on each host.
        free: MIPS left on each host.
        load: Part of its MIPS in use on each host.
    """

    guest: Integers
    requested: Floats
    allocated: Floats
    leaving: Truths
    used: Floats
    asked: Floats
    free: Floats
    load: Floats


def summed(host: Integers, amounts: Floats, hosts: int) -> Floats:
    """Return the sum of *amounts* on each host, added in their order."""
    return np.asarray(np.bincount(host, amounts, hosts), dtype=np.float64)


def divide(
    hosts: Hosts, residents: Residents, flights: Flights, request: Floats
) -> Shares:
    """Return what everybody gets.

    Args:
        hosts: The hosts.
        residents: Who is where.
        flights: Who is on the way; they are residents too, where they come from.
        request: MIPS that each guest asks for; shape (guests,).
    """
    # Sums are taken in the order in which guests came, as in the original:
    # what is the same but for rounding is told apart by it.
    count = len(hosts.total)
    host = np.concatenate([residents.host, flights.target])
    requested = request[np.concatenate([residents.guest, flights.guest])]
    factor = np.ones(len(host))
    factor[len(residents.host) :] = ARRIVING
    capped = np.minimum(requested, hosts.core[host]) * factor
    taken = summed(host, capped, count)
    full = taken > hosts.total
    leaving = np.zeros(len(request), np.bool_)
    leaving[flights.guest] = True
    out = np.zeros(len(host), np.bool_)
    out[: len(residents.host)] = leaving[residents.guest]
    allocated = _allocated(hosts, host, capped, taken, out)
    used = summed(host, np.where(out, allocated / LEAVING, allocated), count)
    here = slice(len(residents.host))
    return Shares(
        guest=residents.guest,
        requested=requested[here],
        allocated=allocated[here],
        leaving=out[here],
        used=used,
        asked=summed(host, requested, count),
        free=np.where(full, 0.0, hosts.total - taken),
        load=_load(used, hosts.total),
    )


def _allocated(
    hosts: Hosts, host: Integers, capped: Floats, taken: Floats, out: Truths
) -> Floats:
    part = np.where(out, LEAVING, 1.0)
    full = taken > hosts.total
    if not full.any():
        return capped * part
    scale = np.ones(len(taken))
    scale[full] = hosts.total[full] / taken[full]
    scaled = np.floor(capped * scale[host] * part)
    return np.where(full[host], scaled, capped * part)


def _load(used: Floats, total: Floats) -> Floats:
    load = used / total
    load[(load > 1) & (load < CLIPPED)] = 1.0
    return load
