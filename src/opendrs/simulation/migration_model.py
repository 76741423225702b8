"""Duration of actions: pre-copy of memory, and dirty rates of guests."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Protocol

from opendrs.model import Guest
from opendrs.ports import Progress

MIN_TRANSFER = 64 << 20  # bytes: even an idle guest transfers at least this


class TimedOperation(Protocol):
    """Operation that takes time and has events.

    The bandwidth, in bytes per second, is constant between events.
    """

    def time_to_event(self, bandwidth: float) -> float:
        """Return the seconds until the next event."""

    def run(self, seconds: float, bandwidth: float) -> None:
        """Let *seconds* pass, at most `time_to_event`."""

    def handle_event(self, bandwidth: float) -> bool:
        """Handle the event that is due, if any; return True at the end."""

    def progress(self, bandwidth: float) -> Progress:
        """Return the progress of the operation."""

    @property
    def received(self) -> int:
        """Return the bytes of memory that the target has received."""


@dataclass(slots=True)
class FixedDuration:
    """Operation of fixed duration without a transfer, such as a restart."""

    remaining: float

    def time_to_event(self, bandwidth: float) -> float:  # noqa: ARG002 - a Protocol
        """Return the seconds until the end."""
        return self.remaining

    def run(self, seconds: float, bandwidth: float) -> None:  # noqa: ARG002
        """Let *seconds* pass."""
        self.remaining -= seconds

    def handle_event(self, bandwidth: float) -> bool:  # noqa: ARG002 - a Protocol
        """Return True if the time is over."""
        return self.remaining <= 0

    def progress(self, bandwidth: float) -> Progress:  # noqa: ARG002 - a Protocol
        """Return an empty progress: nothing is transferred."""
        return Progress()

    @property
    def received(self) -> int:
        """Return 0: the memory of a guest that restarts is not transferred."""
        return 0


class DiskCopy:
    """Copy of local disks, followed by another operation.

    Args:
        size: Bytes of the disks, positive.
        rest: Operation that follows, such as the pre-copy of the memory.

    Source:
        QEMU mirrors the disks first, and migrates the memory when they are equal.
    """

    def __init__(self, size: int, rest: TimedOperation) -> None:
        self._size = size
        self._remaining = float(size)
        self._rest = rest

    def time_to_event(self, bandwidth: float) -> float:
        """Return the seconds until the disks are copied, then those of the rest."""
        if self._remaining < 1:
            return self._rest.time_to_event(bandwidth)
        return self._remaining / bandwidth if bandwidth > 0 else math.inf

    def run(self, seconds: float, bandwidth: float) -> None:
        """Copy for *seconds*."""
        if self._remaining < 1:
            self._rest.run(seconds, bandwidth)
        else:
            self._remaining -= min(self._remaining, bandwidth * seconds)

    def handle_event(self, bandwidth: float) -> bool:
        """Return True at the end of the operation that follows."""
        return self._remaining < 1 and self._rest.handle_event(bandwidth)

    def progress(self, bandwidth: float) -> Progress:
        """Return the progress of the rest, with the bytes of the disks."""
        rest, remaining = self._rest.progress(bandwidth), int(self._remaining)
        return replace(
            rest,
            total=self._size + (rest.total or 0),
            remaining=remaining + (rest.remaining or 0),
            bandwidth=bandwidth,
        )

    @property
    def received(self) -> int:
        """Return the bytes of memory that the target has received."""
        return self._rest.received


class PreCopy:
    """Pre-copy of the memory of a running guest, in rounds.

    The first round sends all memory. Each further round sends the pages written during
    the round before. When the rest can be sent within the downtime, the guest is paused
    and the rest is sent. A guest with a dirty rate above the bandwidth does not
    converge,
    unless its working set is small enough.

    Args:
        memory: Bytes in use.
        dirty_rate: Bytes per second that the guest writes.
        working_set: Bytes that are written repeatedly.
        downtime: Seconds for which the guest may be paused.

    Source:
        Clark et al., Live Migration of Virtual Machines (NSDI 2005). The stopping
        condition and the downtime of 0.3 s are those of QEMU.
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
        """Return the seconds until the current round is sent."""
        return self._remaining / bandwidth if bandwidth > 0 else math.inf

    def run(self, seconds: float, bandwidth: float) -> None:
        """Send for *seconds*, while the guest keeps writing."""
        sent = min(self._remaining, bandwidth * seconds)
        self._remaining -= sent
        self._sent += sent
        if not self._paused:
            written = self._dirty + self.dirty_rate * seconds
            self._dirty = min(self.working_set, written)

    def handle_event(self, bandwidth: float) -> bool:
        """Start the next round if this one is sent; return True after the last."""
        if self._remaining >= 1:
            return False
        if self._paused:
            return True
        self._paused = self._dirty <= bandwidth * self._downtime
        self._remaining, self._dirty = self._dirty, 0.0
        return False

    def progress(self, bandwidth: float) -> Progress:
        """Return the sent and remaining bytes, as QEMU counts them."""
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
        """Return the bytes on the target, at most the memory of the guest."""
        return min(self._memory, int(self._sent))


MIB = 1 << 20
TYPICAL_DIRTY_RATE = 12.0 * MIB  # bytes/s; a web server, Clark et al. (2005), fig. 7
MAX_DIRTY_RATE = 160.0 * MIB


@dataclass(frozen=True, slots=True)
class GuestBehavior:
    """Memory and load behavior of one guest.

    Attributes:
        dirty_rate: Bytes of memory written per second.
        working_set: Fraction of the memory in use, in [0, 1], that is written to.
        phase: Initial phase of the load variation, in [0, 1].
        period: Seconds between two peaks of the load.
    """

    dirty_rate: float
    working_set: float
    phase: float
    period: float

    def load_variation(self, elapsed: float) -> float:
        """Return the load variation after *elapsed* seconds, in [-2, 2].

        It is 0 at the start, so that the load is then as it was drawn.
        """
        full_cycle = 2 * math.pi
        return math.sin(full_cycle * (elapsed / self.period + self.phase)) - math.sin(
            full_cycle * self.phase
        )


def guest_behavior(guest: Guest, seed: int) -> GuestBehavior:
    """Return the behavior of *guest* for that *seed*."""
    # Drawn by name, so that adding a guest does not change the others.
    rng = random.Random(f"{seed}:{guest.id}")  # noqa: S311 - no secret
    rate = rng.lognormvariate(math.log(TYPICAL_DIRTY_RATE), 0.9)
    return GuestBehavior(
        dirty_rate=min(rate, MAX_DIRTY_RATE),
        working_set=rng.uniform(0.05, 0.25),
        phase=rng.random(),
        period=rng.uniform(300, 1500),
    )
