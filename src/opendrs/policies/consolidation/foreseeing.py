"""Who moves where, by the risk of each host to lack CPU.

Over columns, as the other way in `decision`: relief comes first, then hosts are
emptied, and nobody moves twice.
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.consolidation.chances import Chances
from opendrs.policies.consolidation.clearance import Clearance
from opendrs.policies.consolidation.detection import Tallies
from opendrs.policies.consolidation.fleet import DIGITS, Crowd, Fleet, Places, Told
from opendrs.policies.consolidation.histories import Floats, Truths
from opendrs.policies.consolidation.moves import Moves
from opendrs.policies.consolidation.packing import Shift
from opendrs.policies.consolidation.relief import Relief
from opendrs.policies.consolidation.strategy import Foresight


class Foreseeing:
    """Decides by the forecast.

    Args:
        way: How.
        fleet: The hosts.
        crowd: The guests.
        places: Which hosts are open to whom.
    """

    def __init__(
        self, way: Foresight, fleet: Fleet, crowd: Crowd, places: Places
    ) -> None:
        self._way, self._fleet, self._crowd = way, fleet, crowd
        self._chances = Chances(way.last_n, fleet, crowd, places)
        self._free = crowd.movable.copy()
        self._before = self._chances.risk.copy()

    def moves(self, tallies: Tallies, _migration: Floats) -> Moves:
        """Return who moves where; what detectors remember is kept as it is."""
        overloaded = self._chances.overloaded(self._way.full)
        relief = Relief(self._way, self._chances, self._free).shifts()
        return self._moves(relief, overloaded, self._fleet.known, tallies)

    def moves_told(self, told: Told) -> Moves:
        """Return who moves where, with each host's own word for its load."""
        overloaded = told.overloaded & self._fleet.known
        relieving = Relief(self._way, self._chances, self._free)
        relief = [
            shift
            for host in np.flatnonzero(overloaded).tolist()
            for guest in told.leaving.get(host, ())
            if self._free[guest]
            for shift in [relieving.place(guest)]
            if shift is not None
        ]
        sources = told.underloaded & self._fleet.known & ~overloaded
        none = Tallies.none(len(overloaded))
        return self._moves(relief, overloaded, sources, none)

    def judged(self, tallies: Tallies, _migration: Floats) -> tuple[Told, Tallies]:
        """Return what hosts say of themselves.

        A host whose own risk is beyond the bound names who should leave until it
        keeps it; any other can be emptied for all it knows.
        """
        overloaded = self._fleet.known & (self._before > self._way.bound)
        leaving = {
            host: self._leaving(host) for host in np.flatnonzero(overloaded).tolist()
        }
        little = self._chances.load <= self._way.underload * self._fleet.cpu
        underloaded = self._fleet.known & ~overloaded & little
        return Told(overloaded, underloaded, leaving), tallies

    def _moves(
        self, relief: list[Shift], overloaded: Truths, sources: Truths, tallies: Tallies
    ) -> Moves:
        clearance = Clearance(self._way, self._chances, self._free)
        emptying = clearance.shifts(sources)
        return Moves(
            relief, emptying, overloaded, tallies, self._chances, risk=self._before
        )

    def _leaving(self, host: int) -> list[int]:
        """Return who should leave *host*, the one that eases it most first."""
        found: list[int] = []
        while self._chances.risk[host] > self._way.bound:
            guests = self._chances.guests_on(host)
            guests = guests[self._free[guests]]
            eased: Floats = np.round(self._chances.eased(guests), DIGITS)
            if not len(guests) or eased.max() <= self._way.price:
                break
            found.append(int(guests[np.argmax(eased)]))
            self._chances.withdraw(found[-1])
        return found
