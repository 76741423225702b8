"""What algorithms need to know of a guest and of a host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opendrs.model import GuestId, NodeId
from opendrs.policies.consolidation.histories import mean_of_last


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestLoad:
    """A guest as consolidation sees it, in any unit of CPU and of memory.

    Attributes:
        id: Its name.
        memory: What moving it has to transfer, and what its host must have free.
        history: CPU it used, the oldest sample first.
    """

    id: GuestId
    memory: float
    history: Sequence[float]

    def demand(self, count: int) -> float | None:
        """Return the mean of its last *count* samples; None when it has none."""
        return mean_of_last(self.history, count) if self.history else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRoom:
    """A host as consolidation sees it, in the units of the guests.

    Attributes:
        id: Its name.
        cpu: CPU it has for guests.
        memory: Memory it has for guests.
        cpu_used: CPU in use.
        memory_used: Memory in use.
    """

    id: NodeId
    cpu: float
    memory: float
    cpu_used: float = 0.0
    memory_used: float = 0.0


def free(threshold: float, total: float, used: float, *, whole: bool = False) -> float:
    """Return how much of *total* is free below *threshold*; negative when over.

    Args:
        threshold: The part of the total that may be used.
        total: What there is.
        used: What is in use.
        whole: Cut off what is less than a unit, as Neat does with MHz and MB.
    """
    room = threshold * total - used
    return math.trunc(room) if whole else room
