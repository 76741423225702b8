"""Placement of OpenStack Neat: best-fit decreasing, and drains of underloaded hosts.

The guest with the largest demand comes first. Hosts are ordered once, by their free
capacity at the start, least first. If no other host has enough, a powered-off one is
powered on, the smallest first. All guests are placed, or none.

The host with the least load is drained first: all its guests go to other running hosts,
or none leaves. A host that received a guest is not drained, and a drained one receives
none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from opendrs.model import GuestId, NodeId
from opendrs.policies.base import require_ratio
from opendrs.policies.consolidation import GuestLoad
from opendrs.policies.consolidation.detector import require_samples
from opendrs.policies.consolidation.history import Floats, Integers, Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCapacity:
    """Capacity and usage of a host, in the units of the guests.

    Attributes:
        id: Id of the host.
        cpu: CPU available for guests.
        memory: Memory available for guests.
        cpu_used: CPU in use.
        memory_used: Memory in use.
    """

    id: NodeId
    cpu: float
    memory: float
    cpu_used: float = 0.0
    memory_used: float = 0.0


def free_capacity(
    threshold: float, total: float, used: float, *, whole: bool = False
) -> float:
    """Return the free part of *total* below *threshold*; negative if exceeded.

    Args:
        threshold: Usable fraction of the total.
        total: Capacity.
        used: Usage.
        whole: True to round down to whole units, as Neat does with MHz and MB.
    """
    remaining = threshold * total - used
    return math.trunc(remaining) if whole else remaining


GuestTargets = Mapping[GuestId, NodeId]


@dataclass(frozen=True, slots=True)
class GuestDemands:
    """Demand of guests as arrays in the order of their names; shape (guests,)."""

    cpu: Floats
    memory: Floats


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """Capacity of hosts as arrays in the order of their names; shape (hosts,).

    Attributes:
        cpu: CPU available for guests.
        memory: Memory available for guests.
        cpu_used: CPU in use.
        memory_used: Memory in use.
        powered_on: True for running hosts.
        allowed: True for hosts that may receive guests.
    """

    cpu: Floats
    memory: Floats
    cpu_used: Floats
    memory_used: Floats
    powered_on: Mask
    allowed: Mask


@dataclass(slots=True)
class _HostState:
    """Free resources of a host, and its position in the order."""

    order: tuple[float, float, NodeId]
    cpu: float
    memory: float

    def fits(self, cpu: float, memory: float) -> bool:
        return self.cpu >= cpu and self.memory >= memory


@dataclass(frozen=True, slots=True, kw_only=True)
class BestFitDecreasing:
    """Fill the hosts with the least free CPU first.

    Attributes:
        cpu_threshold: Usable fraction of a running host's CPU; a powered-off host is
            filled completely.
        memory_threshold: The same for its memory.
        averaging_window: Number of samples over which the demand of a guest is
            averaged.
        whole: True to count whole units, as Neat does with MHz and MB: free capacity
            and demand are rounded down.
    """

    name: ClassVar[str] = "best-fit-decreasing"
    cpu_threshold: float = 0.8
    memory_threshold: float = 0.95
    averaging_window: int = 2
    whole: bool = False

    def __post_init__(self) -> None:
        require_ratio("cpu_threshold", self.cpu_threshold)
        require_ratio("memory_threshold", self.memory_threshold)
        require_samples("averaging_window", self.averaging_window)

    def place(
        self,
        guests: Sequence[GuestLoad],
        hosts: Sequence[HostCapacity],
        powered_off: Sequence[HostCapacity] = (),
    ) -> GuestTargets | None:
        """Return a host for each guest, or None if they do not all fit.

        A guest without samples is skipped.

        Args:
            guests: Guests to place.
            hosts: Running hosts that may receive.
            powered_off: Hosts that may be powered on.
        """
        states = sorted(map(self._state_of, hosts), key=lambda each: each.order)
        reserve = sorted(map(_empty_state, powered_off), key=lambda each: each.order)
        targets: dict[GuestId, NodeId] = {}
        for cpu, memory, guest in self._largest_first(guests):
            while not any(state.fits(cpu, memory) for state in states):
                if not reserve:
                    return None
                states = sorted([*states, reserve.pop(0)], key=lambda s: s.order)
            state = next(each for each in states if each.fits(cpu, memory))
            state.cpu -= cpu
            state.memory -= memory
            targets[guest] = state.order[2]
        return targets

    def _largest_first(
        self, guests: Sequence[GuestLoad]
    ) -> list[tuple[float, float, GuestId]]:
        demands = [(self.demand(guest), guest) for guest in guests]
        return sorted(
            (
                (demand, each.memory, each.id)
                for demand, each in demands
                if demand is not None
            ),
            reverse=True,
        )

    def demand(self, guest: GuestLoad) -> float | None:
        """Return the CPU of *guest*; None if it is unknown."""
        mean = guest.demand(self.averaging_window)
        return math.floor(mean) if self.whole and mean is not None else mean

    def _state_of(self, host: HostCapacity) -> _HostState:
        cpu = free_capacity(
            self.cpu_threshold, host.cpu, host.cpu_used, whole=self.whole
        )
        memory = free_capacity(
            self.memory_threshold, host.memory, host.memory_used, whole=self.whole
        )
        return _HostState((cpu, memory, host.id), cpu, memory)

    def place_arrays(
        self, demands: GuestDemands, capacity: FreeCapacity
    ) -> Integers | None:
        """Return a host for each guest, as its index in *capacity*, or None.

        Fractions of a unit count, as with `whole` unset.
        """
        cpu = np.where(
            capacity.powered_on,
            self.cpu_threshold * capacity.cpu - capacity.cpu_used,
            capacity.cpu,
        )
        memory = np.where(
            capacity.powered_on,
            self.memory_threshold * capacity.memory - capacity.memory_used,
            capacity.memory,
        )
        order = np.lexsort((memory, cpu))
        order = order[capacity.allowed[order]]
        cpu, memory, powered_on = cpu[order], memory[order], capacity.powered_on[order]
        reserve = iter(np.flatnonzero(~powered_on))
        targets = np.full(len(demands.cpu), -1, dtype=np.int64)
        for guest in largest_first(demands):
            need_cpu, need_memory = demands.cpu[guest], demands.memory[guest]
            fits = (cpu >= need_cpu) & (memory >= need_memory)
            while not (powered_on & fits).any():
                next_off = next(reserve, None)
                if next_off is None:
                    return None
                powered_on[next_off] = True
            host = int(np.argmax(powered_on & fits))
            cpu[host] -= need_cpu
            memory[host] -= need_memory
            targets[guest] = order[host]
        return targets


def largest_first(demands: GuestDemands) -> Integers:
    """Return the guests by CPU, memory and name, largest first."""
    return np.lexsort((np.arange(len(demands.cpu)), demands.memory, demands.cpu))[::-1]


def _empty_state(host: HostCapacity) -> _HostState:
    return _HostState((host.cpu, host.memory, host.id), host.cpu, host.memory)


class PlacementFunction(Protocol):
    """Placement that returns a host for each guest, or None if they do not all fit."""

    def __call__(
        self, guests: Sequence[GuestLoad], hosts: Sequence[HostCapacity]
    ) -> GuestTargets | None:
        """Return the host of each of *guests*."""


class ArrayPlacementFunction(Protocol):
    """Placement on arrays: a host for each guest, or None if they do not all fit."""

    def __call__(
        self, demands: GuestDemands, capacity: FreeCapacity
    ) -> Integers | None:
        """Return the host of each guest, as its index in *capacity*."""


def drain_hosts(
    underloaded: Iterable[NodeId],
    hosts: Mapping[NodeId, HostCapacity],
    guests: Mapping[NodeId, Sequence[GuestLoad]],
    place: PlacementFunction,
    *,
    averaging_window: int = 2,
) -> dict[NodeId, GuestTargets]:
    """Return the targets of the guests of each host that can be drained.

    Args:
        underloaded: Hosts that should be drained.
        hosts: Running hosts that may give and receive.
        guests: Guests of each host; a host without guests receives none.
        place: Placement function.
        averaging_window: Number of samples over which the demand of a guest is
            averaged.

    Returns:
        The drained hosts, in the order of the drains.
    """
    capacities, receivers = dict(hosts), set[NodeId]()
    drained: dict[NodeId, GuestTargets] = {}
    for source in sorted(underloaded, key=lambda each: _rank(hosts[each])):
        if source in receivers or not guests.get(source):
            continue
        others = [
            capacity
            for name, capacity in capacities.items()
            if name != source and name not in drained and guests.get(name)
        ]
        targets = place(guests[source], others)
        if targets is not None and len(targets) == len(guests[source]):
            drained[source] = targets
            receivers.update(targets.values())
            for guest in guests[source]:
                _fill(capacities, targets[guest.id], guest, averaging_window)
    return drained


def drain_host_arrays(
    underloaded: Mask,
    capacity: FreeCapacity,
    demands: GuestDemands,
    host: Integers,
    place: ArrayPlacementFunction,
) -> Integers:
    """Return the target of each guest, as `drain_hosts`; -1 for guests that stay.

    Args:
        underloaded: True for hosts that should be drained; shape (hosts,).
        capacity: Capacity of the hosts; those allowed give and receive.
        demands: Demand of the guests.
        host: Host of each guest; shape (guests,).
        place: Placement function.
    """
    occupied = np.bincount(host, minlength=len(capacity.cpu)) > 0
    receiving = capacity.allowed & capacity.powered_on & occupied
    cpu, memory = capacity.cpu_used.copy(), capacity.memory_used.copy()
    stays_on = ~(underloaded & receiving)
    targets = np.full(len(host), -1, dtype=np.int64)
    for source in np.argsort(capacity.cpu_used / capacity.cpu, kind="stable"):
        if stays_on[source]:
            continue
        guests = np.flatnonzero(host == source)
        others = receiving & (np.arange(len(receiving)) != source)
        placed = place(
            GuestDemands(demands.cpu[guests], demands.memory[guests]),
            replace(capacity, cpu_used=cpu, memory_used=memory, allowed=others),
        )
        if placed is not None:
            targets[guests], receiving[source], stays_on[placed] = placed, False, True
            np.add.at(cpu, placed, demands.cpu[guests])
            np.add.at(memory, placed, demands.memory[guests])
    return targets


def _rank(host: HostCapacity) -> tuple[float, NodeId]:
    return host.cpu_used / host.cpu, host.id


def _fill(
    capacities: dict[NodeId, HostCapacity],
    target: NodeId,
    guest: GuestLoad,
    averaging_window: int,
) -> None:
    capacity = capacities[target]
    capacities[target] = replace(
        capacity,
        cpu_used=capacity.cpu_used + (guest.demand(averaging_window) or 0.0),
        memory_used=capacity.memory_used + guest.memory,
    )
