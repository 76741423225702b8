"""Who leaves a node, and how many arrive."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opendrs.policies.optimising.groups import Indices, Mask


@dataclass(frozen=True, slots=True)
class Choice:
    """What nodes choose, or may choose; all of shape (C,).

    Attributes:
        leaving: The set of large units that leaves; it tells which node it is.
        small: How many small units leave besides.
        arrived: How many units arrive, at least: what is paid for.
        most: How many of them arrive at most.
    """

    leaving: Indices
    small: Indices
    arrived: Indices
    most: Indices

    @classmethod
    def of_nobody(cls, first: Indices) -> Choice:
        """Return the choice of the sets that are *first*, the empty ones."""
        return cls.of_departures(first.copy(), np.zeros_like(first))

    @classmethod
    def of_departures(cls, leaving: Indices, small: Indices) -> Choice:
        """Return the choice with which nobody arrives."""
        return cls(leaving, small, np.zeros_like(small), np.zeros_like(small))

    def with_arrivals(self, least: int, most: int) -> Choice:
        """Return it with so many who arrive."""
        return replace(
            self,
            arrived=np.full_like(self.small, least),
            most=np.full_like(self.small, most),
        )

    def part(self, which: Indices | Mask) -> Choice:
        """Return a part of what is chosen."""
        return Choice(
            self.leaving[which],
            self.small[which],
            self.arrived[which],
            self.most[which],
        )

    def put(self, places: Indices, chosen: Choice) -> None:
        """Choose in these *places* what is *chosen*."""
        self.leaving[places] = chosen.leaving
        self.small[places] = chosen.small
        self.arrived[places] = chosen.arrived
        self.most[places] = chosen.most
