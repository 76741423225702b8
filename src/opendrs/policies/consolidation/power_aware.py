"""PABFD: where guests go, the host whose power grows least first.

The guest that needs most goes first; hosts that sleep may be woken, and draw
then what they draw idle on top. All guests are placed, or none.

Source:
    Beloglazov and Buyya, CCPE 24 (2012) 1397-1420.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from opendrs.model import GuestId, NodeId
from opendrs.policies.base import require_ratio
from opendrs.policies.consolidation.detection import require_samples
from opendrs.policies.consolidation.guests import GuestLoad, HostRoom
from opendrs.policies.consolidation.histories import Floats, Integers
from opendrs.policies.consolidation.placement import (
    Demands,
    Rooms,
    Targets,
    largest_first,
)
from opendrs.policies.consolidation.power import PowerCurve, power_columns


@dataclass(frozen=True, slots=True)
class Curves:
    """The power of hosts, as columns.

    Attributes:
        watts: One row of eleven values per curve.
        curve: Which of them each host has; shape (hosts,).
    """

    watts: Floats
    curve: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAwareBestFitDecreasing:
    """Place each guest where the power drawn grows least.

    Attributes:
        cpu_threshold: Part of a host's CPU that may be used.
        memory_threshold: The same for its memory.
        last_n: How many samples a guest's need is averaged over.
        asleep: Watts that a sleeping host draws.
    """

    name: ClassVar[str] = "power-aware-best-fit-decreasing"
    cpu_threshold: float = 0.8
    memory_threshold: float = 0.95
    last_n: int = 2
    asleep: float = 0.0

    def __post_init__(self) -> None:
        require_ratio("cpu_threshold", self.cpu_threshold, 1.0)
        require_ratio("memory_threshold", self.memory_threshold)
        require_ratio("asleep", self.asleep)
        require_samples("last_n", self.last_n)

    def place(
        self,
        guests: Sequence[GuestLoad],
        hosts: Sequence[HostRoom],
        curves: Mapping[NodeId, PowerCurve],
        asleep: Sequence[HostRoom] = (),
    ) -> Targets | None:
        """Return a host for each guest, or None when they do not all fit.

        A guest without samples is left out.

        Args:
            guests: Who has to go somewhere.
            hosts: The running hosts that may receive.
            curves: The power of each host.
            asleep: The hosts that may be woken.
        """
        rooms = {host.id: host for host in (*hosts, *asleep)}
        sleeping = {host.id for host in asleep}
        targets: dict[GuestId, NodeId] = {}
        for guest in self._largest_first(guests):
            need = guest.demand(self.last_n) or 0.0
            grown = [
                (self._growth(host, need, curves[host.id], host.id in sleeping), name)
                for name, host in rooms.items()
                if self._holds(host, need, guest.memory)
            ]
            if not grown:
                return None
            _, target = min(grown)
            rooms[target] = _with(rooms[target], need, guest.memory)
            sleeping.discard(target)
            targets[guest.id] = target
        return targets

    def _largest_first(self, guests: Sequence[GuestLoad]) -> list[GuestLoad]:
        known = [guest for guest in guests if guest.history]
        return sorted(
            known,
            key=lambda each: (each.demand(self.last_n), each.memory, each.id),
            reverse=True,
        )

    def _holds(self, host: HostRoom, cpu: float, memory: float) -> bool:
        return (
            host.cpu_used + cpu <= self.cpu_threshold * host.cpu
            and host.memory_used + memory <= self.memory_threshold * host.memory
        )

    def _growth(
        self,
        host: HostRoom,
        cpu: float,
        curve: PowerCurve,
        sleeping: bool,  # noqa: FBT001
    ) -> float:
        now = self.asleep if sleeping else curve.at(host.cpu_used / host.cpu)
        return _rounded(curve.at((host.cpu_used + cpu) / host.cpu) - now)

    def place_columns(
        self, demands: Demands, rooms: Rooms, curves: Curves
    ) -> Integers | None:
        """Return a host for each guest, as its place in *rooms*, or None."""
        cpu, memory = rooms.cpu_used.copy(), rooms.memory_used.copy()
        most_cpu = self.cpu_threshold * rooms.cpu
        most_memory = self.memory_threshold * rooms.memory
        now = power_columns(curves.watts, curves.curve, cpu / rooms.cpu)
        now = np.where(rooms.awake, now, self.asleep)
        targets = np.full(len(demands.cpu), -1, dtype=np.int64)
        for guest in largest_first(demands):
            with_it = cpu + demands.cpu[guest]
            holds = rooms.allowed & (with_it <= most_cpu)
            holds &= memory + demands.memory[guest] <= most_memory
            if not holds.any():
                return None
            able = np.flatnonzero(holds)
            then = power_columns(
                curves.watts, curves.curve[able], with_it[able] / rooms.cpu[able]
            )
            best = int(np.argmin(np.round(then - now[able], DIGITS)))
            host = able[best]
            cpu[host], now[host] = with_it[host], then[best]
            memory[host] += demands.memory[guest]
            targets[guest] = host
        return targets


DIGITS = 9  # so that between equal hosts the name decides rather than rounding


def _rounded(watts: float) -> float:
    return round(watts, DIGITS)


def _with(host: HostRoom, cpu: float, memory: float) -> HostRoom:
    return replace(
        host, cpu_used=host.cpu_used + cpu, memory_used=host.memory_used + memory
    )
