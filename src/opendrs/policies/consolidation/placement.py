"""BFD: where guests go, the fullest host that has room first.

As in OpenStack Neat: the guest that needs most goes first; hosts are ordered by
what is free on them at the start, least first, and not anew as they fill; a
sleeping host is woken, the smallest first, when no other has room. All guests
are placed, or none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from opendrs.model import GuestId, NodeId
from opendrs.policies.base import require_ratio
from opendrs.policies.consolidation.detection import require_samples
from opendrs.policies.consolidation.guests import GuestLoad, HostRoom, free
from opendrs.policies.consolidation.histories import Floats, Integers, Truths

Targets = Mapping[GuestId, NodeId]


@dataclass(frozen=True, slots=True)
class Demands:
    """What guests need, as columns in the order of their names; shape (guests,)."""

    cpu: Floats
    memory: Floats


@dataclass(frozen=True, slots=True)
class Rooms:
    """What hosts have, as columns in the order of their names; shape (hosts,).

    Attributes:
        cpu: CPU they have for guests.
        memory: Memory they have for guests.
        cpu_used: CPU in use.
        memory_used: Memory in use.
        awake: Whether they run.
        allowed: Whether they may receive guests.
    """

    cpu: Floats
    memory: Floats
    cpu_used: Floats
    memory_used: Floats
    awake: Truths
    allowed: Truths


@dataclass(slots=True)
class _Shelf:
    """What is still free on a host, and where it stands in the order."""

    order: tuple[float, float, NodeId]
    cpu: float
    memory: float

    def holds(self, cpu: float, memory: float) -> bool:
        return self.cpu >= cpu and self.memory >= memory


@dataclass(frozen=True, slots=True, kw_only=True)
class BestFitDecreasing:
    """Fill the hosts with the least free CPU first.

    Attributes:
        cpu_threshold: Part of a running host's CPU that may be used; a sleeping
            one is filled up.
        memory_threshold: The same for its memory.
        last_n: How many samples a guest's need is averaged over.
        whole: Count in whole units, as Neat does with MHz and MB: free room is
            cut off, and so is what a guest needs.
    """

    name: ClassVar[str] = "best-fit-decreasing"
    cpu_threshold: float = 0.8
    memory_threshold: float = 0.95
    last_n: int = 2
    whole: bool = False

    def __post_init__(self) -> None:
        require_ratio("cpu_threshold", self.cpu_threshold)
        require_ratio("memory_threshold", self.memory_threshold)
        require_samples("last_n", self.last_n)

    def place(
        self,
        guests: Sequence[GuestLoad],
        hosts: Sequence[HostRoom],
        asleep: Sequence[HostRoom] = (),
    ) -> Targets | None:
        """Return a host for each guest, or None when they do not all fit.

        A guest without samples is left out.

        Args:
            guests: Who has to go somewhere.
            hosts: The running hosts that may receive.
            asleep: The hosts that may be woken.
        """
        shelves = sorted(map(self._shelf, hosts), key=lambda each: each.order)
        reserve = sorted(map(_empty_shelf, asleep), key=lambda each: each.order)
        targets: dict[GuestId, NodeId] = {}
        for cpu, memory, guest in self._largest_first(guests):
            while not any(shelf.holds(cpu, memory) for shelf in shelves):
                if not reserve:
                    return None
                shelves = sorted([*shelves, reserve.pop(0)], key=lambda s: s.order)
            shelf = next(each for each in shelves if each.holds(cpu, memory))
            shelf.cpu -= cpu
            shelf.memory -= memory
            targets[guest] = shelf.order[2]
        return targets

    def _largest_first(
        self, guests: Sequence[GuestLoad]
    ) -> list[tuple[float, float, GuestId]]:
        needs = [(self.demand(guest), guest) for guest in guests]
        return sorted(
            ((need, each.memory, each.id) for need, each in needs if need is not None),
            reverse=True,
        )

    def demand(self, guest: GuestLoad) -> float | None:
        """Return the CPU that *guest* is given; None when nothing is known."""
        mean = guest.demand(self.last_n)
        return math.floor(mean) if self.whole and mean is not None else mean

    def _shelf(self, host: HostRoom) -> _Shelf:
        cpu = free(self.cpu_threshold, host.cpu, host.cpu_used, whole=self.whole)
        memory = free(
            self.memory_threshold, host.memory, host.memory_used, whole=self.whole
        )
        return _Shelf((cpu, memory, host.id), cpu, memory)

    def place_columns(self, demands: Demands, rooms: Rooms) -> Integers | None:
        """Return a host for each guest, as its place in *rooms*, or None.

        Fractions of a unit count, as with `whole` unset.
        """
        cpu = np.where(
            rooms.awake, self.cpu_threshold * rooms.cpu - rooms.cpu_used, rooms.cpu
        )
        memory = np.where(
            rooms.awake,
            self.memory_threshold * rooms.memory - rooms.memory_used,
            rooms.memory,
        )
        order = np.lexsort((memory, cpu))
        order = order[rooms.allowed[order]]
        cpu, memory, open_ = cpu[order], memory[order], rooms.awake[order]
        reserve = iter(np.flatnonzero(~open_))
        targets = np.full(len(demands.cpu), -1, dtype=np.int64)
        for guest in largest_first(demands):
            need_cpu, need_memory = demands.cpu[guest], demands.memory[guest]
            holds = (cpu >= need_cpu) & (memory >= need_memory)
            while not (open_ & holds).any():
                woken = next(reserve, None)
                if woken is None:
                    return None
                open_[woken] = True
            host = int(np.argmax(open_ & holds))
            cpu[host] -= need_cpu
            memory[host] -= need_memory
            targets[guest] = order[host]
        return targets


def largest_first(demands: Demands) -> Integers:
    """Return the guests by CPU, memory and name, the largest first."""
    return np.lexsort((np.arange(len(demands.cpu)), demands.memory, demands.cpu))[::-1]


def _empty_shelf(host: HostRoom) -> _Shelf:
    return _Shelf((host.cpu, host.memory, host.id), host.cpu, host.memory)
