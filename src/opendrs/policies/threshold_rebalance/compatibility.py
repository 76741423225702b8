"""Score of a node: its load, with the arithmetic of each generation of Incus.

The score is the mean of memory in use and load average, in percent and rounded down. A
node at 80 % of its memory with a load average of half its threads has a score of 65.

Source:
    Incus 6.0.4 and 7.0.2, measured on running clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum


class IncusVersion(StrEnum):
    """Generation of Incus whose arithmetic and selection are used.

    CORRECTED fixes their defects. No sum overflows, the demand of a guest is added to
    the right resource, and nodes are compared by their load after each move. The others
    are those of Incus. 6.0 (and 6.7 to 6.23) considers one target, the least loaded
    node. 7.3 (7.0.0, 7.0.1, 7.1 to 7.3) tries all less loaded nodes. 7.0.2 also adds
    the demand of a guest to the right resource.
    """

    CORRECTED = "corrected"
    INCUS_6_0 = "incus-6.0"
    INCUS_7_3 = "incus-7.3"
    INCUS_7_0_2 = "incus-7.0.2"

    @property
    def is_incus(self) -> bool:
        """Return whether it is the arithmetic of a version of Incus."""
        return self is not IncusVersion.CORRECTED

    @property
    def swaps_resources(self) -> bool:
        """Return whether cores are added to the memory, and bytes to the load."""
        return self in (IncusVersion.INCUS_6_0, IncusVersion.INCUS_7_3)

    @property
    def single_target(self) -> bool:
        """Return whether only the least loaded node may receive guests."""
        return self is IncusVersion.INCUS_6_0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredNode:
    """Node whose load is scored.

    Attributes:
        memory: Memory capacity in bytes.
        used: Memory in use, in bytes.
        threads: Hardware threads.
        load: Runnable tasks, or busy threads.
    """

    memory: int
    used: float
    threads: float
    load: float

    def score(self, compatibility: IncusVersion) -> int:
        """Return the score: 100 if all memory and all threads are used."""
        memory = int(100 * self.used // self.memory)
        cpu = math.trunc(100 * self.load / self.threads)
        if compatibility.is_incus:
            return (to_uint8(memory) + to_uint8(cpu)) % 256 // 2
        return (memory + cpu) // 2

    def with_guest(
        self, cpu: float, memory: int, compatibility: IncusVersion
    ) -> ScoredNode:
        """Return the load with the demand of a guest added, in cores and bytes."""
        if compatibility.swaps_resources:
            return replace(self, used=self.used + cpu, load=self.load + memory)
        return replace(self, used=self.used + memory, load=self.load + cpu)

    def without_guest(self, cpu: float, memory: int) -> ScoredNode:
        """Return the load with the usage of a guest removed, in cores and bytes."""
        return replace(
            self, used=max(0, self.used - memory), load=max(0.0, self.load - cpu)
        )


def to_uint8(value: float) -> int:
    """Return *value*, at least 0, as Go converts it to eight bits on amd64.

    Values above 255 wrap around; from 2^31 on, the result is 0.
    """
    return 0 if value >= 1 << 31 else math.trunc(value) & 0xFF
