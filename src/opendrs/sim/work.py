"""What takes time in a data centre."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from opendrs.ports import Progress

LEAST_MEMORY = 64 << 20  # bytes: not even an idle guest has less to transfer


class Work(Protocol):
    """Something that is under way, and asks for attention at certain times.

    The bandwidth, in bytes a second, is constant between these times.
    """

    def attention_in(self, bandwidth: float) -> float:
        """Return the seconds until something about it changes by itself."""

    def run(self, seconds: float, bandwidth: float) -> None:
        """Let *seconds* pass, no more than `attention_in` said."""

    def attend(self, bandwidth: float) -> bool:
        """Do what is due, if anything is; return whether all is done."""

    def progress(self, bandwidth: float) -> Progress:
        """Return how far it is."""

    @property
    def arrived(self) -> int:
        """Return the bytes of memory that the target holds already."""


@dataclass(slots=True)
class Pause:
    """Something that takes a fixed time and sends nothing, such as a restart."""

    left: float

    def attention_in(self, bandwidth: float) -> float:  # noqa: ARG002 - a Protocol
        """Return the seconds until the end."""
        return self.left

    def run(self, seconds: float, bandwidth: float) -> None:  # noqa: ARG002
        """Let *seconds* pass."""
        self.left -= seconds

    def attend(self, bandwidth: float) -> bool:  # noqa: ARG002 - a Protocol
        """Return whether the time is over."""
        return self.left <= 0

    def progress(self, bandwidth: float) -> Progress:  # noqa: ARG002 - a Protocol
        """Return nothing: there is nothing to count."""
        return Progress()

    @property
    def arrived(self) -> int:
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
        self._left = float(max(memory, LEAST_MEMORY))
        self._memory = int(self._left)
        self._sent = 0.0
        self._dirtied = 0.0
        self._stands_still = False

    def attention_in(self, bandwidth: float) -> float:
        """Return the seconds until this round is sent."""
        return self._left / bandwidth if bandwidth > 0 else math.inf

    def run(self, seconds: float, bandwidth: float) -> None:
        """Send for *seconds*, while the guest goes on writing."""
        sent = min(self._left, bandwidth * seconds)
        self._left -= sent
        self._sent += sent
        if not self._stands_still:
            written = self._dirtied + self.dirty_rate * seconds
            self._dirtied = min(self.working_set, written)

    def attend(self, bandwidth: float) -> bool:
        """Begin the next round if this one is sent; return whether it was the last."""
        if self._left >= 1:
            return False
        if self._stands_still:
            return True
        self._stands_still = self._dirtied <= bandwidth * self._downtime
        self._left, self._dirtied = self._dirtied, 0.0
        return False

    def progress(self, bandwidth: float) -> Progress:
        """Return what is sent and what remains, as QEMU counts it."""
        remaining = int(self._left + self._dirtied)
        return Progress(
            total=int(self._sent) + remaining,
            remaining=remaining,
            dirty_rate=self.dirty_rate,
            bandwidth=bandwidth,
            downtime=remaining / bandwidth if bandwidth > 0 else None,
        )

    @property
    def arrived(self) -> int:
        """Return the bytes the target holds: never more than the guest has."""
        return min(self._memory, int(self._sent))
