"""PABFD: place guests on the host where the power increases least.

The guest with the largest demand comes first. Powered-off hosts may be powered on; then
their idle power counts too. All guests are placed, or none.

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
from opendrs.policies.consolidation import GuestLoad, PowerCurve, power_draw
from opendrs.policies.consolidation.detector import require_samples
from opendrs.policies.consolidation.history import Floats, Integers
from support.oracles.best_fit import (
    FreeCapacity,
    GuestDemands,
    GuestTargets,
    HostCapacity,
    largest_first,
)


@dataclass(frozen=True, slots=True)
class PowerCurves:
    """Power curves of hosts as arrays.

    Attributes:
        watts: One row of eleven values per curve.
        curve_of: Row of each host's curve; shape (hosts,).
    """

    watts: Floats
    curve_of: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAwareBestFitDecreasing:
    """Place each guest where the power increases least.

    Attributes:
        cpu_threshold: Usable fraction of a host's CPU.
        memory_threshold: Usable fraction of its memory.
        averaging_window: Number of samples over which the demand of a guest is
            averaged.
        powered_off_watts: Watts of a powered-off host.
    """

    name: ClassVar[str] = "power-aware-best-fit-decreasing"
    cpu_threshold: float = 0.8
    memory_threshold: float = 0.95
    averaging_window: int = 2
    powered_off_watts: float = 0.0

    def __post_init__(self) -> None:
        require_ratio("cpu_threshold", self.cpu_threshold, 1.0)
        require_ratio("memory_threshold", self.memory_threshold)
        require_ratio("powered_off_watts", self.powered_off_watts)
        require_samples("averaging_window", self.averaging_window)

    def place(
        self,
        guests: Sequence[GuestLoad],
        hosts: Sequence[HostCapacity],
        curves: Mapping[NodeId, PowerCurve],
        powered_off: Sequence[HostCapacity] = (),
    ) -> GuestTargets | None:
        """Return a host for each guest, or None if they do not all fit.

        A guest without samples is skipped.

        Args:
            guests: Guests to place.
            hosts: Running hosts that may receive.
            curves: Power curve of each host.
            powered_off: Hosts that may be powered on.
        """
        capacities = {host.id: host for host in (*hosts, *powered_off)}
        still_off = {host.id for host in powered_off}
        targets: dict[GuestId, NodeId] = {}
        for guest in self._largest_first(guests):
            demand = guest.demand(self.averaging_window) or 0.0
            options = [
                (
                    self._growth(host, demand, curves[host.id], host.id in still_off),
                    name,
                )
                for name, host in capacities.items()
                if self._fits(host, demand, guest.memory)
            ]
            if not options:
                return None
            _, target = min(options)
            capacities[target] = _with_guest(capacities[target], demand, guest.memory)
            still_off.discard(target)
            targets[guest.id] = target
        return targets

    def _largest_first(self, guests: Sequence[GuestLoad]) -> list[GuestLoad]:
        known = [guest for guest in guests if guest.history]
        return sorted(
            known,
            key=lambda each: (each.demand(self.averaging_window), each.memory, each.id),
            reverse=True,
        )

    def _fits(self, host: HostCapacity, cpu: float, memory: float) -> bool:
        return (
            host.cpu_used + cpu <= self.cpu_threshold * host.cpu
            and host.memory_used + memory <= self.memory_threshold * host.memory
        )

    def _growth(
        self,
        host: HostCapacity,
        cpu: float,
        curve: PowerCurve,
        is_off: bool,  # noqa: FBT001
    ) -> float:
        current = (
            self.powered_off_watts if is_off else curve.at(host.cpu_used / host.cpu)
        )
        return _rounded(curve.at((host.cpu_used + cpu) / host.cpu) - current)

    def place_arrays(
        self, demands: GuestDemands, capacity: FreeCapacity, curves: PowerCurves
    ) -> Integers | None:
        """Return a host for each guest, as its index in *capacity*, or None."""
        cpu, memory = capacity.cpu_used.copy(), capacity.memory_used.copy()
        cpu_limit = self.cpu_threshold * capacity.cpu
        memory_limit = self.memory_threshold * capacity.memory
        current = power_draw(curves.watts, curves.curve_of, cpu / capacity.cpu)
        current = np.where(capacity.powered_on, current, self.powered_off_watts)
        targets = np.full(len(demands.cpu), -1, dtype=np.int64)
        for guest in largest_first(demands):
            cpu_after = cpu + demands.cpu[guest]
            fits = capacity.allowed & (cpu_after <= cpu_limit)
            fits &= memory + demands.memory[guest] <= memory_limit
            if not fits.any():
                return None
            feasible = np.flatnonzero(fits)
            watts_after = power_draw(
                curves.watts,
                curves.curve_of[feasible],
                cpu_after[feasible] / capacity.cpu[feasible],
            )
            best = int(
                np.argmin(np.round(watts_after - current[feasible], TIE_BREAK_DIGITS))
            )
            host = feasible[best]
            cpu[host], current[host] = cpu_after[host], watts_after[best]
            memory[host] += demands.memory[guest]
            targets[guest] = host
        return targets


TIE_BREAK_DIGITS = 9  # values are rounded so that ties are broken by name


def _rounded(watts: float) -> float:
    return round(watts, TIE_BREAK_DIGITS)


def _with_guest(host: HostCapacity, cpu: float, memory: float) -> HostCapacity:
    return replace(
        host, cpu_used=host.cpu_used + cpu, memory_used=host.memory_used + memory
    )
