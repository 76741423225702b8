"""The guests that may be moved, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from opendrs.model import GIB, Limits, Mobility
from opendrs.model.resources import NOTHING
from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.optimising.parties import Party
from opendrs.rules import Room, need
from opendrs.scoring import ASSUMED_BANDWIDTH, UsageMode, demand

RESOURCES = 3
CPU, USED, PROMISED = range(RESOURCES)  # cores, and bytes used and promised
OVERHEAD = 0.25  # GiB that a move is taken to cost besides its memory
DOWNTIME = 4.0  # how much dearer it is to move a guest that must be stopped for that
DIRTIEST = 0.9  # part of the bandwidth from which copying is taken not to get dearer


class Movers:
    """The guests that may be moved: H of them in G units.

    Attributes:
        guests: They, unit by unit.
        unit: The unit of each; shape (H,).

    Args:
        parties: The units.
        mode: What counts as load.
        limits: What the operator allows.
    """

    def __init__(
        self, parties: Sequence[Party], mode: UsageMode, limits: Limits
    ) -> None:
        self.guests = tuple(guest for party in parties for guest in party.guests)
        sizes = [len(party.guests) for party in parties]
        self.unit: Indices = np.repeat(np.arange(len(sizes)), sizes)
        self._units = len(parties)
        away = [guest.node != each.home for each in parties for guest in each.guests]
        self._astray = np.array(away, np.bool_)
        self._mode = mode
        self._limits = limits

    @cached_property
    def taken(self) -> Floats:
        """What each guest takes; what is not known counts 0; shape (H, R)."""
        cpu = [(demand(guest, self._mode) or NOTHING).cpu for guest in self.guests]
        rows = [(c, *known(asked)) for c, asked in zip(cpu, self._asked, strict=True)]
        return np.array(rows, float).reshape(-1, RESOURCES)

    @cached_property
    def known(self) -> Mask:
        """Whether it is known what memory each unit takes; shape (G,)."""
        missing = [None in (each.used, each.promised) for each in self._asked]
        known: Mask = self._of_units(np.array(missing, np.bool_)) == 0
        return known

    @cached_property
    def _asked(self) -> tuple[Room, ...]:
        """What each guest asks of a node."""
        return tuple(need((guest,)) for guest in self.guests)

    @cached_property
    def demand(self) -> Floats:
        """What each unit takes of each resource; shape (G, R)."""
        return summed(self.unit, self.taken, self._units)

    @cached_property
    def transfer(self) -> Floats:
        """The memory that leaving home transfers more than staying, in GiB; (G,)."""
        return self._of_units(self._memory * ~self._astray)

    @cached_property
    def gathering(self) -> Floats:
        """The memory that bringing each unit home transfers, in GiB; shape (G,)."""
        return self._of_units(self._memory * self._astray)

    @cached_property
    def strays(self) -> int:
        """How many guests are not at home."""
        return int(self._astray.sum())

    @cached_property
    def count(self) -> Floats:
        """How many guests move more when a unit leaves its home; shape (G,)."""
        return self._of_units(~self._astray)

    @cached_property
    def effort(self) -> Floats:
        """What leaving home costs more than staying, in GiB or what is as bad; (G,).

        Pages that are written while they are copied are copied again, so that memory V
        takes about V / (1 - D/B) at a dirty rate D and a bandwidth B. What has to be
        stopped is dearer.

        Source:
            Clark et al., Live migration of virtual machines (NSDI 2005).
        """
        bandwidth = self._limits.bandwidth or ASSUMED_BANDWIDTH
        dirty = np.array([guest.dirty_rate or 0.0 for guest in self.guests]) / bandwidth
        live = np.array(
            [guest.mobility is Mobility.LIVE for guest in self.guests], np.bool_
        )
        copied = self._memory / (1 - np.minimum(dirty, DIRTIEST)) + OVERHEAD
        stopped = DOWNTIME * (self._memory + OVERHEAD)
        return self._of_units(np.where(live, copied, stopped) * ~self._astray)

    @cached_property
    def _memory(self) -> Floats:
        """The memory of each guest, in GiB; shape (H,)."""
        return np.array([guest.usage.memory or 0 for guest in self.guests]) / GIB

    def _of_units(self, each: Floats | Mask) -> Floats:
        """Return the sum over the guests of each unit; shape (G,)."""
        return np.bincount(self.unit, each, self._units).astype(np.float64)


def known(room: Room) -> tuple[float, float]:
    """Return the memory used and promised of *room*; what is not known counts 0."""
    return room.used or 0.0, room.promised or 0.0


def summed(where: Indices, rows: Floats, count: int) -> Floats:
    """Return the sum of the rows of each of *count* places; shape (count, R)."""
    columns = [np.bincount(where, each, count) for each in rows.T]
    return np.column_stack(columns).astype(np.float64)
