"""Placement of simulated guests: initial placement, exclusion groups, migrations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import format_count
from opendrs.policies.consolidation.input import TargetFilter
from opendrs.simulation.hardware import GuestSpecs, HostSpecs
from opendrs.simulation.workload import Integers, Mask


class ExclusionGroups:
    """Target filter by anti-affinity groups: one member per host.

    Args:
        group: Number of the group of each guest; -1 for none.
        hosts: Number of hosts.
    """

    def __init__(self, group: Integers, hosts: int) -> None:
        self._group = group.tolist()
        self._all = np.ones(hosts, np.bool_)
        self._members: dict[int, list[int]] = {}
        for guest, number in enumerate(self._group):
            if number >= 0:
                self._members.setdefault(number, []).append(guest)
        self._host = np.full(len(group), -1, np.int64)
        self._target: dict[int, int] = {}

    def begin(self, host: Integers, migrations: Iterable[InFlightMigration]) -> None:
        """Start a decision with the host of each guest and the running migrations."""
        self._host = host.copy()
        self._target = {migration.guest: migration.target for migration in migrations}

    def allowed_targets(self, guest: int) -> Mask:
        """Return the hosts to which *guest* may migrate."""
        group = self._group[guest]
        if group < 0:
            return self._all
        allowed = self._all.copy()
        for other in self._members[group]:
            if other != guest and self._host[other] >= 0:
                allowed[self._host[other]] = False
                allowed[self._target.get(other, self._host[other])] = False
        return allowed

    def record_move(self, guest: int, target: int) -> None:
        """Record that *guest* is on *target* now."""
        self._host[guest] = target


def initial_placement(
    hosts: HostSpecs, guests: GuestSpecs, target_filter: TargetFilter
) -> Integers:
    """Return the initial host of each guest, when its load is unknown.

    The most efficient host with enough uncommitted CPU is selected. If there is none,
    the host with the least committed CPU of those with enough memory.

    Raises:
        ConfigurationError: No host has enough memory for a guest.
    """
    order = np.argsort(hosts.watts[hosts.curve, -1] / hosts.cpu, kind="stable")
    total, memory = hosts.cpu[order], hosts.memory[order].copy()
    cpu = total.copy()
    host = np.zeros(len(guests.cpu), np.int64)
    sizes = zip(guests.cpu.tolist(), guests.memory.tolist(), strict=True)
    for guest, (mips, size) in enumerate(sizes):
        feasible = (memory >= size) & target_filter.allowed_targets(guest)[order]
        if not feasible.any():
            raise ConfigurationError(
                f"guest {guest + 1} of {len(host)}: does not fit on "
                f"{format_count(len(cpu), 'host')}; "
                "add hosts or memory",
                code=DiagnosticCode.INCONSISTENT,
            )
        fits = feasible & (cpu >= mips)
        free_cpu = np.where(feasible, cpu / total, -np.inf)
        row = int(np.argmax(fits) if fits.any() else np.argmax(free_cpu))
        cpu[row] -= mips
        memory[row] -= size
        host[guest] = order[row]
        target_filter.record_move(guest, int(order[row]))
    return host


@dataclass(frozen=True, slots=True)
class InFlightMigration:
    """Running or scheduled migration; times in seconds since the start."""

    guest: int
    target: int
    start: float
    end: float
