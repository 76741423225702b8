"""What is told, interval by interval, to somebody who watches a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opendrs.sim.consolidation.hardware import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What has been added up since the beginning.

    Attributes:
        seconds: How long that is.
        joules: Energy of all hosts.
        on: Host seconds in which hosts were not asleep.
        active: Host seconds in which they had guests.
        overloaded: Host seconds in which more was asked of them than they have.
        asked: MIPS seconds that guests asked for.
        capacity: MIPS seconds that active hosts had.
        migrations: How many were decided.
    """

    seconds: float
    joules: float
    on: float
    active: float
    overloaded: float
    asked: float
    capacity: float
    migrations: int


Watcher = Callable[[Sums, Floats], None]
"""Called after each interval; the second is the load of each host at its end: what
is asked of it as part of its CPU, 0 without guests, NaN while it sleeps."""
