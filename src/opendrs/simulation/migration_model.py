"""Duration of actions: pre-copy of memory, and how fast guests write to it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Protocol

from opendrs.model import Guest
from opendrs.ports import Progress

MIN_TRANSFER = 64 << 20  # bytes: not even an idle guest has less to transfer


class TimedOperation(Protocol):
    """Something that is under way, and asks for attention at certain times.

    The bandwidth, in bytes a second, is constant between these times.
    """

    def time_to_event(self, bandwidth: float) -> float:
        """Return the seconds until something about it changes by itself."""

    def run(self, seconds: float, bandwidth: float) -> None:
        """Let *seconds* pass, no more than `time_to_event` said."""

    def handle_event(self, bandwidth: float) -> bool:
        """Do what is due, if anything is; return whether all is done."""

    def progress(self, bandwidth: float) -> Progress:
        """Return how far it is."""

    @property
    def received(self) -> int:
        """Return the bytes of memory that the target holds already."""


@dataclass(slots=True)
class FixedDuration:
    """Something that takes a fixed time and sends nothing, such as a restart."""

    remaining: float

    def time_to_event(self, bandwidth: float) -> float:  # noqa: ARG002 - a Protocol
        """Return the seconds until the end."""
        return self.remaining

    def run(self, seconds: float, bandwidth: float) -> None:  # noqa: ARG002
        """Let *seconds* pass."""
        self.remaining -= seconds

    def handle_event(self, bandwidth: float) -> bool:  # noqa: ARG002 - a Protocol
        """Return whether the time is over."""
        return self.remaining <= 0

    def progress(self, bandwidth: float) -> Progress:  # noqa: ARG002 - a Protocol
        """Return nothing: there is nothing to count."""
        return Progress()

    @property
    def received(self) -> int:
        """Return 0: the memory of a guest that restarts is not transferred."""
        return 0


class PreCopy:
    """The memory of a running guest on its way, round after round.

    The first round sends all memory, each further one what was written while
    the one before was sent. When the rest can be sent within the downtime, the
    guest stands still for it. A guest that writes faster than it is sent never
    comes to that, unless all it writes to is small enough.

    Args:
        memory: Bytes in use.
        dirty_rate: Bytes a second that the guest writes anew.
        working_set: Bytes that are written to again and again.
        downtime: Seconds for which the guest may stand still.

    Source:
        Clark et al., Live Migration of Virtual Machines (NSDI 2005); the
        stopping condition is QEMU's, and so is its downtime of 0.3 s.
    """

    def __init__(
        self,
        memory: int,
        dirty_rate: float,
        working_set: float,
        downtime: float = 0.3,
    ) -> None:
        self.dirty_rate = dirty_rate
        self.working_set = working_set
        self._downtime = downtime
        self._remaining = float(max(memory, MIN_TRANSFER))
        self._memory = int(self._remaining)
        self._sent = 0.0
        self._dirty = 0.0
        self._paused = False

    def time_to_event(self, bandwidth: float) -> float:
        """Return the seconds until this round is sent."""
        return self._remaining / bandwidth if bandwidth > 0 else math.inf

    def run(self, seconds: float, bandwidth: float) -> None:
        """Send for *seconds*, while the guest goes on writing."""
        sent = min(self._remaining, bandwidth * seconds)
        self._remaining -= sent
        self._sent += sent
        if not self._paused:
            written = self._dirty + self.dirty_rate * seconds
            self._dirty = min(self.working_set, written)

    def handle_event(self, bandwidth: float) -> bool:
        """Begin the next round if this one is sent; return whether it was the last."""
        if self._remaining >= 1:
            return False
        if self._paused:
            return True
        self._paused = self._dirty <= bandwidth * self._downtime
        self._remaining, self._dirty = self._dirty, 0.0
        return False

    def progress(self, bandwidth: float) -> Progress:
        """Return what is sent and what remains, as QEMU counts it."""
        remaining = int(self._remaining + self._dirty)
        return Progress(
            total=int(self._sent) + remaining,
            remaining=remaining,
            dirty_rate=self.dirty_rate,
            bandwidth=bandwidth,
            downtime=remaining / bandwidth if bandwidth > 0 else None,
        )

    @property
    def received(self) -> int:
        """Return the bytes the target holds: never more than the guest has."""
        return min(self._memory, int(self._sent))


MIB = 1 << 20
TYPICAL_DIRTY_RATE = 12.0 * MIB  # bytes/s; a web server, Clark et al. (2005), fig. 7
MAX_DIRTY_RATE = 160.0 * MIB


@dataclass(frozen=True, slots=True)
class GuestBehavior:
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

    def load_variation(self, elapsed: float) -> float:
        """Return how its load stands after *elapsed* seconds, from -2 to 2.

        It is 0 in the beginning, so that the load is then as it was drawn.
        """
        full_cycle = 2 * math.pi
        return math.sin(full_cycle * (elapsed / self.period + self.phase)) - math.sin(
            full_cycle * self.phase
        )


def guest_behavior(guest: Guest, seed: int) -> GuestBehavior:
    """Return how *guest* behaves in the world of that *seed*."""
    # By name, so that one guest more or less changes nothing for the others.
    rng = random.Random(f"{seed}:{guest.id}")  # noqa: S311 - no secret
    rate = rng.lognormvariate(math.log(TYPICAL_DIRTY_RATE), 0.9)
    return GuestBehavior(
        dirty_rate=min(rate, MAX_DIRTY_RATE),
        working_set=rng.uniform(0.05, 0.25),
        phase=rng.random(),
        period=rng.uniform(300, 1500),
    )
