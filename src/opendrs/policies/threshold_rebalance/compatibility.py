"""How busy a host is, in points, by the arithmetic of each generation of Incus.

The mean of the memory in use and of the load average, each as a percentage and
all in whole numbers, so that a host at 80 % of its memory with a load of half its
threads has 65 points.

Source:
    Incus 6.0.4 and 7.0.2, measured on running clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum


class IncusVersion(StrEnum):
    """Whose arithmetic, and whose habits.

    CORRECTED counts as the others mean to: no sum overflows, what a guest needs is
    added to what it is an amount of, and after each move hosts are compared by
    what they have become. The others are Incus' own: 6.0 (and 6.7 to 6.23) knows
    one target, the least busy host; 7.3 (7.0.0, 7.0.1, 7.1 to 7.3) tries all
    less busy ones; 7.0.2 also counts the needs of a guest right.
    """

    CORRECTED = "corrected"
    INCUS_6_0 = "incus-6.0"
    INCUS_7_3 = "incus-7.3"
    INCUS_7_0_2 = "incus-7.0.2"

    @property
    def is_incus(self) -> bool:
        """Return whether it is one of Incus' own."""
        return self is not IncusVersion.CORRECTED

    @property
    def swaps_resources(self) -> bool:
        """Return whether cores are added to the memory, and bytes to the load."""
        return self in (IncusVersion.INCUS_6_0, IncusVersion.INCUS_7_3)

    @property
    def single_target(self) -> bool:
        """Return whether only the least busy host may receive."""
        return self is IncusVersion.INCUS_6_0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoints:
    """What is known of a host.

    Attributes:
        memory: Bytes of memory it has.
        used: Bytes of it in use.
        threads: Hardware threads it has.
        load: Runnable tasks, or busy threads.
    """

    memory: int
    used: float
    threads: float
    load: float

    def score(self, compatibility: IncusVersion) -> int:
        """Return how busy it is, in points: 100 for all memory and all threads."""
        memory = int(100 * self.used // self.memory)
        cpu = math.trunc(100 * self.load / self.threads)
        if compatibility.is_incus:
            return (to_uint8(memory) + to_uint8(cpu)) % 256 // 2
        return (memory + cpu) // 2

    def with_guest(
        self, cpu: float, memory: int, compatibility: IncusVersion
    ) -> NodePoints:
        """Return the host with a guest more that needs so many cores and bytes."""
        if compatibility.swaps_resources:
            return replace(self, used=self.used + cpu, load=self.load + memory)
        return replace(self, used=self.used + memory, load=self.load + cpu)

    def without_guest(self, cpu: float, memory: int) -> NodePoints:
        """Return the host without a guest that used so many cores and bytes."""
        return replace(
            self, used=max(0, self.used - memory), load=max(0.0, self.load - cpu)
        )


def to_uint8(value: float) -> int:
    """Return *value*, 0 or more, as Go makes eight bits of it on amd64.

    What is above 255 wraps around, and from 2^31 on nothing is left.
    """
    return 0 if value >= 1 << 31 else math.trunc(value) & 0xFF
