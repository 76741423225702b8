"""Who moves where: overloaded hosts are relieved, then others emptied.

Over columns, so that a policy on a platform and a simulation decide alike; by a
forecast of each host's load (`foreseeing`), or by a detector, as follows.
Relief comes first: from each overloaded host guests leave one by one until the
detector is content, each to where there is room, and hosts are woken where there is
none. Then hosts that have little to do are emptied, the least loaded first, all of
a host's guests or none, and onto hosts that have guests already. A host that
received a guest is not emptied, and nobody moves twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from opendrs.policies.consolidation.detection import Tallies
from opendrs.policies.consolidation.fleet import Crowd, Fleet, Places, Told
from opendrs.policies.consolidation.foreseeing import Foreseeing
from opendrs.policies.consolidation.histories import Floats, Histories, Integers, Truths
from opendrs.policies.consolidation.moves import Moves
from opendrs.policies.consolidation.packing import Shift
from opendrs.policies.consolidation.selection import GuestColumns
from opendrs.policies.consolidation.shelves import Aim, Shelves
from opendrs.policies.consolidation.strategy import Foresight, Strategy

ROOMLESS = 3  # guests in a row that find no place before a host is given up


def decided(
    strategy: Strategy | Foresight,
    fleet: Fleet,
    crowd: Crowd,
    places: Places,
    judging: tuple[Tallies, Floats] | Told,
) -> Moves:
    """Return who should move where.

    Args:
        strategy: How.
        fleet: The hosts.
        crowd: The guests.
        places: Which hosts are open to whom.
        judging: What the detector remembers of each host, and how many sampling
            intervals it takes to move a guest off it; or what the hosts say of
            themselves.
    """
    deciding = _deciding(strategy, fleet, crowd, places)
    if isinstance(judging, Told):
        return deciding.moves_told(judging)
    return deciding.moves(*judging)


def judged(
    strategy: Strategy | Foresight,
    fleet: Fleet,
    crowd: Crowd,
    places: Places,
    judging: tuple[Tallies, Floats],
) -> tuple[Told, Tallies]:
    """Return what hosts say of themselves, and what the detector remembers.

    The arguments are those of `decided`.
    """
    return _deciding(strategy, fleet, crowd, places).judged(*judging)


def _deciding(
    strategy: Strategy | Foresight, fleet: Fleet, crowd: Crowd, places: Places
) -> _Detecting | Foreseeing:
    if isinstance(strategy, Foresight):
        return Foreseeing(strategy, fleet, crowd, places)
    return _Detecting(strategy, fleet, crowd, places)


class _Detecting:
    def __init__(
        self, strategy: Strategy, fleet: Fleet, crowd: Crowd, places: Places
    ) -> None:
        self._strategy, self._fleet, self._crowd = strategy, fleet, crowd
        self._packing = Shelves(strategy, fleet, crowd, places)
        self._moved = np.zeros(len(crowd.host), np.bool_)
        self._received = np.zeros(len(fleet.cpu), np.bool_)

    def moves(self, tallies: Tallies, migration: Floats) -> Moves:
        histories = self._packing.histories()
        verdicts = self._strategy.detector.judge_all(histories, tallies, migration)
        overloaded = verdicts.overloaded & self._fleet.known
        relief = [
            shift
            for host in np.flatnonzero(overloaded)
            for shift in self._relieve(int(host), overloaded, tallies, migration)
        ]
        little = self._strategy.underload.all_underloaded(histories)
        emptying = self._empty(overloaded, little)
        return Moves(relief, emptying, overloaded, verdicts.tallies, self._packing)

    def judged(self, tallies: Tallies, migration: Floats) -> tuple[Told, Tallies]:
        histories = self._packing.histories()
        little = self._strategy.underload.all_underloaded(histories)
        verdicts = self._strategy.detector.judge_all(histories, tallies, migration)
        overloaded = verdicts.overloaded & self._fleet.known
        leaving = {
            host: self._leaving(host, tallies, migration)
            for host in np.flatnonzero(overloaded).tolist()
        }
        told = Told(overloaded, little & self._fleet.known & ~overloaded, leaving)
        return told, verdicts.tallies

    def _leaving(self, host: int, tallies: Tallies, migration: Floats) -> list[int]:
        """Return who should leave *host* until the detector is content."""
        found: list[int] = []
        for guest in self._leaving_order(host):
            found.append(guest)
            self._packing.withdraw(guest)
            if not self._still(host, tallies, migration):
                break
        return found

    def moves_told(self, told: Told) -> Moves:
        """Return who moves where, with each host's own word for its load."""
        overloaded = told.overloaded & self._fleet.known
        relief = [
            shift
            for host in np.flatnonzero(overloaded).tolist()
            for shift in self._place(told.leaving.get(host, ()), overloaded)
        ]
        emptying = self._empty(overloaded, told.underloaded)
        tallies = Tallies.none(len(overloaded))
        return Moves(relief, emptying, overloaded, tallies, self._packing)

    def _place(self, leaving: Sequence[int], overloaded: Truths) -> Iterator[Shift]:
        """Give those who should leave a host a place, where there is one."""
        receiving = self._fleet.known & ~overloaded
        for guest in leaving:
            if self._crowd.movable[guest] and not self._moved[guest]:
                target = self._packing.target(guest, receiving, Aim.RELIEF)
                if target is not None:
                    yield self._put(guest, target)[0]

    def _relieve(
        self, host: int, overloaded: Truths, tallies: Tallies, migration: Floats
    ) -> list[Shift]:
        receiving = self._fleet.known & ~overloaded
        found: list[Shift] = []
        roomless = 0
        for guest in self._leaving_order(host):
            target = self._packing.target(guest, receiving, Aim.RELIEF)
            if target is None:
                roomless += 1
                if roomless >= ROOMLESS:
                    break
                continue
            found.append(self._put(guest, target)[0])
            if not self._still(host, tallies, migration):
                break
        return found

    def _put(self, guest: int, target: int) -> tuple[Shift, Callable[[], None]]:
        shift = Shift(guest, int(self._packing.host[guest]), target)
        undo = self._packing.put(guest, target)
        self._moved[guest] = self._received[target] = True
        return shift, undo

    def _still(self, host: int, tallies: Tallies, migration: Floats) -> bool:
        """Return whether *host* would be overloaded with those who are left."""
        one = np.array([host])
        tally = Tallies(tallies.seen[one], tallies.overloaded[one])
        histories = self._packing.histories(one)
        verdicts = self._strategy.detector.judge_all(histories, tally, migration[one])
        return bool(verdicts.overloaded[0])

    def _leaving_order(self, host: int) -> list[int]:
        guests = self._packing.guests_on(host)
        guests = guests[self._crowd.movable[guests] & ~self._moved[guests]]
        if self._strategy.selection is None:
            return self._least_sufficient(host, guests)
        columns = GuestColumns(
            np.zeros(len(guests), np.int64),
            self._crowd.memory[guests],
            Histories(self._crowd.samples[guests], self._crowd.lengths[guests]),
        )
        keys = self._strategy.selection.key_columns(columns)
        order = np.lexsort((guests, *reversed(keys)))
        return [int(guest) for guest in guests[order]]

    def _least_sufficient(self, host: int, guests: Integers) -> list[int]:
        """Return the smallest guest that suffices first, then the largest ones."""
        need = self._crowd.samples[guests, -1]
        most = self._strategy.relief * self._fleet.cpu[host]
        excess = self._packing.rows[host, -1] - most
        enough = need >= excess
        rank = np.where(enough, need, -need)
        order = np.lexsort((guests, rank, ~enough))
        return [int(guest) for guest in guests[order[need[order] > 0]]]

    def _empty(self, overloaded: Truths, little: Truths) -> list[list[Shift]]:
        sources = self._sources(overloaded, little)
        receiving = self._fleet.known & ~overloaded
        load = self._packing.load / self._fleet.cpu
        found: list[list[Shift]] = []
        failures = 0
        for host in sources[np.argsort(load[sources], kind="stable")].tolist():
            if failures >= self._strategy.attempts:
                break
            if len(found) >= self._strategy.emptied:
                break
            if self._received[host]:
                continue
            receiving[host] = False
            moved = self._vacate(host, receiving)
            failures = 0 if moved else failures + 1
            receiving[host] = not moved
            found += [moved] if moved else []
        return found

    def _sources(self, overloaded: Truths, little: Truths) -> Integers:
        """Return the hosts of those with *little* to do whose guests may all move."""
        fixed = np.zeros(len(little), np.bool_)
        held = ~self._crowd.movable | self._moved
        fixed[self._packing.host[held]] = True
        may = little & self._fleet.known & ~self._fleet.stuck & ~overloaded & ~fixed
        return np.flatnonzero(may & (self._packing.count > 0))

    def _vacate(self, host: int, receiving: Truths) -> list[Shift]:
        """Return how all guests leave *host*; nothing if one finds no room."""
        guests = self._packing.guests_on(host)
        order = np.lexsort((guests, -self._packing.need[guests]))
        done: list[tuple[Shift, Callable[[], None]]] = []
        received = self._received.copy()
        for guest in guests[order].tolist():
            target = self._packing.target(guest, receiving, Aim.EMPTYING)
            if target is None:
                for shift, undo in reversed(done):
                    undo()
                    self._moved[shift.guest] = False
                self._received = received
                return []
            done.append(self._put(guest, target))
        return [shift for shift, _ in done]
