"""How guests behave, drawn from a seed: always the same for the same guest."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from opendrs.model import Guest

MIB = 1 << 20
TYPICAL_DIRTY_RATE = 12.0 * MIB  # bytes/s; a web server, Clark et al. (2005), fig. 7
HIGHEST_DIRTY_RATE = 160.0 * MIB


@dataclass(frozen=True, slots=True)
class Temper:
    """How one guest behaves.

    Attributes:
        dirty_rate: Bytes of memory written anew per second.
        working_set: Part of the memory in use, in [0, 1], that is written to.
        phase: Where in the swing of its load the guest begins, in [0, 1].
        period: Seconds between two peaks of its load.
    """

    dirty_rate: float
    working_set: float
    phase: float
    period: float

    def swing(self, elapsed: float) -> float:
        """Return how its load stands after *elapsed* seconds, from -2 to 2.

        It is 0 in the beginning, so that the load is then as it was drawn.
        """
        turn = 2 * math.pi
        return math.sin(turn * (elapsed / self.period + self.phase)) - math.sin(
            turn * self.phase
        )


def temper_of(guest: Guest, seed: int) -> Temper:
    """Return how *guest* behaves in the world of that *seed*."""
    # By name, so that one guest more or less changes nothing for the others.
    draw = random.Random(f"{seed}:{guest.id}")  # noqa: S311 - no secret
    rate = draw.lognormvariate(math.log(TYPICAL_DIRTY_RATE), 0.9)
    return Temper(
        dirty_rate=min(rate, HIGHEST_DIRTY_RATE),
        working_set=draw.uniform(0.05, 0.25),
        phase=draw.random(),
        period=draw.uniform(300, 1500),
    )
