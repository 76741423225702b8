"""Who must be apart from whom in a simulated data centre."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from opendrs.sim.consolidation.hardware import Integers, Truths


class Travel(Protocol):
    """A guest on its way."""

    @property
    def guest(self) -> int:
        """Return who it is."""

    @property
    def target(self) -> int:
        """Return where it goes."""


class Apart:
    """The hosts that are open to each guest: those without one of its group.

    Args:
        group: Number of the group of each guest; -1 for none.
        hosts: How many hosts there are.
    """

    def __init__(self, group: Integers, hosts: int) -> None:
        self._group = group.tolist()
        self._all = np.ones(hosts, np.bool_)
        self._members: dict[int, list[int]] = {}
        for guest, number in enumerate(self._group):
            if number >= 0:
                self._members.setdefault(number, []).append(guest)
        self._host = np.full(len(group), -1, np.int64)
        self._bound: dict[int, int] = {}

    def begin(self, host: Integers, flights: Iterable[Travel]) -> None:
        """Begin a decision: each guest is on its *host*, or also bound for another."""
        self._host = host.copy()
        self._bound = {flight.guest: flight.target for flight in flights}

    def open_to(self, guest: int) -> Truths:
        """Return which hosts *guest* may go to."""
        group = self._group[guest]
        if group < 0:
            return self._all
        open_ = self._all.copy()
        for other in self._members[group]:
            if other != guest and self._host[other] >= 0:
                open_[self._host[other]] = False
                open_[self._bound.get(other, self._host[other])] = False
        return open_

    def moved(self, guest: int, target: int) -> None:
        """Take note that *guest* is on *target* now."""
        self._host[guest] = target
