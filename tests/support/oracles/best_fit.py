"""Placement of OpenStack Neat: best fit decreasing, and draining of underloaded hosts."""

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


def free_capacity(
    threshold: float, total: float, used: float, *, whole: bool = False
) -> float:
    """Return how much of *total* is free below *threshold*; negative when over.

    Args:
        threshold: The part of the total that may be used.
        total: What there is.
        used: What is in use.
        whole: Cut off what is less than a unit, as Neat does with MHz and MB.
    """
    remaining = threshold * total - used
    return math.trunc(remaining) if whole else remaining


GuestTargets = Mapping[GuestId, NodeId]


@dataclass(frozen=True, slots=True)
class GuestDemands:
    """What guests need, as columns in the order of their names; shape (guests,)."""

    cpu: Floats
    memory: Floats


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """What hosts have, as columns in the order of their names; shape (hosts,).

    Attributes:
        cpu: CPU they have for guests.
        memory: Memory they have for guests.
        cpu_used: CPU in use.
        memory_used: Memory in use.
        powered_on: Whether they run.
        allowed: Whether they may receive guests.
    """

    cpu: Floats
    memory: Floats
    cpu_used: Floats
    memory_used: Floats
    powered_on: Mask
    allowed: Mask


@dataclass(slots=True)
class _HostState:
    """What is still free on a host, and where it stands in the order."""

    order: tuple[float, float, NodeId]
    cpu: float
    memory: float

    def fits(self, cpu: float, memory: float) -> bool:
        return self.cpu >= cpu and self.memory >= memory


@dataclass(frozen=True, slots=True, kw_only=True)
class BestFitDecreasing:
    """Fill the hosts with the least free CPU first.

    Attributes:
        cpu_threshold: Part of a running host's CPU that may be used; a sleeping
            one is filled up.
        memory_threshold: The same for its memory.
        averaging_window: How many samples a guest's need is averaged over.
        whole: Count in whole units, as Neat does with MHz and MB: free room is
            cut off, and so is what a guest needs.
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
        """Return a host for each guest, or None when they do not all fit.

        A guest without samples is left out.

        Args:
            guests: Who has to go somewhere.
            hosts: The running hosts that may receive.
            powered_off: The hosts that may be woken.
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
        """Return the CPU that *guest* is given; None when nothing is known."""
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
        """Return a host for each guest, as its place in *capacity*, or None.

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
    """Return the guests by CPU, memory and name, the largest first."""
    return np.lexsort((np.arange(len(demands.cpu)), demands.memory, demands.cpu))[::-1]


def _empty_state(host: HostCapacity) -> _HostState:
    return _HostState((host.cpu, host.memory, host.id), host.cpu, host.memory)


class PlacementFunction(Protocol):
    """Finds a host for each guest, or None when they do not all fit."""

    def __call__(
        self, guests: Sequence[GuestLoad], hosts: Sequence[HostCapacity]
    ) -> GuestTargets | None:
        """Return where *guests* go among *hosts*."""


class ArrayPlacementFunction(Protocol):
    """Finds a host for each guest in columns, or None when they do not all fit."""

    def __call__(
        self, demands: GuestDemands, capacity: FreeCapacity
    ) -> Integers | None:
        """Return the host of each guest, as its place in *capacity*."""


def drain_hosts(
    underloaded: Iterable[NodeId],
    hosts: Mapping[NodeId, HostCapacity],
    guests: Mapping[NodeId, Sequence[GuestLoad]],
    place: PlacementFunction,
    *,
    averaging_window: int = 2,
) -> dict[NodeId, GuestTargets]:
    """Return where the guests of each host go that can be emptied.

    Args:
        underloaded: The hosts that should be emptied.
        hosts: The running hosts that may give and receive.
        guests: Who is on each of them; a host without guests receives none.
        place: How room is found.
        averaging_window: How many samples a guest's need is averaged over.

    Returns:
        The emptied hosts, in the order they are emptied in.
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
    """Return where each guest goes, as `emptied` does; -1 for who stays.

    Args:
        underloaded: Whether each host should be emptied; shape (hosts,).
        capacity: What hosts have; those allowed give and receive.
        demands: What guests need.
        host: Where each guest is; shape (guests,).
        place: How room is found.
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
